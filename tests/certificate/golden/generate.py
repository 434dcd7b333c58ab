"""A dozen small problems and their certificates, written to one JSON file each.

It uses nothing but the public interface, so that other versions of labelcert can run it and answers can be compared::

    python tests/certificate/golden/generate.py            # writes next to this file
    python tests/certificate/golden/generate.py FOLDER     # writes elsewhere

What is written is exact: every interval is closed, by the engine that "auto" chooses.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import labelcert
from labelcert.examples import Example, several_clouds, two_clouds

HERE = Path(__file__).parent
ENDS = ("radius_lower", "radius_upper", "collective_lower", "collective_upper")


class Golden(NamedTuple):
    """Arguments of :func:`labelcert.certify`."""

    K_train: Any
    labels: Any
    K_test: Any
    C: float
    options: dict[str, Any]

    def certify(self, engine: str = "auto", **more: Any) -> labelcert.Certificate:
        """The certificate of one engine."""
        return labelcert.certify(self.K_train, self.labels, self.K_test, self.C, engine=engine, **self.options, **more)


def problems() -> dict[str, Golden]:
    """All of them by name."""
    two, three = two_clouds(), several_clouds()
    four = several_clouds(classes=4, n_labels=12, n_test=10, seed=3)
    groups = ["ann", "bob", "cem", None] * 4
    everything = labelcert.Threat(
        trusted=np.arange(16) % 5 == 0, costs=np.arange(16) % 3 + 1, groups=groups, group_budgets={"ann": 3, "cem": 2}
    )
    targets = labelcert.Threat(
        costs=np.arange(15) % 2 + 1,
        groups=groups[:15],
        group_budgets=2,
        allowed_targets=[["green"], None, ["red", "blue"]] * 5,
    )
    return {
        "two-clouds": _from(two),
        "two-clouds-at-the-cap": _from(two, C=0.01),
        "two-clouds-square": _from(two, loss="square"),
        "two-clouds-large-cap": _from(two, C=50.0, max_flips=4),
        "two-clouds-one-way": _from(two, threat=labelcert.Threat(allowed_flips={"fraud": ["fine"]})),
        "two-clouds-everything": _from(two, threat=everything, max_flips=9),
        "two-clouds-everything-square": _from(two, threat=everything, max_flips=9, loss="square"),
        "two-lattice": _lattice(["a", "b"], max_flips=4),
        "three-clouds": _from(three, max_flips=3),
        "three-clouds-at-the-cap": _from(three, C=0.005, max_flips=4),
        "three-clouds-square": _from(three, loss="square", max_flips=4),
        "three-clouds-targets": _from(three, threat=targets, max_flips=4),
        "three-lattice": _lattice(["a", "b", "c"], max_flips=3),
        "four-clouds": _from(four, max_flips=3),
        "karate-gcn": _karate(labelcert.GCN(C=0.001)),
        "karate-sgc": _karate(labelcert.SGC(C=0.001)),
        "karate-gcn-large-cap": _karate(labelcert.GCN(C=10.0)),
    }


def _from(example: Example, C: float | None = None, **options: Any) -> Golden:
    return Golden(example.K_train, example.labels, example.K_test, example.C if C is None else C, options)


def _lattice(classes: list[str], **options: Any) -> Golden:
    """Whole numbers, a singular kernel, many exact ties."""
    points = np.array([[i % 5 - 2, (2 * i) % 7 - 3] for i in range(22)], dtype=float)
    K = points @ points.T
    labels = np.array([classes[(i * i + i // 3) % len(classes)] for i in range(10)])
    return Golden(K[:10, :10], labels, K[10:, :10], 1.0, options)


def _karate(model: Any) -> Golden:
    """Zachary's karate club with the paper's split."""
    graph = labelcert.load_dataset("karate")
    split = labelcert.published_split(graph, seed=0)
    K_train, K_test = model.kernel_blocks(graph, split.labeled, split.pool)
    labels = np.array(graph.class_names)[graph.labels[split.labeled]]
    return Golden(K_train, labels, K_test, model.C, {})


def answer(golden: Golden) -> dict[str, Any]:
    """What is kept of a certificate."""
    cert = golden.certify()
    assert cert.exact
    return {"predictions": cert.predictions.tolist(), **{name: getattr(cert, name).tolist() for name in ENDS}}


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, golden in problems().items():
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in answer(golden).items()]
        (folder / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
