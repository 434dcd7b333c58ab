"""Who predicts what: the sign of one score for two classes, the highest of K scores for more.

This is the only place, beside compiled code, that tells two classes from more.
"""

from labelcert.prediction.coupled import Softmax
from labelcert.prediction.gathered import Gathered
from labelcert.prediction.highest import Highest
from labelcert.prediction.one_vs_rest import OneVsRest
from labelcert.prediction.predictor import OPEN, TIED, Predictor
from labelcert.prediction.sign import Sign
from labelcert.prediction.unknown import Unknown
from labelcert.problem import Problem


def predictor_for(problem: Problem, *, linear: bool) -> Predictor:
    """The predictor of a problem."""
    return kind_for(problem)(problem, linear=linear) if problem.by is None else problem.by.predictor(problem)


def kind_for(problem: Problem) -> type[Sign] | type[OneVsRest] | type[Softmax]:
    """One score decides between two classes, one score per class between more: of K models, or of one for all."""
    if problem.n_classes == 2:
        return Sign
    return Softmax if problem.coupled else OneVsRest


__all__ = [
    "OPEN",
    "TIED",
    "Gathered",
    "Highest",
    "OneVsRest",
    "Predictor",
    "Sign",
    "Softmax",
    "Unknown",
    "kind_for",
    "predictor_for",
]
