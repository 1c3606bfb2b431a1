"""Helpers of several commands: reading a program, choosing a graph, printing warnings."""

from __future__ import annotations

import sys

from tensat_dl.core.diagnostics import Diagnostic, TsrError, did_you_mean
from tensat_dl.core.graph import Graph
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.program import Program


def warn(diagnostic: Diagnostic) -> None:
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
