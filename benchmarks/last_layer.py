"""The loss that regularises the last layer alone, as the paper writes it, beside the one on all weights.

Run with ``python -m benchmarks.last_layer --data-dir FOLDER``. The first table trains GCNs of one hidden layer on the
paper's loss by gradient descent, and says how far their scores are from two kernel machines: that of the tangent
kernel, and that of the last layer's kernel. The second compares the certificates of both machines.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

import labelcert
from labelcert.arrays import Float, Int
from labelcert.cli.printing import print_table
from labelcert.graphs import Graph, load_dataset
from labelcert.models import GCN, model_from_name
from labelcert.models.features import as_features
from labelcert.models.propagation import convolution_matrix
from labelcert.models.relu import relu_expectations
from labelcert.pipeline import choose_split, choose_targets
from labelcert.pipeline.settings import known_setting
from labelcert.report.tables import listing
from labelcert.svm import train

TIMES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""At which training is looked at, in units of C."""

STEP = 0.02
"""Of gradient descent, in units of the fastest time that it has to follow."""


class Blocks(NamedTuple):
    """What a machine needs of a kernel."""

    K_train: Float
    K_test: Float

    def scores(self, y: Float, C: float) -> Float:
        """Of the machine that is trained on these labels."""
        return self.K_test @ train(self.K_train, y, C)


class Data(NamedTuple):
    """A graph with its split."""

    graph: Graph
    labeled: Int
    test: Int

    @property
    def y(self) -> Float:
        """Labels as signs."""
        return np.where(self.graph.labels[self.labeled] == 1, 1.0, -1.0)

    def convolved(self, normalization: str) -> tuple[Float, Float]:
        """S and S X, dense."""
        S = convolution_matrix(self.graph.adjacency, normalization=normalization, edge_weight=1.0)  # type: ignore[arg-type]
        X = as_features(self.graph.features, self.graph.n_nodes)
        SX = S @ X
        return S.toarray(), SX if isinstance(SX, np.ndarray) else SX.toarray()

    def last_layer(self, normalization: str) -> Blocks:
        r"""The kernel of the last layer of a GCN with one hidden layer, :math:`\Sigma_2 = S E_1 S^\top`."""
        S, SX = self.convolved(normalization)
        sigma = SX @ SX.T
        deviation = np.sqrt(np.diag(sigma))
        E, _ = relu_expectations(sigma, np.outer(deviation, deviation))
        K, K_test = (S[nodes] @ E @ S[self.labeled].T for nodes in (self.labeled, self.test))
        return Blocks((K + K.T) / 2, K_test)


def trained(data: Data, width: int, C: float, fastest: float, seed: int) -> list[tuple[Float, float]]:
    """Scores of the test nodes, and the norm of the last layer's weights over that at the start, at some times."""
    S, SX = data.convolved("row")
    rng, y = np.random.default_rng(seed), data.y
    W, w = rng.standard_normal((SX.shape[1], width)), rng.standard_normal(width)
    start, step = np.linalg.norm(w), STEP * min(C, fastest)
    found, done = [], 0
    for time in TIMES:
        while done * step < time * C:
            hidden = SX @ W
            H = np.sqrt(2.0 / width) * np.maximum(hidden, 0.0)
            pull = y * (y * (S[data.labeled] @ (H @ w)) < 1.0)
            back = S[data.labeled].T @ pull
            slope = np.sqrt(2.0 / width) * (hidden > 0.0) * back[:, None]
            W, w = W + step * SX.T @ (slope * w), w + step * (H.T @ back - w / C)
            done += 1
        H = np.sqrt(2.0 / width) * np.maximum(SX @ W, 0.0)
        found.append((S[data.test] @ (H @ w), float(np.linalg.norm(w) / start)))
    return found


def loaded(name: str, seed: int, data_dir: Path | None) -> Data:
    """A dataset with the split and the collective test of the paper."""
    graph = load_dataset(name, seed=seed, data_dir=data_dir)
    split = choose_split(graph, seed=seed)
    [targets] = choose_targets(graph, split, test="collective", seed=seed)
    return Data(graph, split.labeled, targets.nodes)


def _training(C: float, widths: tuple[int, ...]) -> None:
    data = loaded("csbm", 0, None)
    tangent = Blocks(*GCN().kernel_blocks(data.graph, data.labeled, data.test))
    last = data.last_layer("row")
    machines = [blocks.scores(data.y, C) for blocks in (last, tangent)]
    fastest = 1.0 / float(np.linalg.eigvalsh(tangent.K_train)[-1])
    size = float(np.sqrt(np.mean(machines[0] ** 2)))
    rows = []
    for width in widths:
        for time, (scores, kept) in zip(TIMES, trained(data, width, C, fastest, seed=0), strict=True):
            away = (f"{np.sqrt(np.mean((scores - machine) ** 2)) / size:.3f}" for machine in machines)
            rows.append([str(width), f"{time:g} C", f"{kept:.3f}", *away])
    headings = ("width", "time", "size of last weights", "from the last layer's machine", "from the tangent kernel's")
    print_table(listing(f"Trained on the paper's loss: CSBM, C = {C:g}, distances of scores", headings, rows))


def _certified(name: str, seeds: int, data_dir: Path | None) -> list[str]:
    found = []
    for seed in range(seeds):
        data, setting = loaded(name, seed, data_dir), known_setting(name, "gcn")
        assert setting is not None
        model = model_from_name("gcn", **{**setting.options, "C": setting.C})
        tangent = Blocks(*model.kernel_blocks(data.graph, data.labeled, data.test))
        last = data.last_layer("row")
        certs = [
            labelcert.certify(blocks.K_train, data.y, blocks.K_test, setting.C, max_flips=6)
            for blocks in (tangent, last)
        ]
        same = np.mean(certs[0].predictions == certs[1].predictions)
        radii = np.mean(certs[0].radius_lower == certs[1].radius_lower)
        curves = [[cert.certified_ratio(flips=b, collective=True) for b in (1, 3, 6)] for cert in certs]
        found.append([same, radii, *np.ravel(curves)])
    mean = 100 * np.mean(found, axis=0)
    curves = [" / ".join(f"{v:.1f}" for v in mean[k : k + 3]) for k in (2, 5)]
    return [name, f"{mean[0]:.1f}", f"{mean[1]:.1f}", *curves]


@click.command(help=__doc__)
@click.option("--data-dir", type=click.Path(path_type=Path), envvar="LABELCERT_DATA_DIR")
@click.option("--data", default=("csbm", "cora-ml-b", "citeseer-b"), multiple=True, show_default=True)
@click.option("--seeds", default=5, show_default=True)
@click.option("--C", "C", default=0.01, show_default=True)
@click.option("--width", "widths", default=(1024, 4096), multiple=True, show_default=True)
def main(data_dir: Path | None, data: tuple[str, ...], seeds: int, C: float, widths: tuple[int, ...]) -> None:
    """Both tables."""
    _training(C, widths)
    rows = [_certified(name, seeds, data_dir) for name in data]
    headings = ("data", "same class, %", "same radius, %", "tangent kernel: 1 / 3 / 6 flips", "last layer's kernel")
    print_table(listing("Collective certified ratios in %, GCN with the paper's C", headings, rows))


if __name__ == "__main__":
    main()
