"""Checks the paths that a command writes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tensat_dl.files import same_file


def check_outputs(outputs: Sequence[str], inputs: Sequence[str], lost: str) -> None:
    """An output must not overwrite another one, nor an input, of which something would be lost.

    Raises `click.UsageError`.
    """
    for i, path in enumerate(outputs):
        if any(same_file(path, other) for other in outputs[:i]):
            what = "standard output" if path == "-" else path
            raise click.UsageError(f"two outputs cannot both go to {what}")
        if path != "-" and any(same_file(path, other) for other in inputs):
            raise click.UsageError(f"{path} is an input, {lost} would be lost: choose another name")


def check_weights(model: str, others: Sequence[str]) -> None:
    """The file that the weights of an ONNX model may get must be no other output and no input.

    Raises `click.UsageError`.
    """
    from tensat_dl.onnx.staging import data_of

    data = str(data_of(Path(model).resolve()))
    for path in others:
        if path != "-" and same_file(path, data):
            raise click.UsageError(f"the weights of {model} may go to {path}: choose another name")
