"""What jobs are, what comes of them, and what workers are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

#: How many times a job that fails is tried again.
RETRIES = 2
#: What a job needs for itself: a core, the machine, as whatever measures times, or a GPU.
Place = Literal["core", "machine", "gpu"]


@dataclass(frozen=True, slots=True)
class Work:
    """What jobs have in common. It is sent to each worker once.

    ``function`` is "module:name". A worker calls it with ``shared``, and then calls what it returns with each job's
    argument. If a job is to begin ``fresh``, it gets a process of its own. A job that takes more ``seconds``, or
    whose processes take more ``memory`` in bytes, is ended; then it has failed.
    """

    function: str
    shared: tuple[Any, ...] = ()
    place: Place = "core"
    fresh: bool = False
    seconds: float | None = None
    memory: int | None = None
    retries: int = RETRIES
    gpu: str = ""  #: the kind of GPU that is meant where there are several, as in "h100"


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file that a job reads: its absolute path, and a digest of its contents."""

    path: str
    digest: str

    @staticmethod
    def at(path: Path) -> FileOf:
        """Raises OSError."""
        absolute = os.path.abspath(path)
        with open(absolute, "rb") as f:
            return FileOf(absolute, hashlib.file_digest(f, "sha256").hexdigest())

    def is_here(self) -> bool:
        """Whether there is such a file on this machine."""
        try:
            return FileOf.at(Path(self.path)) == self
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Jobs with the same ``name``, which says all that their answer depends on, are done once.

    A worker that lacks some of the ``files`` gets them all below another root folder. The function of a job with
    files is called with its argument and this root, "" if the files are where their paths say.
    """

    name: str
    argument: Any
    title: str = ""  #: what messages call it
    files: tuple[FileOf, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes of an attempt at a job: the answer; or the ``reason`` why there is none, and what the process had
    printed."""

    answer: Any = None
    reason: str = ""
    log: str = ""
    seconds: float = 0.0
    unfit: bool = False  #: the worker can do no job of this work, and will get none


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a job at last, after so many attempts. ``log`` is that of all attempts that failed."""

    job: Job
    reply: Reply
    tries: int
    log: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.reply.reason)


class UnfitWorker(Exception):
    """Raised by a job: this worker can do no job of the work. The message says why. Others do it, if they can."""


class NoWorkersError(Exception):
    """There is nothing that could do a work. The message says why, and what helps."""


class Workers(Protocol):
    """Processes that do jobs of one work."""

    @property
    def work(self) -> Work: ...

    @property
    def room(self) -> int:
        """How many jobs they can do at a time. That may change; it is 0 if all of them are unfit."""

    def begin(self, job: Job, told: Callable[[Reply], None]) -> None:
        """Starts an attempt at a job. ``told`` gets its reply, in any thread."""

    def stop(self) -> None:
        """Ends the jobs that are running. Their replies say that they failed."""
