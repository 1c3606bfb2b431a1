"""Graphs, rules and explorations for tests, from text as a user writes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tensat_dl import resources
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import ExploredIteration, Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.table import OpTable
from tensat_dl.paper.filtered import FilteredExplorer


@cache
def library() -> Program:
    """Every rule of every pack, and every operator."""
    packs = sorted(p.stem for p in resources.rules().glob("*.tsr"))
    return load_program(str(resources.rules() / "ops.tsr"), tuple(p for p in packs if p != "ops"))


@cache
def pack(name: str) -> tuple[RewriteRule, ...]:
    """The rules of a pack, compositions included."""
    return load_program(str(resources.rules() / "ops.tsr"), (name,)).rules


def rules_named(*names: str) -> tuple[RewriteRule, ...]:
    """Rules of the library."""
    return tuple(r for r in library().rules if r.name in names)


def program_of(text: str) -> Program:
    """The program that a text says, without the library's rules."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.tsr"
        path.write_text(text)
        return load_program(str(path))


def graph_in(program: Program) -> Graph:
    """The only graph of a program."""
    (item,) = program.graphs.values()
    return elaborate(item, program.ops, program.blocks)


def graph_of(body: str) -> Graph:
    """The graph with these statements, of the library's operators."""
    return graph_in(program_of(f"graph g {{\n{body}\n}}"))


def steps_of(
    graph: Graph, rules: Sequence[RewriteRule], limits: Limits | None = None, ops: OpTable | None = None
) -> list[ExploredIteration]:
    """All steps of an exploration in this process."""
    limits = limits or Limits()
    loop = Explorer if limits.cycles == "none" else FilteredExplorer
    return list(loop(graph, ops or library().ops, tuple(rules), limits).run())


def explored(
    graph: Graph, rules: Sequence[RewriteRule], limits: Limits | None = None, ops: OpTable | None = None
) -> EGraph:
    """The e-graph after the last step."""
    return steps_of(graph, rules, limits, ops)[-1].egraph
