"""labelcert: exact certificates against corrupted training labels."""

from labelcert._version import __version__

__all__ = ["__version__"]
