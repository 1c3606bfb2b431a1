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


def worlds(menu: Menu, leaves: int) -> list[Leaves]:
    """The types of up to so many leaves. None has the leaves of another and more."""
    infer = Inference(menu.ops)
    plain: Typed = {t: [(t,)] for shapes in SHAPES for shape in shapes for t in [TensorType("f32", shape)]}
    results = {op: _results(menu, infer, op, [plain] * menu.arity(op), leaves) for op in menu.names}
    found: dict[Leaves, None] = {}
    for f in menu.names:
        for operands in dict.fromkeys(_operands(menu, menu.arity(f))):
            options = [plain if g is None else results[g] for g in operands]
            typed = _results(menu, infer, f, options, leaves)
            found |= dict.fromkeys(_best({below for several in typed.values() for below in several}))
    return _largest(list(found))


def _operands(menu: Menu, arity: int) -> Iterator[tuple[str | None, ...]]:
    """Which operator each operand is a result of: none, one of them, or all of them."""
    yield (None,) * arity
    for g in menu.names:
        yield from (tuple(g if k == i else None for k in range(arity)) for i in range(arity))
        yield (g,) * arity


def _results(menu: Menu, infer: Inference, op: str, options: Sequence[Typed], leaves: int) -> Typed:
    """The types of an operator's results, with the leaves that these may have."""
    found: dict[TensorType, dict[Leaves, None]] = {}
    for types in product(*options):
        if not infer.possible(op, tuple(t.rank for t in types)):
            continue
        inputs = [SymType(t.dtype, t.shape) for t in types]
        dims = sorted({d for t in types for d in t.shape})
        results = set()
        for attrs, unusual in menu.attributes(op, types, dims):
            if not unusual:
                with suppress(IllTyped):
                    results |= set(infer(op, inputs, dict(attrs)).concrete())
        if results:
            several = product(*(choice[t] for choice, t in zip(options, types, strict=True)))
            below = {_ordered(t for used in x for t in used) for x in several}
            fitting = dict.fromkeys(sorted((x for x in below if len(x) <= leaves), key=repr))
            for t in results:
                found.setdefault(t, {}).update(fitting)
    return {t: list(found[t]) for t in sorted(found, key=repr)}


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
