"""Kernels run on a GPU, where calls are recorded into CUDA graphs; or on the CPU, for tests without a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import torch

from tensat_dl.measure.timing import Clock, Issue, Replay

#: Seconds that it takes a GPU to get to its highest clock.
WAKING = 0.2
#: Bytes that a process keeps for its next tensors.
MOST_RESERVED = 2**30


def recorder(device: torch.device, issue: Issue, calls: int) -> Replay:
    """Records ``calls`` calls; see `timing.Recorder`."""
    if device.type != "cuda":
        return _timed(issue, calls)
    _warm_up(lambda: issue(0))

    def issue_all() -> None:
        for i in range(calls):  # a result gives its memory to the next one, as in a model
            issue(i)

    graph, _ = _recorded(issue_all, _first().pool())
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay() -> float:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(1e-3 * begin.elapsed_time(end))

    return replay


_Answer = TypeVar("_Answer")


@lru_cache(maxsize=1)
def _aside() -> Any:
    """The stream on which calls run, and then are recorded: by then cuBLAS has its memory for the stream."""
    return torch.cuda.Stream()


@lru_cache(maxsize=1)
def _first() -> Any:
    """The graph whose memory the recorded calls of operators share, since nobody reads their results. It stays alive,
    since no other graph gets the memory of a graph that is gone."""

    def call() -> list[torch.Tensor]:
        return [torch.zeros(1, device="cuda")]

    _warm_up(call)
    return _recorded(call)[0]


def _recorded(call: Callable[[], _Answer], pool: Any = None) -> tuple[Any, _Answer]:
    """A CUDA graph of a call that has run before, and its answer. Raises the errors of the call.

    Not `torch.cuda.graph`: it gives memory back each time, which for thousands of graphs takes longer than the rest;
    and of a call that fails it says only that something has failed.
    """
    graph = torch.cuda.CUDAGraph()
    failures: list[Exception] = []
    answers: list[_Answer] = []
    with torch.cuda.stream(_aside()):
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            answers.append(call())
        except Exception as e:
            failures.append(e)
        try:
            graph.capture_end()
        except Exception as e:
            # The allocator goes on asking this graph what is to be recorded, and takes its memory for occupied.
            _SPOILED.append(graph)
            _first.cache_clear()
            failures.append(e)
    if failures:
        try:
            raise failures[0]
        finally:
            failures.clear()  # or the failure would keep itself alive, and the graph
    torch.cuda.synchronize()
    return graph, answers[0]


#: Graphs whose recording could not be ended. After one of these the allocator gives no memory back.
_SPOILED: list[Any] = []


def _timed(issue: Issue, calls: int) -> Replay:
    def replay() -> float:
        started = time.perf_counter()
        for i in range(calls):
            issue(i)
        return time.perf_counter() - started

    return replay


@dataclass(frozen=True)
class Running:
    """A computation that can be repeated, and the ``outputs`` of its last run."""

    replay: Callable[[], object]
    outputs: list[torch.Tensor]


def running(device: torch.device, call: Callable[[], list[torch.Tensor]]) -> Running:
    """A call, ready to be repeated: as a CUDA graph, where there is a GPU."""
    if device.type != "cuda":
        return Running(call, call())
    _warm_up(call)
    torch.cuda.empty_cache()  # the memory of graphs that are gone, too
    graph, outputs = _recorded(call)
    graph.replay()
    torch.cuda.synchronize()
    return Running(graph.replay, outputs)


def _warm_up(call: Callable[[], object]) -> None:
    """Runs a call, so that it compiles, and chooses among algorithms, before it is recorded."""
    aside = _aside()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()


def clock_of(device: torch.device) -> Clock:
    """The time by which all that was started is done."""
    if device.type != "cuda":
        return time.perf_counter

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock


def cache_bytes(device: torch.device) -> int:
    """Bytes of the cache that all of a GPU shares."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def prepare(device: torch.device) -> None:
    """Settings of the process: cuDNN tries its algorithms, and takes the fastest."""
    torch.backends.cudnn.benchmark = device.type == "cuda"


def load(device: torch.device) -> None:
    """Loads the libraries that torch calls; otherwise the time of the first operator would include this."""
    if device.type == "cuda":
        x = torch.ones(1, 16, 16, 16, device=device)
        torch.nn.functional.conv2d(x, torch.ones(16, 16, 1, 1, device=device))
        torch.matmul(x, x)
        torch.cuda.synchronize()


@contextmanager
def once() -> Iterator[None]:
    """A context for calls that run once: cuDNN does not try algorithms in it."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def wake(device: torch.device) -> None:
    """Keeps a GPU busy until its clock has reached its rate under load."""
    if device.type != "cuda":
        return
    x = torch.ones(2048, 2048, device=device)
    started = time.perf_counter()
    while time.perf_counter() - started < WAKING:
        for _ in range(10):
            x @ x
        torch.cuda.synchronize()


def usable(device: torch.device) -> bool:
    """Frees memory after an error. Returns whether the process can go on: not if the GPU accepts no more commands
    from it, and not if memory can't be freed."""
    if device.type != "cuda":
        return True
    if _SPOILED:
        return False
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def release(device: torch.device) -> None:
    """Frees memory that other processes on the GPU may need."""
    if device.type == "cuda" and torch.cuda.memory_reserved() > MOST_RESERVED:
        torch.cuda.empty_cache()
