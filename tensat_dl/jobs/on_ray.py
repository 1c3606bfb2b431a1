"""Workers on a Ray cluster, https://docs.ray.io. Ray places jobs on nodes and notices what dies; each of its workers
does jobs as one of this machine does, in a `Host`.

Nodes have tensat-dl installed. One whose code or libraries differ does no job.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensat_dl.jobs.host import GPUS, Host
from tensat_dl.jobs.identity import identity
from tensat_dl.jobs.job import Job, Reply, Work

#: The address for a cluster that is started here.
LOCAL = "local"
INSTALL = "pip install 'tensat-dl[ray]'"
#: Seconds in which a cluster answers.
CONNECT = 10.0
#: Contents of files, or references to them in Ray's store.
Contents = Mapping[str, Any]


class RayError(Exception):
    """There is no cluster to work on. The message says why, and what helps."""


class RayWorkers:
    """Workers of one work on a cluster, at most ``most`` at a time. A context manager; it leaves the cluster in the
    end, and then all that it had started there is gone. Raises `RayError`."""

    def __init__(self, work: Work, address: str, most: int | None) -> None:
        self._work, self._address, self._most = work, address, most
        self._shipped: tuple[str, list[Any]] = hashlib.sha256(pickle.dumps(work)).hexdigest(), []
        self._attempt: Any = None
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
        self._shipped = self._shipped[0], [ray.put(self._work)]
        needs: dict[str, Any] = {"num_cpus": 1, "max_retries": 0}
        if self._work.place == "gpu":
            needs["num_gpus"] = 1
        elif self._work.place == "machine":
            needs["scheduling_strategy"] = "SPREAD"
        self._attempt = ray.remote(**needs)(attempt)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._joined:
            self._ray.shutdown()

    @property
    def room(self) -> int:
        if self._work.place == "machine":
            there = sum(bool(node["Alive"]) for node in self._ray.nodes())
        else:
            there = int(self._ray.cluster_resources().get("GPU" if self._work.place == "gpu" else "CPU", 0))
        return there if self._most is None else min(there, self._most)

    def begin(self, job: Job, told: Callable[[Reply], None]) -> None:
        self._send(job, {}, told, self._stopped)

    def _send(
        self, job: Job, contents: Contents, told: Callable[[Reply], None], stopped: threading.Event
    ) -> None:
        key, where = self._shipped
        reference = self._attempt.remote(key, where, identity(), job, {p: [c] for p, c in contents.items()})
        with self._lock:
            self._running.add(reference)

        def finished(future: Any) -> None:
            with self._lock:
                self._running.discard(reference)
            error = future.exception()
            if error is not None:
                told(Reply(reason=_said(error)))
            elif (reply := future.result()) is not None:
                told(reply)
            else:  # the files are not there
                threading.Thread(target=self._send_contents, args=(job, told, stopped), daemon=True).start()

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
            cores = most or len(os.sched_getaffinity(0))
            ray.init(address=LOCAL, num_cpus=cores, include_dashboard=False, **quiet)
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


def _said(error: BaseException) -> str:
    """An error of Ray in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


# ---- on the nodes --------------------------------------------------------------------------------------------

#: The work for which this process of Ray has a host, and the host.
_host: dict[tuple[str, str], Host] = {}


def attempt(key: str, where: list[Any], code: str, job: Job, contents: Contents) -> Reply | None:
    """An attempt at a job of the work ``where`` says; None if files are not there, nor their ``contents``."""
    import ray

    if code != identity():
        return Reply(
            reason=f"{socket.gethostname()} has another tensat-dl, or other libraries: {identity()}, not {code}"
        )
    if not contents and not all(file.is_here() for file in job.files):
        return None
    name = key, os.environ.get(GPUS, "")
    if name not in _host:
        for other in list(_host):
            _host.pop(other).end()
        _host[name] = Host(ray.get(where[0]))
    if not contents:
        return _host[name].run(job)
    with tempfile.TemporaryDirectory(prefix="tensat-dl-") as root:
        for path, content in contents.items():
            target = Path(root + path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(ray.get(content[0]))
        return _host[name].run(job, root)
