"""Commands that are watched from outside: by what they show, and by the processes that there are."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from .running import EXAMPLES, start

SHARED = EXAMPLES / "tiny_share_input.tsr"
#: Grows for a long time: every iteration finds more ways to add.
ENDLESS = """rule commute { x + y => y + x }
rule associate { (x + y) + z <=> x + (y + z) }
graph g {
  SUM
}
""".replace(
    "SUM",
    "\n  ".join(
        [*(f"input x{i} : f32[4]" for i in range(14)), "output " + " + ".join(f"x{i}" for i in range(14))]
    ),
)
UNLIMITED = ["--max-nodes", 10**7, "--max-iters", 10**4, "--extract", "greedy"]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"{what}: waited in vain"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def watched(
    *args: object, env: Mapping[str, str] | None = None, **options: object
) -> tuple[subprocess.Popen[str], Callable[[], str]]:
    """A command whose standard error is a terminal, and what the terminal has shown until now."""
    parent, child = pty.openpty()
    process = start(*args, stderr=child, env={"TERM": "xterm", "COLUMNS": "120", **(env or {})}, **options)
    os.close(child)
    shown: list[str] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while data := os.read(parent, 65536):
                shown.append(data.decode(errors="replace"))
        os.close(parent)

    threading.Thread(target=read, daemon=True).start()
    return process, lambda: "".join(shown)


def exploring(shown: str) -> bool:
    """Whether at least one iteration is complete. The display may skip some."""
    return re.search("iteration [1-9]", shown) is not None


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
