"""Tensors whose elements lie more than 2^31 apart, and those that just do not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.resources import kernels
from tests.kernels.applications import application
from tests.kernels.conftest import ON_GPU, UNABLE, unable

registry, layout = (kernels(m) for m in ("registry", "layout"))

FAR = 2**30 + 50


@pytest.mark.parametrize(
    ("sizes", "strides", "wide"),
    [
        ((3, 5), [(5, 1), (0, 1)], False),
        ((3, 2**30), [(2**30, 1)], True),
        ((2, 2**29), [(2**31 - 2**29, 1)], False),
        ((2, 2**29), [(2**31 - 2**29 + 1, 1)], True),
        ((2**31 - 256,), [(1,)], True),  # the last block ends there
        ((2**31 - 257,), [(1,)], False),
    ],
)
def test_offsets_and_numbers_of_elements_fit_into_32_bits(
    sizes: tuple[int, ...], strides: list[tuple[int, ...]], wide: bool
) -> None:
    assert layout.wide(sizes, strides, beyond=256) is wide


def test_versions_in_which_kernels_do_not_run_on_the_cpu() -> None:
    assert "NumPy 2.4" in unable((3, 6), (2, 4), on_gpu=False)
    assert not unable((3, 8), (2, 4), on_gpu=False)
    assert not unable((3, 6), (2, 3), on_gpu=False)
    assert not unable((3, 6), (2, 4), on_gpu=True)


@pytest.mark.skipif(bool(UNABLE), reason=UNABLE)
@pytest.mark.skipif(
    ON_GPU, reason="takes no memory on the CPU alone, where nothing touches what lies between"
)
@pytest.mark.parametrize(
    "text",
    [
        "tanh(f16[3, 4]) -> f16[3, 4]",
        "ewadd(f16[3, 4], f16[4]) -> f16[3, 4]",
        "slice(f16[3, 4]; axis=1, start=1, stop=3) -> f16[3, 2]",
        "concat(f16[3, 4], f16[2, 4]; axis=0) -> f16[5, 4]",
        "transpose(f16[3, 4]; perm=[1, 0]) -> f16[4, 3]",
        "softmax(f16[3, 4]; axis=1) -> f16[3, 4]",
        "matmul(f16[3, 4], f16[4, 5]; act=none) -> f16[3, 5]",
    ],
)
def test_elements_far_apart_are_found(text: str) -> None:
    signature = application(text)
    memory = torch.empty(3 * FAR, dtype=torch.float16)
    x = memory.as_strided((3, 4), (FAR, 1))
    x.copy_(torch.arange(12).reshape(3, 4))
    others = [torch.ones(t.shape, dtype=torch.float16) for t in signature.inputs[1:]]
    want = registry.reference(signature)([x.double(), *(y.double() for y in others)])
    for implementation in registry.implementations(signature):
        got = implementation.build()([x, *others])
        assert torch.allclose(got.double(), want, atol=2e-3), implementation.name
