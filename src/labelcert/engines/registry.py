"""All engines by name. A new engine is one file and one line here."""

from __future__ import annotations

from labelcert.engines.base import Engine
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.relaxed import Relaxed
from labelcert.engines.search import BranchAndBound
from labelcert.errors import InvalidInput
from labelcert.extensions import load_extensions

ENGINES: dict[str, Engine] = {}

AUTO = "auto"
"""The name under which :mod:`~labelcert.engines.planning` chooses among the engines."""


def register(engine: Engine) -> Engine:
    """Make an engine available under its name."""
    ENGINES[engine.name] = engine
    return engine


for _engine in (ClosedForm(), Enumerate(), Relaxed(), BranchAndBound()):
    register(_engine)


def engine_names() -> list[str]:
    """What ``engine=`` takes.

    Examples
    --------
    >>> engine_names()
    ['auto', 'closed-form', 'enumerate', 'relaxed', 'milp', 'milp-paper']
    """
    load_extensions()
    return [AUTO, *ENGINES]


def get_engine(name: str) -> Engine:
    """The engine of a name."""
    if name not in ENGINES:
        load_extensions()
    if name not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(engine_names())}, got {name!r}")
    return ENGINES[name]
