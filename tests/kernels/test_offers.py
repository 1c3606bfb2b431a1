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


def split(text: str) -> list[str]:
    return [name for name in triton_kernels(text) if "split" in name]


CONV_SPLIT = (
    "conv2d(f32[1, 512, 7, 7], f32[512, 512, 3, 3]; act=none, dilation=[1, 1], pads=[1, 1, 1, 1], stride=[1, 1])"
    " -> f32[1, 512, 7, 7]"
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "matmul(f32[64, 4096], f32[4096, 512]; act=none) -> f32[64, 512]",
            ["triton 64x32x32 split 16", "triton 64x64x16 split 16", "triton 64x64x32 split 16 tf32"],
        ),
        (
            "matmul(f16[16, 4096], f16[4096, 2048]; act=none) -> f16[16, 2048]",
            ["triton 16x32x128 split 4", "triton 16x64x64 split 8"],
        ),
        ("matmul(f16[64, 512], f16[512, 64]; act=none) -> f16[64, 64]",
         ["triton 64x32x64 split 2", "triton 64x64x64 split 2"]),
        ("matmul(f16[64, 448], f16[448, 64]; act=none) -> f16[64, 64]", []),  # few steps
        ("matmul(f16[64, 32, 4096], f16[64, 4096, 64]; act=none) -> f16[64, 32, 64]",
         ["triton 16x64x64 split 2", "triton 32x32x64 split 2"]),
        ("matmul(f16[132, 32, 4096], f16[132, 4096, 64]; act=none) -> f16[132, 32, 64]", []),  # many tiles
        (CONV_SPLIT, ["triton 64x32x32 split 16", "triton 64x64x16 split 16",
          "triton 64x64x32 split 16 tf32"]),
            ],
)  # fmt: skip
def test_a_long_k_is_split_where_tiles_are_few(text: str, names: list[str]) -> None:
    assert split(text) == names


@pytest.mark.parametrize("programs", range(1, 140))
def test_parts_have_work_and_are_no_more_than_help(programs: int) -> None:
    parts_for = kernels("split").parts_for
    for steps in range(1, 300):
        parts = parts_for(programs, steps)
        assert parts == 1 or (parts <= 16 and programs * parts <= 264 and programs < 132)
        each = -(-steps // parts)
        assert (parts - 1) * each < steps  # none is empty
        assert parts == 1 or each >= 4
