"""Every kernel against the reference semantics in float64, in Triton's interpreter or on a GPU."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.core.graph import Graph
from tensat_dl.cost.application import applied, definition
from tensat_dl.cost.signature import Signature
from tensat_dl.gpu.trial import TF32_ERRORS, tf32_error
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.ops.table import OpTable
from tensat_dl.resources import kernels, rules
from tensat_dl.verify.execute import execute
from tests.kernels.applications import APPLICATIONS, application
from tests.kernels.conftest import ON_GPU, UNABLE

pytestmark = [pytest.mark.sampled(4), pytest.mark.skipif(bool(UNABLE), reason=UNABLE)]

registry, launch, elementwise = (kernels(m) for m in ("registry", "launch", "elementwise"))
DEVICE = "cuda" if ON_GPU else "cpu"

#: Rounding of one operator, relative to the largest result. The vendors' convolutions transform their operands.
TOLERANCE = {"f32": 2e-5 if ON_GPU else 5e-6, "f16": 3e-3, "bf16": 2e-2, "bool": 0, "i64": 0}
#: TF32 keeps ten bits of each factor. Behind some activations the error is larger beside the largest element.
TF32 = 3e-3


def operands(signature: Signature, strided: bool) -> list[Any]:
    """Random tensors; strided ones are every second element of transposed ones, in all dimensions."""
    rng = np.random.default_rng(zlib.crc32(signature.text.encode()))
    made = []
    for i, t in enumerate(signature.inputs):
        if t.dtype == "bool":
            values = rng.integers(0, 2, t.shape).astype(bool)
        elif t.dtype == "i64":
            values = rng.integers(-7, 7, t.shape)
        else:
            values = rng.standard_normal(t.shape)
            if signature.op == "batchnorm" and i == 4:
                values = np.abs(values) + 0.5
        tensor = torch.tensor(values).to(launch.TORCH_TYPES[t.dtype]).to(DEVICE)
        if strided and tensor.ndim:
            wide = torch.zeros([2 * n + 3 for n in reversed(tensor.shape)], dtype=tensor.dtype, device=DEVICE)
            view = wide[tuple(slice(2, 2 + 2 * n, 2) for n in reversed(tensor.shape))]
            view = view.permute(*reversed(range(tensor.ndim)))
            view.copy_(tensor)
            tensor = view
        made.append(tensor)
    return made


def check(signature: Signature, want: np.ndarray, given: list[Any], means: Graph | None = None) -> None:
    found = registry.implementations(signature, means)
    assert found
    scale = max(1.0, float(np.max(np.abs(want.astype(np.float64)))))
    for implementation in found:
        got = implementation.build()(given)
        assert tuple(got.shape) == signature.outputs[0].shape
        assert got.dtype == launch.TORCH_TYPES[signature.outputs[0].dtype]
        assert got.is_contiguous() or implementation.kind == "view"
        error = float(np.max(np.abs(got.double().cpu().numpy() - want))) / scale
        tolerance = TOLERANCE[signature.outputs[0].dtype]
        if implementation.tf32:
            cut = tf32_error(registry.reference(signature, means), given, torch.tensor(want, device=DEVICE))
            tolerance = max(TF32, TF32_ERRORS * cut)
        assert error <= tolerance, f"{implementation.name}: off by {error:.1e}"


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("text", APPLICATIONS)
def test_kernels_compute_what_the_operator_means(text: str, strided: bool) -> None:
    signature = application(text)
    given = operands(signature, strided)
    graph = applied(signature)
    values = {
        f"x{i}": (x.double() if x.is_floating_point() else x).cpu().numpy() for i, x in enumerate(given)
    }
    (want,) = execute(graph, values, SEMANTICS)
    assert np.isfinite(want).all()
    check(signature, want, given)
    wide = [x.double() if x.is_floating_point() else x for x in given]
    reference = registry.reference(signature)(wide)
    # A cast to a narrower type rounds in the reference, too.
    tolerance = TOLERANCE[signature.outputs[0].dtype] if signature.op == "cast" else 1e-9
    assert np.max(np.abs(reference.double().cpu().numpy() - want)) <= tolerance * max(1, np.max(np.abs(want)))


@pytest.mark.parametrize(
    "text",
    [
        "silu(f32[3, 70]) -> f32[3, 70]",
        "hardswish(f16[3, 70]) -> f16[3, 70]",
        "gelu_tanh(f32[3, 70]) -> f32[3, 70]",
        "clip(f32[3, 70]; high=0.5, low=-0.25) -> f32[3, 70]",
        "prelu(f32[2, 3, 4, 4], f32[3, 1, 1]) -> f32[2, 3, 4, 4]",
        "mish(f32[70]) -> f32[70]",
        "instancenorm(f32[2, 3, 4, 5], f32[3], f32[3]; eps=0.001) -> f32[2, 3, 4, 5]",
    ],
)
def test_compositions_are_one_kernel(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lark")
    from tensat_dl.lang.program import load_program

    ops = load_program(str(rules() / "ops.tsr")).ops
    signature = application(text)
    means = definition(ops, signature)
    assert means is not None
    given = operands(signature, strided=True)
    values = {f"x{i}": x.double().cpu().numpy() for i, x in enumerate(given)}
    (want,) = execute(applied(signature), values, semantics_of(ops))
    check(signature, want, given, means)
    (torch_alone, *_) = registry.implementations(signature, means)
    again = torch_alone.build()
    again(given)
    with monkeypatch.context() as patch:  # as in the test below
        patch.delattr(torch, "from_numpy")
        again(given)
    if signature.op != "instancenorm":
        assert elementwise.fusible(means)


def composition(op: str, text: str, folder: Path) -> tuple[Signature, OpTable]:
    """The application of an operator that is defined so, on operands x, y, z, v."""
    from tensat_dl.lang.program import load_program

    names = "xyzv"[: text.partition("->")[0].count("[")]
    file = folder / "op.tsr"
    file.write_text(f"op fused({', '.join(f'{x}: tensor' for x in names)}) = {op}")
    return application(f"fused({text}"), load_program(str(file)).ops


@pytest.mark.parametrize(
    ("op", "text"),
    [
        # a product and what is added to it
        ("matmul(x, y; act = none) + z", "f32[33, 70], f32[70, 40], f32[33, 40]) -> f32[33, 40]"),
        ("tanh(matmul(x, y; act = none) + z)", "f32[1, 70], f32[70, 40], f32[1, 40]) -> f32[1, 40]"),
        ("gelu(z + matmul(x, y; act = none))", "f16[3, 17, 20], f16[3, 20, 18], f16[3, 17, 18]) -> f16[3, 17, 18]"),
        ("matmul(x, y; act = none) + x", "f32[20, 20], f32[20, 20]) -> f32[20, 20]"),
        (
            "relu(conv2d(x, y, z; pads = [1, 1, 1, 1]) + v)",
            "f32[2, 4, 6, 5], f32[8, 2, 3, 3], f32[8], f32[2, 8, 6, 5]) -> f32[2, 8, 6, 5]",
        ),
        # .. where k is long, and split
        ("relu(matmul(x, y; act = none) + z)", "f32[9, 700], f32[700, 40], f32[9, 40]) -> f32[9, 40]"),
        (
            "conv2d(x, y, z; pads = [1, 1, 1, 1]) + v",
            "f32[2, 64, 4, 5], f32[8, 32, 3, 3], f32[8], f32[2, 8, 4, 5]) -> f32[2, 8, 4, 5]",
        ),
        # rows
        ("softmax(x * 0.25 + y; axis = 2)", "f32[3, 5, 33], f32[5, 33]) -> f32[3, 5, 33]"),
        ("layernorm(x + y, z, v; eps = 0.01)", "f16[2, 5, 33], f16[2, 5, 33], f16[33], f16[33]) -> f16[2, 5, 33]"),
        ("rmsnorm(tanh(x), y) * z", "f32[70, 40], f32[40], f32[70, 1]) -> f32[70, 40]"),
        ("x * rsqrt(reduce_mean(x * x; axis = 1) + 0.5) * y", "f32[9, 50], f32[50]) -> f32[9, 50]"),
        ("exp(x - reduce_max(x; axis = 1)) / reduce_sum(exp(x - reduce_max(x; axis = 1)); axis = 1)",
         "f32[5, 40]) -> f32[5, 40]"),
        ("sqrt(reduce_sum(x * x; axis = 0))", "f32[300]) -> f32[1]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
def test_fused_operators_have_kernels_of_their_own(op: str, text: str, strided: bool, tmp_path: Path) -> None:
    pytest.importorskip("lark")
    signature, ops = composition(op, text, tmp_path)
    means = definition(ops, signature)
    assert means is not None
    given = operands(signature, strided)
    values = {f"x{i}": x.double().cpu().numpy() for i, x in enumerate(given)}
    (want,) = execute(applied(signature), values, semantics_of(ops))
    assert np.isfinite(want).all()
    check(signature, want, given, means)
    assert [i.kind for i in registry.implementations(signature, means)].count("triton") >= 2


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ("softmax(x * y; axis = 0)", "f32[5, 33], f32[5, 33]) -> f32[5, 33]"),  # not along rows
        ("x - reduce_mean(y; axis = 1)", "f32[5, 33], f32[5, 9]) -> f32[5, 33]"),  # of other rows
        ("matmul(x, y; act = relu) + x", "f32[20, 20], f32[20, 20]) -> f32[20, 20]"),  # activated before
        ("matmul(x, y; act = none) + z", "f32[9, 20], f32[20, 20], f32[20]) -> f32[9, 20]"),  # stretched
    ],
)
def test_what_no_kernel_fits_is_left_to_torch(op: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("lark")
    signature, ops = composition(op, text, tmp_path)
    found = registry.implementations(signature, definition(ops, signature))
    assert {i.kind for i in found} == {"vendor"}


def test_views_do_not_copy() -> None:
    for text in (
        "slice(f32[5, 8]; axis=1, start=2, stop=5) -> f32[5, 3]",
        "transpose(f32[5, 8]; perm=[1, 0]) -> f32[8, 5]",
    ):
        signature = application(text)
        (x,) = operands(signature, strided=False)
        (view,) = [i for i in registry.implementations(signature) if i.kind == "view"]
        assert view.build()([x]).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("text", [t for t in APPLICATIONS if not t.split("(")[1].startswith(";")])
def test_what_is_needed_besides_operands_is_made_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While calls are recorded into a CUDA graph nothing can be copied to the GPU."""
    signature = application(text)
    given = operands(signature, strided=False)
    for implementation in registry.implementations(signature):
        if implementation.kind != "triton" or ON_GPU:
            kernel = implementation.build()
            kernel(given)
            with monkeypatch.context() as patch:
                for name in ("tensor", "as_tensor", "from_numpy"):
                    patch.delattr(torch, name)
                kernel(given)
