"""Conditions that a rule may need: a menu, and the weakest choice from it that excludes all failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from operator import eq, gt, lt, ne
from typing import Any

from tensat_dl.core.graph import FLOATS
from tensat_dl.verify.rules.instance import Assignment

#: At most so many conditions are chosen.
MOST = 2
#: Of the conditions that exclude a failure so many are tried in pairs.
PAIRED = 16

Comparison = Callable[[Any, Any], bool]
#: How an axis may be compared with the last one.
SIGNS: Mapping[str, Comparison] = {"!=": ne, "==": eq}


@dataclass(frozen=True, slots=True)
class Restriction:
    """The text of a condition, and whether it holds for an instance."""

    text: str
    holds: Callable[[Assignment], bool]
    pairs: bool = True  #: whether it may be one of several


def menu(tensors: Sequence[str], attrs: Mapping[str, str]) -> list[Restriction]:
    """Conditions about the tensors and attributes of a rule, the simplest first. ``attrs`` has the types of
    attributes."""
    axes = [name for name, kind in attrs.items() if kind == "axis"]
    return [*_axes(axes, tensors), *_types(tensors), *_pairs(tensors)]


def _axes(axes: Sequence[str], tensors: Sequence[str]) -> Iterator[Restriction]:
    for j, k in combinations(axes, 2):
        yield Restriction(f"{j} != {k}", partial(_axes_differ, j, k), False)
    for k in axes:
        for x in tensors[:1]:
            for sign, holds in SIGNS.items():
                yield Restriction(f"{k} {sign} rank({x}) - 1", partial(_axis_to_rank, k, holds, x, 1), False)
            yield Restriction(f"{k} < rank({x}) - 2", partial(_axis_to_rank, k, lt, x, 2), False)
        yield Restriction(f"{k} > 0", partial(_axis_to_number, k, gt, 0), False)
        yield Restriction(f"{k} == 0", partial(_axis_to_number, k, eq, 0), False)
        yield Restriction(f"{k} != 1", partial(_axis_to_number, k, ne, 1), False)


def _types(tensors: Sequence[str]) -> Iterator[Restriction]:
    for x in tensors[:1]:
        yield Restriction(f"is_float(dtype({x}))", partial(_is_float, x))
    for x, y in combinations(tensors, 2):
        yield Restriction(f"rank({x}) == rank({y})", partial(_same_rank, x, y))
    for x, y in combinations(tensors, 2):
        yield Restriction(f"shape({x}) == shape({y})", partial(_same_shape, x, y))


def _pairs(tensors: Sequence[str]) -> Iterator[Restriction]:
    for axes in ((0, 0), (1, 1), (0, 1), (1, 0)):
        for x, y in combinations(tensors, 2):
            i, j = axes
            yield Restriction(f"dim({x}, {i}) == dim({y}, {j})", partial(_same_dimension, x, i, y, j))
    for x, u in combinations(tensors, 2):
        for y, v in combinations(tensors, 2):
            if x < y and len({x, u, y, v}) == 4:
                text = f"dim({u}, 0) * dim({y}, 1) == dim({v}, 0) * dim({x}, 1)"
                yield Restriction(text, partial(_proportional, x, u, y, v))


def _axes_differ(j: str, k: str, a: Assignment) -> bool:
    return a.attrs[j] != a.attrs[k]


def _axis_to_rank(k: str, holds: Comparison, x: str, less: int, a: Assignment) -> bool:
    return holds(a.attrs[k], a.types[x].rank - less)


def _axis_to_number(k: str, holds: Comparison, number: int, a: Assignment) -> bool:
    return holds(a.attrs[k], number)


def _is_float(x: str, a: Assignment) -> bool:
    return a.types[x].dtype in FLOATS


def _same_rank(x: str, y: str, a: Assignment) -> bool:
    return a.types[x].rank == a.types[y].rank


def _same_shape(x: str, y: str, a: Assignment) -> bool:
    return a.types[x].shape == a.types[y].shape


def _same_dimension(x: str, i: int, y: str, j: int, a: Assignment) -> bool:
    s, t = a.types[x].shape, a.types[y].shape
    return i < len(s) and j < len(t) and s[i] == t[j]


def _proportional(x: str, u: str, y: str, v: str, a: Assignment) -> bool:
    """Whether two kernels have as many outputs for each channel of their inputs."""
    s, p, t, q = (a.types[name].shape for name in (x, u, y, v))
    return min(map(len, (s, p, t, q))) >= 2 and p[0] * t[1] == q[0] * s[1]


def weakest(
    conditions: Sequence[Restriction], passed: Sequence[Assignment], failed: Sequence[Assignment], least: int
) -> Iterator[tuple[str, ...]]:
    """Conditions that together exclude all failures, those first that keep the most of what passed. At least so many
    are kept."""
    kept = {c: frozenset(i for i, a in enumerate(passed) if c.holds(a)) for c in conditions}
    out = {c: frozenset(i for i, a in enumerate(failed) if not c.holds(a)) for c in conditions}
    useful = [c for c in conditions if out[c] and len(kept[c]) >= least]
    useful.sort(key=lambda c: -len(out[c]))
    found: list[tuple[int, tuple[str, ...]]] = [
        (len(kept[c]), (c.text,)) for c in useful if len(out[c]) == len(failed)
    ]
    for c, d in combinations([c for c in useful if c.pairs][:PAIRED], MOST):
        both = kept[c] & kept[d]
        alone = len(out[c]) == len(failed) or len(out[d]) == len(failed)
        if not alone and len(both) >= least and len(out[c] | out[d]) == len(failed):
            found.append((len(both), (c.text, d.text)))
    found.sort(key=lambda x: (-x[0], len(x[1])))
    yield from (texts for _, texts in found)
