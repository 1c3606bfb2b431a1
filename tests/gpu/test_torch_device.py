"""Recording of calls, on a GPU that keeps the rules of torch's and does nothing else."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.gpu import torch_device
from tensat_dl.gpu.torch_device import recorder, running, usable

CUDA = torch.device("cuda")


class FakeCuda:
    """Streams, events and graphs. Memory of graphs is shared by the rules of torch's allocator: what no graph has any
    more is not handed out again, and none is recorded into twice at a time. ``done`` is what ran."""

    def __init__(self) -> None:
        self.users: dict[Any, int] = {}
        self.recording: dict[Any, Any] = {}
        self.stream = "main"
        self.done: list[str] = []
        self.recorded: list[str] | None = None
        fake = self

        class CUDAGraph:
            def __init__(self) -> None:
                self.ended = False

            def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
                assert fake.stream != "main"
                assert fake.recorded is None
                self.handle = pool or object()
                assert fake.users.get(self.handle, 1) > 0, "INTERNAL ASSERT FAILED: use_count > 0"
                assert self.handle not in fake.recording, "already recording to mempool_id"
                fake.users[self.handle] = fake.users.get(self.handle, 0) + 1
                fake.recording[self.handle] = self
                fake.recorded = []

            def capture_end(self) -> None:
                work, fake.recorded = fake.recorded, None
                if work is not None and "sync" in work:
                    raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
                del fake.recording[self.handle]
                self.work, self.ended = work or [], True

            def pool(self) -> Any:
                assert self.ended
                return self.handle

            def replay(self) -> None:
                assert self.ended
                fake.done.extend(self.work)

            def __del__(self) -> None:
                if self.ended:
                    fake.users[self.handle] -= 1

        self.CUDAGraph = CUDAGraph

    def run(self, what: str) -> None:
        """Something is started; ``sync`` waits for the GPU, which nothing may that is recorded."""
        if self.recorded is None:
            self.done.append(what)
            return
        self.recorded.append(what)
        if what == "sync":
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, self.stream = self.stream, stream.name
        yield
        self.stream = before


class Stream:
    def __init__(self, name: str = "aside") -> None:
        self.name = name

    def wait_stream(self, other: Stream) -> None: ...


class Event:
    def __init__(self, enable_timing: bool) -> None: ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: Event) -> float:
        return 2.0


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    fake = FakeCuda()
    for name, value in {
        "CUDAGraph": fake.CUDAGraph,
        "Stream": Stream,
        "Event": Event,
        "stream": fake.on,
        "current_stream": lambda: Stream("main"),
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    real = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *shape, device: real(*shape))
    caches = torch_device._aside, torch_device._first
    for cached in caches:
        cached.cache_clear()
    yield fake
    for cached in caches:
        cached.cache_clear()
    torch_device._SPOILED.clear()


def test_graphs_are_recorded_one_after_the_other(cuda: FakeCuda) -> None:
    """.. also when those before are gone: their memory would be, too."""
    for k in range(3):
        cuda.done.clear()
        replay = recorder(CUDA, lambda i, k=k: cuda.run(f"{k}.{i}"), 3)  # type: ignore[misc]
        assert cuda.done == [f"{k}.0"] * 2  # before it is recorded
        assert replay() == 2e-3
        assert cuda.done[2:] == [f"{k}.{i}" for i in range(3)]


def test_what_can_not_be_recorded_says_so_and_does_no_harm(cuda: FakeCuda) -> None:
    def waits(i: int) -> None:
        cuda.run("sync" if i else "work")

    recorder(CUDA, lambda i: cuda.run("before"), 1)
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        recorder(CUDA, waits, 2)
    replay = recorder(CUDA, lambda i: cuda.run("after"), 1)
    cuda.done.clear()
    replay()
    assert cuda.done == ["after"]


def test_results_of_recorded_calls_do_not_live_on(cuda: FakeCuda) -> None:
    """.. or each would have memory of its own."""
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0

    def call(i: int) -> torch.Tensor:
        nonlocal most
        most = max(most, sum(r() is not None for r in alive))
        result = torch.ones(3)
        alive.append(weakref.ref(result))
        return result

    replay = recorder(CUDA, call, 9)
    replay()
    assert len(alive) == 11
    assert most <= 1
    assert not any(r() is not None for r in alive)


def test_a_recording_that_ends_well_leaves_nothing_behind(cuda: FakeCuda) -> None:
    """.. whatever the call raised: the graph goes, with its memory. One that can't be ended stays."""

    def fails(i: int) -> None:
        cuda.run("work")
        if cuda.recorded is not None:
            raise ValueError("no number")

    recorder(CUDA, lambda i: cuda.run("before"), 1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no number"):
            recorder(CUDA, fails, 2)
    assert len(cuda.users) == 1
    assert list(cuda.users.values()) == [1]
    assert usable(CUDA)

    with pytest.raises(RuntimeError, match="not permitted"):
        recorder(CUDA, lambda i: cuda.run("sync"), 1)
    assert not usable(CUDA)


def test_whole_graphs_have_memory_of_their_own(cuda: FakeCuda) -> None:
    def call() -> list[torch.Tensor]:
        cuda.run("graph")
        return []

    first, second = running(CUDA, call), running(CUDA, call)
    assert len(cuda.users) == 2
    cuda.done.clear()
    first.replay()
    second.replay()
    assert cuda.done == ["graph", "graph"]

    def fails() -> list[torch.Tensor]:
        if cuda.recorded is not None:
            raise ValueError("no number")
        return []

    with pytest.raises(ValueError, match="no number"):
        running(CUDA, fails)
    running(CUDA, call)
