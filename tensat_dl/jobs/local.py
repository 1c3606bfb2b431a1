"""Workers on this machine."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tensat_dl.jobs.gpus import GPUS, cards, chosen
from tensat_dl.jobs.host import Host, said
from tensat_dl.jobs.job import Job, Reply, Work
from tensat_dl.processes import cores

#: A job that has begun, whom to tell, and whether it is to stop.
_Begun = tuple[Job, Callable[[Reply], None], threading.Event]


class LocalWorkers:
    """Processes of this machine, each with variables of its environment. A context manager."""

    def __init__(self, work: Work, environments: Sequence[Mapping[str, str]]) -> None:
        self.work = work
        self._unfit: list[Reply] = []  # of each host that can do no job
        self._hosts = [Host(work, environment) for environment in environments]
        self._free: queue.LifoQueue[Host] = queue.LifoQueue()  # one that has started comes first
        for host in reversed(self._hosts):
            self._free.put(host)
        self._waiting: queue.SimpleQueue[_Begun | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        # A child ends with the thread that started it, so threads live as long as the workers.
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in self._hosts]

    def __enter__(self) -> LocalWorkers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        for host in self._hosts:
            host.end()

    def begin(self, job: Job, told: Callable[[Reply], None]) -> None:
        if self.room:
            self._waiting.put((job, told, self._stopped))
        else:
            told(self._unfit[-1])

    @property
    def room(self) -> int:
        return len(self._hosts) - len(self._unfit)

    def _serve(self) -> None:
        while (begun := self._waiting.get()) is not None:
            job, told, stopped = begun
            host = self._free.get()
            try:
                reply = host.run(job, stopped=stopped)
            except Exception as e:  # whoever waits for the reply would wait for ever
                with suppress(Exception):
                    host.end()
                reply = Reply(reason=said(e), log=traceback.format_exc())
            if reply.unfit:
                self._unfit.append(reply)
            else:
                self._free.put(host)
            told(reply)

    def stop(self) -> None:
        self._stopped.set()
        self._stopped = threading.Event()
        for host in self._hosts:
            host.stop()


def environments(work: Work, jobs: int | None) -> list[dict[str, str]]:
    """Those of the workers of this machine, at most so many: one for each core, one for each GPU of one kind, or one
    alone. Raises `NoWorkersError`."""
    if work.place == "machine":
        return [{}]
    if work.place == "gpu":
        kind = chosen(work.gpu, (card.name for card in cards()))
        return [{GPUS: card.number} for card in cards() if kind in (None, card.name)][:jobs]
    return [{}] * (jobs or cores())
