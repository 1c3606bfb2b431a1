"""Does jobs in a child process, one after the other. Workers on any machine do."""

from __future__ import annotations

import errno
import fcntl
import os
import pkgutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensat_dl.jobs.gpus import GPUS, ORDER, lock_of
from tensat_dl.jobs.job import Job, Reply, UnfitWorker, Work
from tensat_dl.processes import TICK, Child, Died, Failed

#: The variable with the name of what a process, and so all that it starts, has for itself.
HELD = "TENSAT_DL_HAS_ALONE"


class Host:
    """A process for jobs of one work. It is started when it is first needed; one that died is replaced."""

    def __init__(self, work: Work, environment: Mapping[str, str] | None = None) -> None:
        self._work = work
        self._environment = dict(environment or {})
        if work.place != "core":
            gpu = self._environment.get(GPUS, os.environ.get(GPUS, ""))
            self._environment[HELD] = "machine" if work.place == "machine" else f"gpu-{lock_of(gpu)}"
        if work.place == "gpu":
            self._environment |= ORDER
        self._child: Child | None = None

    def run(self, job: Job, root: str = "", stopped: threading.Event | None = None) -> Reply:
        """An attempt at a job, unless or until it is ``stopped``: whoever sets that calls `stop` next."""
        stopped = stopped or threading.Event()
        with self._alone(stopped):
            started = time.monotonic()
            child: Child | None = None
            try:
                child = self._child = self._child or self._start()
                if stopped.is_set():
                    raise Failed("stopped")
                child.mark()
                child.send((job.argument, root if job.files else None))
                answer = child.receive(self._work.seconds, self._work.memory)
                seconds = time.monotonic() - started
                unfit = isinstance(answer, UnfitWorker)
                reply = Reply(reason=str(answer), unfit=True) if unfit else Reply(answer, seconds=seconds)
            except (Failed, OSError) as e:
                log = "" if child is None else child.output()
                reason = "stopped" if stopped.is_set() else said(e)
                reply = Reply(reason=reason, log=log, seconds=time.monotonic() - started)
            if reply.reason or self._work.fresh:
                self.end()
            return reply

    def stop(self) -> None:
        """Ends the process; from another thread."""
        child = self._child
        if child is not None:
            child.end()

    def end(self) -> None:
        """Ends the process."""
        child, self._child = self._child, None
        if child is not None:
            child.__exit__()

    def _start(self) -> Child:
        work = self._work
        return Child("tensat_dl.jobs.host:serve", work.function, work.shared, environment=self._environment)

    @contextmanager
    def _alone(self, stopped: threading.Event) -> Iterator[None]:
        """Waits until nothing else measures here, on this machine or on this GPU; other programs' jobs count."""
        what = self._environment.get(HELD)
        if what is None or what == os.environ.get(HELD):
            yield
            return
        path = Path(tempfile.gettempdir()) / f"tensat-dl-{os.getuid()}-{what}.lock"
        with path.open("w") as lock:
            while not stopped.is_set():
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    stopped.wait(TICK)
                except OSError as e:
                    if e.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                        raise
                    break  # a file system without locks
            yield


def said(e: Exception) -> str:
    """How an attempt failed."""
    if isinstance(e, Died) and e.code < 0:
        return f"its process was ended by signal {-e.code}" + (f": {e.last}" if e.last else "")
    return str(e) or type(e).__name__


def serve(requests: Iterator[Any], function: str, shared: tuple[Any, ...]) -> Iterator[Any]:
    """The answers of the child process. An exception ends it, and its traceback is in the log."""
    try:
        work = pkgutil.resolve_name(function)(*shared)
        for argument, root in requests:
            yield work(argument) if root is None else work(argument, root)
    except UnfitWorker as e:
        yield e
