"""Graphs whose dimensions are named: what each integer of a graph is at every size of its names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Graph, Node, TensorType
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Condition, EvaluationError, Int
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import SymType

#: The sizes of names.
Sizes = Mapping[str, int]
#: An integer or a list of integers, in which names may occur.
OpenAttr = Int | tuple[Int, ...]


@dataclass(frozen=True, slots=True)
class NamedSize:
    """A name for a size from ``low`` to ``high``, both included. Graphs are optimized at the ``default``."""

    name: str
    low: int
    high: int
    default: int

    def __str__(self) -> str:
        return f"{self.name}: {self.low}..{self.high} = {self.default}"

    @property
    def symbol(self) -> Int:
        """The name as an unknown integer."""
        return sym.atom("dim", self.name, 0)


def at_sizes(value: Any, sizes: Sizes) -> Any:
    """An integer, a list or a condition at these sizes."""
    return sym.substitute(value, {("dim", name, 0): size for name, size in sizes.items()})


def in_words(sizes: Sizes) -> str:
    """``n = 3, m = 8``"""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


@dataclass(frozen=True, slots=True)
class OpenGraph:
    """A graph at the default sizes of its names, and at all others: for each node the attributes that names occur in,
    and the shapes of its outputs."""

    sizes: tuple[NamedSize, ...]
    graph: Graph
    attrs: tuple[Mapping[str, OpenAttr], ...]
    shapes: tuple[tuple[tuple[Int, ...], ...], ...]

    @property
    def defaults(self) -> dict[str, int]:
        """The default size of each name."""
        return {s.name: s.default for s in self.sizes}

    @property
    def mentioned(self) -> frozenset[str]:
        """The names that occur."""
        atoms = sym.atoms_of((*self.shapes, *(tuple(attrs.values()) for attrs in self.attrs)))
        return frozenset(a[1] for a in atoms if a[0] == "dim")

    def shapes_at(self, sizes: Sizes) -> list[tuple[int, ...]]:
        """The shape of each node at these sizes, () for a node with several outputs."""
        return [at_sizes(shapes[0], sizes) if len(shapes) == 1 else () for shapes in self.shapes]

    def at(self, sizes: Sizes) -> Graph:
        """The graph at these sizes."""
        nodes: list[Node] = []
        for node, attrs, shapes in zip(self.graph.nodes, self.attrs, self.shapes, strict=True):
            known = tuple((k, at_sizes(attrs[k], sizes) if k in attrs else v) for k, v in node.attrs)
            types = zip(node.types, at_sizes(shapes, sizes), strict=True)
            nodes.append(replace(node, attrs=known, types=tuple(TensorType(t.dtype, x) for t, x in types)))
        return replace(self.graph, nodes=tuple(nodes))


class Untypable(Exception):
    """A node is ill-typed at all sizes, or its type can't be computed for unknown sizes."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(message)
        self.node = node


class TooManySizes(Exception):
    """There are too many sizes to try all of them. The argument is a condition."""


#: So many sizes are tried where no theorem decides a condition.
MOST_SIZES = 200_000


def typed(
    graph: Graph, attrs: Sequence[Mapping[str, OpenAttr]], ops: OpTable
) -> tuple[list[tuple[tuple[Int, ...], ...]], dict[Condition, int]]:
    """The shapes of a graph's nodes, and the conditions under which it is well-typed, each with the first node that
    has it. Raises `Untypable`."""
    found: list[tuple[tuple[Int, ...], ...]] = []
    conditions: dict[Condition, int] = {}

    def hold(condition: sym.Bool, i: int) -> None:
        if condition is False:
            raise Untypable(i, "dimensions are positive")
        if isinstance(condition, Condition):
            conditions.setdefault(condition, i)

    for i, (node, given) in enumerate(zip(graph.nodes, attrs, strict=True)):
        if node.op == "proj":
            index = node.attr("index")
            assert isinstance(index, int)
            found.append((found[node.inputs[0]][index],))
            continue
        operands = [SymType(graph.nodes[j].type.dtype, found[j][0]) for j in node.inputs]
        try:
            typing = infer(ops, node.op, operands, {**dict(node.attrs), **given})
        except (IllTyped, EvaluationError) as e:
            raise Untypable(i, str(e)) from None
        except TsrError as e:  # an attribute that the declaration needs to know
            raise Untypable(i, e.diagnostics[0].message) from None
        for condition in typing.conditions:
            hold(condition, i)
        for type in typing.types:
            for d in type.shape:
                hold(sym.at_most(1, d), i)
        found.append(tuple(tuple(t.shape) for t in typing.types))
    return found, conditions


def failing_sizes(condition: sym.Bool, sizes: Sequence[NamedSize]) -> dict[str, int] | None:
    """The first sizes at which a condition does not hold, or None if it holds at all. Names that it does not mention
    have their defaults. Raises `TooManySizes`."""
    atoms = sym.atoms_of(condition)
    mentioned = [s for s in sizes if ("dim", s.name, 0) in atoms]
    rest = {s.name: s.default for s in sizes}

    def fails(values: tuple[int, ...]) -> dict[str, int] | None:
        there = {**rest, **dict(zip((s.name for s in mentioned), values, strict=True))}
        try:
            return None if at_sizes(condition, there) is True else there
        except EvaluationError:
            return there

    if _is_extreme_at_corners(condition):
        corners = [fails(corner) for corner in _combinations([(s.low, s.high) for s in mentioned])]
        if not any(corners):
            return None
    count = prod(s.high - s.low + 1 for s in mentioned)
    for tried, values in enumerate(_combinations([range(s.low, s.high + 1) for s in mentioned])):
        if tried == MOST_SIZES < count:
            raise TooManySizes(condition)
        found = fails(values)
        if found is not None:
            return found
    return None


def _combinations(choices: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """One of each, in order, the last one changing first; nothing is listed ahead."""
    if not choices:
        yield ()
        return
    for first in choices[0]:
        for others in _combinations(choices[1:]):
            yield (first, *others)


def _is_extreme_at_corners(condition: sym.Bool) -> bool:
    """Whether a condition is p <= 0 for a p that is linear in each name: its maximum is at an end of each range."""
    if isinstance(condition, bool) or condition.kind != "le":
        return False
    p = condition.args[0]
    monomials = [m for m, _ in p.terms]
    return all(len(set(m)) == len(m) and all(a[0] == "dim" for a in m) for m in monomials)


def other_sizes(sizes: Sequence[NamedSize]) -> list[dict[str, int]]:
    """Sizes apart from the defaults to look at a graph at: the smallest, primes, any, the largest; fewer if there are
    no more. The sizes of different names are different where they can be."""
    random = Random(0)
    default = {s.name: s.default for s in sizes}
    primes: dict[str, int] = {}
    anywhere: dict[str, int] = {}
    for s in sizes:
        used = {*primes.values(), s.default}
        primes[s.name] = _prime_near(s, used) or s.default
        near = range(max(s.low, s.default // 2), min(s.high, 2 * s.default + 8) + 1)
        free = [n for n in (random.choice(near) for _ in range(8)) if n not in {*used, *anywhere.values()}]
        anywhere[s.name] = free[0] if free else near[-1]
    smallest, largest = {s.name: s.low for s in sizes}, {s.name: s.high for s in sizes}
    found: list[dict[str, int]] = []
    for one in (smallest, primes, anywhere, largest):
        if one != default and one not in found:
            found.append(one)
    return found


def _prime_near(s: NamedSize, used: set[int]) -> int | None:
    """The prime in a range that is nearest to the default, other than these."""
    for distance in range(1, 1000):
        for n in (s.default + distance, s.default - distance):
            if (
                s.low <= n <= s.high
                and n not in used
                and n > 1
                and all(n % k for k in range(2, int(n**0.5) + 1))
            ):
                return n
    return None
