"""Answers to graphs with named sizes. Rules see the graph at the default sizes alone. So e-nodes are left out that do
not hold at other sizes, and the integers of an answer are written with names again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from tensat_dl.core.egraph import BoolArray, EGraph
from tensat_dl.core.graph import AttrValue, Graph, Node, TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import EvaluationError, Int, Sym
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.sizes.fixed import fixed_sizes
from tensat_dl.sizes.named import (
    OpenAttr,
    OpenGraph,
    TooManySizes,
    Untypable,
    at_sizes,
    failing_sizes,
    in_words,
    other_sizes,
    typed,
)
from tensat_dl.sizes.open_shapes import Elsewhere, OpenAttributes, Shape

#: The shapes of a node's outputs.
Shapes = tuple[Shape, ...]


class NotOpen(Exception):
    """A graph holds at the default sizes, but not at all sizes. The argument is the reason."""


class OtherSizes:
    """A graph with named sizes, seen from a few other sizes."""

    def __init__(self, opened: OpenGraph, ops: OpTable) -> None:
        self.opened = opened
        self.ops = ops
        self.sizes = other_sizes(opened.sizes)
        self._all = [opened.defaults, *self.sizes]
        self._known = _integers(opened)
        #: Attributes that depend on sizes by operator, name and value at the default.
        self._given: dict[tuple[str, str, AttrValue], list[OpenAttr]] = {}
        for node, attrs in zip(opened.graph.nodes, opened.attrs, strict=True):
            for name, a in attrs.items():
                self._given.setdefault((node.op, name, node.attr(name)), []).append(a)
        self._there = [self._elsewhere(k) for k in range(1, len(self._all))]

    def fixed(self, egraph: EGraph, graph: Graph) -> BoolArray:
        """[N] which e-nodes of what was explored from a graph, this one or another that computes the same, do not
        hold at other sizes."""
        return fixed_sizes(egraph, graph, self.ops, self._there, named=True)

    def named(self, graph: Graph, ops: OpTable) -> OpenGraph:
        """Another graph that computes the same at the default sizes, at all sizes. Raises `NotOpen`."""
        attrs = self._attributes(graph, ops)
        try:
            shapes, conditions = typed(graph, attrs, ops)
            for condition, i in conditions.items():
                if (there := failing_sizes(condition, self.opened.sizes)) is not None:
                    raise NotOpen(f"its operator {graph.nodes[i].op} is ill-typed for {in_words(there)}")
            for (name, i), (_, j) in zip(graph.outputs, self.opened.graph.outputs, strict=True):
                alike = sym.equal(shapes[i][0], self.opened.shapes[j][0])
                there = failing_sizes(alike, self.opened.sizes)
                if there is not None:
                    raise NotOpen(f"its output {name} has another shape for {in_words(there)}")
        except Untypable as e:
            raise NotOpen(
                f"its operator {graph.nodes[e.node].op} can't be typed for all sizes: {e}"
            ) from None
        except TooManySizes:
            raise NotOpen("there are too many sizes to check all of them") from None
        return OpenGraph(self.opened.sizes, graph, tuple(attrs), tuple(shapes))

    def _elsewhere(self, k: int) -> Elsewhere:
        sizes = self._all[k]
        given = self.opened
        known: dict[str, Shape] = {}
        for node, shapes in zip(given.graph.nodes, given.shapes, strict=True):
            if len(shapes) == 1:
                known[node.name] = at_sizes(shapes[0], sizes)
        values = {key: [at_sizes(a, sizes) for a in found] for key, found in self._given.items()}
        integers: dict[int, list[int]] = {}
        for ints in self._known:
            integers.setdefault(ints[0], []).append(ints[k])
        return Elsewhere(given.graph, self.ops, known, OpenAttributes(values, integers))

    # ---- the attributes of an answer -------------------------------------------------------------------------

    def _attributes(self, graph: Graph, ops: OpTable) -> list[Mapping[str, OpenAttr]]:
        """The attributes of each node that depend on sizes. Nodes of the input have the input's."""
        given = self.opened
        index: dict[tuple[object, ...], int] = {}
        for k, node in enumerate(given.graph.nodes):
            index[node.op, node.attrs, node.inputs] = k
        same: list[int | None] = []
        attrs: list[Mapping[str, OpenAttr]] = []
        there: list[list[Shapes]] = []  # of each node, at each of the other sizes
        for node in graph.nodes:
            i = index.get((node.op, node.attrs, tuple(same[j] for j in node.inputs)))
            same.append(i)
            if i is not None:
                attrs.append(given.attrs[i])
                there.append([at_sizes(given.shapes[i], sizes) for sizes in self.sizes])
            elif node.op == "proj":
                index_of = node.attr("index")
                assert isinstance(index_of, int)
                attrs.append({})
                there.append([(shapes[index_of],) for shapes in there[node.inputs[0]]])
            else:
                here = [graph.nodes[j].type for j in node.inputs]
                found = [
                    self._applied(k, node, here, [there[j][k][0] for j in node.inputs], ops)
                    for k in range(len(self.sizes))
                ]
                attrs.append(self._in_names(node, [values for values, _ in found]))
                there.append([shapes for _, shapes in found])
        return attrs

    def _applied(
        self, k: int, node: Node, here: Sequence[TensorType], there: Sequence[Shape], ops: OpTable
    ) -> tuple[Mapping[str, AttrValue], Shapes]:
        """The attributes and the shapes of a node at other sizes. Raises `NotOpen`."""
        if node.op in self.ops and len(node.types) == 1:
            expected = self._there[k].known.get(node.name)
            found = self._there[k].applied(node.op, node.attrs, here, node.type, there, expected)
            if found is not None:
                return found[0], (found[1],)
        else:  # a fused operator, or one with several outputs, neither of which rules make with other attributes
            operands = [TensorType(t.dtype, shape) for t, shape in zip(here, there, strict=True)]
            with suppress(IllTyped, EvaluationError):
                types = infer(ops, node.op, operands, dict(node.attrs)).concrete()
                return dict(node.attrs), tuple(t.shape for t in types)
        raise NotOpen(f"its operator {node.op} can't be applied for {in_words(self.sizes[k])}")

    def _in_names(self, node: Node, there: Sequence[Mapping[str, AttrValue]]) -> dict[str, OpenAttr]:
        found: dict[str, OpenAttr] = {}
        for key, value in node.attrs:
            others = [values.get(key, value) for values in there]
            given = self._given.get((node.op, key, value), ())
            same = [a for a in given if [at_sizes(a, sizes) for sizes in self.sizes] == others]
            if same:
                found[key] = same[0]
            elif all(other == value for other in others):
                continue
            elif isinstance(value, tuple):
                lists = [other for other in others if isinstance(other, tuple)]
                found[key] = tuple(self._expression(values) for values in zip(value, *lists, strict=True))
            else:
                integers = [other for other in (value, *others) if isinstance(other, int)]
                found[key] = self._expression(integers)
        return found

    def _expression(self, values: Sequence[int]) -> Int:
        """The integer that has these values at all sizes. Raises `NotOpen`."""
        wanted = tuple(values)
        if len(set(wanted)) == 1:
            return wanted[0]
        if wanted in self._known:
            return self._known[wanted]
        for candidate in _candidates(wanted, self._known):
            if tuple(at_sizes(candidate, sizes) for sizes in self._all) == wanted:
                return candidate
        raise NotOpen(
            f"nothing that the graph mentions is {wanted[0]} at these sizes and {wanted[1]} at others"
        )


def _integers(opened: OpenGraph) -> dict[tuple[int, ...], Int]:
    """The integers of a graph that depend on sizes, by their values at the default and at other sizes. Names come
    first."""
    everywhere: dict[Int, None] = {s.symbol: None for s in opened.sizes}
    for attrs, shapes in zip(opened.attrs, opened.shapes, strict=True):
        lists = [*shapes, *(a if isinstance(a, tuple) else (a,) for a in attrs.values())]
        everywhere |= {d: None for dims in lists for d in dims if isinstance(d, Sym)}
    sizes = [opened.defaults, *other_sizes(opened.sizes)]
    found: dict[tuple[int, ...], Int] = {}
    for d in everywhere:
        found.setdefault(tuple(at_sizes(d, s) for s in sizes), d)
    return found


def _candidates(wanted: tuple[int, ...], known: Mapping[tuple[int, ...], Int]) -> Iterator[Int]:
    """What integers may be that have these values: known ones with a factor, a divisor or a summand, and sums,
    differences and products of two with a factor."""
    target = wanted[0]
    for values, p in known.items():
        first = values[0]
        if first and target % first == 0:
            yield sym.mul(p, target // first)
        if target and first % target == 0:
            yield sym.floordiv(p, first // target)
        yield sym.add(p, target - first)
    for a, p in known.items():
        for b, q in known.items():
            yield sym.add(p, q)
            yield sym.sub(p, q)
            if a[0] * b[0] and target % (a[0] * b[0]) == 0:
                yield sym.mul(sym.mul(p, q), target // (a[0] * b[0]))
