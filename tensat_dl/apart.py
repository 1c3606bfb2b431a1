"""Runs one measurement in a process of its own: nothing is left over from the one before, and it can be ended.

``python -m tensat_dl.apart`` is that process: the name of a function and its arguments come in as JSON on
standard input, its answer goes out as JSON.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

#: The number of an option of Linux, from <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """A measurement gave no answer."""


class Overran(Failed):
    """A measurement was ended because it took longer than it may."""


def apart(function: str, seconds: float | None = None, /, **arguments: Any) -> dict[str, Any]:
    """What ``module:function`` answers to the arguments. Raises `Failed`, and `Overran` after so many
    seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tensat_dl.apart"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that it is ended together with what it has started
    )
    try:
        job = {"function": function, "arguments": arguments, "parent": os.getpid()}
        out, err = process.communicate(json.dumps(job), seconds)
    except subprocess.TimeoutExpired:
        raise Overran(f"no answer within {seconds:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        lines = err.strip().splitlines()
        raise Failed(lines[-1] if lines else f"exit code {process.returncode}")
    answer: dict[str, Any] = json.loads(out)
    return answer


def _end_with_parent() -> None:
    """From now on this process is ended if what started it is gone, killed by a time limit, say: it would go on with
    nobody to hear its answer, and disturb what is measured next. Only Linux can do that, where the end of a thread
    counts, which here waits for the answer."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not get into the answer
    _end_with_parent()
    job = json.load(sys.stdin)
    if os.getppid() != job["parent"]:  # which was gone before that could matter
        os._exit(1)
    module, _, name = job["function"].partition(":")
    answer = getattr(importlib.import_module(module), name)(**job["arguments"])
    json.dump(answer, answers)
    answers.flush()
    os._exit(0)  # an engine's memory need not be freed piece by piece


if __name__ == "__main__":
    main()
