from __future__ import annotations

import pytest

from labelcert.engines.search.solvers import SOLVERS, SolverUnavailable, get_solver
from labelcert.errors import MissingExtra


@pytest.fixture(params=SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    """Name of a solver that is installed and has a licence; the others are skipped."""
    try:
        get_solver(request.param)
    except (MissingExtra, SolverUnavailable) as error:
        pytest.skip(str(error))
    return str(request.param)
