"""Search: rigorous relaxations, mixed-integer programs, and solvers whose answers are only suggestions."""

from labelcert.engines.search.engine import PaperProgram, Search
from labelcert.engines.search.judging import MilpWarning

__all__ = ["MilpWarning", "PaperProgram", "Search"]
