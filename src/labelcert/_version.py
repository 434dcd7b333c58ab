"""The version, in one place."""

__version__ = "0.2.0"

NUMERICS = 1
"""The version of everything that decides numbers: kernels, training, engines.

Raise it whenever the answer to the same question may become another one, even in the last digit. Studies compute
results of other versions again.
"""
