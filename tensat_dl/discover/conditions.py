"""Conditions that a rule may need: a menu, and the weakest choice from it that excludes all failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tensat_dl.core.graph import FLOATS
from tensat_dl.verify.rules.instance import Assignment

#: At most so many conditions are chosen.
MOST = 2
#: Of the conditions that exclude a failure so many are tried in pairs.
PAIRED = 16
#: The axes of which dimensions are compared: of a convolution these are images, channels and outputs.
AXES = (0, 1)


@dataclass(frozen=True, slots=True)
class Condition:
    """The text of a condition, and whether it holds for an instance."""

    text: str
    holds: Callable[[Assignment], bool]
    pairs: bool = True  #: whether it may be one of several


def menu(tensors: Sequence[str], attrs: Mapping[str, str]) -> list[Condition]:
    """Conditions about the tensors and attributes of a rule, the simplest first. ``attrs`` has the types of
    attributes."""
    axes = [name for name, kind in attrs.items() if kind == "axis"]
    return [*_axes(axes, tensors), *_types(tensors), *_pairs(tensors)]


def _axes(axes: Sequence[str], tensors: Sequence[str]) -> Iterator[Condition]:
    for j, k in combinations(axes, 2):
        yield Condition(f"{j} != {k}", lambda a, j=j, k=k: a.attrs[j] != a.attrs[k], False)  # type: ignore[misc]
    for k in axes:
        for x in tensors[:1]:
            last = f"rank({x}) - 1"
            yield Condition(f"{k} != {last}", lambda a, k=k, x=x: a.attrs[k] != a.types[x].rank - 1, False)  # type: ignore[misc]
            yield Condition(f"{k} == {last}", lambda a, k=k, x=x: a.attrs[k] == a.types[x].rank - 1, False)  # type: ignore[misc]
            before = f"rank({x}) - 2"
            yield Condition(f"{k} < {before}", lambda a, k=k, x=x: a.attrs[k] < a.types[x].rank - 2, False)  # type: ignore[misc, operator]
        yield Condition(f"{k} > 0", lambda a, k=k: a.attrs[k] > 0, False)  # type: ignore[misc, operator]
        yield Condition(f"{k} == 0", lambda a, k=k: a.attrs[k] == 0, False)  # type: ignore[misc]
        yield Condition(f"{k} != 1", lambda a, k=k: a.attrs[k] != 1, False)  # type: ignore[misc]


def _types(tensors: Sequence[str]) -> Iterator[Condition]:
    for x in tensors[:1]:
        yield Condition(f"is_float(dtype({x}))", lambda a, x=x: a.types[x].dtype in FLOATS)  # type: ignore[misc]
    for x, y in combinations(tensors, 2):
        yield Condition(f"rank({x}) == rank({y})", lambda a, x=x, y=y: a.types[x].rank == a.types[y].rank)  # type: ignore[misc]
    for x, y in combinations(tensors, 2):
        yield Condition(f"shape({x}) == shape({y})", lambda a, x=x, y=y: a.types[x].shape == a.types[y].shape)  # type: ignore[misc]


def _pairs(tensors: Sequence[str]) -> Iterator[Condition]:
    for x, y in combinations(tensors, 2):
        for i in AXES:
            yield Condition(f"dim({x}, {i}) == dim({y}, {i})", lambda a, x=x, y=y, i=i: _equal(a, x, i, y, i))  # type: ignore[misc]
    for x, y in combinations(tensors, 2):
        for i, j in ((0, 1), (1, 0)):
            yield Condition(f"dim({x}, {i}) == dim({y}, {j})", lambda a, x=x, y=y, i=i, j=j: _equal(a, x, i, y, j))  # type: ignore[misc]
    for x, u in combinations(tensors, 2):
        for y, v in combinations(tensors, 2):
            if x < y and len({x, u, y, v}) == 4:
                yield Condition(
                    f"dim({u}, 0) * dim({y}, 1) == dim({v}, 0) * dim({x}, 1)",
                    lambda a, x=x, u=u, y=y, v=v: _proportional(a, x, u, y, v),  # type: ignore[misc]
                )


def _equal(a: Assignment, x: str, i: int, y: str, j: int) -> bool:
    s, t = a.types[x].shape, a.types[y].shape
    return i < len(s) and j < len(t) and s[i] == t[j]


def _proportional(a: Assignment, x: str, u: str, y: str, v: str) -> bool:
    shapes = [a.types[name].shape for name in (u, y, v, x)]
    if any(len(s) < 2 for s in shapes):
        return False
    p, q, r, s = shapes
    return p[0] * q[1] == r[0] * s[1]


def weakest(
    conditions: Sequence[Condition], passed: Sequence[Assignment], failed: Sequence[Assignment], least: int
) -> Iterator[tuple[str, ...]]:
    """Conditions that together exclude all failures, those first that keep the most of what passed. At least so many
    are kept."""
    kept = {c: frozenset(i for i, a in enumerate(passed) if c.holds(a)) for c in conditions}
    out = {c: frozenset(i for i, a in enumerate(failed) if not c.holds(a)) for c in conditions}
    useful = [c for c in conditions if out[c] and len(kept[c]) >= least]
    useful.sort(key=lambda c: -len(out[c]))
    found = [(len(kept[c]), (c.text,)) for c in useful if len(out[c]) == len(failed)]
    for c, d in combinations([c for c in useful if c.pairs][:PAIRED], MOST):
        both = kept[c] & kept[d]
        alone = len(out[c]) == len(failed) or len(out[d]) == len(failed)
        if not alone and len(both) >= least and len(out[c] | out[d]) == len(failed):
            found.append((len(both), (c.text, d.text)))
    found.sort(key=lambda x: (-x[0], len(x[1])))
    yield from (texts for _, texts in found)
