"""The program ``labelcert``, and ``python -m labelcert``."""

from __future__ import annotations

import contextlib
import os
import sys


def main() -> None:
    """Run the command line, and end quietly on Ctrl-C or SIGTERM, even while it is still being imported."""
    try:
        _open_streams()
        from labelcert.signals import ending_in_order

        with ending_in_order():
            from labelcert.cli import main as run

            run()
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            os.write(2, b"interrupted\n")
        os._exit(130)


def _open_streams() -> None:
    """Standard streams that are closed swallow what is written. Else the next file would take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.close(number)
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
