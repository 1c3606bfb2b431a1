"""What of a comparison can be computed beside the search for the second graph: the first graph, and each answer that
the search goes on from."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensat_dl.beside import beside, one_thread_each
from tensat_dl.core.graph import Graph, value_numbers
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Expectation, expected
from tensat_dl.verify.exact.compare import Half
from tensat_dl.verify.exact.run import half_if_small
from tensat_dl.verify.execute import Value, available_memory, execute, memory_needed

#: A graph is run beside a search only if it takes at most this share of the memory that is free.
SHARE = 1 / 4


class _Stopped(Exception):
    """Nobody asks for the value any more."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What a run of a graph came to: its outputs, None if it was stopped or failed, and the results of nodes that it
    still held, by their numbers."""

    outputs: Sequence[Array] | None = None
    held: dict[int, tuple[Value, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A run that has begun; None as its graph if none has. It ends where ``stop`` is set."""

    graph: Graph | None
    run: Future[_Run]
    stop: threading.Event = field(default_factory=threading.Event)


class _Answers:
    """Runs the latest answer, on the values of the first graph. It goes on from what the run of the answer before it
    held then, so it takes no more memory than by itself."""

    def __init__(self, first: Future[Expectation], ended: threading.Event) -> None:
        self._first = first
        self._ended = ended
        self._numbers: dict[Hashable, int] = {}
        self._latest = _Begun(None, Future())
        self._latest.run.set_result(_Run())

    @property
    def latest(self) -> Future[_Run]:
        return self._latest.run

    def begin(self, graph: Graph, ops: OpTable) -> Future[_Run]:
        """Begins a run, which ends the one before, unless that is of the same graph and has not failed."""
        before = self._latest
        if graph == before.graph and not (before.run.done() and before.run.result().outputs is None):
            return before.run
        before.stop.set()
        numbers, stop = value_numbers(graph, self._numbers), threading.Event()
        run = beside(lambda: self._run(graph, numbers, ops, before.run.result(), stop))
        # Ctrl-C may come before this, and then the run is nobody's: a graph and its run are kept in one step.
        self._latest = _Begun(graph, run, stop)
        return run

    def _run(
        self, graph: Graph, numbers: Sequence[int], ops: OpTable, before: _Run, stop: threading.Event
    ) -> _Run:
        def watch(_: Value) -> None:
            if stop.is_set() or self._ended.is_set():
                raise _Stopped

        computed = {i: before.held[n] for i, n in enumerate(numbers) if n in before.held}
        before.held.clear()
        outputs = None
        try:
            known = self._first.result()
            if not _fits(graph, known.size):
                computed.clear()
            else:
                again = known.again(semantics_of(ops))
                with np.errstate(all="ignore"):
                    outputs = execute(graph, known.values, again, watch, computed)
        except (_Stopped, ValueError, MemoryError):
            pass
        return _Run(outputs, {numbers[i]: results for i, results in computed.items()})


@dataclass(frozen=True, slots=True)
class Ahead:
    """The outputs of a graph on drawn values, its half of the exact comparison, both as futures, and the runs of
    answers."""

    _expected: Future[Expectation]
    _half: Future[Half | None]
    _answers: _Answers

    def expected(self) -> Expectation | None:
        """None if the graph could not be run, or not beside the search: the comparison tries again, and says why."""
        try:
            return self._expected.result()
        except (ValueError, MemoryError):
            return None

    def half(self) -> Half | None:
        return self._half.result()

    def wait(self) -> None:
        """Returns once nothing is computed ahead any more."""
        begun: list[Future[Any]] = [self._expected, self._half, self._answers.latest]
        wait(begun)

    def answered(self, graph: Graph, ops: OpTable) -> None:
        """A search has found an answer, and goes on."""
        self._answers.begin(graph, ops)

    def outputs(self, graph: Graph, ops: OpTable) -> Sequence[Array] | None:
        """The outputs of the answer; None as for `expected`."""
        return self._answers.begin(graph, ops).result().outputs


@contextmanager
def ahead(graph: Graph, ops: OpTable, seed: int) -> Iterator[Ahead | None]:
    """Runs a graph beside what goes on in the context; None where that would take much of the memory."""
    if not _fits(graph):
        yield None
        return
    ended = threading.Event()

    def watch(_: Value) -> None:
        if ended.is_set():
            raise _Stopped

    semantics = semantics_of(ops)
    with one_thread_each():
        try:
            first = beside(lambda: expected(graph, semantics, seed, watch))
            half = beside(lambda: half_if_small(graph, ops, seed))
            yield Ahead(first, half, _Answers(first, ended))
        finally:
            ended.set()


def _fits(graph: Graph, held: int = 0) -> bool:
    """Whether a graph may be run beside a search that so many bytes are ``held`` in."""
    free = available_memory()
    return free is None or memory_needed(graph) <= (free + held) * SHARE
