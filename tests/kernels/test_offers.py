"""Which Triton kernels are offered for an application."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tensat_dl.resources import kernels
from tests.kernels.applications import CONV, application

registry, launch = (kernels(m) for m in ("registry", "launch"))

LIMIT = launch.MOST_ALONG_AXIS


def triton_kernels(text: str) -> list[str]:
    return [i.name for i in registry.implementations(application(text)) if i.kind == "triton"]


def depthwise(channels: int) -> str:
    x = f"f32[1, {channels}, 2, 2]"
    return f"conv2d({x}, f32[{channels}, 1, 1, 1]; {CONV}) -> {x}"


def pool(channels: int) -> str:
    x = f"f32[1, {channels}, 2, 2]"
    return f"poolmax({x}; act=none, kernel=[1, 1], pads=[0, 0, 0, 0], stride=[1, 1]) -> {x}"


@pytest.mark.parametrize(
    "sized",
    [
        lambda n: f"matmul(f32[{n}, 32, 4], f32[{n}, 4, 4]; act=none) -> f32[{n}, 32, 4]",
        lambda n: f"matmul(f32[{n}, 1, 4], f32[{n}, 4, 4]; act=none) -> f32[{n}, 1, 4]",
        pool,
    ],
)
def test_no_grid_has_more_programs_than_a_gpu_takes(sized: Callable[[int], str]) -> None:
    assert triton_kernels(sized(LIMIT))
    assert not triton_kernels(sized(LIMIT + 1))


def test_convolutions_with_more_groups_than_a_grid_takes_are_the_vendors() -> None:
    assert all(name.startswith("triton depthwise") for name in triton_kernels(depthwise(LIMIT)))
    assert not triton_kernels(depthwise(LIMIT + 1))


def test_names_of_implementations_are_unique() -> None:
    for text in (
        "matmul(f32[1, 4096], f32[4096, 256]; act=none) -> f32[1, 256]",
        "matmul(f16[64, 4096], f16[4096, 256]; act=none) -> f16[64, 256]",
        "conv2d(f32[1, 512, 7, 7], f32[512, 512, 3, 3]; act=none, dilation=[1, 1], pads=[1, 1, 1, 1], stride=[1, 1])"
        " -> f32[1, 512, 7, 7]",
    ):
        names = triton_kernels(text)
        assert len(set(names)) == len(names)
