"""Graphs from files: .tsr programs and ONNX models."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.onnx import is_onnx

if TYPE_CHECKING:
    from tensat_dl.run.model import Model
    from tensat_dl.sizes.dim_sizes import DimSizes


def open_file(
    file: str,
    graph_name: str | None,
    rules: Sequence[str],
    dims: Mapping[str, DimSizes],
    inputs: str | None = None,
) -> Model:
    """Reads a graph, and a file of ``inputs`` for a model. Warnings are printed. Raises `TsrError`,
    `click.UsageError`."""
    from tensat_dl.run.reading import read_onnx, read_tsr

    if not is_onnx(file):
        if inputs is not None:
            raise click.UsageError("--input is for ONNX models: a .tsr file has no weights to run with")
        return read_tsr(file, graph_name, rules, dims=dims, warn=warn)
    if graph_name is not None:
        raise click.UsageError("--graph chooses among the graphs of a .tsr file; an ONNX model has one")
    return read_onnx(file, rules, dims, inputs)


def checked_dims(dims: Sequence[tuple[str, DimSizes]]) -> dict[str, DimSizes]:
    """The sizes by name. Raises `click.UsageError` if a dimension has two."""
    found: dict[str, DimSizes] = {}
    for name, said in dims:
        if found.setdefault(name, said) != said:
            message = f"--dim gives {name} two sizes, {found[name]} and {said}"
            raise click.UsageError(
                f"{message}: several are written {name}=32,128, in a range {name}=1..512=32,128"
            )
    return found


def warn(diagnostic: Diagnostic) -> None:
    """Prints a warning."""
    print(diagnostic.render(), file=sys.stderr)
