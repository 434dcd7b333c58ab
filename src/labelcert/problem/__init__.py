"""What is asked: kernel, labels, test rows and adversary, validated and immutable."""

from labelcert.problem.ballots import Votes
from labelcert.problem.problem import Problem
from labelcert.problem.relabelling import NOTHING, REMOVED, Relabelling
from labelcert.problem.threat import Adversary, Threat

__all__ = ["NOTHING", "REMOVED", "Adversary", "Problem", "Relabelling", "Threat", "Votes"]
