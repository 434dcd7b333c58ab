"""How hot loops are compiled."""

from __future__ import annotations

from functools import partial

from numba import njit

compiled = partial(njit, cache=True, nogil=True, _nrt=False)
"""Compile a function that allocates nothing: kept on disk, free of Python's lock, and without counting references.

Numba counts references to every array that a call hands on, which took more than half of the time of a retraining.
"""
