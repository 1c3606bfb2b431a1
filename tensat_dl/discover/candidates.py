"""Equations between terms that compute the same at some leaves: candidates for rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensat_dl.core.graph import Attrs, Graph, GraphBuilder, TensorType, leaf_attrs
from tensat_dl.discover.terms import World
from tensat_dl.ops.table import OpTable

#: What a variable is called, in the order in which variables occur.
VARIABLES = ("x", "y", "z", "w", "u", "v")


@dataclass(frozen=True, slots=True)
class Tree:
    """A term as a tree: an operator applied to trees, a variable, which is numbered, or a number, which is a
    ``fill``. ``size`` is the number of operators, ``shape`` is what the tree says, but for types: an order of trees.
    """

    op: str
    attrs: Attrs
    args: tuple[Tree, ...]
    type: TensorType
    variable: int = -1
    size: int = field(init=False, compare=False, repr=False)
    shape: tuple[Any, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = (self.op, repr(self.attrs), *(a.shape for a in self.args))
        object.__setattr__(self, "size", sum(a.size for a in self.args) + bool(self.args))
        object.__setattr__(self, "shape", own if self.variable < 0 else ("", self.variable))

    def leaves(self) -> Iterator[Tree]:
        """The variables from left to right, as often as they occur."""
        if self.variable >= 0:
            yield self
        for a in self.args:
            yield from a.leaves()

    def nodes(self) -> Iterator[Tree]:
        """The operators, operands first."""
        for a in self.args:
            yield from a.nodes()
        if self.args:
            yield self

    def numbers(self) -> Iterator[Tree]:
        """The numbers from left to right."""
        if not self.args and self.variable < 0:
            yield self
        for a in self.args:
            yield from a.numbers()

    @property
    def variables(self) -> frozenset[int]:
        return frozenset(leaf.variable for leaf in self.leaves())


@dataclass(frozen=True, slots=True)
class Equation:
    """Two terms that compute the same at leaves of the types that they are given with. All variables of the second
    occur in the first."""

    left: Tree
    right: Tree

    @property
    def key(self) -> object:
        """Equal for equations that differ in types alone."""
        return self.left.shape, self.right.shape

    @property
    def order(self) -> tuple[object, ...]:
        """Small equations first; of these such that say it of more variables, and use these less often."""
        size = self.left.size + self.right.size
        used = sum(1 for t in (self.left, self.right) for _ in t.leaves())
        names = len({n.op for t in (self.left, self.right) for n in t.nodes()})
        return size, -len(self.left.variables), used, names, repr(self.key)

    @property
    def both(self) -> bool:
        """Whether it can be read from right to left, too."""
        return self.right.size > 0 and self.left.variables == self.right.variables

    def graph(self) -> Graph:
        """Both terms as the outputs of one graph."""
        return graph_of((self.left, self.right))


def graph_of(trees: Sequence[Tree]) -> Graph:
    """Terms as the outputs of one graph that shares what they have in common."""
    builder = GraphBuilder("terms")

    def node(t: Tree) -> int:
        if t.variable >= 0:
            name = f"{VARIABLES[t.variable]}{t.type.shape}"
            return builder.add("input", (), leaf_attrs(name, t.type), (t.type,), name)
        return builder.add(t.op, [node(a) for a in t.args], t.attrs, (t.type,))

    return builder.finish([(str(i), node(t)) for i, t in enumerate(trees)])


def candidates(world: World, ops: OpTable) -> list[Equation]:
    """The equations of a world, each once: those that differ in the order of equal leaves are one."""
    trees: dict[int, Tree] = {}
    found: dict[object, Equation] = {}
    for members in world.classes:
        if len(members) > 1 and not world.speaks_for_others(members[0]):
            continue
        for other in members[1:]:
            pair = candidate(tree(world, other, trees, ops), tree(world, members[0], trees, ops), ops)
            if pair is not None:
                found.setdefault(pair.key, pair)
    return sorted(found.values(), key=lambda c: c.order)


def tree(world: World, number: int, known: dict[int, Tree], ops: OpTable) -> Tree:
    """A term of a world as a tree, with the operands of commutative operators in order."""
    if number not in known:
        term = world.terms[number]
        variable = -1 if term.op else number
        args = [tree(world, a, known, ops) for a in term.args]
        known[number] = Tree(term.op, term.attrs, _in_order(term.op, args, ops), term.type, variable)
    return known[number]


def candidate(a: Tree, b: Tree, ops: OpTable) -> Equation | None:
    """The equation of two terms, with variables numbered in the order in which they occur. None if either has a
    variable that the other lacks, or if they have different numbers: that 1 + 1 = 2 is no law of operators."""
    if len({*a.numbers(), *b.numbers()}) > 1:
        return None
    if not b.variables <= a.variables:
        a, b = b, a
    if not b.variables <= a.variables or a.size == 0:
        return None
    names: dict[int, int] = {}
    for leaf in a.leaves():
        names.setdefault(leaf.variable, len(names))
    left, right = (_renamed(t, names, ops) for t in (a, b))
    if left.shape == right.shape:
        return None
    if left.variables == right.variables and (right.size, right.shape) > (left.size, left.shape):
        return candidate_in_order(right, left, ops)
    return Equation(left, right)


def candidate_in_order(left: Tree, right: Tree, ops: OpTable) -> Equation:
    """The equation with variables numbered as they occur in ``left``."""
    names: dict[int, int] = {}
    for leaf in left.leaves():
        names.setdefault(leaf.variable, len(names))
    return Equation(*(_renamed(t, names, ops) for t in (left, right)))


def exchanged(t: Tree, old: str, new: str) -> Tree:
    """A term with an operator, and words that are called like it, replaced by another."""
    attrs = tuple((name, new if value == old else value) for name, value in t.attrs)
    args = tuple(exchanged(a, old, new) for a in t.args)
    return Tree(new if t.op == old else t.op, attrs, args, t.type, t.variable)


def with_scalar(c: Equation, ops: OpTable) -> Equation | None:
    """The equation with a variable in the place of a number that both sides have; None if there is no such number, or
    no name for one more variable."""
    common = set(c.left.numbers()) & set(c.right.numbers())
    new = len(c.left.variables)
    if not common or new == len(VARIABLES):
        return None

    def changed(t: Tree) -> Tree:
        if t in common:
            return Tree("", (), (), t.type, new)
        return Tree(t.op, t.attrs, tuple(map(changed, t.args)), t.type, t.variable)

    return candidate_in_order(changed(c.left), changed(c.right), ops)


def split(c: Equation, variable: int) -> Iterator[Equation]:
    """The equation with one more variable, in the place of the second occurrence on the left, and of the second or
    the first on the right. None if the variable does not occur twice on both sides."""
    counts = [sum(leaf.variable == variable for leaf in t.leaves()) for t in (c.left, c.right)]
    if counts == [2, 2]:
        new = len(c.left.variables)
        left = _with_occurrence(c.left, variable, 1, new)
        yield from (Equation(left, _with_occurrence(c.right, variable, k, new)) for k in (1, 0))


def _with_occurrence(t: Tree, variable: int, number: int, new: int) -> Tree:
    """With another variable in one place, counted from the left."""
    seen = 0

    def changed(t: Tree) -> Tree:
        nonlocal seen
        if t.variable < 0:
            return Tree(t.op, t.attrs, tuple(changed(a) for a in t.args), t.type)
        seen += t.variable == variable
        here = t.variable == variable and seen == number + 1
        return Tree(t.op, t.attrs, (), t.type, new if here else t.variable)

    return changed(t)


def _renamed(t: Tree, names: Mapping[int, int], ops: OpTable) -> Tree:
    """With other variables, and the operands of commutative operators in order again."""
    if t.variable >= 0:
        return Tree("", t.attrs, (), t.type, names[t.variable])
    args = [_renamed(a, names, ops) for a in t.args]
    return Tree(t.op, t.attrs, _in_order(t.op, args, ops), t.type)


def _in_order(op: str, args: Sequence[Tree], ops: OpTable) -> tuple[Tree, ...]:
    """The operands of an operator. Of a commutative one the larger come first, then as they are written."""
    ordered = op != "" and ops[op].commutative
    return tuple(sorted(args, key=lambda a: (-a.size, a.shape)) if ordered else args)
