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


__all__ = ["OPEN", "TIED", "Gathered", "OneVsRest", "Predictor", "Sign", "is_linear", "kind_for", "predictor_for"]
