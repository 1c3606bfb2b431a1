"""Where jobs run, and the loop that has them done."""

from __future__ import annotations

import queue
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from tensat_dl.jobs.job import Ended, Job, Reply, Work, Workers
from tensat_dl.jobs.local import LocalWorkers, environments

#: Seconds to wait for the end of a job that is stopped.
PATIENCE = 10.0
#: Told how many jobs are done, running, and failed, of how many.
Count = Callable[[int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class Where:
    """Where jobs run: at most ``jobs`` at a time on this machine, by default one for each core; or on the Ray cluster
    at an address, "local" for one that is started here and ends with the work."""

    jobs: int | None = None
    ray: str | None = None

    def workers(self, work: Work) -> AbstractContextManager[Workers]:
        """Workers, who are gone when the context ends. Raises `NoWorkersError`."""
        if self.ray is not None:
            from tensat_dl.jobs.on_ray import RayWorkers

            return RayWorkers(work, self.ray, self.jobs)
        return LocalWorkers(work, environments(work, self.jobs))


def done(
    workers: Workers,
    jobs: Sequence[Job],
    progress: Count = lambda done, running, failed, total: None,
) -> Generator[tuple[int, Ended], None, None]:
    """What comes of jobs, by position, as it comes. A job that fails is tried again, after the others that wait, as
    often as the work says. If all workers are unfit, all jobs that wait have failed.

    Jobs that are running are ended when the iterator is closed, or by Ctrl-C.
    """
    same: dict[str, list[int]] = defaultdict(list)
    for i, job in enumerate(jobs):
        same[job.name].append(i)
    waiting = deque((indices[0], 1) for indices in same.values())
    logs: dict[int, str] = defaultdict(str)
    replies: queue.SimpleQueue[tuple[int, int, Reply]] = queue.SimpleQueue()
    running = ended = failed = 0
    try:
        while waiting or running:
            while waiting and running < max(1, workers.room):
                i, tries = waiting.popleft()
                workers.begin(jobs[i], lambda reply, i=i, tries=tries: replies.put((i, tries, reply)))  # type: ignore[misc]
                running += 1
            progress(ended, running, failed, len(jobs))
            i, tries, reply = replies.get()
            running -= 1
            if reply.unfit and workers.room:
                waiting.appendleft((i, tries))
                continue
            if reply.reason:
                logs[i] += f"attempt {tries}: {reply.reason}\n{reply.log}"
                if tries <= workers.work.retries and not reply.unfit:
                    waiting.append((i, tries + 1))
                    continue
            over = [(i, tries)]
            if reply.unfit:
                over += waiting
                waiting.clear()
                logs.update((k, reply.reason + "\n") for k, _ in over if k not in logs)
            for i, tries in over:
                for k in same[jobs[i].name]:
                    ended += 1
                    failed += bool(reply.reason)
                    yield k, Ended(jobs[k], reply, tries, logs[i])
        progress(ended, 0, failed, len(jobs))
    finally:
        if running:
            workers.stop()
            with suppress(queue.Empty):  # a cluster may be gone
                for _ in range(running):
                    replies.get(timeout=PATIENCE)
