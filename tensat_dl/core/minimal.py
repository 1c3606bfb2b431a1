"""The fewest of many items that are to blame, or are needed, found by asking about some of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def minimal(items: Sequence[Item], suffices: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """Some of the items that suffice together, while without any one of them they would not, given that all do.

    QuickXplain (Junker 2004): with k items left of n it asks O(k log(n / k)) times. The result suffices. Nothing in
    it can be left out if more items than suffice suffice, too.
    """
    return _minimal([], False, list(items), suffices)


def _minimal(
    given: list[Item], changed: bool, items: list[Item], suffices: Callable[[Sequence[Item]], bool]
) -> list[Item]:
    """The items that must be added to ``given``; ``changed`` says whether it has grown since it was asked about."""
    if changed and suffices(given):
        return []
    if len(items) <= 1:
        return items if changed or not items or not suffices(given) else []
    half = len(items) // 2
    first, second = items[:half], items[half:]
    of_second = _minimal(given + first, True, second, suffices)
    of_first = _minimal(given + of_second, bool(of_second), first, suffices)
    return of_first + of_second
