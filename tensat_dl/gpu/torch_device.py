"""Where kernels run: a GPU, where calls are recorded into CUDA graphs; or the CPU, to test what needs no GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from tensat_dl.gpu.protocol import Issue, Replay
from tensat_dl.measure.timing import Clock


def recorder(device: torch.device, issue: Issue, calls: int) -> Replay:
    """Records so many calls; see `protocol.Recorder`."""
    if device.type != "cuda":
        return _timed(issue, calls)
    _warm_up(lambda: issue(0))
    graph = torch.cuda.CUDAGraph()
    # Not `torch.cuda.graph`: it collects garbage each time, which for ten thousand graphs takes longer than the rest.
    with torch.cuda.stream(_aside()):
        graph.capture_begin(pool=_pool())
        try:
            for i in range(calls):
                issue(i)
        finally:
            graph.capture_end()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay() -> float:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(1e-3 * begin.elapsed_time(end))

    return replay


@lru_cache(maxsize=1)
def _aside() -> Any:
    """Where calls are recorded, and run before that: what cuBLAS allocates for a stream, it then has already."""
    return torch.cuda.Stream()


@lru_cache(maxsize=1)
def _pool() -> Any:
    """The memory of recorded calls. One graph of them is alive at a time, so that all can have the same."""
    return torch.cuda.graph_pool_handle()


def _timed(issue: Issue, calls: int) -> Replay:
    def replay() -> float:
        started = time.perf_counter()
        for i in range(calls):
            issue(i)
        return time.perf_counter() - started

    return replay


@dataclass(frozen=True)
class Running:
    """Something that can be run again and again. ``outputs`` are those of the last run."""

    replay: Callable[[], object]
    outputs: list[torch.Tensor]


def running(device: torch.device, call: Callable[[], list[torch.Tensor]]) -> Running:
    """A call, ready to be repeated: as a CUDA graph, where there is a GPU."""
    if device.type != "cuda":
        return Running(call, call())
    _warm_up(call)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=_aside()):
        outputs = call()
    graph.replay()
    torch.cuda.synchronize()
    return Running(graph.replay, outputs)


def _warm_up(call: Callable[[], object]) -> None:
    """What compiles, or chooses among algorithms, does it now, since it can't while it is recorded."""
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
