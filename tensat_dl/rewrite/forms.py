"""The forms of e-nodes: operators with the ranks of their operands and of what they compute.

A rule about tensors of any rank is compiled for every assignment of ranks under which it type-checks. Most of these
never meet an e-node: an e-graph has the nodes of the input program and those that rules build from them. So these are
followed first, by their forms alone, and rules are compiled for nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpDecl, OpTable


@dataclass(frozen=True, slots=True, order=True)
class Form:
    """``operands`` has a rank for each parameter of the operator that is given, variadic ones included: the operands
    of these have one rank."""

    op: str
    operands: tuple[int, ...]
    result: int

    @property
    def ranks(self) -> frozenset[int]:
        return frozenset((*self.operands, self.result))


def form_of(decl: OpDecl, operands: Sequence[int], result: int) -> Form:
    """The form of an application to operands of these ranks."""
    return Form(decl.name, tuple(operands[: len(decl.inputs)]), result)


@dataclass(frozen=True)
class Forms:
    """What there may be in an e-graph: tensors of these ``ranks``, lists in attributes of as many elements, and nodes
    of the ``known`` forms, by operator; of every form that type-checks if nothing is known."""

    ranks: tuple[int, ...]
    known: Mapping[str, frozenset[Form]] | None = None

    @staticmethod
    def of(ranks: Iterable[int], known: Iterable[Form]) -> Forms:
        """Those of the known forms that have no other ranks."""
        among = tuple(sorted(ranks))
        by_op: dict[str, set[Form]] = defaultdict(set)
        for form in known:
            if form.ranks.issubset(among):
                by_op[form.op].add(form)
        return Forms(among, {op: frozenset(found) for op, found in by_op.items()})

    def operands(self, op: str, given: Sequence[int | None]) -> Iterator[tuple[int, ...]]:
        """The ranks that an operator's operands may have, in order, where some of them are given."""
        if self.known is None:
            yield from product(*((rank,) if rank is not None else self.ranks for rank in given))
            return
        found = {f.operands for f in self.known.get(op, ()) if len(f.operands) == len(given)}
        for ranks in sorted(found):
            if all(g is None or g == rank for g, rank in zip(given, ranks, strict=True)):
                yield ranks

    def __contains__(self, form: Form) -> bool:
        return self.known is None or form in self.known.get(form.op, ())


def forms_in(graph: Graph, ops: OpTable) -> frozenset[Form]:
    """The forms of a graph's nodes; of each with several outputs by the first of them."""
    found = set()
    for n in graph.nodes:
        if n.op != "proj":
            operands = [len(graph.nodes[i].type.shape) for i in n.inputs]
            found.add(form_of(ops[n.op], operands, len(n.types[0].shape)))
    return frozenset(found)
