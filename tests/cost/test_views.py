"""Which views are free: the examples of docs/costs.md, on graphs and on e-graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.cost.views import free_views

from .builders import Builder, patient, table, toy
from .test_layout import Array, views


def copies(b: Builder, *roots: int, strided: bool = True) -> list[str]:
    """The views that are copied: ``op#class`` in the order of the e-nodes."""
    e = b.egraph(*roots)
    free = free_views(e, table(), toy(strided))
    assert not any(free[n] for n, op in enumerate(e.op) if not table()[op].view)
    pays = [n for n, op in enumerate(e.op) if table()[op].view and not free[n]]
    return [f"{e.op[n]}#{e.node_class[n]}" for n in pays if not e.weights_only[e.node_class[n]]]


def split_heads(b: Builder, x: int) -> int:
    """[64, 1024] to [16, 64, 64]."""
    heads = b.op("reshape", x, shape=(64, 16, 64))
    return b.op("transpose", heads, perm=(1, 0, 2))


def merged_attention() -> tuple[Builder, int]:
    """q, k and v as slices of one product, and q k v as [16, 64, 64]."""
    b = Builder()
    wide = b.op("matmul", b.input(64, 1024), b.weight(1024, 3072))
    q, k, v = (b.op("slice", wide, axis=1, start=i, stop=i + 1024) for i in (0, 1024, 2048))
    scores = b.op("matmul", split_heads(b, q), b.op("transpose", split_heads(b, k), perm=(0, 2, 1)))
    return b, b.op("matmul", scores, split_heads(b, v))


def test_heads_of_a_merged_product_are_free() -> None:
    b, mixed = merged_attention()
    assert copies(b, mixed) == []


def test_putting_the_heads_back_together_is_one_copy() -> None:
    b, mixed = merged_attention()
    back = b.op("transpose", mixed, perm=(1, 0, 2))
    joined = b.op("reshape", back, shape=(64, 1024))
    out = b.op("matmul", joined, b.weight(1024, 1024))
    assert copies(b, out) == [f"transpose#{back}"]


def test_without_strides_slices_and_transposes_are_copied() -> None:
    b, mixed = merged_attention()
    kinds = [c.split("#")[0] for c in copies(b, mixed, strided=False)]
    assert sorted(kinds) == ["slice"] * 3 + ["transpose"] * 4


@pytest.mark.parametrize("op", ["relu", "softmax", "reduce_sum", "silu"])
def test_operators_read_through_strides(op: str) -> None:
    b = Builder()
    cut = b.op("slice", b.input(64, 3072), axis=1, start=0, stop=1024)
    attrs = {} if op in ("relu", "silu") else {"axis": 1}
    assert copies(b, b.op(op, cut, **attrs)) == []


def test_concat_and_convolution_and_pooling_read_through_strides() -> None:
    b = Builder()
    x = b.op("conv2d", b.input(8, 16, 6, 6), b.weight(32, 16, 1, 1))
    one, two = (b.op("slice", x, axis=1, start=i, stop=i + 16) for i in (0, 16))
    y = b.op("conv2d", one, b.weight(4, 16, 3, 3))
    z = b.op("poolmax", two, kernel=(3, 3))
    assert copies(b, y, z, b.op("concat", one, two, axis=1)) == []


@pytest.mark.parametrize("last", ["output", "blackbox"])
def test_outputs_and_opaque_operators_read_contiguous_tensors(last: str) -> None:
    b = Builder()
    x = b.input(64, 3072)
    columns = b.op("slice", x, axis=1, start=0, stop=1024)
    rows = b.op("slice", x, axis=0, start=8, stop=16)
    shaped = b.op("reshape", x, shape=(3, 64, 1024))
    roots = [columns, rows, shaped]
    if last == "blackbox":
        roots = [b.op("blackbox", r) for r in roots]
    assert copies(b, *roots) == [f"slice#{columns}"]


def test_a_slice_of_channels_is_contiguous_in_a_batch_of_one() -> None:
    for batch, expected in ((1, 0), (2, 1)):
        b = Builder()
        x = b.op("conv2d", b.input(batch, 3, 6, 6), b.weight(32, 3, 1, 1))
        half = b.op("slice", x, axis=1, start=16, stop=32)
        flat = b.op("reshape", half, shape=(batch * 16, 36))
        assert len(copies(b, b.op("blackbox", flat))) == expected


def test_one_consumer_that_needs_it_makes_a_copy() -> None:
    b = Builder()
    t = b.op("transpose", b.input(4, 6), perm=(1, 0))
    a = b.op("relu", t)
    assert copies(b, a) == []
    assert copies(b, a, b.op("blackbox", t)) == [f"transpose#{t}"]


def test_a_reshape_that_splits_or_keeps_joined_dimensions_is_a_view() -> None:
    b = Builder()
    t = b.op("transpose", b.input(4, 6, 8), perm=(2, 0, 1))  # [8, 4, 6]: 4 and 6 are still joined
    split = b.op("reshape", t, shape=(2, 4, 4, 6))
    joined = b.op("reshape", t, shape=(8, 24))
    assert copies(b, b.op("relu", split), b.op("relu", joined)) == []
    torn = b.op("reshape", t, shape=(32, 6))
    assert copies(b, b.op("relu", torn)) == [f"transpose#{t}"]


def test_the_copy_is_paid_where_contiguity_was_lost() -> None:
    b = Builder()
    cut = b.op("slice", b.input(64, 3072), axis=1, start=0, stop=1024)
    shaped = b.op("reshape", cut, shape=(64, 16, 64))
    dropped = b.op("dropout", shaped)
    first = b.op("slice", dropped, axis=0, start=0, stop=8)
    assert copies(b, b.op("blackbox", first)) == [f"slice#{cut}"]


def test_views_of_weights_are_made_ahead_of_time() -> None:
    b = Builder()
    t = b.op("transpose", b.weight(4, 6), perm=(1, 0))
    assert copies(b, b.op("matmul", b.input(5, 6), t), t) == []


def test_an_unknown_view_takes_and_gives_no_layout() -> None:
    b = Builder()
    t = b.op("transpose", b.input(4, 6), perm=(1, 0))
    view = b.op("mystery", t)
    a = b.op("relu", view)
    assert copies(b, a) == [f"transpose#{t}"]
    assert copies(b, a, view) == [f"transpose#{t}", f"mystery#{view}"]


def test_only_consumers_in_the_class_matter_not_who_else_is_in_it() -> None:
    """A merge adds a slice to the class of a sibling; the sibling's consumers decide what the slice costs."""
    b = Builder()
    x = b.input(64, 1024)
    w = [b.weight(1024, 512), b.weight(1024, 512)]
    left, right = (b.op("matmul", x, v) for v in w)
    wide = b.op("matmul", x, b.op("concat", *w, axis=1))
    b.also(left, "slice", wide, axis=1, start=0, stop=512)
    b.also(right, "slice", wide, axis=1, start=512, stop=1024)
    inner = b.op("relu", left)
    assert copies(b, inner, right) == [f"slice#{right}"]


def test_a_consumer_of_any_member_of_a_class_counts() -> None:
    """The reshape reads the class through one e-node and asks the same of all."""
    b = Builder()
    x = b.input(4, 6)
    c = b.op("relu", x)
    b.also(c, "transpose", b.input(6, 4), perm=(1, 0))
    assert copies(b, b.op("relu", c)) == []
    assert copies(b, b.op("relu", b.op("reshape", c, shape=(24,)))) == [f"transpose#{c}"]


def test_cycles_of_views() -> None:
    """x and its transpose, each a transpose of the other: the demand goes round once and stops."""
    b = Builder()
    x = b.op("relu", b.input(4, 6))
    t = b.op("transpose", x, perm=(1, 0))
    b.also(x, "transpose", t, perm=(1, 0))
    b.also(x, "reshape", x, shape=(4, 6))
    y = b.op("relu", t)
    assert copies(b, y) == []
    assert copies(b, y, x) == [f"transpose#{x}"]
    assert copies(b, y, t) == [f"transpose#{t}"]


@patient
@given(st.data())
def test_free_views_are_views_in_numpy(data: st.DataObject) -> None:
    """Chains of views, run with NumPy: what is free moves no data, and what needs contiguity gets it."""
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), max_size=4)))
    b = Builder()
    c = b.op("relu", b.input(*shape))
    value: Array = np.zeros(shape, np.int8)
    steps = []
    for _ in range(data.draw(st.integers(1, 4))):
        op, attrs, apply = data.draw(views(value.shape))
        value = apply(value)
        c = b.op(op, c, **dict(attrs))
        steps.append((c, apply))
    demanding = data.draw(st.booleans())
    root = c if demanding else b.op("relu", c)
    free = free_views(b.egraph(root), table(), toy())
    value = np.zeros(shape, np.int8)
    for n, apply in steps:
        result = apply(value)
        if free[n]:
            assert np.shares_memory(value, result)
        value = result if free[n] else np.array(result, order="C")
    assert value.flags.c_contiguous or not demanding
