"""Reads the command line of a run that made a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from tensat_dl.cli.options import chosen
from tensat_dl.run.options import Options, device_of
from tensat_dl.sizes.dim_sizes import DimSizes


@dataclass(frozen=True, slots=True)
class Recorded:
    """The arguments of a run that decide its answer."""

    file: str
    graph_name: str | None
    rules: tuple[str, ...]
    dims: Mapping[str, DimSizes]
    options: Options


def recorded(command: click.Command, arguments: Sequence[str], output: str) -> Recorded:
    """The arguments of a recorded `run`. Raises `click.UsageError` for any other command line."""
    from tensat_dl.onnx import PACK, is_onnx
    from tensat_dl.why.origin import is_path, resolved

    given = command.make_context("run", list(arguments), resilient_parsing=False).params
    model = is_onnx(given["file"])
    rules = given["rules"] or ((PACK,) if model else ())
    try:
        options = chosen({**given, "device": device_of(given["device"], model)})
    except ValueError as e:
        raise click.UsageError(str(e)) from None
    return Recorded(
        resolved(given["file"], output),
        given["graph_name"],
        tuple(resolved(r, output) if is_path(r) else r for r in rules),
        dict(given["dims"]),
        options,
    )
