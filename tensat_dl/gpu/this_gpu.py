"""The GPU of this machine, and whether there is one."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache

from tensat_dl.cost.device import Environment, device_names
from tensat_dl.cost.profile import Profile, find_profile, need_same, profile_path
from tensat_dl.installed import version_of
from tensat_dl.jobs.gpus import cards

#: The name of this machine's GPU in --device, whichever it is.
HERE = "cuda"
#: The value of ``f32`` among the hardware where products of f32 may be rounded to TF32.
TF32_ALLOWED = "tf32 allowed"
INSTALL = "pip install 'tensat-dl[gpu]'"


class GpuError(Exception):
    """Nothing can be run on a GPU here. The message says why, and what helps."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU that torch uses: the name of its device for costs, and the environment on which measurements depend."""

    device: str
    environment: Environment


def this_gpu(tf32: bool = False) -> Gpu:
    """The GPU of this machine, where products of f32 may be rounded to TF32 or not. Raises `GpuError`."""
    need_torch()
    import torch

    if not torch.cuda.is_available():
        raise GpuError(
            "no GPU is found: torch was built without CUDA, or sees no NVIDIA driver\n"
            "  = hint: `nvidia-smi` says whether there is a driver; without a GPU, `run` estimates costs on one "
            "(--device h100), and `time` times on the CPU (--device cpu)"
        )
    name = torch.cuda.get_device_name()
    if " MIG " in name:
        raise GpuError(
            f"{name} is a part of a GPU, and data sheets have no peaks of parts\n"
            "  = hint: use a whole GPU, without MIG"
        )
    device = device_of(name)
    if device is None:
        known = ", ".join(d for d in device_names() if d != "cpu")
        raise GpuError(
            f"costs on a {name} are not known: the GPUs with a data sheet are {known}\n"
            "  = hint: add tensat_dl/cost/devices/<name>.json for it"
        )
    hardware = {
        "gpu": name,
        "clocks": _nvidia_smi("clocks.max.sm,clocks.max.mem"),
        "f32": TF32_ALLOWED if tf32 else "ieee",
    }
    versions = {
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        # Machines that are otherwise alike differ in its last number.
        "driver": ".".join(_nvidia_smi("driver_version").split(".")[:2]),
    }
    return Gpu(device, Environment(hardware, versions))


def with_profile() -> tuple[Gpu, Profile | None]:
    """The GPU of this machine, and its profile, if there is one. Products of f32 may be rounded to TF32 if they might
    be when the profile was measured. Raises `GpuError`; `ProfileError` for a profile that was measured on another
    GPU, or with other versions."""
    gpu = this_gpu()
    profile = find_profile(gpu.device)
    if profile is None:
        return gpu, None
    if profile.hardware.get("f32") == TF32_ALLOWED:
        gpu = this_gpu(tf32=True)
    path = profile_path(gpu.device)
    if path.exists():
        need_same(
            path,
            profile,
            gpu.environment,
            "measure again with `tensat-dl profile`, or move the profile elsewhere",
        )
    return gpu, profile


def at_hand(device: str) -> Gpu:
    """The GPU of this machine, asked for as ``cuda`` or by the name of its device. Raises `GpuError`, and
    `ProfileError` as `with_profile` does."""
    gpu = this_gpu()
    if device not in (HERE, gpu.device):
        raise GpuError(
            f"measuring on {device} needs that GPU, and this machine has a {gpu.environment.hardware['gpu']}\n"
            f"  = hint: --device {HERE} uses the GPU of this machine"
        )
    with_profile()
    return gpu


def need_torch() -> None:
    """Raises `GpuError` if torch or Triton is not installed."""
    for package in ("torch", "triton"):
        if not version_of(package):
            raise GpuError(f"a GPU needs the package {package}, which is not installed\n  = hint: {INSTALL}")


def device_of(name: str) -> str | None:
    """The device for a GPU's full name, such as ``h100`` for "NVIDIA H100 80GB HBM3"."""
    words = name.lower().replace("-", " ").split()
    return next((d for d in device_names() if d in words), None)


@cache
def _nvidia_smi(query: str) -> str:
    """The answer of the driver's tool about the first GPU that this process may use; "unknown" if there is none."""
    first = next((card.number for card in cards()), "0")
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader", "-i", first]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"
