"""Terms over a few leaves of known types, bottom-up by size, each with its fingerprint in exact arithmetic.

Terms that compute the same are found by their fingerprints: the values of all elements at random whole numbers. Only
the first term of each class is built upon, so what is equal by parts is not listed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil

from tensat_dl.core.graph import Attrs, Graph, GraphBuilder, TensorType, leaf_attrs
from tensat_dl.discover.menu import OPERANDS, Menu
from tensat_dl.discover.numbers import Whole
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.operators import applied

#: A fingerprint has at least so many elements of each leaf, from several draws: relu forgets every other.
ELEMENTS = 24
DRAWS = 2
#: A tensor has at most so many times the elements of the largest leaf, or as many as all leaves together.
GROWTH = 2
#: Terms have at most so many different operators: a law says how one operator passes another.
OPERATORS = 2
#: Terms up to this size are tried with attributes other than the usual ones, and with every function of one number.
UNUSUAL_SIZE = 2
#: Terms of operators that matrices have are looked for among matrices, not among images.
USUAL_RANK = 2


@dataclass(frozen=True, slots=True)
class TermKind:
    """What decides what a term may be an operand of. ``uses`` says how often each leaf stands in it."""

    type: TensorType
    uses: tuple[int, ...]
    ops: frozenset[str] = frozenset()
    unusual: bool = False  #: whether an attribute is not the usual one


@dataclass(frozen=True, slots=True)
class BuiltTerm:
    """An operator applied to earlier terms, by their numbers; a leaf has none."""

    op: str
    attrs: Attrs
    args: tuple[int, ...]
    kind: TermKind
    size: int

    @property
    def type(self) -> TensorType:
        return self.kind.type


#: The attributes of an application, and what it gives.
_Applied = tuple[Attrs, TermKind]


@dataclass
class World:
    """Leaves of known types, and the terms over them. ``classes`` has the terms that compute the same."""

    menu: Menu
    leaves: tuple[TensorType, ...]
    most: int | None = None  #: this many terms are enough
    terms: list[BuiltTerm] = field(default_factory=list)
    classes: list[list[int]] = field(default_factory=list)
    cut_off: bool = False

    def __post_init__(self) -> None:
        self._infer = Inference(self.menu.ops)
        self._values: dict[int, tuple[Array, ...]] = {}
        self._known: dict[object, int] = {}
        #: By size the terms of each kind that are built upon.
        self._kinds: list[dict[TermKind, list[int]]] = []
        sizes = [t.size for t in self.leaves]
        self._limit = max(GROWTH * max(sizes), sum(sizes))
        self._dims = sorted({d for t in self.leaves for d in t.shape})
        draws = max(DRAWS, ceil(ELEMENTS / min(t.size for t in self.leaves)))
        self._alike = frozenset(self.menu.functions[1:])
        pair = (USUAL_RANK,) * OPERANDS
        flat = all(t.rank == USUAL_RANK for t in self.leaves)
        fitting = (op for op in self.menu.names if self._infer.possible(op, pair[: self.menu.arity(op)]))
        self._elsewhere = frozenset(() if flat else fitting)
        self._numbers = [Whole(i) for i in range(draws)]
        first: dict[TermKind, list[int]] = {}
        for i, t in enumerate(self.leaves):
            uses = tuple(int(i == k) for k in range(len(self.leaves)))
            values = tuple(a.leaf(str(i), t) for a in self._numbers)
            self._note(BuiltTerm("", (), (), TermKind(t, uses), 0), values, first)
        self._kinds.append(first)

    def grow(self, size: int) -> None:
        """Adds the terms up to a size, which is the number of operators."""
        while len(self._kinds) <= size and not self.cut_off:
            new: dict[TermKind, list[int]] = {}
            for term in self._applications(len(self._kinds)):
                if self.most is not None and len(self.terms) >= self.most:
                    self.cut_off = True
                    break
                self._add(term, new)
            self._kinds.append(new)

    def _applications(self, size: int) -> Iterator[BuiltTerm]:
        """The terms of a size by their operators, then by their operands in order."""
        for op in self.menu.names:
            arity, commutative = self.menu.arity(op), self.menu.ops[op].commutative
            for sizes in product(range(size), repeat=arity):
                if sum(sizes) != size - 1 or (commutative and arity == 2 and sizes[0] < sizes[1]):
                    continue
                ordered = commutative and arity == 2 and sizes[0] == sizes[1]
                found: list[tuple[tuple[int, ...], list[_Applied]]] = []
                for kinds in product(*(self._kinds[s] for s in sizes)):
                    if applied := list(self._applied(op, kinds, size)):
                        operands = product(*(self._kinds[s][k] for s, k in zip(sizes, kinds, strict=True)))
                        found += [(args, applied) for args in operands if not ordered or args[0] <= args[1]]
                found.sort(key=lambda f: f[0])
                for args, applied in found:
                    for attrs, kind in applied:
                        yield BuiltTerm(op, attrs, args, kind, size)

    def _applied(self, op: str, kinds: Sequence[TermKind], size: int) -> Iterator[_Applied]:
        """An operator applied to terms of these kinds, with each choice of attributes that types admit."""
        ops = frozenset((op,)).union(*(k.ops for k in kinds))
        uses = tuple(map(sum, zip(*(k.uses for k in kinds), strict=True)))
        if len(ops) > OPERATORS or sum(uses) > sum(map(bool, uses)) + 1:
            return
        odd = any(k.unusual for k in kinds)
        if size > UNUSUAL_SIZE and (odd or ops & self._alike):
            return
        if ops <= self._elsewhere and (len(ops) > 1 or size > UNUSUAL_SIZE):
            return
        types = [k.type for k in kinds]
        if not self._infer.possible(op, tuple(t.rank for t in types)):
            return
        inputs = [SymType(t.dtype, t.shape) for t in types]
        for attrs, unusual in self.menu.attributes(op, types, self._dims):
            if unusual and size > UNUSUAL_SIZE:
                continue
            try:
                (t,) = self._infer(op, inputs, dict(attrs)).concrete()
            except IllTyped:
                continue
            if t.size <= self._limit:
                yield attrs, TermKind(t, uses, ops, unusual or odd)

    def _add(self, term: BuiltTerm, new: dict[TermKind, list[int]]) -> None:
        operands = [self._values[a] for a in term.args]
        attrs = dict(term.attrs)
        try:
            values = tuple(
                applied(term.op, [x[i] for x in operands], attrs, a, self.menu.ops)
                for i, a in enumerate(self._numbers)
            )
        except (OutOfReach, ArithmeticError):
            return
        self._note(term, values, new)

    def _note(self, term: BuiltTerm, values: tuple[Array, ...], new: dict[TermKind, list[int]]) -> None:
        """Numbers a term. One that computes something new is built upon."""
        number = len(self.terms)
        self.terms.append(term)
        key = (term.type.shape, *(v.tobytes() for v in values))
        known = self._known.setdefault(key, len(self.classes))
        if known < len(self.classes):
            self.classes[known].append(number)
        else:
            self.classes.append([number])
            self._values[number] = values
            new.setdefault(term.kind, []).append(number)

    def graph(self, numbers: Sequence[int]) -> Graph:
        """Terms as one graph that shares what they have in common. Its outputs are the terms, in order."""
        builder = GraphBuilder("terms")
        at: dict[int, int] = {}

        def node(number: int) -> int:
            if number not in at:
                term = self.terms[number]
                if term.op:
                    inputs = [node(a) for a in term.args]
                    at[number] = builder.add(term.op, inputs, term.attrs, (term.type,))
                else:
                    name = f"x{number}"
                    at[number] = builder.add("input", (), leaf_attrs(name, term.type), (term.type,), name)
            return at[number]

        return builder.finish([(str(i), node(n)) for i, n in enumerate(numbers)])
