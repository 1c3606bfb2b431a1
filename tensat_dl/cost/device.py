"""The devices whose costs can be minimised, with the figures of their data sheets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files

from tensat_dl.core.diagnostics import did_you_mean
from tensat_dl.core.types import DTYPES

#: The folder of ``<device>.json`` and, where one is shipped, ``<device>.profile.json``.
DEVICES = files("tensat_dl.cost.devices")
PROFILE_SUFFIX = ".profile.json"


class UnknownDeviceError(ValueError):
    """No device has this name, or its file lacks a field. The message lists the known devices, or the fields."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, by public figures (``sources`` names them).

    ``flops`` has a peak in operations per second for every element type, a multiply-add being two. f32 is
    what cuBLAS does by default: plain single precision, not TF32.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    flops: Mapping[str, float]  #: element type -> operations per second
    bandwidth: float  #: bytes per second to and from main memory
    launch_ms: float  #: milliseconds to start one kernel (inside a CUDA graph on a GPU)
    strided_views: bool  #: consumers read slices and transposes through strides; else these are copied
    packs_weights: (
        bool  #: operands known ahead of time are prepared for their consumers, so it matters which are
    )


def device_names() -> tuple[str, ...]:
    """The known devices, sorted."""
    names = (f.name for f in DEVICES.iterdir())
    return tuple(sorted(n[:-5] for n in names if n.endswith(".json") and not n.endswith(PROFILE_SUFFIX)))


def load_device(name: str) -> Device:
    """The device of this name. Raises `UnknownDeviceError`, also where its file lacks something."""
    known = device_names()
    if name not in known:
        near = did_you_mean(name.lower(), known)
        hint = f"{near} " if near else ""
        raise UnknownDeviceError(f"unknown device `{name}`: {hint}devices are {', '.join(known)}")
    data = json.loads(DEVICES.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    wanted = [field.name for field in fields(Device)]
    missing = [f"`{field}`" for field in wanted if field not in data]
    missing += [f"`flops` of {dtype}" for dtype in DTYPES if dtype not in data.get("flops", DTYPES)]
    if missing:
        raise UnknownDeviceError(f"tensat_dl/cost/devices/{name}.json has no {', no '.join(missing)}")
    return Device(**{field: data[field] for field in wanted} | {"sources": tuple(data["sources"])})
