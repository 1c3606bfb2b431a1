"""Estimates, against figures computed by hand, and what merging does to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.graph import AttrValue, TensorType
from tensat_dl.cost import Signature, device_names, load_device
from tensat_dl.cost.roofline import roofline
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.typing import infer

from .builders import patient, table, toy


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def signature(op: str, *inputs: TensorType, **attrs: AttrValue) -> Signature:
    values = defaults(table()[op]) | attrs
    outputs = infer(table(), op, inputs, values).concrete()
    return Signature(op, tuple(values.items()), inputs, outputs, "toy")


def on_toy(op: str, *inputs: TensorType, **attrs: AttrValue) -> float:
    return roofline(table(), toy(), signature(op, *inputs, **attrs))


def test_bound_by_computing() -> None:
    # 2 * 10 * 10 * 50 = 10,000 operations against 4 * (500 + 500 + 100) = 4,400 bytes.
    assert on_toy("matmul", f32(10, 50), f32(50, 10)) == 1 + 10_000


def test_bound_by_memory() -> None:
    # 2 * 10 * 10 * 2 = 400 operations; 4 * (20 + 20 + 100) = 560 bytes.
    assert on_toy("matmul", f32(10, 2), f32(2, 10)) == 1 + 560


def test_convolution() -> None:
    # Output [1, 8, 5, 5]: 2 * 200 * 4 * 3 * 3 = 14,400 operations; bytes 4 * (100 + 288 + 200) = 2,352.
    assert on_toy("conv2d", f32(1, 4, 5, 5), f32(8, 4, 3, 3), pads=(1, 1, 1, 1)) == 1 + 14_400


def test_a_composition_is_one_kernel() -> None:
    # x * sigmoid(x) is 9 operations for each of 10 elements, and reads and writes 10 elements once.
    assert on_toy("silu", f32(10)) == 1 + 90
    apart = on_toy("sigmoid", f32(10)) + on_toy("ewmul", f32(10), f32(10))
    assert apart == (1 + 80) + (1 + 120)


def test_without_declared_operations_bytes_decide() -> None:
    assert on_toy("blackbox", f32(10)) == 1 + 80
    assert on_toy("concat", f32(2, 3), f32(2, 5), axis=1) == 1 + 4 * (6 + 10 + 16)
    assert on_toy("pair", f32(10)) == 1 + 120


def test_a_copied_view_moves_only_what_it_keeps() -> None:
    assert on_toy("slice", f32(100, 10), axis=0, start=0, stop=2) == 1 + 4 * (20 + 20)
    assert on_toy("transpose", f32(3, 5), perm=(1, 0)) == 1 + 4 * (15 + 15)


def test_the_element_type_decides_peak_and_bytes() -> None:
    half = TensorType("f16", (10, 2))
    assert on_toy("matmul", half, TensorType("f16", (2, 10))) == 1 + 400  # bytes halve to 280
    h100 = load_device("h100")
    big = [TensorType(d, (8192, 8192)) for d in ("f32", "f16")]
    slow, fast = (roofline(table(), h100, signature("matmul", t, t)) for t in big)
    assert slow / fast == pytest.approx(989 / 67, rel=0.01)


def test_a_product_on_an_h100() -> None:
    # 134.2 MFLOP at 67 TFLOP/s are 2.003 us; 4.72 MB at 3.35 TB/s are 1.409 us; a launch takes 2 us.
    ms = roofline(table(), load_device("h100"), signature("matmul", f32(64, 1024), f32(1024, 1024)))
    assert ms == pytest.approx(0.004003, abs=1e-6)


sizes = st.integers(1, 4096)
widths = st.lists(sizes, min_size=2, max_size=5)
devices = st.sampled_from([load_device(n) for n in device_names()])


@patient
@given(devices, sizes, sizes, widths)
def test_merged_products_are_never_costlier(device, m, k, ns) -> None:  # type: ignore[no-untyped-def]
    def price(n: int) -> float:
        return roofline(table(), device, signature("matmul", f32(m, k), f32(k, n)))

    assert price(sum(ns)) <= sum(map(price, ns)) * (1 + 1e-12)


@patient
@given(devices, sizes, sizes, widths)
def test_products_stacked_by_rows_are_never_costlier(device, k, n, ms) -> None:  # type: ignore[no-untyped-def]
    def price(m: int) -> float:
        return roofline(table(), device, signature("matmul", f32(m, k), f32(k, n)))

    assert price(sum(ms)) <= sum(map(price, ms)) * (1 + 1e-12)


@patient
@given(devices, st.integers(1, 64), st.integers(3, 64), st.sampled_from([1, 3]), widths)
def test_merged_convolutions_are_never_costlier(device, c, hw, kernel, outs) -> None:  # type: ignore[no-untyped-def]
    def price(o: int) -> float:
        x, w = f32(1, c, hw, hw), f32(o, c, kernel, kernel)
        return roofline(table(), device, signature("conv2d", x, w))

    assert price(sum(outs)) <= sum(map(price, outs)) * (1 + 1e-12)


@patient
@given(devices, sizes, widths)
def test_merged_elementwise_operators_are_never_costlier(device, m, ns) -> None:  # type: ignore[no-untyped-def]
    def price(n: int) -> float:
        return roofline(table(), device, signature("relu", f32(m, n)))

    assert price(sum(ns)) <= sum(map(price, ns)) * (1 + 1e-12)
