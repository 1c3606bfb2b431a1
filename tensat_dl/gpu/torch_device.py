"""Where kernels run: a GPU, where calls are recorded into CUDA graphs; or the CPU, to test what needs no GPU."""

from __future__ import annotations

import time

import torch

from tensat_dl.gpu.protocol import Issue, Replay


def recorder(device: torch.device, issue: Issue, calls: int) -> Replay:
    """Records so many calls; see `protocol.Recorder`."""
    if device.type != "cuda":
        return _timed(issue, calls)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # what compiles or chooses algorithms does it now
        issue(0)
        issue(1)
    torch.cuda.current_stream().wait_stream(aside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            issue(i)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def replay() -> float:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(1e-3 * begin.elapsed_time(end))

    return replay


def _timed(issue: Issue, calls: int) -> Replay:
    def replay() -> float:
        started = time.perf_counter()
        for i in range(calls):
            issue(i)
        return time.perf_counter() - started

    return replay


def cache_bytes(device: torch.device) -> int:
    """Bytes of the cache that all of a GPU shares."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def prepare(device: torch.device) -> None:
    """Settings of the process: cuDNN tries its algorithms, and takes the fastest."""
    torch.backends.cudnn.benchmark = device.type == "cuda"
