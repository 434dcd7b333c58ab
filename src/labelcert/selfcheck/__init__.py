"""Every engine against brute force in rational arithmetic, on small problems made to be nasty."""

from labelcert.selfcheck.brute_force import Truth, brute_force
from labelcert.selfcheck.cases import Case
from labelcert.selfcheck.comparing import SECONDS, SelfCheck, check, compare, engines_for, run

__all__ = ["SECONDS", "Case", "SelfCheck", "Truth", "brute_force", "check", "compare", "engines_for", "run"]
