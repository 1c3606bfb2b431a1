"""Terms over a few leaves of known types, bottom-up by size, each with its fingerprint in exact arithmetic.

Terms that compute the same are found by their fingerprints: the values of all elements at several draws of random
whole numbers. The first draw tells most terms apart, and the others are computed for those that it does not. Only the
first term of each class is built upon, so what is equal by parts is not listed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from math import ceil

import numpy as np

from tensat_dl.core.graph import Attrs, Graph, GraphBuilder, TensorType, fill_attrs, leaf_attrs
from tensat_dl.discover.menu import OPERANDS, Menu
from tensat_dl.discover.numbers import UNITS, Whole
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
#: The type of a number among tensors.
SCALAR = TensorType("f32", ())
#: Terms of operators that matrices have are looked for among matrices and vectors, not among images.
USUAL_RANK = 2


@dataclass(frozen=True, slots=True)
class TermKind:
    """What decides what a term may be an operand of. ``uses`` says how often each leaf stands in it."""

    type: TensorType
    uses: tuple[int, ...]
    ops: frozenset[str] = frozenset()
    unusual: bool = False  #: whether an attribute is not the usual one, or an operand is a number
    numbers: int = 0  #: how many operands are numbers


@dataclass(frozen=True, slots=True)
class BuiltTerm:
    """An operator applied to earlier terms, by their numbers. A leaf has no operator, a number is a ``fill``."""

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
    terms: list[BuiltTerm] = field(default_factory=list)
    classes: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._infer = Inference(self.menu.ops)
        self._values: dict[tuple[int, int], Array] = {}
        #: The class whose fingerprints begin so, by shape and values at the first draws; -1 for more than one class.
        self._known: dict[tuple[object, ...], int] = {}
        #: By size the terms of each kind that are built upon.
        self._kinds: list[dict[TermKind, list[int]]] = []
        sizes = [t.size for t in self.leaves]
        self._limit = max(GROWTH * max(sizes), sum(sizes))
        self._dims = sorted({d for t in self.leaves for d in t.shape})
        draws = max(DRAWS, ceil(ELEMENTS / min(t.size for t in self.leaves)))
        self._alike = frozenset(self.menu.functions[1:])
        flat = all(0 < t.rank <= USUAL_RANK for t in self.leaves)
        self._elsewhere = frozenset(() if flat else filter(self._takes_matrices, self.menu.names))
        for unit in UNITS:
            self._numbers = [Whole(i, unit) for i in range(draws)]
            self._begin()
            if not self._divides():
                break
        # What is composed with padding is larger than what it is applied to, and laws are about two of it.
        composed = (t.type.size for t in self._applications(1) if self.menu.ops[t.op].composition)
        self._limit = max(self._limit, GROWTH * max(composed, default=0))

    def _takes_matrices(self, op: str) -> bool:
        """Whether an operator, and all that it is composed of, may be applied to matrices."""
        ops = self.menu.ops
        return all(
            self._infer.possible(part, (USUAL_RANK,) * ops[part].min_inputs) for part in ops.closure((op,))
        )

    def _begin(self) -> None:
        """The leaves are the first terms."""
        for kept in (self.terms, self.classes, self._values, self._known, self._kinds):
            kept.clear()
        first: dict[TermKind, list[int]] = {}
        for i, t in enumerate(self.leaves):
            uses = tuple(int(i == k) for k in range(len(self.leaves)))
            self._add(BuiltTerm("", (), (), TermKind(t, uses), 0), first)
        for n in self.menu.numbers:
            kind = TermKind(SCALAR, (0,) * len(self.leaves), unusual=True, numbers=1)
            self._add(BuiltTerm("fill", fill_attrs(n, SCALAR), (), kind, 0), first)
        self._kinds.append(first)

    def _divides(self) -> bool:
        """Whether an operator divides leaves, with a rest."""
        for term in self._applications(1):
            with suppress(OutOfReach, ArithmeticError):
                self._computed(term, 0)
        return self._numbers[0].inexact

    def grow(self, size: int) -> None:
        """Adds the terms up to a size, which is the number of operators."""
        while len(self._kinds) <= size:
            new: dict[TermKind, list[int]] = {}
            for term in self._applications(len(self._kinds)):
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
        if len(ops) > OPERATORS or sum(uses) > sum(map(bool, uses)) + self._repeated(kinds, size):
            return
        numbers = sum(k.numbers for k in kinds)
        if numbers > 1 or not any(uses):  # of several numbers one could compute a single one
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
                yield attrs, TermKind(t, uses, ops, unusual or odd, numbers)

    def _repeated(self, kinds: Sequence[TermKind], size: int) -> int:
        """How often leaves may be repeated: once. Two applications of an operator may share all operands but one."""
        inner = {f for k in kinds for f in k.ops}
        applied_twice = size == 1 + OPERANDS and len(kinds) == OPERANDS and all(k.ops for k in kinds)
        return max(1, self.menu.arity(inner.pop()) - 1) if applied_twice and len(inner) == 1 else 1

    def _add(self, term: BuiltTerm, new: dict[TermKind, list[int]]) -> None:
        """Numbers a term. One that computes something new is built upon, unless it is a constant, as x - x is: what
        holds of it, a number says better. Larger constants and terms that have no value are left out."""
        number = len(self.terms)
        self.terms.append(term)
        try:
            constant = term.size > 0 and self._is_constant(number)
            if constant and term.size > 1:
                raise OutOfReach("a constant")
            known = self._same(number)
        except (OutOfReach, ArithmeticError):
            self.terms.pop()
            self._forget(number)
            return
        if known is None:
            self.classes.append([number])
            if not constant:
                new.setdefault(term.kind, []).append(number)
        else:
            self.classes[known].append(number)
            self._forget(number)

    def _is_constant(self, number: int) -> bool:
        """Whether all elements are one number at all draws."""
        value = self._value(number, 0)
        first = value.flat[0]
        if first != value.flat[-1]:  # as nearly always
            return False
        return all(bool(np.all(self._value(number, i) == first)) for i in range(len(self._numbers)))

    def _forget(self, number: int) -> None:
        """Drops the values of a term that is not built upon."""
        for draw in range(len(self._numbers)):
            self._values.pop((number, draw), None)

    def _same(self, number: int) -> int | None:
        """The class that computes the same as the last term. None for what is new, which is noted as the next class.

        A class is noted under as few draws as tell it from all others."""
        key: tuple[object, ...] = (self.terms[number].type.shape,)
        for draw in range(len(self._numbers)):
            key = (*key, self._value(number, draw).tobytes())
            if key not in self._known:
                self._known[key] = len(self.classes)
                return None
            other = self._known[key]
            if other >= 0 and draw + 1 < len(self._numbers):
                self._known[key] = -1
                with suppress(OutOfReach, ArithmeticError):  # no term equals one that has no value
                    self._known[*key, self._value(self.classes[other][0], draw + 1).tobytes()] = other
        return other

    def _value(self, number: int, draw: int) -> Array:
        """What a term computes at a draw. Raises `OutOfReach` or `ArithmeticError` if it has no value there."""
        if (number, draw) not in self._values:
            term = self.terms[number]
            self._values[number, draw] = (
                self._computed(term, draw) if term.op else self._numbers[draw].leaf(str(number), term.type)
            )
        return self._values[number, draw]

    def _computed(self, term: BuiltTerm, draw: int) -> Array:
        operands = [self._value(a, draw) for a in term.args]
        return applied(term.op, operands, dict(term.attrs), self._numbers[draw], self.menu.ops)

    def speaks_for_others(self, number: int) -> bool:
        """Whether a term uses the leaves of each type in their order, the first one first, and not scalars alone, of
        which more is true than of other tensors. Of all terms that differ in equal leaves, this one comes first."""
        used = dict.fromkeys(self._leaves(number))
        if not any(self.leaves[i].rank for i in used):
            return False
        alike = [[i for i, t in enumerate(self.leaves) if t == type] for type in dict.fromkeys(self.leaves)]
        return all([i for i in used if i in same] == same[: len(used.keys() & same)] for same in alike)

    def _leaves(self, number: int) -> Iterator[int]:
        """The leaves of a term from left to right, as often as they occur."""
        term = self.terms[number]
        if not term.op:
            yield number
        for operand in term.args:
            yield from self._leaves(operand)

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
