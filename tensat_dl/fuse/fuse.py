"""Adds fused e-nodes to an e-graph.

Each is an operator of its own, declared as the composition that it is, so that it is typed, priced, verified, printed
and read back like any other. E-classes stay what they are: whoever holds on to them needs not know.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.source import Source
from tensat_dl.cost.device import Device
from tensat_dl.fuse.residuals import residuals
from tensat_dl.fuse.rowwise import row_terms
from tensat_dl.fuse.terms import Term, terms
from tensat_dl.lang.declare import Declared, declarations
from tensat_dl.ops.calls import show
from tensat_dl.ops.table import OpTable


@dataclass(frozen=True, slots=True)
class Fused:
    """An e-graph with fused e-nodes, the operators that there are then, and the declarations of the new ones."""

    egraph: EGraph
    ops: OpTable
    declared: Mapping[str, Declared]


def fuse(egraph: EGraph, ops: OpTable, device: Device) -> Fused:
    """The e-graph with an e-node for each promising chain of elementwise operators, with reductions and
    normalisations of rows or without, and each product with what is added to it."""
    added = terms(egraph, device)
    for more in (residuals(egraph, device), row_terms(egraph, device)):
        for c, own in more.items():
            added[c] = [*added.get(c, ()), *own]
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
    table = OpTable([*ops.values(), *(d.decl for d in declared.values())])
    return Fused(_with(egraph, added, names), table, declared)


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
    return (
        name,
        f"/// {term.operators} operators in one kernel.\nop {name}({parameters}) = {body}\n",
    )


def _with(egraph: EGraph, added: Mapping[int, list[Term]], names: Mapping[Term, str]) -> EGraph:
    """The e-graph with new e-nodes behind the others of their classes."""
    op: list[str] = []
    attrs = []
    origin = []
    children: list[int] = []
    arities: list[int] = []
    sizes: list[int] = []
    moved = np.zeros(egraph.num_nodes, dtype=np.int64)
    for c in range(egraph.num_classes):
        for n in egraph.nodes_of(c):
            moved[n] = len(op)
            op.append(egraph.op[n])
            attrs.append(egraph.attrs[n])
            origin.append(egraph.origin[n] if egraph.origin else "")
            arities.append(len(egraph.children_of(n)))
            children += egraph.children_of(n)
        new = sorted({names[t]: t for t in added.get(c, ())}.items())
        for name, term in new:
            op.append(name)
            attrs.append(())
            origin.append("")
            arities.append(len(term.leaves))
            children += term.leaves
        sizes.append(len(egraph.nodes_of(c)) + len(new))
    return replace(
        egraph,
        op=tuple(op),
        attrs=tuple(attrs),
        origin=tuple(origin) if egraph.origin else (),
        node_class=np.repeat(np.arange(egraph.num_classes, dtype=np.int64), sizes),
        class_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum(arities)]).astype(np.int64),
        children=np.array(children, dtype=np.int64),
        source=np.where(egraph.source >= 0, moved[egraph.source], -1),
        cost=np.full(len(op), np.nan),
    )
