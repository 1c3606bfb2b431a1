"""Graphs and rules apart: the examples import a pack themselves, and benchmarks choose others."""

from __future__ import annotations

from functools import cache

from tensat_dl import resources
from tensat_dl.bench.common import path_of
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import load_program
from tensat_dl.ops.table import OpTable

#: "groups" is "standard"; "pairs" has the paper's multi-pattern rules in place of group rules, "both" has both.
PACKS = ("groups", "pairs", "both", "taso")


def graph_of(model: str) -> tuple[Graph, OpTable]:
    """The only graph of a model's file, and its operators. Raises `TsrError`."""
    from tensat_dl.cli.common import choose_graph

    program = load_program(str(path_of(model)))
    return choose_graph(program, None), program.ops


@cache
def rules_of(pack: str) -> tuple[RewriteRule, ...]:
    """The rules that a benchmark calls by this name, one of `PACKS`."""
    assert pack in PACKS, pack
    if pack == "taso":
        return _pack("taso")
    standard = _pack("standard")
    if pack == "groups":
        return standard
    pairs = tuple(r for r in _pack("pairs") if r.kind == "multi")
    if pack == "both":
        return (*standard, *pairs)
    groups = {r.name for r in _pack("groups")} - {r.name for r in _pack("pairs")}
    return (*(r for r in standard if r.name not in groups), *pairs)


def _pack(name: str) -> tuple[RewriteRule, ...]:
    return load_program(str(resources.rules() / f"{name}.tsr")).rules
