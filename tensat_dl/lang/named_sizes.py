"""Graphs with named sizes: ``graph g(n: 1..512 = 128) { .. }``.

The statements of a graph run once with the default sizes. Each integer that is computed from a name remembers how
(`Size`), so that shapes and attributes are known at every size. The evaluator that types rules then types every node
for unknown sizes. Statements also run at a few other sizes, which must give the same graph: what depends on a size in
any other way, such as a number of rounds, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from tensat_dl.core.diagnostics import Diagnostic, error
from tensat_dl.core.graph import AttrValue, Graph, Node, TensorType
from tensat_dl.core.words import did_you_mean
from tensat_dl.lang import ast
from tensat_dl.lang.elaborate import Warn, elaborate
from tensat_dl.lang.node_names import forbidden, node_names
from tensat_dl.lang.syntax_errors import SIZE_FORM
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError, Int, Sym
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.values import describe
from tensat_dl.sizes.named import (
    NamedSize,
    OpenAttr,
    OpenGraph,
    Sizes,
    TooManySizes,
    Untypable,
    failing_sizes,
    in_words,
    other_sizes,
    typed,
)

#: The largest size of a name.
LARGEST = 2**31 - 1


class Size(int):
    """An integer at the default sizes that remembers what it is at every size."""

    everywhere: Sym

    def __new__(cls, value: int, everywhere: Sym) -> Size:
        self = super().__new__(cls, value)
        self.everywhere = everywhere
        return self

    def __reduce__(self) -> tuple[type[Size], tuple[int, Sym]]:
        """What copies and pickles are made of."""
        return Size, (int(self), self.everywhere)

    def __add__(self, other: int) -> int:
        return _result(int.__add__, sym.add, self, other)

    def __radd__(self, other: int) -> int:
        return _result(int.__add__, sym.add, other, self)

    def __sub__(self, other: int) -> int:
        return _result(int.__sub__, sym.sub, self, other)

    def __rsub__(self, other: int) -> int:
        return _result(int.__sub__, sym.sub, other, self)

    def __mul__(self, other: int) -> int:
        return _result(int.__mul__, sym.mul, self, other)

    def __rmul__(self, other: int) -> int:
        return _result(int.__mul__, sym.mul, other, self)

    def __floordiv__(self, other: int) -> int:
        return _result(int.__floordiv__, sym.floordiv, self, other)

    def __rfloordiv__(self, other: int) -> int:
        return _result(int.__floordiv__, sym.floordiv, other, self)

    def __mod__(self, other: int) -> int:
        return _result(int.__mod__, sym.mod, self, other)

    def __rmod__(self, other: int) -> int:
        return _result(int.__mod__, sym.mod, other, self)

    def __neg__(self) -> int:
        return 0 - self


def everywhere(value: int) -> Int:
    """What an integer is at every size."""
    return value.everywhere if isinstance(value, Size) else value


def _result(at_default: Callable[[int, int], Any], at_all: Callable[[Int, Int], Int], a: int, b: int) -> int:
    value = at_default(a, b) if isinstance(a, int) and isinstance(b, int) else NotImplemented
    if value is NotImplemented:  # with a float
        return cast(int, value)
    found = at_all(everywhere(a), everywhere(b))
    return Size(value, found) if isinstance(found, Sym) else int(value)


def named_sizes(item: ast.GraphItem, ops: OpTable, asked: Sizes | None = None) -> tuple[NamedSize, ...]:
    """The sizes that a graph declares, with these in place of their defaults. Raises `TsrError`."""
    asked = asked or {}
    found: dict[str, NamedSize] = {}
    for size in item.sizes:
        if size.name in found:
            raise error(size.span, f"size `{size.name}` is declared twice")
        if size.name in forbidden(ops):
            raise error(
                size.span, f"`{size.name}` has a meaning of its own", "choose another name for the size"
            )
        low, high, default = (_integer(e) for e in (size.low, size.high, size.default))
        hint = SIZE_FORM
        if low < 1:
            raise error(size.low.span, f"a size is 1 or more, not {low}", hint)
        if high > LARGEST:
            raise error(size.high.span, f"a size is at most {LARGEST:,}", hint)
        if high < low:
            raise error(size.low.span.to(size.high.span), f"no size is in {low}..{high}", hint)
        if not low <= default <= high:
            raise error(size.default.span, f"the default {default} is outside of {low}..{high}", hint)
        given = asked.get(size.name, default)
        if not low <= given <= high:
            raise error(size.span, f"the size {size.name} = {given} is outside of {low}..{high}")
        found[size.name] = NamedSize(size.name, low, high, given)
    for name in asked:
        if name not in found:
            known = f"its sizes are {', '.join(found)}" if found else "all its sizes are known"
            raise error(
                item.name_span,
                f"graph `{item.name}` has no size `{name}`",
                did_you_mean(name, found) or known,
            )
    return tuple(found.values())


def _integer(expr: ast.Expr) -> int:
    try:
        value = evaluate(expr, {})
    except EvaluationError as e:
        raise error(e.span or expr.span, str(e)) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise error(expr.span, f"a size is an integer, not {describe(value)}")
    return value


def graph_of(
    item: ast.GraphItem, ops: OpTable, blocks: Mapping[str, ast.Block], warn: Warn | None = None
) -> Graph:
    """The graph of any item, at its default sizes if it has any. Raises `TsrError`."""
    return open_graph(item, ops, blocks, warn).graph if item.sizes else elaborate(item, ops, blocks, warn)


def open_graph(
    item: ast.GraphItem,
    ops: OpTable,
    blocks: Mapping[str, ast.Block],
    warn: Warn | None = None,
    asked: Sizes | None = None,
) -> OpenGraph:
    """The graph of an item with named sizes, typed for all of them. Raises `TsrError` for the first sizes at which it
    is ill-typed, or is another graph."""
    sizes = named_sizes(item, ops, asked)
    at_default = {s.name: Size(s.default, cast(Sym, s.symbol)) for s in sizes}
    made = elaborate(item, ops, blocks, warn, at_default)
    graph, attrs = _plain(made, ops, sizes)

    def built(there: Sizes) -> Graph:
        return elaborate(item, ops, blocks, None, there)

    try:
        shapes, conditions = typed(graph, attrs, ops)
        found = OpenGraph(sizes, graph, tuple(attrs), tuple(shapes))
        for condition in conditions:
            there = failing_sizes(condition, sizes)
            if there is not None:
                built(there)  # says what is wrong there
                raise error(item.name_span, f"the graph can't be typed for {in_words(there)}")
    except Untypable as e:
        message = f"`{graph.nodes[e.node].name}` can't be typed for all sizes: {e}"
        raise error(item.name_span, message) from None
    except TooManySizes:
        message = "there are too many sizes to check all of them"
        raise error(
            item.sizes[0].span.to(item.sizes[-1].span), message, "make their ranges smaller"
        ) from None
    for there in other_sizes(sizes):
        _check_same(item, graph, found.at(there), built(there), in_words(there))
    if warn is not None:
        used = found.mentioned
        for size in item.sizes:
            if size.name not in used:
                warn(Diagnostic(f"size `{size.name}` is never used", size.span, severity="warning"))
    return found


def _plain(graph: Graph, ops: OpTable, sizes: Iterable[NamedSize]) -> tuple[Graph, list[dict[str, OpenAttr]]]:
    """A graph with plain integers, and the attributes of each node that depend on sizes. Every node has a name."""
    attrs: list[dict[str, OpenAttr]] = []
    nodes: list[Node] = []
    names = node_names(graph, ops, [s.name for s in sizes])
    for node, name in zip(graph.nodes, names, strict=True):
        opened: dict[str, OpenAttr] = {}
        plain: list[tuple[str, AttrValue]] = []
        for key, value in node.attrs:
            found = _of(value)
            if found is not None:
                opened[key] = found
            plain.append((key, _without_sizes(value)))
        types = tuple(TensorType(t.dtype, tuple(int(d) for d in t.shape)) for t in node.types)
        nodes.append(Node(node.op, node.inputs, tuple(plain), types, node.name or name))
        attrs.append(opened)
    return Graph(graph.name, tuple(nodes), graph.outputs, graph.opaque), attrs


def _of(value: AttrValue) -> OpenAttr | None:
    """What an attribute is at every size, if it depends on sizes."""
    if isinstance(value, Size):
        return value.everywhere
    if isinstance(value, tuple) and any(isinstance(v, Size) for v in value):
        return tuple(everywhere(v) for v in value)
    return None


def _without_sizes(value: AttrValue) -> AttrValue:
    if isinstance(value, tuple):
        return tuple(int(v) for v in value)
    return int(value) if isinstance(value, Size) else value


def _check_same(item: ast.GraphItem, graph: Graph, expected: Graph, other: Graph, sizes: str) -> None:
    """Raises `TsrError` if the statements give another graph at other sizes than what the ``graph`` at the defaults
    is there."""
    if len(graph.nodes) != len(other.nodes):
        message = f"the graph has {len(graph.nodes)} nodes, but {len(other.nodes)} for {sizes}"
        hint = (
            "the number of nodes may not depend on a size; equal ones count once, so another default may help"
        )
        raise error(item.name_span, message, hint)
    for node, a, b in zip(graph.nodes, expected.nodes, other.nodes, strict=True):
        hint = "sizes may stand in shapes and in attributes that are integers, with + - * / %"
        if (a.op, a.inputs, a.types) != (b.op, b.inputs, b.types) or a.attrs != b.attrs:
            wrong = [name for (name, value), (_, v) in zip(a.attrs, b.attrs, strict=False) if value != v]
            if a.op == b.op == "fill" and wrong == ["value"]:
                here, there = (dict(n.attrs)["value"] for n in (a, b))
                message = (
                    f"the number {here} is {there} for {sizes}: numbers in tensors may not depend on a size"
                )
                raise error(item.name_span, message, hint)
            what = f"`{wrong[0]}` of `{node.name}`" if a.op == b.op and wrong else f"`{node.name}`"
            raise error(item.name_span, f"{what} depends on a size in another way: see {sizes}", hint)
    if expected.outputs != other.outputs:
        hint = "rounds of loops and choices may not depend on a size"
        raise error(item.name_span, f"the graph has other outputs for {sizes}", hint)
