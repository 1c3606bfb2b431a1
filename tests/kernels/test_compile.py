"""Kernels compile to machine code for Ampere, Ada, Hopper and Blackwell GPUs, without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.sampled(5)

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]

#: One for each kernel and kind of arithmetic.
SIGNATURES = [
    "tanh(f32[300, 70]) -> f32[300, 70]",
    "ewmul(f16[300, 70], f16[70]) -> f16[300, 70]",
    "matmul(f32[1, 512], f32[512, 1024]; act=sigmoid) -> f32[1, 1024]",
    "matmul(f32[64, 1024], f32[1024, 1024], f32[1024]; act=relu) -> f32[64, 1024]",
    "matmul(bf16[16, 64, 64], bf16[16, 64, 64]; act=none) -> bf16[16, 64, 64]",
    "conv2d(f16[1, 64, 56, 56], f16[64, 64, 3, 3], f16[64]; act=relu, dilation=[1, 1], pads=[1, 1, 1, 1],"
    " stride=[1, 1]) -> f16[1, 64, 56, 56]",
    "conv2d(f32[1, 64, 56, 56], f32[64, 1, 3, 3]; act=none, dilation=[1, 1], pads=[1, 1, 1, 1], stride=[1, 1])"
    " -> f32[1, 64, 56, 56]",
    # those with a split k come last
    "matmul(f32[16, 2048], f32[2048, 512], f32[512]; act=relu) -> f32[16, 512]",
    "matmul(bf16[4, 64, 1024], bf16[4, 1024, 64]; act=none) -> bf16[4, 64, 64]",
    "conv2d(f16[1, 512, 7, 7], f16[512, 512, 3, 3], f16[512]; act=relu, dilation=[1, 1], pads=[1, 1, 1, 1],"
    " stride=[1, 1]) -> f16[1, 512, 7, 7]",
    "poolavg(f32[1, 64, 56, 56]; act=none, include_pad=false, kernel=[3, 3], pads=[1, 1, 1, 1], stride=[2, 2])"
    " -> f32[1, 64, 28, 28]",
    "softmax(bf16[16, 64, 64]; axis=2) -> bf16[16, 64, 64]",
    "layernorm(f32[64, 768], f32[768], f32[768]; eps=0.00001) -> f32[64, 768]",
    "ewadd(f32[64, 30, 70], f32[64, 1, 70]) -> f32[64, 30, 70]",
    "slice(f32[5, 80, 30]; axis=1, start=2, stop=50) -> f32[5, 48, 30]",
    "reduce_sum(f32[30, 50, 60]; axis=1) -> f32[30, 1, 60]",
    "transpose(f32[64, 16, 64]; perm=[1, 2, 0]) -> f32[16, 64, 64]",
    "concat(f32[1, 64, 28, 28], f32[1, 32, 28, 28]; axis=1) -> f32[1, 96, 28, 28]",
]


ROWS = "bf16[128, 768]"


def application(text: str, *inputs: int) -> dict[str, object]:
    """A node of a definition."""
    return {"node": f"{text} @ h100", "inputs": list(inputs)}


#: A sum and its normalisation; a product, what is added to it, and an activation.
FUSED = [
    {
        "signature": f"fused({ROWS}, {ROWS}, bf16[768], bf16[768]) -> {ROWS} @ h100",
        "definition": [
            application(f"ewadd({ROWS}, {ROWS}) -> {ROWS}", 0, 1),
            application(f"layernorm({ROWS}, bf16[768], bf16[768]; eps=0.00001) -> {ROWS}", 4, 2, 3),
        ],
    },
    {
        "signature": f"fused({ROWS}, bf16[768, 768], {ROWS}) -> {ROWS} @ h100",
        "definition": [
            application(f"matmul({ROWS}, bf16[768, 768]; act=none) -> {ROWS}", 0, 1),
            application(f"ewadd({ROWS}, {ROWS}) -> {ROWS}", 3, 2),
            application(f"gelu({ROWS}) -> {ROWS}", 4),
        ],
    },
]


@pytest.mark.parametrize(
    ("architecture", "signatures"),
    [
        (80, SIGNATURES[4:7]),
        (89, SIGNATURES[4:7]),
        (90, [*SIGNATURES, *FUSED]),
        (100, [*SIGNATURES, *FUSED]),
        (120, SIGNATURES[4:7]),
    ],
)
def test_kernels_compile(architecture: int, signatures: list[Any], tmp_path: Path) -> None:
    texts = [json.dumps(s if isinstance(s, dict) else f"{s} @ h100") for s in signatures]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compiling", str(architecture), *texts],
        cwd=ROOT,
        env={**environment, "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert set(found) == set(texts)
    wrong = {
        (s, name): size for s, sizes in found.items() for name, size in sizes.items() if isinstance(size, str)
    }
    assert not wrong
    for sizes in found.values():
        for name, (size, divisions) in sizes.items():
            assert size > 0
            assert divisions == 0, name  # they take hundreds of instructions
