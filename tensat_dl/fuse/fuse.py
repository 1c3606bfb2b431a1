"""Adds fused e-nodes to an e-graph, and takes fused operators of a graph apart again.

Each fused operator is declared as a composition, so that it is typed, priced, verified, printed and read back like
any other. E-classes keep their numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.cost.application import expand
from tensat_dl.cost.device import Device
from tensat_dl.fuse.terms import Term, terms
from tensat_dl.lang.declare import Declared, declarations
from tensat_dl.ops.calls import show
from tensat_dl.ops.table import OpTable


@dataclass(frozen=True, slots=True)
class Fused:
    """An e-graph with fused e-nodes, its operators, and the declarations of the new ones."""

    egraph: EGraph
    ops: OpTable
    declared: Mapping[str, Declared]


def fuse(egraph: EGraph, ops: OpTable, device: Device) -> Fused:
    """The e-graph with an e-node for each promising chain of elementwise operators, with reductions and
    normalisations of rows or without, and each product with what is added to it."""
    added = terms(egraph, device)
    texts: dict[str, str] = {}
    names: dict[Term, str] = {}
    for own in added.values():
        for term in own:
            names[term], text = _declaration(term)
            texts[names[term]] = text
    if not texts:
        return Fused(egraph, ops, {})
    source = Source("fused operators", "\n".join(texts[name] for name in sorted(texts)) + "\n")
    declared = declarations(source)
    return Fused(_with(egraph, added, names), extended(ops, declared), declared)


def _declaration(term: Term) -> tuple[str, str]:
    """The name and the text of the operator that computes a term. Equal terms of other e-classes are the same one."""
    number = {c: f"x{i}" for i, c in enumerate(term.leaves)}

    def text(x: Term | int) -> str:
        if isinstance(x, int):
            return number[x]
        attrs = ", ".join(f"{k} = {show(v)}" for k, v in x.attrs)
        return f"{x.op}({', '.join(map(text, x.operands))}{'; ' * bool(attrs)}{attrs})"

    body = text(term)
    name = f"fused_{term.op}_{zlib.crc32(body.encode()):08x}"
    parameters = ", ".join(f"{x}: tensor" for x in number.values())
    return name, f"/// {term.operators} operators in one kernel.\nop {name}({parameters}) = {body}\n"


def _with(egraph: EGraph, added: Mapping[int, list[Term]], names: Mapping[Term, str]) -> EGraph:
    """The e-graph with new e-nodes behind the others of their classes."""
    new = [(c, *item) for c, own in added.items() for item in sorted({names[t]: t for t in own}.items())]
    nodes = [*egraph.keys(), *((name, (), term.leaves) for _, name, term in new)]
    origin = [*egraph.origin, *("" for _ in new)]
    classes = np.array([*egraph.node_class.tolist(), *(c for c, _, _ in new)])
    order = np.argsort(classes, kind="stable")
    return EGraph.of(
        [nodes[n] for n in order.tolist()],
        classes[order],
        types=egraph.types,
        weights_only=egraph.weights_only,
        roots=egraph.roots,
        source=np.where(egraph.source >= 0, np.argsort(order)[egraph.source], -1),
        origin=tuple(origin[n] for n in order.tolist()) if egraph.origin else (),
    )


# ---- taken apart -----------------------------------------------------------------------------------------


def extended(ops: OpTable, declared: Mapping[str, Declared]) -> OpTable:
    """The operators, with those that fusion declared."""
    return OpTable([*ops.values(), *(d.decl for d in declared.values())]) if declared else ops


def unfused(graph: Graph, ops: OpTable, fused: Container[str]) -> Graph:
    """The graph with each of the ``fused`` operators replaced by its definition. Rules know no fused operators, so
    explanations are about this graph."""
    if not any(node.op in fused for node in graph.nodes):
        return graph
    builder = GraphBuilder(graph.name, graph.opaque)
    new: list[int] = []
    for node in graph.nodes:
        operands = [new[j] for j in node.inputs]
        if node.op in fused:
            new.append(expand(builder, ops, node.op, operands, dict(node.attrs), fused))
        else:
            new.append(builder.copy(node, operands))
    return builder.finish([(name, new[i]) for name, i in graph.outputs])
