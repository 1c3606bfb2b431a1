"""Which GPU is which device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.cli.main import cli
from tensat_dl.cost.profile import Measurement, Profile, ProfileError, record
from tensat_dl.gpu import this_gpu as environment
from tensat_dl.gpu.gpu_machine import this_machine
from tensat_dl.gpu.this_gpu import GpuError, at_hand, this_gpu
from tests.cost.test_calibrate import OPS


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that says which GPU there is."""

    def has(name: str) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)

    torch.backends.cudnn.version()  # now: the first time, it looks at all GPUs that there are said to be
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


MATMUL = "matmul(f32[8, 8], f32[8, 8]; act=none) -> f32[8, 8] @ h100"
TANH = "tanh(f32[8]) -> f32[8] @ h100"


@pytest.fixture
def recorded(has: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that records a profile on this machine, or one that differs in some way."""
    monkeypatch.setenv("TENSAT_DL_PROFILES", str(tmp_path))
    monkeypatch.setattr("tensat_dl.gpu.gpu_machine.prepare", lambda target: None)
    has("NVIDIA H100 80GB HBM3")

    def recorded(tf32: bool = False, **other: dict[str, str]) -> None:
        here = this_gpu(tf32).environment
        entries = {
            MATMUL: Measurement(0.01, 0.001, 25, "cublas tf32", {"cublas": 0.02, "triton 64x64x32": 0.03}),
            TANH: Measurement(0.002, 0.0, 25, "triton 256"),
        }
        hardware, versions = (
            {**getattr(here, what), **other.get(what, {})} for what in ("hardware", "versions")
        )
        record(tmp_path / "h100.profile.json", Profile("h100", hardware, versions, entries))

    return recorded


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            {"hardware": {"gpu": "NVIDIA H100 PCIe"}},
            r"recorded with hardware .*gpu NVIDIA H100 PCIe, this is",
        ),
        ({"versions": {"driver": "535.1"}}, r"recorded with versions .*driver 535.1, .*this is"),
    ],
)
def test_a_profile_from_elsewhere_is_refused_where_there_is_a_gpu(
    other: dict[str, dict[str, str]], says: str, recorded: Any, tmp_path: Path
) -> None:
    recorded(**other)
    for device in ("cuda", "h100"):
        with pytest.raises(ProfileError, match=says):
            at_hand(device)
    with pytest.raises(ProfileError, match=says):
        this_machine(OPS, {})
    for command in (["time", "examples/tiny_share_input.tsr"], ["bench", "gpu", "bert", "--graphs", "."]):
        done = CliRunner().invoke(cli, command, standalone_mode=False)
        assert isinstance(done.exception, ProfileError), done.output
    # It is for optimizing, here as elsewhere.
    command = ["run", "examples/tiny_share_input.tsr", "--device", "h100"]
    done = CliRunner().invoke(cli, command, standalone_mode=False)
    assert done.return_value == 0, done.output


@pytest.mark.parametrize("tf32", [False, True])
def test_a_profile_of_this_gpu_is_taken(tf32: bool, recorded: Any) -> None:
    recorded(tf32)
    assert at_hand("cuda").device == "h100"
    machine = this_machine(OPS, {})
    assert machine.tf32 == tf32
    assert machine.environment == this_gpu(tf32).environment


def test_without_tf32_the_fastest_of_the_others_is_taken(recorded: Any) -> None:
    recorded(True)
    machine = this_machine(OPS, {}, tf32=False)
    assert not machine.tf32
    assert machine.environment == this_gpu(False).environment
    assert machine.model.profile is not None
    found = machine.model.profile.entries
    assert found[MATMUL] == Measurement(0.02, 0.0, 25, "cublas", {"triton 64x64x32": 0.03})
    assert found[TANH] == Measurement(0.002, 0.0, 25, "triton 256")


def test_what_was_measured_with_tf32_alone_is_left_out_without() -> None:
    entries = {MATMUL: Measurement(0.01, 0.001, 25, "cublas tf32")}
    shipped = Profile("h100", {}, {}, {TANH: Measurement(0.002, 0.0, 25, "torch")})
    profile = Profile("h100", {}, {}, entries, fallback=shipped).without_tf32()
    assert not profile.entries
    assert profile.fallback == shipped
