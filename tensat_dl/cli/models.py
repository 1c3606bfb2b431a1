"""Graphs from files: .tsr programs and ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tensat_dl.cli.common import choose_graph, warn
from tensat_dl.cli.declarations import header
from tensat_dl.ir.graph import Graph
from tensat_dl.lang.diagnostics import Diagnostic, TsrError
from tensat_dl.lang.program import Program, load_program
from tensat_dl.report.tsr import graph_to_tsr

if TYPE_CHECKING:
    from tensat_dl.measure.cpu import Cpu
    from tensat_dl.onnx.importer import Imported

#: The rules for models that come without any.
PACK = "inference"


def is_onnx(path: str) -> bool:
    return path.lower().endswith(".onnx")


@dataclass(frozen=True)
class Opened:
    """A graph with what it may use, and the ONNX model that it is from, if it is."""

    program: Program
    graph: Graph
    model: Imported | None = None

    def text(self, graph: Graph, comments: Sequence[str] = ()) -> str:
        """A graph over the same operators as .tsr text."""
        declared = header(self.program, graph)
        return graph_to_tsr(graph, self.program.ops, declared, comments)

    def cpu(self, threads: int, seed: int) -> Cpu:
        """This machine, on which graphs run with the weights of the model, or with random ones."""
        from tensat_dl.cost import this_machine
        from tensat_dl.measure.cpu import Cpu
        from tensat_dl.onnx.exporter import export
        from tensat_dl.onnx.fresh import build, random_weights

        environment = this_machine("cpu", threads)
        assert environment is not None, "ONNX Runtime is installed"
        model = self.model
        if model is not None:
            return Cpu(
                environment, lambda g: model.model if g is model.graph else export(model, g), model.dims
            )
        weights = random_weights(self.graph, seed)  # the same for all graphs
        return Cpu(environment, lambda g: build(g, self.program.ops, weights))


def open_file(file: str, graph_name: str | None, rules: Sequence[str], dims: Mapping[str, int]) -> Opened:
    """Reads a graph. Warnings are printed. Raises `TsrError`, `click.UsageError`."""
    if not is_onnx(file):
        if dims:
            raise click.UsageError("--dim binds dimensions of ONNX models; in .tsr files all are known")
        program = load_program(file, tuple(rules))
        for w in program.warnings:
            warn(w)
        return Opened(program, choose_graph(program, graph_name))
    if graph_name is not None:
        raise click.UsageError("--graph chooses among the graphs of a .tsr file; an ONNX model has one")
    need_onnx(file)
    from tensat_dl.onnx.importer import import_model

    model = import_model(file, dims, rules)
    return Opened(model.program, model.graph, model)


def need_onnx(path: str) -> None:
    """Raises `TsrError` if what reading and writing ONNX takes is not installed."""
    try:
        import onnx
        import onnx_ir
        import onnxruntime
    except ImportError as e:
        hint = "pip install 'tensat-dl[onnx]'"
        message = f"ONNX models and --measure need the package {e.name or 'onnx'}, which is not installed"
        raise TsrError([Diagnostic(message, None, hint, path=path)]) from None
    del onnx, onnx_ir, onnxruntime


def checked_dims(dims: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The sizes by name. Raises `click.UsageError` if a dimension has two."""
    found: dict[str, int] = {}
    for name, size in dims:
        if found.setdefault(name, size) != size:
            raise click.UsageError(f"--dim gives {name} two sizes, {found[name]} and {size}")
    return found
