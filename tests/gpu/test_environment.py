"""Which GPU is which device."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.gpu import environment
from tensat_dl.gpu.environment import GpuError, this_gpu


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that says which GPU there is."""

    def has(name: str) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(environment, "_nvidia_smi", lambda query: "1, 2")
    return has


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla T4", "t4"),
    ],
)
def test_a_gpu_is_known_by_its_name(name: str, device: str, has: Any) -> None:
    has(name)
    assert this_gpu().device == device
    assert this_gpu().environment.hardware["gpu"] == name


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"])
def test_a_part_of_a_gpu_is_refused(name: str, has: Any) -> None:
    has(name)
    with pytest.raises(GpuError, match=r"MIG .* is a part of a GPU"):
        this_gpu()


def test_what_is_not_known_is_named(has: Any) -> None:
    has("NVIDIA GeForce RTX 5090")
    with pytest.raises(GpuError, match="RTX 5090 are not known"):
        this_gpu()
