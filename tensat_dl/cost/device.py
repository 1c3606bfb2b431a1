"""Devices: the figures of their data sheets, and the environment in which one is measured."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path

from tensat_dl.core.graph import DTYPES
from tensat_dl.core.words import did_you_mean
from tensat_dl.installed import version_of

#: The folder of ``<device>.json`` and, where one is shipped, ``<device>.profile.json``.
DEVICES = files("tensat_dl.cost.devices")
PROFILE_SUFFIX = ".profile.json"
CPU_INFO = Path("/proc/cpuinfo")
#: The version of the method that measures operators on CPUs. Each version has its own profile files.
TIMING = "3"


class UnknownDeviceError(ValueError):
    """No device has this name, or its file lacks a field. The message lists the known devices, or the fields."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, by public figures (``sources`` names them).

    ``flops`` has a peak in operations per second for every element type, a multiply-add being two. The peak of f32 is
    that of cuBLAS's default: plain single precision, not TF32.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    flops: Mapping[str, float]  #: element type -> operations per second
    bandwidth: float  #: bytes per second to and from main memory
    launch_ms: float  #: milliseconds to start one kernel (inside a CUDA graph on a GPU)
    strided_views: bool  #: consumers read slices and transposes through strides; else these are copied
    #: Operands known ahead of time are prepared for their consumers, so it matters which are.
    packs_weights: bool


def device_names() -> tuple[str, ...]:
    """The known devices, sorted."""
    names = (f.name for f in DEVICES.iterdir())
    return tuple(sorted(n[:-5] for n in names if n.endswith(".json") and not n.endswith(PROFILE_SUFFIX)))


def load_device(name: str) -> Device:
    """The device of this name. Raises `UnknownDeviceError`, also if its file lacks a field."""
    known = device_names()
    if name not in known:
        near = did_you_mean(name.lower(), [d for d in known if d != "cpu"]) or (
            "`cuda` is the GPU of this machine, whose operators --measure measures; docs/gpu.md says how to measure "
            "those of another one"
        )
        raise UnknownDeviceError(
            f"unknown device `{name}`: devices are {', '.join(known)}, and cuda\n  = hint: {near}"
        )
    data = json.loads(DEVICES.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    wanted = [field.name for field in fields(Device)]
    missing = [f"`{field}`" for field in wanted if field not in data]
    missing += [f"`flops` of {dtype}" for dtype in DTYPES if dtype not in data.get("flops", DTYPES)]
    if missing:
        raise UnknownDeviceError(f"tensat_dl/cost/devices/{name}.json has no {', no '.join(missing)}")
    return Device(**{field: data[field] for field in wanted} | {"sources": tuple(data["sources"])})


@dataclass(frozen=True, slots=True)
class Environment:
    """The hardware and the part of it that is used (such as threads), and the versions of the libraries whose kernels
    run."""

    hardware: Mapping[str, str]
    versions: Mapping[str, str]

    @property
    def key(self) -> str:
        """Eight characters that tell it from others."""
        text = json.dumps([dict(self.hardware), dict(self.versions)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def this_machine(device: str, threads: int) -> Environment | None:
    """The environment in which ONNX Runtime measures the device ``cpu`` with ``threads`` threads. None for other
    devices, and if ONNX Runtime is not installed."""
    if device != "cpu":
        return None
    if not (runtime := version_of("onnxruntime")):
        return None
    return Environment(
        {"cpu": processor(), "threads": str(threads)}, {"onnxruntime": runtime, "timing": TIMING}
    )


def processor() -> str:
    """This CPU, as in ``AMD EPYC 7B13, family 25, model 1``: virtual machines often leave the number out of the
    name."""
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
