"""Narrows many items down to a minimal set that suffices, by asking about subsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def minimal(items: Sequence[Item], suffices: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A subset of the items that suffices, while it would not without any one of its items. All items must suffice.

    QuickXplain (Junker 2004): with k items left of n it asks O(k log(n / k)) times. The result always suffices. It is
    minimal if every set that contains a sufficient set suffices, too.
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
