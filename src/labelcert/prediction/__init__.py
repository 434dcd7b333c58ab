"""Who predicts what: the sign of one score for two classes, the highest of K scores for more.

This is the only place, beside compiled code, that tells two classes from more.
"""

from labelcert.prediction.gathered import Gathered
from labelcert.prediction.one_vs_rest import OneVsRest
from labelcert.prediction.predictor import OPEN, TIED, Predictor
from labelcert.prediction.sign import Sign
from labelcert.problem import Problem
from labelcert.problem.problem import LINEAR


def is_linear(problem: Problem) -> bool:
    """Whether all scores are provably linear in the labels, for every admissible relabelling."""
    return problem.loss in ("square", LINEAR) or problem.always_at_cap()


def predictor_for(problem: Problem, *, linear: bool) -> Predictor:
    """The predictor of a problem."""
    return kind_for(problem)(problem, linear=linear)


def kind_for(problem: Problem) -> type[Sign] | type[OneVsRest]:
    """One score decides between two classes, one score per class between more."""
    return Sign if problem.n_classes == 2 else OneVsRest


USUAL_CLASS_FLIPS = 3


def usual_budget(n_classes: int, total: int) -> int | None:
    """A largest budget that is usually feasible: None (all labels) for two classes, fewer for more.

    Relabellings grow with the number of classes that each label may become.
    """
    return None if n_classes == 2 or total <= USUAL_CLASS_FLIPS else USUAL_CLASS_FLIPS


__all__ = [
    "OPEN",
    "TIED",
    "Gathered",
    "OneVsRest",
    "Predictor",
    "Sign",
    "is_linear",
    "kind_for",
    "predictor_for",
    "usual_budget",
]
