"""The instances that a rule is tested on, in two batches: a rule that is proved needs only the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.rules.coverage import Coverage
from tensat_dl.verify.rules.frame import Draw
from tensat_dl.verify.rules.numbers import MOST_MEMBERS, counts_members, sizes
from tensat_dl.verify.rules.sampling import LARGE_PATIENCE, Sampler, instances

#: How many instances a rule is tested on, and after how many vain attempts no more are looked for.
INSTANCES = 36
PATIENCE = 150
#: After so many random ones a proof is looked for.
FIRST = 12
MOST_DRAWN = 4 * INSTANCES  #: instances whose sides are the same graph included
#: How often an instance with a number of members is looked for.
DRAWS = 8
#: After so many numbers of members in a row of which none was found, no higher ones are looked for.
VAIN_LENGTHS = 2


class Telling:
    """Instances of a rule whose sides are different graphs: where both are one graph nothing is tested. If they
    always are, such instances."""

    def __init__(self, rule: RewriteRule, infer: Inference, seed: int, coverage: Coverage) -> None:
        self._rule = rule
        self._infer = infer
        self._seed = seed
        self._coverage = coverage
        self._drawn = instances(rule, infer, MOST_DRAWN, PATIENCE, seed)
        self._plain: list[Draw] = []
        self._count = 0
        self._left = set(sizes(rule))

    def first(self) -> Iterator[Draw]:
        """Random ones; some for each element type that these do not have; and one for each number of members that
        none has had."""
        yield from self._different(self._drawn, FIRST)
        yield from self._different(self._coverage.types(), MOST_DRAWN)
        if self._count == 0:
            yield from self._plain[:INSTANCES]
            return
        yield from self._of_members(sorted(self._left), LARGE_PATIENCE)

    def others(self) -> Iterator[Draw]:
        """More random ones, and such as have numbers that are 0 or 1. Where a rule counts members, it may be another
        one for each number of them: one for each that has not been tried."""
        if self._count:
            yield from self._different(self._coverage.numbers(), MOST_DRAWN)
            yield from self._different(self._drawn, INSTANCES - FIRST)
            tried = sizes(self._rule)
            if tried and counts_members(self._rule):
                others = {*range(tried[0], MOST_MEMBERS + 1)} - {*tried}
                yield from self._of_members(sorted(others), DRAWS, VAIN_LENGTHS)

    def _of_members(self, numbers: Iterable[int], patience: int, vain: int = 0) -> Iterator[Draw]:
        """One for each number of members, if there is one whose sides are different; up to ``vain`` numbers in a row
        of which there is none."""
        without = 0
        for n in numbers:
            sampler = Sampler(self._rule, self._infer, self._seed, members=(n,))
            different = (d for d in sampler.several(DRAWS, patience) if d[2].before != d[2].after)
            found = next(different, None)
            without = 0 if found else without + 1
            if found:
                yield found
            elif without == vain:
                return

    def _different(self, draws: Iterator[Draw], enough: int) -> Iterator[Draw]:
        """Those of different sides, until ``enough`` of these were told of."""
        enough += self._count
        while self._count < enough and (draw := next(draws, None)) is not None:
            self._left.discard(draw[2].members)
            if draw[2].before == draw[2].after:
                self._plain.append(draw)
                self._coverage.note(draw)
            else:
                self._count += 1
                yield draw
