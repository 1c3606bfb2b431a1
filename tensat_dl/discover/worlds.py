"""The types of leaves that terms are enumerated over.

An equation that holds for all sizes holds for a few small ones. So for each way to apply an operator to results of
another, two assignments of small types are enough: one with types as different as can be, and one with few. What is
found there is generalised and checked at many others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product

from tensat_dl.core.graph import TensorType
from tensat_dl.discover.menu import Menu
from tensat_dl.discover.terms import USUAL_RANK
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType

Leaves = tuple[TensorType, ...]

#: Small shapes by rank. Dimensions differ, so that an operator that mixes them up does not type-check, and none is 1,
#: where more is true than elsewhere. Images are larger than kernels, and some kernels have groups.
SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((),),
    ((2,), (3,)),
    tuple(product((2, 3), repeat=2)),
    ((2, 2, 3), (2, 3, 2), (3, 2, 3)),
    (*((n, c, 3, 3) for n in (2, 3) for c in (2, 4)), *((o, i, 2, 2) for o in (2, 4) for i in (2, 4))),
)


#: The leaves of tensors of a type, by the type.
Typed = dict[TensorType, list[Leaves]]


def worlds(typing: ResultTypes, leaves: int) -> list[Leaves]:
    """The types of up to so many leaves. None has the leaves of another and more."""
    menu = typing.menu
    plain: Typed = {t: [(t,)] for shapes in SHAPES for shape in shapes for t in [TensorType("f32", shape)]}
    results = {op: _results(typing, op, [plain] * menu.arity(op), leaves) for op in menu.names}
    found: dict[Leaves, None] = {}
    for f in menu.names:
        for operands in dict.fromkeys(_operands(menu, menu.arity(f))):
            options = [plain if g is None else results[g] for g in operands]
            typed = _results(typing, f, options, leaves)
            found |= dict.fromkeys(_best({below for several in typed.values() for below in several}))
    return _largest(list(found))


def _operands(menu: Menu, arity: int) -> Iterator[tuple[str | None, ...]]:
    """Which operator each operand is a result of: none, one of them, or all of them."""
    yield (None,) * arity
    for g in menu.names:
        yield from (tuple(g if k == i else None for k in range(arity)) for i in range(arity))
        yield (g,) * arity


class ResultTypes:
    """The types of operators' results. Each is asked for many times, as a result of one operator or another."""

    def __init__(self, menu: Menu) -> None:
        self.menu = menu
        self._infer = Inference(menu.ops)
        self._known: dict[tuple[str, tuple[TensorType, ...]], frozenset[TensorType]] = {}

    def __call__(self, op: str, types: tuple[TensorType, ...]) -> frozenset[TensorType]:
        """The types that an operator's result has with one or another choice of the usual attributes."""
        if not self._infer.possible(op, tuple(t.rank for t in types)):
            return frozenset()
        if (op, types) not in self._known:
            self._known[op, types] = frozenset(self._results(op, types))
        return self._known[op, types]

    def _results(self, op: str, types: tuple[TensorType, ...]) -> Iterator[TensorType]:
        inputs = [SymType(t.dtype, t.shape) for t in types]
        dims = sorted({d for t in types for d in t.shape})
        for attrs, unusual in self.menu.attributes(op, types, dims):
            if not unusual:
                with suppress(IllTyped):
                    yield from self._infer(op, inputs, dict(attrs)).concrete()


def _results(typing: ResultTypes, op: str, options: Sequence[Typed], leaves: int) -> Typed:
    """The types of an operator's results, with the leaves that these may have, the fewest first."""
    found: dict[TensorType, dict[Leaves, None]] = {}
    for types in product(*options):
        choices = [choice[t] for choice, t in zip(options, types, strict=True)]
        if sum(len(choice[0]) for choice in choices) > leaves:
            continue
        if results := typing(op, types):
            fitting = dict.fromkeys(_together(choices, leaves))
            for t in results:
                found.setdefault(t, {}).update(fitting)
    return {t: sorted(found[t], key=lambda x: (len(x), repr(x))) for t in sorted(found, key=repr)}


def _together(choices: Sequence[Sequence[Leaves]], most: int) -> set[Leaves]:
    """The leaves of operands together, one of the choices for each: up to so many."""
    found: set[Leaves] = {()}
    for choice in choices:
        found = {_ordered((*a, *b)) for a in found for b in choice if len(a) + len(b) <= most}
    return found


def _ordered(types: Iterable[TensorType]) -> Leaves:
    return tuple(sorted(types, key=lambda t: (-t.rank, t.shape)))


def _best(found: Collection[Leaves]) -> list[Leaves]:
    """The assignment with the most different types, and the one with the fewest."""
    if not found:
        return []

    def strange(leaves: Leaves) -> int:
        return sum(abs(t.rank - USUAL_RANK) for t in leaves)

    def elements(leaves: Leaves) -> int:
        return sum(t.size for t in leaves)

    unlike = min(found, key=lambda x: (strange(x), -len(set(x)), elements(x), repr(x)))
    alike = min(found, key=lambda x: (strange(x), len(set(x)), elements(x), repr(x)))
    return [unlike, alike]


def _largest(found: Sequence[Leaves]) -> list[Leaves]:
    """Those that are no part of another."""
    counts = {leaves: Counter(leaves) for leaves in found}
    kept = [x for x in counts if not any(y != x and counts[x] <= counts[y] for y in counts)]
    return sorted(kept, key=lambda x: (sum(t.size for t in x), repr(x)))
