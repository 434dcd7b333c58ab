"""How hot loops are compiled, kept on disk, and handed their arrays."""

from labelcert.compiling.caching import compiled
from labelcert.compiling.clock import compiling_clock
from labelcert.compiling.references import by_reference

__all__ = ["by_reference", "compiled", "compiling_clock"]
