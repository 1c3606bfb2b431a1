"""Runs one measurement in a process of its own: nothing is left over from the one before, and it can be ended.

``python -m tensat_dl.apart`` is that process: the name of a function and its arguments come in as JSON on
standard input, its answer goes out as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any


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
        out, err = process.communicate(json.dumps({"function": function, "arguments": arguments}), seconds)
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


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not get into the answer
    job = json.load(sys.stdin)
    module, _, name = job["function"].partition(":")
    answer = getattr(importlib.import_module(module), name)(**job["arguments"])
    json.dump(answer, answers)
    answers.flush()
    os._exit(0)  # an engine's memory need not be freed piece by piece


if __name__ == "__main__":
    main()
