"""What begins before a model is read. It imports next to nothing: a command calls it first."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from tensat_dl.engine import WORKER
from tensat_dl.processes import ahead


def worker_ahead(search: str) -> AbstractContextManager[None]:
    """In the context, the worker of a search of this kind imports the engine while this process reads files."""
    return ahead(WORKER, "tensat_dl.cost") if search == "saturation" else nullcontext()
