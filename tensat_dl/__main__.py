"""The process of the command line: ``tensat-dl``, or ``python -m tensat_dl``."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn


def command() -> NoReturn:
    """Runs the command line, and ends the process at once when all is done.

    Python would free its memory piece by piece, which takes a tenth of a second and more. And after Ctrl-C, a thread
    that still computes may hold what OpenBLAS waits for at the end of a process.
    """
    codes: list[int] = []

    def leave() -> None:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if codes:
            os._exit(codes[0])

    atexit.register(leave)  # before any others, so it is called after them
    from tensat_dl.cli.main import main

    try:
        main()
    except SystemExit as e:
        codes.append(e.code if isinstance(e.code, int) else 1)
        raise


if __name__ == "__main__":
    command()
