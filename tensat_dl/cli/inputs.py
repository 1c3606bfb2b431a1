"""Graphs from files: .tsr programs and ONNX models."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean
from tensat_dl.core.graph import Graph
from tensat_dl.fuse.fuse import extended
from tensat_dl.lang.declare import Declared
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.print_graph import graph_to_tsr, header
from tensat_dl.lang.program import Program, load_program
from tensat_dl.onnx import need_onnx

if TYPE_CHECKING:
    from tensat_dl.onnx.importer import Imported


def is_onnx(path: str) -> bool:
    return path.lower().endswith(".onnx")


@dataclass(frozen=True)
class Opened:
    """A graph, the program that it is part of, and its ONNX model, if it comes from one."""

    program: Program
    graph: Graph
    model: Imported | None = None

    def with_operators(self, declared: Mapping[str, Declared]) -> Opened:
        """The same with further operators."""
        ops = extended(self.program.ops, declared)
        known = {**self.program.declared, **declared}
        return replace(self, program=replace(self.program, ops=ops, declared=known))

    def text(self, graph: Graph, comments: Sequence[str] = ()) -> str:
        """A graph over the same operators as .tsr text."""
        declared = header(self.program.declared, graph)
        return graph_to_tsr(graph, self.program.ops, declared, comments)

    @property
    def dims(self) -> Mapping[str, int]:
        """The sizes of the model's open dimensions."""
        return {} if self.model is None else self.model.dims

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it was read from."""
        read = tuple(map(str, self.program.files))
        if self.model is None:
            return read
        from tensat_dl.onnx.model_files import data_files

        return (*read, *data_files(self.model.model))


def open_file(
    file: str,
    graph_name: str | None,
    rules: Sequence[str],
    dims: Mapping[str, int],
    inputs: str | None = None,
) -> Opened:
    """Reads a graph, and a file of ``inputs`` for a model. Warnings are printed. Raises `TsrError`,
    `click.UsageError`."""
    if not is_onnx(file):
        if dims:
            raise click.UsageError(
                "--dim binds dimensions of ONNX models; all dimensions of a .tsr file are known"
            )
        if inputs is not None:
            raise click.UsageError("--input is for ONNX models: a .tsr file has no weights to run with")
        program = load_program(file, rules)
        return Opened(program, choose_graph(program, graph_name))
    if graph_name is not None:
        raise click.UsageError("--graph chooses among the graphs of a .tsr file; an ONNX model has one")
    need_onnx(file)
    from tensat_dl.onnx.importer import import_model

    model = import_model(file, dims, rules, inputs)
    return Opened(model.program, model.graph, model)


def checked_dims(dims: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The sizes by name. Raises `click.UsageError` if a dimension has two."""
    found: dict[str, int] = {}
    for name, size in dims:
        if found.setdefault(name, size) != size:
            raise click.UsageError(f"--dim gives {name} two sizes, {found[name]} and {size}")
    return found


def warn(diagnostic: Diagnostic) -> None:
    """Prints a warning."""
    print(diagnostic.render(), file=sys.stderr)


def choose_graph(program: Program, name: str | None) -> Graph:
    """The graph called ``name``, or the only one. Raises `TsrError`."""
    graphs = program.graphs
    if name is None and len(graphs) != 1:
        known = ", ".join(graphs)
        message = "the file has no graph" if not graphs else f"the file has {len(graphs)} graphs: {known}"
        hint = "write `graph name { ... }`" if not graphs else "choose one with --graph NAME"
        raise TsrError([Diagnostic(message, None, hint, path=program.path)])
    if name is not None and name not in graphs:
        hint = did_you_mean(name, graphs) or (
            f"the file has {', '.join(graphs)}" if graphs else "it has none"
        )
        raise TsrError([Diagnostic(f"no graph `{name}`", None, hint, path=program.path)])
    item = graphs[name] if name is not None else next(iter(graphs.values()))
    return elaborate(item, program.ops, program.blocks, warn)
