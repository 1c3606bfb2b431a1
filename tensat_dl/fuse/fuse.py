"""Adds fused e-nodes to an e-graph, and takes fused operators of a graph apart again.

Each fused operator is declared as a composition, so that it is typed, priced, verified, printed and read back like
any other. E-classes keep their numbers.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.egraph import EGraph, NodeKey
from tensat_dl.core.graph import Graph, GraphBuilder, attr_text
from tensat_dl.cost.application import expand
from tensat_dl.cost.device import Device
from tensat_dl.fuse.terms import Term, terms
from tensat_dl.lang.declare import Declared, declarations
from tensat_dl.ops.table import SIGNS, OpTable


@dataclass(frozen=True, slots=True)
class Fused:
    """An e-graph with fused e-nodes, its operators, and the declarations of the new ones."""

    egraph: EGraph
    ops: OpTable
    declared: Mapping[str, Declared]


def fuse(egraph: EGraph, ops: OpTable, device: Device, known: Iterable[tuple[int, NodeKey]] = ()) -> Fused:
    """The e-graph with an e-node for each promising chain of elementwise operators, with reductions and
    normalisations of rows or without, and each product with what is added to it; and with the ``known`` fused
    e-nodes, each with its e-class, whose operators ``ops`` has."""
    added = terms(egraph, device)
    texts: dict[str, str] = {}
    names: dict[Term, str] = {}
    for own in added.values():
        for term in own:
            names[term], text = _declaration(term, ops)
            texts[names[term]] = text
    new: dict[tuple[int, NodeKey], None] = dict.fromkeys(known)
    new |= {(c, (names[t], (), t.leaves)): None for c, own in added.items() for t in own}
    if not new:
        return Fused(egraph, ops, {})
    source = Source("fused operators", "\n".join(texts[name] for name in sorted(texts)) + "\n")
    declared = declarations(source) if texts else {}
    return Fused(_with(egraph, sorted(new)), extended(ops, declared), declared)


def _declaration(term: Term, ops: OpTable) -> tuple[str, str]:
    """The name and the text of the operator that computes a term. Equal terms of other e-classes are the same one."""
    number = {c: f"x{i}" for i, c in enumerate(term.leaves)}

    def text(x: Term | int) -> str:
        if isinstance(x, int):
            return number[x]
        operands = list(map(text, x.operands))
        usual = {a.name: a.default for a in ops[x.op].attrs}
        attrs = ", ".join(f"{k} = {attr_text(v)}" for k, v in x.attrs if v != usual[k])
        if x.op in SIGNS and not attrs and len(operands) == 2:
            return f"({operands[0]} {SIGNS[x.op]} {operands[1]})"
        return f"{x.op}({', '.join(operands)}{'; ' * bool(attrs)}{attrs})"

    body = text(term)
    name = f"fused_{term.op}_{zlib.crc32(body.encode()):08x}"
    parameters = ", ".join(f"{x}: tensor" for x in number.values())
    return name, f"/// {len(term.computed)} operators in one kernel.\nop {name}({parameters}) = {body}\n"


def _with(egraph: EGraph, new: Sequence[tuple[int, NodeKey]]) -> EGraph:
    """The e-graph with new e-nodes behind the others of their classes."""
    nodes = [*egraph.keys(), *(key for _, key in new)]
    origin = [*egraph.origin, *("" for _ in new)]
    classes = np.array([*egraph.node_class.tolist(), *(c for c, _ in new)])
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


#: The names that `fuse` gives to operators.
_NAME = re.compile(r"fused_\w+_[0-9a-f]{8}")


def fused_operators(graph: Graph, ops: OpTable) -> frozenset[str]:
    """The operators of a graph that `fuse` declared, in this run or in an earlier one."""
    return frozenset(n.op for n in graph.nodes if _NAME.fullmatch(n.op) and ops[n.op].composition is not None)


def extended(ops: OpTable, declared: Mapping[str, Declared]) -> OpTable:
    """The operators, with those that fusion declared."""
    return OpTable([*ops.values(), *(d.decl for d in declared.values())]) if declared else ops


def unfused(graph: Graph, ops: OpTable, fused: Container[str]) -> Graph:
    """The graph with the operators that each of the ``fused`` ones, which are compositions, is made of; itself if it
    has none. Rules know nothing of fused operators, so this is the graph that they explain."""
    return taken_apart(graph, ops, fused)[0]


def taken_apart(graph: Graph, ops: OpTable, fused: Container[str]) -> tuple[Graph, Sequence[int]]:
    """The graph `unfused`, and its node for each node of the graph."""
    if not any(node.op in fused for node in graph.nodes):
        return graph, range(len(graph.nodes))
    builder = GraphBuilder(graph.name, graph.opaque)
    new: list[int] = []
    for node in graph.nodes:
        operands = [new[j] for j in node.inputs]
        if node.op in fused:
            new.append(expand(builder, ops, node.op, operands, dict(node.attrs), fused))
        else:
            new.append(builder.copy(node, operands))
    outputs = tuple((name, new[i]) for name, i in graph.outputs)
    return Graph(builder.name, tuple(builder.nodes), outputs, builder.opaque), new
