"""From checked findings to an immutable certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Text, frozen
from labelcert.certificate import Certificate, RelabellingList, RunRecord, Surroundings
from labelcert.engines.base import Question
from labelcert.engines.final_check import Checked
from labelcert.prediction import OPEN, TIED
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.problem.owners import OwnerAdversary, VotedRelabelling


@dataclass(frozen=True, eq=False)
class Names:
    """What the rows and columns of a problem are called, and where they come from."""

    # test, labels: (n,) and (m,)
    test: Text | None = None
    labels: Text | None = None
    class_list: Text | None = None  # all class names of the graph, in the order of its class codes
    label_keys: Text | None = None  # (m,) what tells labelled points apart where they have no names
    model: str = ""  # what makes the kernel
    around: Surroundings | None = None  # the graph
    remarks: tuple[str, ...] = ()  # what has to be known about the model

    def keys(self, m: int) -> list[str]:
        """One string for each of m labelled points: its name, its key, or its index."""
        for known in (self.labels, self.label_keys):
            if known is not None:
                return [str(name) for name in known]
        return [str(i) for i in range(m)]


def freeze(question: Question, checked: Checked, run: RunRecord, names: Names) -> Certificate:
    """Put the nodes without a clean prediction back in, and freeze the result."""
    predictor, problem, found, nodes = question.predictor, question.problem, checked.findings, question.nodes
    assert found.radius_by is not None
    assert found.curve_by is not None
    n = problem.n_test
    tied, open_ = predictor.predicted == TIED, predictor.predicted == OPEN
    lower = np.zeros(n, dtype=np.int64)
    upper = np.where(tied, 0, problem.adversary.never).astype(np.int64)
    becomes = np.full(n, -1, dtype=np.int64)
    proved_by = np.where(tied, predictor.tie_note, "").astype("U32")
    lower[nodes], upper[nodes], becomes[nodes] = found.radius_lower, found.radius_upper, checked.becomes
    claimed = lower.copy()
    claimed[nodes] = found.claimed_radii
    proved_by[nodes] = found.radius_by
    node_changes = [NOTHING] * n
    for t, change in zip(nodes, found.radius_changes, strict=True):
        node_changes[t] = NOTHING if change is None else change
    distinct = list(dict.fromkeys(found.curve_changes))
    number = {change: k for k, change in enumerate(distinct)}
    curve_changed = np.repeat(tied[None, :], len(distinct), axis=0)
    for k, change in enumerate(distinct):
        curve_changed[k, nodes] = checked.changed[change]
    arrays: dict[str, Any] = {
        "predictions": problem.classes[predictor.shown],
        "decision_values": predictor.decision,
        "radius_lower": lower,
        "radius_upper": upper,
        "radius_claimed": claimed,
        "collective_lower": found.curve_lower + int(tied.sum()),
        "collective_upper": found.curve_upper + int(tied.sum() + open_.sum()),
        "collective_claimed": found.claimed_curve + int(tied.sum() + open_.sum()),
        "labels": problem.labels,
        "classes": problem.classes,
        "curve_attack_of": np.array([number[change] for change in found.curve_changes], dtype=np.int64),
        "curve_changed": curve_changed,
        "new_classes": becomes,
        "radius_proved_by": proved_by,
        "collective_proved_by": found.curve_by,
    }
    parts: dict[str, Any] = {name: frozen(array) for name, array in arrays.items()}
    K_train, K_test = problem.kernels
    cert = Certificate(
        **parts,
        max_flips=question.budget,
        never=problem.adversary.never,
        run=replace(run, model=names.model, remarks=(*run.remarks, *names.remarks)),
        node_attacks=packed(problem, node_changes),
        curve_attacks=packed(problem, distinct),
        node_votes=_votes(problem, node_changes),
        curve_votes=_votes(problem, distinct),
        test_names=names.test,
        label_names=names.labels,
        class_list=names.class_list,
        around=names.around,
        K_train=K_train,
        K_test=K_test,
        proofs=found.proofs,
        part_votes=None if found.read is None or found.read.votes is None else frozen(found.read.votes),
    )
    return replace(cert, checksum=cert.computed_checksum())


def packed(problem: Problem, changes: Sequence[Relabelling]) -> RelabellingList:
    """Relabellings by the indices of labels."""
    index = problem.adversary.labels
    return RelabellingList.pack([index[change.positions] for change in changes], [change.targets for change in changes])


def _votes(problem: Problem, changes: Sequence[Relabelling]) -> RelabellingList | None:
    """The votes behind relabellings, where budgets count annotators."""
    if not isinstance(problem.adversary, OwnerAdversary):
        return None
    none = np.zeros(0, dtype=np.int64)
    pairs = [(c.votes, c.says) if isinstance(c, VotedRelabelling) else (none, none) for c in changes]
    return RelabellingList.pack([votes for votes, _ in pairs], [says for _, says in pairs])
