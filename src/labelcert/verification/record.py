"""What a certificate records beside its claims: what contradicts itself is wrong, and the rest is only stated."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import numpy as np

from labelcert.certificate import Certificate, Stop
from labelcert.certificate.certificate import TRUSTED_SOLVER
from labelcert.certificate.storage import ATTACK_PARTS, METRICS
from labelcert.certificate.surroundings import Surroundings
from labelcert.verification.statement import LINEAR, LOSSES, UNKNOWN, Statement

CLAIMING = "milp-paper"
"""The only engine whose solver claims more than is proved."""

TIES = {"", "clean score", "clean scores", "clean parts"}
"""What stands where no engine had to prove anything."""

UNSEEN = {
    "what models that nobody knows say after changes of labels": (
        *("new_classes", "curve_changed", "node_attacks.labels", "node_attacks.targets"),
        *("curve_attacks.labels", "curve_attacks.targets"),
    )
}
"""What nobody can check where such models are not trained again."""

WORST_VALUES = "worst values of metrics"
"""What is stated of metrics where not all of it is checked."""

KERNEL_ERRORS = "kernel errors"
"""What is stated where nobody says how far the kernel may be off."""

METRIC_CLAIMS = ("lower", "upper", "attack_of")

STATED: dict[str, tuple[str, ...]] = {
    "names": ("test_names", "label_names", "class_list", "around.names"),
    "graph": ("around.edges", "around.labeled", "around.tested"),
    "true classes": ("around.truth",),
    "model": ("run.model",),
    "command": ("run.command",),
    "engines and their statistics": (
        *("run.engine_asked", "run.stages", "run.solver", "run.trust_solver"),
        *("radius_proved_by", "collective_proved_by"),
    ),
    "wording of the threat": ("run.threat",),
    "what was asked for": ("run.collective", "run.finds_attacks"),
    "why the run ended": ("run.stopped",),
    "why budgets end": ("run.budget_note",),
    "advice": ("run.advice",),
    "origin of the margins": ("run.margin_from",),
    KERNEL_ERRORS: ("run.kernel_error", "run.kernel_error_sha256"),
    "time": ("run.seconds", "run.compiling"),
    "limits": ("run.time_limit", "run.node_time_limit"),
    "workers": ("run.workers",),
    "device": ("run.device",),
    "remarks": ("run.remarks",),
    "metrics that were asked for": tuple(f"metrics.{part}" for part in METRICS if part not in METRIC_CLAIMS),
    WORST_VALUES: (
        *(f"metrics.{part}" for part in METRIC_CLAIMS),
        *(f"metric_attacks.{part}" for part in ATTACK_PARTS),
    ),
    "what becomes of classes without labels": ("run.drops_to",),
    "versions": ("run.versions",),
}
"""What nobody can check: a word for each kind of thing, and the fields that hold it."""


def claims_nothing(cert: Certificate) -> bool:
    """Whether the run was over before anything was trained: classes and scores are no more than places then."""
    return bool(
        cert.run.stopped is not Stop.FINISHED
        and not cert.run.stages
        and not cert.decision_values.any()
        and np.all((cert.radius_lower == 0) & (cert.radius_upper == cert.never))
        and np.all(cert.collective_lower == 0)
        and np.all(cert.collective_upper[1:] == cert.n_test)
    )


def stated(cert: Certificate) -> list[str]:
    """What the certificate says beside its claims, in words: nothing of it was checked."""
    words = [word for word, fields in STATED.items() if any(_said(cert, name) for name in fields)]
    words += UNSEEN if cert.part_votes is not None else []
    words += ["radii of parts"] * any("part_radii" in stage.statistics for stage in cert.run.stages)
    words += ["size of the shift"] * bool(cert.run.kernel_shift)
    words += ["radii of votes"] * (cert.black_box_radius is not None)
    words += ["claims of a solver"] * _claims_more(cert)
    return words


def contradictions(cert: Certificate, statement: Statement) -> list[str]:
    """What the record says against the problem, or against itself."""
    run, around = cert.run, cert.around
    ran = {stage.engine for stage in run.stages}
    may_prove = ran | TIES | ({TRUSTED_SOLVER} if run.trust_solver else set())
    unknown = {*cert.radius_proved_by.tolist(), *cert.collective_proved_by.tolist()} - may_prove
    unproved = (cert.radius_proved_by == "") & (cert.radius_lower > 1)
    known = None if cert.class_list is None else set(cert.class_list.tolist())
    found = {
        f"classes without labels are said to be dropped for {run.drops_to!r}, which is no loss": run.drops_to
        not in ("", *LOSSES),
        f"the adversary can spend {statement.spendable}, not {run.spendable}": run.spendable != statement.spendable,
        f"{min(unknown, default='')!r} is said to have proved something, but did not run": bool(unknown),
        "nothing is said to have proved some radii": bool(unproved.any()),
        "margins and additions to the diagonal are those of kernels, and there is none": bool(
            np.any(run.margin) or run.kernel_shift
        )
        and (statement.loss in (LINEAR, UNKNOWN) or statement.features is not None),
        "a solver claims something, but none ran that could": _claims_more(cert) and CLAIMING not in ran,
        "a witness is there, but attacks were not looked for": not run.finds_attacks
        and bool(np.any((cert.radius_upper > 0) & (cert.radius_upper < cert.never))),
        "radii of votes are those of an ensemble, which this is none of": cert.black_box_radius is not None
        and run.engine_asked != "partition",
        "some classes are missing from the list of all classes": known is not None
        and not set(map(str, cert.classes.tolist())) <= known,
    }
    wrong = [words for words, holds in found.items() if holds]
    return wrong if around is None else [*wrong, *_astray(cert, around, known)]


def _astray(cert: Certificate, around: Surroundings, classes: set[str] | None) -> list[str]:
    """What the graph around a certificate has against it."""
    checks: dict[str, Callable[[], bool]] = {
        "a node of the graph has two labels": lambda: np.unique(around.labeled).size == around.labeled.size,
        "test nodes have other names in the graph": lambda: (
            cert.test_names is None or np.array_equal(around.names[around.tested], cert.test_names)
        ),
        "labelled nodes have other names in the graph": lambda: (
            cert.label_names is None or np.array_equal(around.names[around.labeled], cert.label_names)
        ),
        "a true class is none of the graph's": lambda: classes is None or set(around.truth.tolist()) <= {*classes, ""},
    }
    return [words for words, holds in checks.items() if not holds()]


def _claims_more(cert: Certificate) -> bool:
    return bool(
        np.any(cert.radius_claimed != cert.radius_lower) or np.any(cert.collective_claimed != cert.collective_upper)
    )


def _said(cert: Certificate, name: str) -> bool:
    """Whether a field says anything."""
    if name.startswith(("around.", "metric")) and getattr(cert, name.partition(".")[0]) is None:
        return False
    value = attrgetter(name)(cert)
    return value is not None and (isinstance(value, np.ndarray) or value not in ("", ()))
