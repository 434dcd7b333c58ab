"""The paper's mixed-integer programs: an engine of their own, solvers for it, and what their answers are worth."""

from labelcert.engines.registry import register
from labelcert.paper.milp.paper_program import PaperProgram

register(PaperProgram())

__all__ = ["PaperProgram"]
