"""Where a command may write."""

from __future__ import annotations

from collections.abc import Sequence

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
