"""Runs the command line: in this process where that is enough, else in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tensat_dl.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
COMMAND = [sys.executable, "-m", "tensat_dl"]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class _Stream(io.TextIOWrapper):
    """Text that is kept, and can be written as bytes as well."""

    def __init__(self, text: str = "") -> None:
        self.kept = io.BytesIO(text.encode())
        super().__init__(self.kept, encoding="utf-8", write_through=True)

    def text(self) -> str:
        return self.kept.getvalue().decode()


def invoke(*args: object, stdin: str = "", joined: bool = False) -> Done:
    """Calls the entry point, as the installed command does. An exception that it lets through fails the test.

    Both outputs are in ``out`` if they are to be ``joined``.
    """
    out, err = _Stream(), _Stream()
    with (
        patch("sys.argv", ["tensat-dl", *map(str, args)]),
        patch("sys.stdin", _Stream(stdin)),
        patch("signal.signal"),  # the handlers of the test runner stay
        patch("tensat_dl.cli.main.gc"),  # and so does its collection of garbage
        redirect_stdout(out),
        redirect_stderr(out if joined else err),
    ):
        try:
            main()
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 1
    return Done(code, out.text(), err.text())


class _Process(subprocess.Popen[str]):
    """A process that does not outlive a test that fails."""

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self.kill()
        super().__exit__(*error)


def start(*args: object, **options: object) -> subprocess.Popen[str]:
    """The command in a process of its own, with its outputs as pipes. ``command`` replaces the installed one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment |= options.pop("env", {})  # type: ignore[arg-type]
    command = options.pop("command", COMMAND)
    return _Process(  # type: ignore[call-overload, no-any-return]
        [*command, *map(str, args)], **{**pipes, "env": environment, "text": True, **options}
    )


def spawn(*args: object, stdin: str = "", **options: object) -> Done:
    """The command in a process of its own, to its end."""
    with start(*args, **options) as process:
        out, err = process.communicate(stdin)
    return Done(process.returncode, out or "", err or "")
