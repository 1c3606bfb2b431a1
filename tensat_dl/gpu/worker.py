"""The process that tries kernels: a kernel may crash it, or take the GPU down with it. See `Worker`.

    python -m tensat_dl.gpu.worker check|time DEVICE

Jobs come in and answers go out as lines of JSON: one for each implementation, as soon as it is known.
"""

from __future__ import annotations

import json
import os
import sys
import time
from math import inf
from typing import Any

import torch

from tensat_dl.cost.signature_file import from_data
from tensat_dl.gpu import torch_device
from tensat_dl.gpu.torch_device import load, prepare, release, wake
from tensat_dl.gpu.trial import Trial
from tensat_dl.gpu.workers import AGAIN
from tensat_dl.resources import kernels

#: What takes so many times as long as the fastest implementation is timed roughly.
FAR = 2.0
#: Seconds without work after which a GPU is not at full speed.
IDLE = 0.5


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not get into the answers

    def say(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    role, where = sys.argv[1:]
    device = torch.device(where)
    prepare(device)
    kernels("registry")
    load(device)
    say(ready=True)
    idle_since = -inf
    for line in sys.stdin:
        job = json.loads(line)
        if role == "time" and time.monotonic() - idle_since > IDLE:
            wake(device)
        try:
            trial = Trial(from_data(job["job"]), device, job["tf32"])
            names = list(trial.implementations)
        except Exception as e:
            say(failed=_line(e))
            _recover(device)
            names = []
        else:
            say(names=names)
        best = inf  # seconds
        for name in names:
            if job["names"] is not None and name not in job["names"]:
                continue
            try:
                if role == "check":
                    say(name=name, **_check(trial, name))
                else:
                    found = trial.time(name, FAR * best)
                    best = min(best, 1e-3 * found.median_ms)
                    say(
                        name=name, median_ms=found.median_ms, spread_ms=found.spread_ms, samples=found.samples
                    )
            except Exception as e:
                say(name=name, failed=_line(e))
                _recover(device)
        trial = None  # type: ignore[assignment]
        release(device)
        idle_since = time.monotonic()
        say(done=True)


def _check(trial: Trial, name: str) -> dict[str, Any]:
    wrong = trial.check(name)
    return {"failed": wrong} if wrong else {}


def _recover(device: torch.device) -> None:
    """After an error, which has been told: where this process can't go on, it ends, and says that by its code."""
    if not torch_device.usable(device):
        os._exit(AGAIN)


def _line(e: Exception) -> str:
    """The first line of a message that says something."""
    text = next((line.strip() for line in str(e).splitlines() if line.strip()), "")
    kind = type(e).__name__
    if isinstance(e, torch.OutOfMemoryError):
        return "out of memory"
    return f"{kind}: {text[:200]}" if text else kind


if __name__ == "__main__":
    main()
