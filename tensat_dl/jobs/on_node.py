"""Attempts at jobs on a node of a cluster, by a `Host` for each process of Ray."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensat_dl.jobs.gpus import GPUS
from tensat_dl.jobs.host import Host
from tensat_dl.jobs.identity import differences, environment
from tensat_dl.jobs.job import Job, Reply
from tensat_dl.pickles import unpickled

#: Contents of files by their paths, as references to them in Ray's store.
Contents = Mapping[str, list[Any]]

#: The work for which this process of Ray has a host, and the host.
_host: dict[tuple[str, str], Host] = {}


def attempt(
    work: str, shared: list[Any], needed: Mapping[str, str], asked: bytes, contents: Contents
) -> tuple[str, Reply | None]:
    """The node's id, and its attempt at a job of a work; None if files are not there, nor their ``contents``.

    ``work`` names what the first of ``shared`` refers to. A node in another environment than is ``needed`` does no
    job.
    """
    import ray

    node = ray.get_runtime_context().get_node_id()
    if different := differences(needed, environment()):
        reason = f"{socket.gethostname()} does no job, since answers might differ: {different}"
        return node, Reply(reason=reason, unfit=True)
    job: Job = unpickled(asked)
    if not contents and not all(file.is_here() for file in job.files):
        return node, None
    name = work, os.environ.get(GPUS, "")
    if name not in _host:
        for other in list(_host):
            _host.pop(other).end()
        _host[name] = Host(unpickled(ray.get(shared[0])), _variables())
    if not contents:
        return node, _host[name].run(job)
    with tempfile.TemporaryDirectory(prefix="tensat-dl-") as root:
        for path, content in contents.items():
            target = Path(root + path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(ray.get(content[0]))
        return node, _host[name].run(job, root)


def _variables() -> dict[str, str]:
    """Those of processes that import this code first, wherever they are started."""
    code, path = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([code, path] if path else [code]), "PYTHONSAFEPATH": "1"}
