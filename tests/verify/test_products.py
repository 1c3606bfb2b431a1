"""Large products are computed in halves, and take one thread of OpenBLAS each where others compute beside them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tensat_dl import beside
from tensat_dl.beside import both, core_taken, one_thread_each, spare_cores
from tensat_dl.ops.semantics import reductions
from tensat_dl.ops.semantics.reductions import product


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((5, 3), (3, 4)),
        ((2, 3), (3, 7)),
        ((1, 3), (3, 2)),
        ((2, 1), (1, 1)),
        ((4, 5, 3), (4, 3, 2)),
        ((2, 3, 2, 3), (2, 3, 3, 9)),
        ((5, 3), (4, 3, 2)),
        ((0, 3), (3, 4)),
        ((3, 0), (0, 4)),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_halves_make_the_product(
    x: tuple[int, ...], y: tuple[int, ...], turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reductions, "HALVED", 0)
    a = np.arange(np.prod(x), dtype=np.float64).reshape(x) - 3
    b = np.arange(np.prod(y), dtype=np.float64).reshape(y) - 5
    if turned:  # other strides
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    assert np.array_equal(product(a, b), np.matmul(a, b))


def test_an_error_of_either_half_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "HALVED", 0)
    with pytest.raises(ValueError, match="mismatch"):
        product(np.ones((4, 2)), np.ones((3, 4)))


def test_products_take_one_thread_while_others_compute_beside_them() -> None:
    functions = beside._openblas()
    if functions is None:
        pytest.skip("NumPy has another library for products of matrices")
    threads, _ = functions
    before = threads()
    with one_thread_each():
        with one_thread_each():
            assert threads() == 1
        assert threads() == 1
    assert threads() == before


@pytest.mark.parametrize(
    ("cores", "taken", "threads"), [(2, False, 2), (2, True, 1), (3, True, 2), (1, True, 1)]
)
def test_halves_leave_a_core_that_is_taken(
    cores: int, taken: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "cores", lambda: cores)
    seen: list[threading.Thread] = []

    def half() -> None:
        seen.append(threading.current_thread())

    if taken:
        with core_taken():
            both(half, half)
    else:
        both(half, half)
    assert len(seen) == 2
    assert len(set(seen)) == threads
    assert spare_cores() == cores
