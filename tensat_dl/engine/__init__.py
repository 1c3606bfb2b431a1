"""Operators and rules as a Datalog program; graphs as facts; rows read back. Only this package knows egglog."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from tensat_dl.processes import ahead

#: What the worker process of an exploration runs; see `tensat_dl.processes`.
WORKER = "tensat_dl.engine.worker:explore"


def worker_ahead(search: str) -> AbstractContextManager[None]:
    """In the context, the worker of a search of this kind imports the engine while this process reads files."""
    return ahead(WORKER, "tensat_dl.cost") if search == "saturation" else nullcontext()
