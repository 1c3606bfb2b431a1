"""The files that commands write, and readers of their output that go away, as in ``| head -1``."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str], lost: str = "which") -> None:
    """Raises OSError for an output that can't be written, and `click.UsageError` for an output that would overwrite
    another output or an input, of which ``lost`` would be lost, and for standard output if that is closed. Outputs
    that are None are ignored."""
    from tensat_dl.files import check_writable, same_file

    paths = [path for path in outputs if path is not None]
    if "-" in paths and getattr(sys.stdout, "name", "") == os.devnull:  # as `main` opens it then
        raise click.UsageError("standard output is closed")
    check_writable(paths)
    for i, path in enumerate(paths):
        if any(same_file(path, other) for other in paths[:i]):
            what = "standard output" if path == "-" else path
            raise click.UsageError(f"two outputs cannot both go to {what}")
        if path != "-" and any(same_file(path, other) for other in inputs):
            raise click.UsageError(f"{path} is an input, {lost} would be lost: choose another name")


def check_ending(output: str) -> None:
    """Raises `click.UsageError` unless the ending of an answer's path names its format. "-", devices and pipes get
    .tsr."""
    path = Path(output)
    if output == "-" or path.suffix.lower() in (".tsr", ".onnx") or (path.exists() and not path.is_file()):
        return
    raise click.UsageError(f"{output} ends in neither .tsr nor .onnx, the formats that graphs are written in")


def check_weights(model: str, others: Sequence[str | None]) -> None:
    """Refuses the file for the weights of an ONNX model if it is another output or an input.

    Raises `click.UsageError`.
    """
    from tensat_dl.files import same_file
    from tensat_dl.onnx.model_files import data_of

    data = str(data_of(Path(model).resolve()))
    for path in others:
        if path not in (None, "-") and same_file(path, data):
            raise click.UsageError(f"the weights of {model} may go to {path}: choose another name")


def write_json(path: str | None, data: Any, indent: int = 2) -> None:
    """Writes plain data, if a path is given. Raises OSError."""
    from tensat_dl.files import write

    if path is not None:
        write(path, json.dumps(data, indent=indent, allow_nan=False) + "\n")


def all_is_done() -> None:
    """The exit code is settled, and all files are written. Signals to stop come too late from here on, and would say
    of an answer that is there that the command was interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class ReaderGone(Exception):
    """The reader of our output has gone. Click and rich would turn the OSError into exit code 1, which in `check`
    means a false rule."""


@contextmanager
def noticing() -> Iterator[None]:
    """Turns the errors that libraries raise for a closed output into `ReaderGone`."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except SystemExit as e:
        if isinstance(e.__context__, BrokenPipeError):
            raise ReaderGone from None
        raise


class Said:
    """The messages of a command before all its files are written. Files are written whether or not anybody reads."""

    def __init__(self) -> None:
        self._gone: ReaderGone | None = None

    @contextmanager
    def unless_gone(self) -> Iterator[None]:
        """Says something, if anybody is there."""
        try:
            with noticing():
                yield
        except ReaderGone as e:
            self._gone = e

    def end(self) -> None:
        """The files are written. Raises `ReaderGone` if nobody was there."""
        if self._gone is not None:
            raise self._gone
