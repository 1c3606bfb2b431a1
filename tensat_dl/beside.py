"""Values that a thread computes beside what else goes on: other threads run while NumPy computes."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from tensat_dl.processes import cores

T = TypeVar("T")

#: The functions of NumPy's builds of OpenBLAS that say and set how many threads compute a product.
GET, SET = "openblas_get_num_threads", "openblas_set_num_threads"
_limiting = threading.Lock()
_limits = 0  #: contexts of `one_thread_each` that are open
_taken = 0  #: contexts of `core_taken` that are open
_former = 1  #: the threads before the first of them


def beside(make: Callable[[], T]) -> Future[T]:
    """The value of ``make``, which a thread computes. The thread does not keep the program from ending, unlike those
    of `concurrent.futures`."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(make())
        except BaseException as e:  # for whoever waits for the value
            found.set_exception(e)

    threading.Thread(target=run, daemon=True).start()
    return found


def two_at_a_time(makes: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The values of these functions, in order: a thread computes the next one beside the one that is asked for."""
    begun: deque[Future[T]] = deque()
    for make in makes:
        begun.append(beside(make))
        if len(begun) == 2:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


def both(first: Callable[[], object], second: Callable[[], object]) -> None:
    """Calls both functions, at the same time if there is a core for each."""
    if spare_cores() < 2:
        first()
        second()
        return
    begun = beside(second)
    first()
    begun.result()


def spare_cores() -> int:
    """The cores for what is computed beside other things, at least one."""
    return max(1, cores() - _taken)


@contextmanager
def core_taken() -> Iterator[None]:
    """What goes on in the context takes a core: what is computed beside it leaves that alone."""
    global _taken
    with _limiting:
        _taken += 1
    try:
        yield
    finally:
        with _limiting:
            _taken -= 1


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Each product of matrices takes one thread; where NumPy has another library than OpenBLAS, as many as before.

    By itself OpenBLAS uses all cores, lets one thread at a time do so, and its threads wait for the next product by
    asking for it all the time: two threads that compute products take turns, and a process beside them has no core.
    """
    global _limits, _former
    functions = _openblas()
    if functions is None:
        yield
        return
    get, set_ = functions
    with _limiting:
        if not _limits:
            _former = get()
            set_(1)
        _limits += 1
    try:
        yield
    finally:
        with _limiting:
            _limits -= 1
            if not _limits:
                set_(_former)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """OpenBLAS's `GET` and `SET`. NumPy's own library is linked with it; wheels give its names a prefix and an
    ending."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        if (module := sys.modules.get(name)) is None or module.__file__ is None:
            continue
        library = ctypes.CDLL(module.__file__)
        for prefix, ending in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
            get, set_ = (getattr(library, f"{prefix}{n}{ending}", None) for n in (GET, SET))
            if get is not None and set_ is not None:
                return get, set_
    return None
