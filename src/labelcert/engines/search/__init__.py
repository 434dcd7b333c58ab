"""Search: rigorous relaxations, and branch and bound over them; a solver's answers are only suggestions."""

from labelcert.engines.search.branch_and_bound import BranchAndBound

__all__ = ["BranchAndBound"]
