"""The environment of a measurement: hardware, number of threads, and versions of libraries."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
#: The version of the method that measures operators on CPUs. Each version has its own profile files.
TIMING = "2"


@dataclass(frozen=True, slots=True)
class Environment:
    """Hardware with how much of it is used, and the versions of the libraries whose kernels run."""

    hardware: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def key(self) -> str:
        """Eight characters that tell it from others."""
        text = json.dumps([dict(self.hardware), dict(self.versions)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def this_machine(device: str, threads: int) -> Environment | None:
    """Where operators of a device are measured by this program: ``cpu``, with so many threads, by ONNX Runtime. None
    for other devices, and if ONNX Runtime is not installed."""
    if device != "cpu":
        return None
    try:
        runtime = version("onnxruntime")
    except PackageNotFoundError:
        return None
    return Environment({"cpu": _cpu(), "threads": str(threads)}, {"onnxruntime": runtime, "timing": TIMING})


def _cpu() -> str:
    """As in ``AMD EPYC 7B13, family 25, model 1``: virtual machines often leave the number out of the name."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    more = (
        f"{what} {facts[key]}" for what, key in (("family", "cpu family"), ("model", "model")) if key in facts
    )
    return ", ".join((facts["model name"], *more))
