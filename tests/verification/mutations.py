"""Lies of every kind: each field of a certificate says something else, and the checksum is computed anew.

``python -m tests.verification.mutations`` prints a table of fields and what comes of them: the reader refuses the file,
``verify`` rejects the certificate, or lists the field as only stated. Nothing else is allowed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

import labelcert
from labelcert import Certificate, InvalidInput, Threat, certify, from_sklearn
from labelcert.certificate import RelabellingList
from labelcert.certification.facades import certify_on_features
from labelcert.errors import CertificateFileError
from labelcert.graphs import karate
from labelcert.verification import CheckStatus, Verification, verify
from labelcert.verification.record import STATED, UNSEEN

REFUSED, REJECTED, LISTED, SAME, ACCEPTED = "refused", "rejected", "stated", "the same problem", "ACCEPTED"
UNCHECKED = "not checked"

CHECKED_AS = {
    "predictions": "predictions",
    "run.margin": "predictions",
    "decision_values": "decision values",
    "new_classes": "witnesses",
    "radius_lower": "radii",
    "curve_changed": "collective attacks",
    "collective_upper": "curve",
}
"""The line of the verdict that is about a field, where that may say that nothing was checked."""

PARTS = ("run", "around", "node_attacks", "curve_attacks", "node_votes", "curve_votes", "metrics", "metric_attacks")
"""Fields that have fields of their own."""

EVIDENCE = ("proofs", "K_train", "K_test")
"""What is no claim: proofs are evaluated again, whatever they are, and kernels have their own hash."""

WEAKER = {("radius_lower", -1), ("collective_upper", 1), ("metrics.lower", -1), ("metrics.upper", 1)}
"""Changes that claim less, and are true."""


def _points(m: int, n: int, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).normal(size=(m + n, 3))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    return K[:m, :m], K[m:, :m]


_POINTS = np.random.default_rng(2).normal(size=(13, 3))

GIVEN: dict[str, dict[str, Any]] = {
    "features": {"X_train": _POINTS[:8], "X_test": _POINTS[8:13]},
    "linear map": {"H": _POINTS[8:13] @ _POINTS[:8].T},
    "kernel errors": {"kernel_error": 1e-3, "test_kernel_error": np.full((5, 8), 2e-3)},
}
"""What files do not hold, and verify is given."""

VOTES = [(i, who, label) for i, label in enumerate("aabbabab") for who in "xyz"[: 1 + i % 3]]
"""Of one to three annotators on each label, who agree."""

KINDS: dict[str, Callable[[], Certificate]] = {
    "two classes": lambda: certify(*_with(list("aabbabab")), C=1.0, max_flips=3),
    "three classes": lambda: certify(*_with(list("aabbccab")), C=1.0, max_flips=2),
    "ridge": lambda: certify(*_with(list("aabbccab")), C=1.0, loss="square", max_flips=2),
    "costs": lambda: certify(*_with(list("aabbabab")), C=1.0, max_flips=3, threat=Threat(costs=[1, 2] * 4)),
    "groups": lambda: certify(
        *_with(list("aabbabab")),
        C=1.0,
        max_flips=3,
        threat=Threat(
            groups=list("xyzxyzxy"),
            group_budgets={"x": 1, "y": 2, "z": 1},
            trusted=np.arange(8) == 3,
            allowed_flips={"a": ["b"], "b": ["a"]},
            allowed_targets=[["a", "b"]] * 8,
        ),
    ),
    "margin": lambda: certify(*_with(list("aabbabab")), C=1.0, max_flips=2, margin=0.05),
    "kernel errors": lambda: certify(*_with(list("aabbabab")), C=1.0, max_flips=2, **GIVEN["kernel errors"]),
    "removals": lambda: certify(
        *_with(list("aabbabab")), C=1.0, max_flips=2, threat=Threat(removable=np.arange(8) < 6, changes=False)
    ),
    "graph": lambda: labelcert.GCN(C=0.1).certify(karate(), [0, 1, 2, 32, 33, 30], [5, 6, 9, 28]),
    "ensemble": lambda: labelcert.certify_partition(*_with(list("aabbabab")), C=1.0, parts=3, max_flips=3),
    "votes": lambda: labelcert.certify_partition(
        *_with(list("aabbabab")), C=1.0, parts=3, max_flips=3, combine="votes"
    ),
    "baseline": lambda: labelcert.certify_baseline(*_with(list("aabbabab")), C=1.0, using="sensitivity", max_flips=3),
    "features": lambda: certify_on_features(_POINTS[:8], list("aabbccab"), _POINTS[8:13], 1.0, max_flips=1),
    "linear map": lambda: labelcert.certify_linear(_POINTS[8:13] @ _POINTS[:8].T, list("aabbccab"), max_flips=3),
    "models": lambda: _models(combine="votes", spread=2),
    "certified parts": lambda: _certified_parts(),
    "run-off": lambda: _models(combine="run-off", labels="aabbccab"),
    "logistic": lambda: certify(*_with(list("aabbccab")), C=1.0, loss="logistic", max_flips=2),
    "metrics": lambda: certify(
        *_with(list("aabbabab")), C=1.0, max_flips=2, metrics=[labelcert.Metric("recall", list("ababa"))]
    ),
    "search": lambda: certify(*_with(list("aabbabab")), C=1.0, max_flips=2, engine="milp"),
    "margins": lambda: certify(*_with(list("aabbccab")), C=1.0, max_flips=1, margin=[0.0, 0.1, 0.05, 0.2, 0.01]),
    "annotators": lambda: certify(*_with(list("aabbabab")), C=1.0, threat=Threat(annotators=list("xxyyzzww"))),
    "table of votes": lambda: certify(
        *_with(list("aabbabab")), C=1.0, threat=Threat(votes=VOTES, prices={"x": 2, "y": 1, "z": 1})
    ),
    "fewer classes": lambda: from_sklearn(LinearSVC()).certify(
        _POINTS[:8], list("aabbabac"), _POINTS[8:13], max_flips=2
    ),
    "recheck": lambda: labelcert.recheck(*_with(list("aabbabab")), C=1.0, flips=1, confirm=2).certificate,
    "attack": lambda: labelcert.attack(*_with(list("aabbabab")), C=1.0, max_flips=2),
    "over at once": lambda: certify(*_with(list("aabbabab")), C=1.0, margin=0.05, time_limit=1e-9),
    "stopped": lambda: certify(*_with(list("aabbabab") * 2), C=2.0, engine="milp", time_limit=1e-3),
}


def _models(labels: str = "aabbabab", **how: Any) -> Certificate:
    """Nearest neighbours in three parts."""
    _K, rows = _points(len(labels), 5)

    def train(indices: Any, given: Any) -> Any:
        near = rows[:, indices]
        return np.array([near[:, given == c].max(axis=1, initial=0.0) for c in sorted(set(labels))]).T

    return labelcert.certify_votes(train, list(labels), n_test=5, parts=3, max_flips=2, **how)


def _certified_parts(labels: str = "aabbabab") -> Certificate:
    """Kernel ridge regression in two parts, each with its exact radii."""
    K, rows = _points(len(labels), 5)

    def certify_part(indices: Any, given: Any) -> Certificate:
        return certify(K[np.ix_(indices, indices)], given, rows[:, indices], C=1.0, loss="square", max_flips=2)

    def train(indices: Any, given: Any) -> Any:
        alike = np.unique(given).size == 1
        return np.repeat(given[:1], 5) if alike else certify_part(indices, given).predictions

    how: dict[str, Any] = {"n_test": 5, "parts": 2, "max_flips": 2, "certify_part": certify_part}
    return labelcert.certify_votes(train, list(labels), **how)


def _with(labels: list[str]) -> tuple[Any, Any, Any]:
    K, rows = _points(len(labels), 5)
    return K, labels, rows


@cache
def honest(kind: str) -> Certificate:
    """A certificate of a kind."""
    return KINDS[kind]()


def paths(cert: Certificate) -> Iterator[str]:
    """All fields, and those of the parts."""
    for one in fields(cert):
        part = getattr(cert, one.name)
        if one.name in PARTS and is_dataclass(part):
            for inner in fields(part):
                if inner.name == "threat":
                    yield from (f"run.threat.{key}" for key in cert.run.threat)
                else:
                    yield f"{one.name}.{inner.name}"
        elif one.name not in EVIDENCE:
            yield one.name


def value_at(cert: Certificate, path: str) -> Any:
    """What a field holds."""
    return cert.run.threat[path.split(".")[2]] if path.startswith("run.threat.") else attrgetter(path)(cert)


def changed(cert: Certificate, path: str, value: Any) -> Certificate:
    """With another value in a field, and the checksum that belongs to it."""
    head, _, rest = path.partition(".")
    if rest.startswith("threat."):
        value = replace(cert.run, threat={**cert.run.threat, rest.split(".")[1]: value})
    elif rest:
        value = replace(getattr(cert, head), **{rest: value})
    other = replace(cert, **{head: value})
    return other if path == "checksum" else replace(other, checksum=other.computed_checksum())


def lies(cert: Certificate, path: str) -> Iterator[Any]:
    """Other values for a field."""
    value = value_at(cert, path)
    if path in SPECIAL:
        yield from SPECIAL[path](cert)
    elif isinstance(value, np.ndarray):
        yield from _other_arrays(path, value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -1)
    elif isinstance(value, float):
        yield from (2.0 * value + 1.0, -1.0, float("nan"))
    elif isinstance(value, str):
        yield "another" if path != "run.stopped" else "interrupted"


def _other_arrays(path: str, value: Any) -> Iterator[Any]:
    for k in sorted({0, value.size - 1}) if value.size else []:
        if value.dtype.kind == "b":
            others: list[Any] = [~value.flat[k]]
        elif value.dtype.kind in "US":
            others = ["another"]
        else:
            others = [value.flat[k] + by for by in (1, -1) if (path, by) not in WEAKER]
        for other in others:
            changed = value.astype("U32") if value.dtype.kind == "U" else value.copy()
            changed.flat[k] = other
            yield changed


def _other_class(values: Any, classes: Any) -> Iterator[Any]:
    for k in (0, values.size - 1):
        changed = values.copy()
        changed[k] = classes[(np.searchsorted(classes, values[k]) + 1) % classes.size]
        yield changed


def _pointless(cert: Certificate, attacks: RelabellingList) -> Iterator[Any]:
    """Attacks in which a label becomes what it is, or one is removed that cannot be.

    Others could be witnesses as good as those that are there.
    """
    same = [*(np.flatnonzero(cert.labels == c)[0] for c in cert.classes), cert.labels.size - 1]
    for k in sorted({0, attacks.labels.size - 1}) if attacks.labels.size else []:
        changed = attacks.labels.copy()
        changed[k] = same[attacks.targets[k]]
        yield changed


def _unchanged(cert: Certificate, attacks: RelabellingList) -> Iterator[Any]:
    """The same: a label becomes what it is."""
    for k in sorted({0, attacks.targets.size - 1}) if attacks.targets.size else []:
        changed = attacks.targets.copy()
        changed[k] = np.searchsorted(cert.classes, cert.labels[attacks.labels[k]])
        yield changed


SPECIAL: dict[str, Callable[[Certificate], Any]] = {
    "node_attacks.targets": lambda cert: _unchanged(cert, cert.node_attacks),
    "curve_attacks.targets": lambda cert: _unchanged(cert, cert.curve_attacks),
    "run.threat.annotators": lambda cert: [
        cert.run.threat["annotators"][::-1],
        ["w"] * cert.labels.size,
        ["w", None] * (cert.labels.size // 2),
        ["w"],
        3,
    ],
    "run.threat.votes": lambda cert: [
        {**cert.run.threat["votes"], "votes": cert.run.threat["votes"]["votes"][:-1]},
        {**cert.run.threat["votes"], "ties": ["b", "a"]},
        {**cert.run.threat["votes"], "ties": ["b"]},
        {**cert.run.threat["votes"], "ties": ""},
        {**cert.run.threat["votes"], "weights": {"x": 3.0}},
        {**cert.run.threat["votes"], "aggregate": True},
        {"votes": []},
        "none",
    ],
    "run.threat.prices": lambda cert: [{"x": 1.0, "y": 1.0, "z": 1.0}, {"x": -1.0}, {"nobody": 1.0}, 3],
    "predictions": lambda cert: _other_class(cert.predictions, cert.classes),
    "labels": lambda cert: _other_class(cert.labels, cert.classes),
    "decision_values": lambda cert: [cert.decision_values * 1.01, -cert.decision_values, cert.decision_values * np.nan],
    "test_names": lambda cert: [np.array([f"t{k}" for k in range(cert.n_test)])],
    "label_names": lambda cert: [np.array([f"l{k}" for k in range(cert.labels.size)])],
    "class_list": lambda cert: [np.array(["x", "y"]), np.append(cert.classes.astype("U9"), "more")],
    "radius_proved_by": lambda cert: [np.full(cert.n_test, "an oracle"), np.full(cert.n_test, "")],
    "run.threat.removable": lambda cert: [None, True, [0], [10**6], [-1], "0", False],
    "run.threat.trusted": lambda cert: [[0], [10**6], [-1], "0"],
    "metric_attacks.targets": lambda cert: _unchanged(cert, cert.metric_attacks),  # type: ignore[arg-type]
    "metric_attacks.labels": lambda cert: _pointless(cert, cert.metric_attacks),  # type: ignore[arg-type]
    "node_attacks.labels": lambda cert: _pointless(cert, cert.node_attacks),
    "curve_attacks.labels": lambda cert: _pointless(cert, cert.curve_attacks),
    "run.threat.costs": lambda cert: [
        [2, 1] * (cert.labels.size // 2),
        [1, 3] * (cert.labels.size // 2),
        [0] * cert.labels.size,
        5,
        [True],
    ],
    "run.threat.allowed_flips": lambda cert: [[["a", []]], [["no class", ["a"]]], True, {"a": 1}],
    "run.threat.allowed_targets": lambda cert: [[[]] * cert.labels.size, [["no class"]] * cert.labels.size, "text"],
    "run.threat.groups": lambda cert: [
        ["x"] * cert.labels.size,
        ["w"] * (cert.labels.size - 1),
        [["a"]] * cert.labels.size,
        3,
    ],
    "run.threat.group_budgets": lambda cert: [{"x": 2, "y": 2, "z": 2}, 3, {"x": -1}, {"x": "1"}, "one"],
    "run.stages": lambda cert: [
        (),
        tuple(replace(stage, engine="an oracle") for stage in cert.run.stages),
        tuple(replace(stage, max_flips=stage.max_flips + 1) for stage in cert.run.stages),
        *(
            tuple(replace(stage, statistics={**stage.statistics, **more}) for stage in cert.run.stages)
            for more in (
                {"trainings": 10**6},
                {"trainings": "many"},
                {"seconds": float("inf")},
                {"black_box_radius": [6] * cert.n_test},
                {"part_radii": [[3] * cert.n_test] * 2},
            )
        ),
    ],
    "run.loss": lambda cert: ["square" if cert.run.loss == "hinge" else "hinge", "another"],
    "run.C": lambda cert: [2.0 * cert.run.C, -1.0, float("nan")],
    "run.spendable": lambda cert: [None, 0, -5, cert.labels.size + 99],
    "run.kernel_shift": lambda cert: [1.0, 2.0**-40, -1.0, float("inf")],
    "run.margin": lambda cert: [100.0, float("nan"), (1.0,)],
    "run.time_limit": lambda cert: [7.0, -1.0],
    "run.node_time_limit": lambda cert: [7.0, -1.0],
    "run.engine_asked": lambda cert: ["another", "partition"] if cert.run.engine_asked != "partition" else ["auto"],
    "run.remarks": lambda cert: [("more than was asked for",)],
    "run.drops_to": lambda cert: ["hinge", "another"],
    "run.versions": lambda cert: [{"labelcert": "99.0"}],
    "run.stopped": lambda cert: [one for one in type(cert.run.stopped) if one != cert.run.stopped],
    "around.truth": lambda cert: [cert.around.truth[::-1].copy(), np.full(cert.n_test, "no class")],  # type: ignore[union-attr]
    "around.names": lambda cert: [cert.around.names[::-1].copy()],  # type: ignore[union-attr]
    "around.edges": lambda cert: [cert.around.edges[:3]],  # type: ignore[union-attr]
    "around.labeled": lambda cert: [cert.around.labeled[::-1].copy(), np.zeros_like(cert.around.labeled)],  # type: ignore[union-attr]
    "around.tested": lambda cert: [cert.around.tested[::-1].copy()],  # type: ignore[union-attr]
}


def outcome(lie: Callable[[], Certificate], path: str, kind: str) -> tuple[str, Verification | None]:
    """What comes of a lie about a kind of certificate, told in a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lie.cert"
        try:
            lie().save(file, problem=kind not in ("features", "linear map"))
            found = verify(labelcert.load(file), **GIVEN.get(kind, {}))
        except (InvalidInput, CertificateFileError, ValueError) as refusal:
            # What cannot be written as JSON at all is no lie in a file.
            if isinstance(refusal, (InvalidInput, CertificateFileError)) or "JSON" in str(refusal):
                return REFUSED, None
            raise
    if not found.accepted:
        return REJECTED, found
    if path.startswith("run.threat.") and found.accepted:
        # The hash is over what the adversary can do, and that is the same.
        return (SAME if "wording of the threat" in found.stated else ACCEPTED), found
    if any(
        check.what in ("claims", CHECKED_AS.get(path)) and check.status is CheckStatus.NOT_CHECKED
        for check in found.checks
    ):
        return UNCHECKED, found
    words = [word for word, names in {**STATED, **UNSEEN}.items() if path in names]
    words += ["size of the shift"] * (path == "run.kernel_shift")
    return (LISTED if words and set(words) <= set(found.stated) else ACCEPTED), found


def table(kind: str) -> dict[str, list[str]]:
    """For each field of a kind of certificate: what comes of its lies."""
    cert = honest(kind)
    return {
        path: [outcome(lambda path=path, lie=lie: changed(cert, path, lie), path, kind)[0] for lie in lies(cert, path)]
        for path in paths(cert)
    }


def main() -> None:
    """Print the table of all fields and kinds."""
    found = {kind: table(kind) for kind in KINDS}
    for path in dict.fromkeys(path for kind in KINDS for path in found[kind]):
        seen = [word for kind in KINDS for word in found[kind].get(path, [])]
        counts = ", ".join(f"{seen.count(word)} {word}" for word in dict.fromkeys(sorted(seen)))
        print(f"{path:28} {counts or 'not there'}")


if __name__ == "__main__":
    main()
