"""GPUs that there are not: what worker processes find on one, and what it measures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tensat_dl.cost.application import OpApplication
from tensat_dl.cost.device import Environment
from tensat_dl.gpu import profiling
from tensat_dl.gpu.profiling import Answers, PortionMeasurer
from tensat_dl.gpu.this_gpu import Gpu
from tensat_dl.jobs.gpus import GPUS
from tensat_dl.jobs.job import Work

#: The variable with the name of all GPUs of a node.
KIND = "KIND_OF_GPUS"


class Process:
    """Answers what a function says; ``asked`` has all that it was asked."""

    def __init__(self, answer: Callable[[OpApplication], Answers]) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def ask(self, job: OpApplication, names: Sequence[str] | None = None) -> Answers:
        self.asked.append(job.signature.text)
        found = self.answer(job)
        return found if names is None else {n: a for n, a in found.items() if n in names}


def checks(_: OpApplication) -> Answers:
    return {"triton 256": {}, "triton 1024": {"failed": "out of memory"}, "torch": {}}


def times(_: OpApplication) -> Answers:
    taken = {"spread_ms": 0.0001, "samples": 25}
    return {"triton 256": {"median_ms": 0.002, **taken}, "torch": {"median_ms": 0.003, **taken}}


def environment(gpu: str) -> Environment:
    return Environment({"gpu": gpu}, {"torch": "2.11"})


def measurer(folder: str, gpus: Mapping[str, str]) -> PortionMeasurer:
    """Measures on the GPU that this process is given. Fails if something else is measured there at the time, and
    writes down what was measured where."""
    number = os.environ[GPUS]
    kind = os.environ.get(KIND) or gpus[number]
    place = f"{number}-{kind}" if KIND in os.environ else number

    def alone(job: OpApplication) -> Answers:
        busy = Path(folder, f"busy-{number}")
        busy.touch(exist_ok=False)
        time.sleep(0.01)
        with Path(folder, f"measured-{place}").open("a") as f:
            f.write(job.signature.text + "\n")
        busy.unlink()
        return times(job)

    profiling.this_gpu = lambda tf32: Gpu(kind.split()[1].lower(), environment(kind))
    profiling.Worker = lambda role, *_: Process(checks if role == "check" else alone)  # type: ignore[assignment, misc]
    return PortionMeasurer(False, 2)


def work(folder: Path, **gpus: str) -> Work:
    """Measuring on these GPUs, gpu0="NVIDIA H100" for one."""
    named = {name.removeprefix("gpu"): kind for name, kind in gpus.items()}
    return Work("tests.gpu.fake:measurer", (str(folder), named), "gpu", retries=1)
