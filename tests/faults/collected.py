"""All faults, from all files."""

from tests.faults import clusters, hostile_files, killing, limits, names, streams
from tests.faults.registry import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "clusters", "hostile_files", "killing", "limits", "names", "streams"]
