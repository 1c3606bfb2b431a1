"""The half of a comparison that needs the first graph alone: computed beside the search for the second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from tensat_dl.beside import beside, one_thread_each
from tensat_dl.core.graph import Graph
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Expectation, expected
from tensat_dl.verify.exact.compare import Half
from tensat_dl.verify.exact.run import half_if_small
from tensat_dl.verify.execute import available_memory, memory_needed

#: A graph is run beside a search only if it takes at most this share of the memory that is free.
SHARE = 1 / 4


class _Stopped(Exception):
    """Nobody asks for the value any more."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The outputs of a graph on drawn values, and its half of the exact comparison: both as futures."""

    _expected: Future[Expectation]
    _half: Future[Half | None]

    def expected(self) -> Expectation | None:
        """None if the graph could not be run, or not beside the search: the comparison tries again, and says why."""
        try:
            return self._expected.result()
        except (ValueError, MemoryError):
            return None

    def half(self) -> Half | None:
        return self._half.result()


@contextmanager
def ahead(graph: Graph, ops: OpTable, seed: int) -> Iterator[Ahead | None]:
    """Runs a graph beside what goes on in the context; None where that would take much of the memory."""
    free = available_memory()
    if free is not None and memory_needed(graph) > free * SHARE:
        yield None
        return
    stopped = threading.Event()

    def watch(_: Array) -> None:
        if stopped.is_set():
            raise _Stopped

    semantics = semantics_of(ops)
    with one_thread_each():
        try:
            yield Ahead(
                beside(lambda: expected(graph, semantics, seed, watch)),
                beside(lambda: half_if_small(graph, ops, seed)),
            )
        finally:
            stopped.set()
