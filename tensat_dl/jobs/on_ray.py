"""Workers on a Ray cluster, https://docs.ray.io. Ray places jobs on nodes and notices what dies; each of its workers
does jobs as one of this machine does, in a `Host`.

Nodes need the libraries of tensat-dl; its code is sent. A node with other versions of them or of Python does no job.
"""

from __future__ import annotations

import hashlib
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tensat_dl.jobs import shipped
from tensat_dl.jobs.gpus import chosen
from tensat_dl.jobs.identity import environment
from tensat_dl.jobs.job import Job, NoWorkersError, Reply, Work
from tensat_dl.jobs.package import archive
from tensat_dl.pickles import pickled
from tensat_dl.processes import cores

#: The address for a cluster that is started here.
LOCAL = "local"
INSTALL = "pip install 'tensat-dl[ray]'"
#: Seconds in which a cluster answers.
CONNECT = 10.0
#: Seconds between two looks at the nodes, which take time where there are many.
GLANCE = 1.0
#: What a resource of a node is called, before the kind of its GPUs.
KIND = "accelerator_type:"


class RayError(NoWorkersError):
    """There is no cluster to work on. The message says why, and what helps."""


class RayWorkers:
    """Workers of one work on a cluster, at most ``most`` at a time. A context manager; it leaves the cluster in the
    end, and then all that it had started there is gone. Raises `RayError`."""

    def __init__(self, work: Work, address: str, most: int | None) -> None:
        self.work, self._address, self._most = work, address, most
        self._shipped: tuple[Any, ...] = ()
        self._attempt: Any = None
        self._kind: str | None = None  # of the GPUs, where there are several
        self._unfit: dict[str, str] = {}  # why a node does no job
        self._room, self._counted = 0, (-GLANCE, 0)  # when it was counted, and how many nodes were unfit then
        self._contents: dict[str, Any] = {}
        self._running: set[Any] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._ray: Any = None
        self._joined = False

    def __enter__(self) -> RayWorkers:
        try:
            import ray
        except ImportError:
            raise RayError(
                f"--ray needs the package ray, which is not installed\n  = hint: {INSTALL}"
            ) from None
        self._ray = ray
        if not ray.is_initialized():
            _join(ray, self._address, self._most)
            self._joined = True
        try:
            self._ship()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _ship(self) -> None:
        """Puts into Ray's store what all nodes need."""
        ray, work = self._ray, self.work
        digest, code = archive()
        shared = pickled(work)
        name = hashlib.sha256(shared).hexdigest()
        self._shipped = digest, [ray.put(code)], name, [ray.put(shared)], dict(environment())
        needs: dict[str, Any] = {"num_cpus": 1, "max_retries": 0}
        if work.place == "gpu":
            needs["num_gpus"] = 1
            self._kind = chosen(work.gpu, (_kind_of(node) for node in self._nodes("GPU")))
            if self._kind is not None:
                needs["accelerator_type"] = self._kind
        elif work.place == "machine":
            needs["scheduling_strategy"] = "SPREAD"
        ray.cloudpickle.register_pickle_by_value(shipped)
        self._attempt = ray.remote(**needs)(shipped.attempt)

    def __exit__(self, *_: object) -> None:
        self.stop()
        for reason in self._unfit.values():
            print(f"note: {reason}", file=sys.stderr)
        if self._joined:
            self._ray.shutdown()

    @property
    def room(self) -> int:
        then, unfit = self._counted
        if time.monotonic() >= then + GLANCE or unfit != len(self._unfit):
            self._counted = time.monotonic(), len(self._unfit)
            self._room = self._count()
        return self._room

    def _count(self) -> int:
        if self.work.place == "machine":
            there = len(list(self._nodes("CPU")))
        else:
            what = "GPU" if self.work.place == "gpu" else "CPU"
            there = int(
                sum(n["Resources"][what] for n in self._nodes(what) if self._kind in (None, _kind_of(n)))
            )
        return there if self._most is None else min(there, self._most)

    def _nodes(self, resource: str) -> Iterable[Mapping[str, Any]]:
        """The nodes that have some of a resource, and may have jobs."""
        return (
            node
            for node in self._ray.nodes()
            if node["Alive"] and node["NodeID"] not in self._unfit and node["Resources"].get(resource, 0) >= 1
        )

    def begin(self, job: Job, told: Callable[[Reply], None]) -> None:
        if self._unfit and not self.room:  # Ray would wait for another node
            told(Reply(reason=next(iter(self._unfit.values())), unfit=True))
        else:
            self._send(job, {}, told, self._stopped)

    def _send(
        self, job: Job, contents: Mapping[str, Any], told: Callable[[Reply], None], stopped: threading.Event
    ) -> None:
        begun = self._attempt
        if self._unfit:
            others = ",".join(list(self._unfit))
            begun = begun.options(label_selector={"ray.io/node-id": f"!in({others})"})
        reference = begun.remote(*self._shipped, pickled(job), {p: [c] for p, c in contents.items()})
        with self._lock:
            self._running.add(reference)

        def finished(future: Any) -> None:
            with self._lock:
                self._running.discard(reference)
            error = future.exception()
            node, reply = ("", Reply(reason=_said(error))) if error is not None else future.result()
            if reply is None:  # the files are not there
                threading.Thread(target=self._send_contents, args=(job, told, stopped), daemon=True).start()
                return
            if reply.unfit:
                self._unfit.setdefault(node, reply.reason)
            told(reply)

        reference.future().add_done_callback(finished)

    def _send_contents(self, job: Job, told: Callable[[Reply], None], stopped: threading.Event) -> None:
        """Sends a job again, with the contents of its files. Each is put into Ray's store once."""
        try:
            for file in job.files:
                if file.digest not in self._contents:
                    self._contents[file.digest] = self._ray.put(Path(file.path).read_bytes())
            if stopped.is_set():
                return told(Reply(reason="stopped"))
            self._send(job, {file.path: self._contents[file.digest] for file in job.files}, told, stopped)
        except Exception as e:
            told(Reply(reason=f"its files can't be sent: {e}"))

    def stop(self) -> None:
        self._stopped.set()
        self._stopped = threading.Event()
        with self._lock:
            running = list(self._running)
        for reference in running:
            self._ray.cancel(reference, force=True)


def _join(ray: Any, address: str, most: int | None) -> None:
    """Joins a cluster, or starts one."""
    kept = signal.getsignal(signal.SIGTERM)
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "configure_logging": True}
    try:
        if address == LOCAL:
            ray.init(address=LOCAL, num_cpus=most or cores(), include_dashboard=False, **quiet)
        else:
            if address != "auto":  # for which Ray looks itself; elsewhere it would try for many minutes
                host, _, port = address.removeprefix("ray://").rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
            ray.init(address=address, **quiet)
    except Exception as e:
        reason = (
            "it is not HOST:PORT"
            if isinstance(e, ValueError)
            else (str(e).strip() or type(e).__name__).splitlines()[0]
        )
        hint = "`ray start --head` starts a cluster and prints its address; `--ray local` starts one here"
        raise RayError(f"no Ray cluster at {address}: {reason}\n  = hint: {hint}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, kept)  # Ray has put its own there


def _kind_of(node: Mapping[str, Any]) -> str:
    """The kind of a node's GPUs; "" if Ray does not know it."""
    found = (name.removeprefix(KIND) for name in node["Resources"] if name.startswith(KIND))
    return next(found, "")


def _said(error: BaseException) -> str:
    """An error of Ray in a line: of a traceback, the last one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    if not lines:
        return f"{kind}: no message"
    return lines[-1] if kind.startswith("RayTaskError") else f"{kind}: {lines[0]}"
