"""Which of several graphs is the answer, by how long they take.

First all take turns, and the best one is picked. Being the best of several makes it look better than it is. So it
meets the original again, afresh and without the others, and only that decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from tensat_dl.measure.outcome import Candidate, Outcome
from tensat_dl.measure.statistics import Samples, latency, ratio_to_first, rough_ratio, settled
from tensat_dl.verify.agreement import Agreement

#: Rounds of the first heat, and after how many of the second one it is looked at whether that is enough. Each starts
#: afresh: in a new process, or with everything in another place of memory.
HEAT, LOOKS = 2, (4, 8, 16)

#: A graph, as whatever times it takes it.
Entrant = TypeVar("Entrant")
_Timed = TypeVar("_Timed", contravariant=True)


class Timer(Protocol[_Timed]):
    """Times graphs, the original first, in so many fresh starts: by start, by round, the seconds of each."""

    def __call__(self, entrants: Sequence[_Timed], starts: int, /) -> Samples: ...


def expected(entrants: int, done: int) -> int:
    """How many starts there will be, as far as is known when so many are done: the second heat may take more."""
    heat = HEAT * (entrants > 1)
    return heat + next((look for look in LOOKS if heat + look > done), LOOKS[-1])


def decide(
    outcome: Outcome,
    entrants: list[Candidate],
    original: Entrant,
    paths: Mapping[int, Entrant],
    check: Callable[[Entrant], Agreement],
    timer: Timer[Entrant],
) -> Outcome:
    """The outcome, given the candidates that compute the same as the original, by position, and how to check one of
    them thoroughly, and how to time."""
    order = list(paths)
    if len(paths) > 1:
        heat = timer([original, *paths.values()], HEAT)
        for k, i in enumerate(paths, 1):
            entrants[i] = replace(entrants[i], ratio=rough_ratio(heat, k))
        order.sort(key=lambda i: entrants[i].ratio or 1.0)
    for best in order:
        found = check(paths[best])
        if found.status == "agrees":
            break
        entrants[best] = replace(entrants[best], reason=found.message)
    else:
        return replace(outcome, candidates=tuple(entrants), reason="no candidate could be compared")
    final: list[Sequence[Sequence[float]]] = []
    for look in LOOKS:
        final += timer([original, paths[best]], look - len(final))
        if settled(final, 1, LOOKS[-1]):
            break
    ratio = ratio_to_first(final, 1)
    return replace(
        outcome,
        candidates=tuple(entrants),
        best=best,
        reason="" if ratio.high < 1 else "no candidate is faster beyond noise",
        before=latency(final, 0),
        after=latency(final, 1),
        ratio=ratio,
        agreement=found,
    )
