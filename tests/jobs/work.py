"""What workers do in tests."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensat_dl.files import write_bytes
from tensat_dl.jobs.gpus import GPUS
from tensat_dl.jobs.job import Job, UnfitWorker
from tensat_dl.verify.rules.verdict import Verdict


def jobs(*arguments: Any) -> list[Job]:
    return [Job(repr(a), a) for a in arguments]


def adder(by: int) -> Callable[[int], int]:
    return lambda x: x + by


def examiner_of_some(*_: object) -> Callable[[Any], Verdict]:
    """Tests rules, but is ended by one of them."""

    def examined(rule: Any) -> Verdict:
        if rule.name == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return Verdict(rule.name, "tested")

    return examined


def nothing() -> Callable[[Any], None]:
    return lambda _: None


def process_of(_: str) -> Callable[[Any], tuple[int, str]]:
    """The process, and the GPU that it was given."""
    return lambda _: (os.getpid(), os.environ.get(GPUS, ""))


def sleeper(folder: str) -> Callable[[float], int]:
    """Sleeps, and says so in a folder by its process."""

    def sleep(seconds: float) -> int:
        Path(folder, str(os.getpid())).touch()
        time.sleep(seconds)
        return os.getpid()

    return sleep


def troubled(folder: str) -> Callable[[tuple[str, int]], str]:
    """Fails in the way that a job says, in its first attempts."""

    def work(asked: tuple[str, int]) -> str:
        how, attempts = asked
        with Path(folder, how).open("a") as f:
            f.write(".")
        if Path(folder, how).stat().st_size > attempts:
            return how
        print(f"about to {how}", file=sys.stderr, flush=True)
        match how:
            case "be killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise ValueError("no")
            case "fill memory":
                held = [bytearray(1 << 20) for _ in range(400)]
                time.sleep(60)
                return str(len(held))
            case "take long":
                time.sleep(60)
            case "be stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "fill the disk":
                import resource

                resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
                Path(folder, "large").write_bytes(bytes(1 << 20))
        return how

    return work


def choosy(folder: str, count: int) -> Callable[[int], int]:
    """A worker that is unfit, unless so many were started before it."""
    number = 0
    while True:
        try:
            (Path(folder) / f"{number}").touch(exist_ok=False)
            break
        except FileExistsError:
            number += 1

    def work(_: int) -> int:
        if number < count:
            raise UnfitWorker("not here")
        return number

    return work


def writer(folder: str) -> Callable[[int], int]:
    """Writes a file of so many bytes."""

    def work(size: int) -> int:
        print(f"about to write {size}", file=sys.stderr, flush=True)
        write_bytes(Path(folder, str(size)), bytes(size))
        return size

    return work


def reader(_: str) -> Callable[[str, str], tuple[str, bool]]:
    """The contents of a file below a root, and whether it had to be sent."""
    return lambda path, root: (Path(root + path).read_text(), bool(root))


def alone(folder: str) -> Callable[[int], None]:
    """Fails if another one is at work."""

    def work(_: int) -> None:
        path = Path(folder, "busy")
        path.touch(exist_ok=False)
        time.sleep(0.2)
        path.unlink()

    return work
