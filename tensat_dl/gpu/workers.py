"""Talks to the processes that try kernels, and starts another one where one has died."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from tensat_dl.cost.signature_file import ProfileJob, to_data
from tensat_dl.gpu.environment import GpuError

#: The exit code of a process that has answered, and has to be started again for the rest: a kernel has broken what it
#: has on the GPU.
AGAIN = 3
#: Seconds that one implementation may take, with compiling it; and the start of a process.
PATIENCE, START = 60.0, 300.0

Role = Literal["check", "time"]
#: By implementation, what a worker says of it: ``failed`` with a reason, or what was measured.
Answers = dict[str, dict[str, Any]]


class WorkerError(GpuError):
    """Workers don't start. The message is their own."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended, and whether it asked to be started again."""

    how: str
    again: bool = False


class Worker:
    """A process for one role on one device. It is started when it is first asked."""

    def __init__(self, role: Role, device: str, tf32: bool) -> None:
        self.role, self.device, self.tf32 = role, device, tf32
        self._closed = False
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def ask(self, job: ProfileJob, names: Iterable[str] | None = None) -> Answers:
        """What is known of a job's implementations, those of the given names or all. The answer of the name "" is
        what is wrong with the job as a whole.

        Where the process dies, the implementation that it was at is to blame; not where it ends by itself, having
        answered for that one. The others are tried in another process.
        """
        answers: Answers = {}
        wanted = None if names is None else set(names)
        while True:
            self._send(
                {"job": to_data(job), "names": None if wanted is None else sorted(wanted), "tf32": self.tf32}
            )
            order: list[str] = []
            known = len(answers)
            ended = self._listen(answers, order)
            if ended is None or self._closed:
                return answers
            left = [n for n in order if n not in answers and (wanted is None or n in wanted)]
            if not ended.again or len(answers) == known:  # else each new process has an answer more
                # The name "": it died over the job itself.
                answers[left.pop(0) if left else ""] = {"failed": ended.how}
            if not left:
                return answers
            wanted = set(left)

    def _listen(self, answers: Answers, order: list[str]) -> Ended | None:
        """Takes answers until the job is done; says how the process ended, if it did."""
        while True:
            answer = self._receive(PATIENCE)
            if isinstance(answer, Ended):
                return answer
            if "names" in answer:
                order += answer["names"]
            elif "done" in answer:
                return None
            else:
                answers[answer.pop("name", "")] = answer

    def _send(self, job: dict[str, Any]) -> None:
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # how it ended is what it is asked next
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()

    def _receive(self, seconds: float) -> dict[str, Any] | Ended:
        """The next answer, or how the process ended."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self._stop()
            return Ended(f"no answer within {seconds:g} s")
        if line is None:
            code = self._stop()
            if code < 0:
                return Ended(f"the process was ended by signal {-code}")
            return Ended(f"the process ended with code {code}", code == AGAIN)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> None:
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "tensat_dl.gpu.worker", self.role, self.device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        lines: queue.Queue[str | None] = queue.Queue()
        self._lines = lines
        errors: list[str] = []

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        def drain() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                errors[:] = [line]

        for target in (read, drain):
            threading.Thread(target=target, daemon=True).start()
        if isinstance(self._receive(START), Ended):
            raise WorkerError(
                errors[-1].strip() if errors else "the process that tries kernels does not start"
            )

    def close(self) -> None:
        """Ends the process, and whatever is asked of it."""
        self._closed = True
        self._stop(0)

    def _stop(self, patience: float = 0.5) -> int:
        """Ends the process, which may be on its way out with a code of its own; the code, negative for a signal."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(subprocess.TimeoutExpired):
            return process.wait(patience)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
