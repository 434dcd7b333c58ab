"""All engines by name. A new engine is one file and one line here, or in an extension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labelcert.engines.annotators import AnnotatorEngine
from labelcert.engines.annotators.ensembles import OwnedPartEngine
from labelcert.engines.base import Engine
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.downdates import Downdates
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.influence import Grown, Influence, TrainOnAll
from labelcert.engines.neighbours import NeighbourEngine
from labelcert.engines.partition.engine import PartEngine
from labelcert.engines.relaxed import Relaxed
from labelcert.engines.row_blocks import RowBlockEngine
from labelcert.engines.search import BranchAndBound
from labelcert.engines.tables.open_nodes import OpenNodes
from labelcert.engines.uncertain import UNCERTAIN_ENGINES
from labelcert.engines.voting.engine import OwnedVoteEngine, VoteEngine
from labelcert.errors import InvalidInput
from labelcert.extensions import load_extensions
from labelcert.problem.problem import ONE_MODEL

ENGINES: dict[str, Engine] = {}
"""What ``engine=`` takes."""

OTHERS: dict[tuple[str, frozenset[str]], Engine] = {}
"""Engines with a function of their own, by name and by who predicts: two may do the same for different predictors."""

AUTO = "auto"
"""The name under which :mod:`~labelcert.engines.planning` chooses among the engines."""


def register(engine: Engine) -> Engine:
    """Make an engine available under its name."""
    if engine.capabilities.advertised:
        ENGINES[engine.name] = engine
    else:
        OTHERS[engine.name, engine.capabilities.predictors] = engine
    return engine


for _engine in (
    ClosedForm(),
    OpenNodes(),
    Enumerate(),
    Relaxed(),
    BranchAndBound(),
    PartEngine(),
    RowBlockEngine(),
    Influence(),
    TrainOnAll(),
    Grown(),
    AnnotatorEngine(),
    OwnedPartEngine(),
    Downdates(),
    NeighbourEngine(),
    VoteEngine(),
    OwnedVoteEngine(),
):
    register(_engine)

for _uncertain in UNCERTAIN_ENGINES:
    register(_uncertain)


def engine_names() -> list[str]:
    """What ``engine=`` takes.

    Examples
    --------
    >>> engine_names()
    ['auto', 'closed-form', 'enumerate', 'relaxed', 'milp', 'milp-paper']
    """
    load_extensions()
    return [AUTO, *ENGINES]


def engines_for(kind: str) -> Iterator[Engine]:
    """All engines that answer for such predictors; those without a name for users go on first."""
    return (e for e in (*OTHERS.values(), *ENGINES.values()) if kind in e.capabilities.predictors)


def get_engine(name: str, kind: str = ONE_MODEL, **options: Any) -> Engine:
    """The engine of a name that answers for such predictors, with its options set."""
    if not any(name == engine.name for engine in (*ENGINES.values(), *OTHERS.values())):
        load_extensions()
    named = [engine for engine in (*ENGINES.values(), *OTHERS.values()) if engine.name == name]
    if not named:
        raise InvalidInput(f"engine must be one of {', '.join(engine_names())}, got {name!r}")
    for engine in named:
        if kind in engine.capabilities.predictors:
            return _configured(engine, options)
    answered = ", ".join(sorted(kind for engine in named for kind in engine.capabilities.predictors))
    raise InvalidInput(f"engine={name!r} does not apply: it answers for {answered}, not for {kind}")


def _configured(engine: Engine, options: dict[str, Any]) -> Engine:
    """The engine with its options; those that have none refuse any."""
    configured = getattr(engine, "configured", None)
    if configured is not None:
        found: Engine = configured(**options)
        return found
    if options:
        raise InvalidInput(f"engine={engine.name!r} takes no options, got {', '.join(options)}; leave them out")
    return engine
