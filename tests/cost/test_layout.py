"""What views do to layouts, against NumPy's strides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.graph import Attrs, TensorType
from tensat_dl.cost.views import contiguous, effect

from .builders import patient

Array = npt.NDArray[np.int8]
View = tuple[str, Attrs, Callable[[Array], Array]]


def bits(array: Array) -> int:
    """The layout of an array of bytes, read off its strides."""
    dims = [(d, s) for d, s in zip(array.shape, array.strides, strict=True) if d > 1]
    found = sum((s == t * e) << i for i, ((_, s), (e, t)) in enumerate(pairwise(dims)))
    return found | (dims[-1][1] == 1) << (len(dims) - 1) if dims else 0


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> View:
    """A view of a tensor of this shape."""
    kind = draw(st.sampled_from(["transpose", "slice", "reshape", "dropout"]))
    if kind == "transpose":
        perm = tuple(draw(st.permutations(range(len(shape)))))
        return kind, (("perm", perm),), lambda a: a.transpose(perm)
    if kind == "slice" and shape:
        axis = draw(st.integers(0, len(shape) - 1))
        start = draw(st.integers(0, shape[axis] - 1))
        stop = draw(st.integers(start + 1, shape[axis]))
        index = (*(slice(None),) * axis, slice(start, stop))
        return kind, (("axis", axis), ("start", start), ("stop", stop)), lambda a: a[index]
    if kind == "reshape":
        factors: list[int] = []
        for d in shape:
            p = 2
            while d > 1:
                while d % p == 0:
                    factors.append(p)
                    d //= p
                p += 1
        result: list[int] = [1] * draw(st.integers(0 if not factors else 1, 4))
        for p in factors:
            result[draw(st.integers(0, len(result) - 1))] *= p
        target = tuple(result)
        return kind, (("shape", target),), lambda a: a.reshape(target)
    return "dropout", (("p", 0.5),), lambda a: a


shapes = st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), max_size=4).map(lambda dims: tuple(dims))


def type_of(a: Array) -> TensorType:
    return TensorType("i8", a.shape)


@patient
@given(st.data())
def test_what_a_view_keeps_of_a_contiguous_tensor(data: st.DataObject) -> None:
    given_ = np.zeros(data.draw(shapes), np.int8)
    op, attrs, apply = data.draw(views(given_.shape))
    result = apply(given_)
    assert bits(given_) == contiguous(type_of(given_))
    assert effect(op, attrs, type_of(given_), type_of(result)).keeps == bits(result)


@patient
@given(st.data())
def test_what_a_view_asks_of_its_input(data: st.DataObject) -> None:
    """Of an input that is itself a view, a view exists without a copy exactly if it has the needed bits, and
    then every bit that it keeps holds if the input has the bits asked for it."""
    given_ = np.zeros(data.draw(shapes), np.int8)
    for _ in range(data.draw(st.integers(1, 2))):
        _, _, before = data.draw(views(given_.shape))
        given_ = before(given_)
    op, attrs, apply = data.draw(views(given_.shape))
    result = apply(given_)
    view = effect(op, attrs, type_of(given_), type_of(result))
    assert np.shares_memory(given_, result) == (view.needs & ~bits(given_) == 0)
    if not np.shares_memory(given_, result):
        return
    for i in range(contiguous(type_of(result)).bit_length()):
        if view.keeps >> i & 1 and view.asks(1 << i) & ~bits(given_) == 0:
            assert bits(result) >> i & 1
