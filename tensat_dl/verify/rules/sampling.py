"""Draws instances of a rule: first ranks and axes, then dimensions and attributes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.groups import alike, instantiate
from tensat_dl.verify.assigned import Assigned
from tensat_dl.verify.rules.frame import WIDE_LIMIT, Draw, SizedRule
from tensat_dl.verify.rules.numbers import more_members, sizes

#: Tensors have at most so many elements; where a rule has no such instances, they have up to `WIDE_LIMIT`.
LIMIT = 400
#: Larger ones are not computed: an instance with one tells that a rule has no others.
LARGEST = 1 << 40
#: How many of the ranks are high ones if possible: there are rules that are false for these alone.
HIGH_FIRST = 0.2
#: A number of members for which so many searches for ranks have found none is not tried any more.
VAIN = 3
#: After how many vain attempts in a row no more instances are drawn at the same ranks.
VAIN_DRAWS = 6


class Sampler:
    """Draws instances of a rule. ``without`` are the positions of conditions that are left out; then at least one of
    those is false, so that the instances are such as only the weaker rule has. ``limit`` is for the
    elements of their tensors, ``thorough`` works out what conditions ask for, ``high`` tells how often high ranks
    come first. ``members`` are how many there are, if not as usual."""

    def __init__(
        self,
        rule: RewriteRule,
        infer: Inference,
        seed: int = 0,
        without: Sequence[int] = (),
        limit: int = LIMIT,
        thorough: bool = False,
        high: float = HIGH_FIRST,
        members: Sequence[int] | None = None,
    ) -> None:
        self._high = high
        self._rng = random.Random(f"{seed} {rule.content} {sorted(without)}")
        self._forms = [
            form
            for n in (sizes(rule) or (0,) if members is None else members)
            for form in _forms(rule, infer, n, without, limit, thorough)
        ]
        #: How many searches for ranks have found none, by form, until one does.
        self._vain = dict.fromkeys(self._forms, 0)

    def draw(self) -> Draw | None:
        """One attempt at an instance, with where it is from."""
        if not self._forms:
            return None
        form = self._rng.choice(self._forms)
        high = self._high > 0 and self._rng.random() < self._high
        skeleton = form.skeletons.draw(self._rng, "high" if high else "low")
        if skeleton is None:
            if form in self._vain:
                self._vain[form] += 1
                if self._vain[form] == VAIN:
                    self._forms.remove(form)
            return None
        self._vain.pop(form, None)
        frame = form.frame(skeleton)
        return frame.draw(self._rng) if frame.vain < VAIN_DRAWS else None

    def lowest(self, count: int) -> Iterator[Draw]:
        """As many attempts at instances with the lowest ranks there are."""
        for form in self._forms:
            skeleton = form.skeletons.draw(self._rng, "lowest")
            frame = None if skeleton is None else form.frame(skeleton)
            drawn = () if frame is None else (frame.draw(self._rng) for _ in range(count))
            yield from (d for d in drawn if d is not None)

    def at(self, assigned: Assigned, tries: int = 3) -> Draw | None:
        """An instance of a rule without a group at these ranks and axes, rather without dimensions of 1."""
        (form,) = self._forms
        skeleton = form.skeletons.at(assigned, self._rng)
        frame = None if skeleton is None else form.frame(skeleton)
        if frame is None:
            return None
        drawn = (frame.draw_case(None, self._rng), *(frame.draw(self._rng) for _ in range(tries)))
        return next((d for d in drawn if d is not None), None)

    def several(self, count: int, patience: int) -> Iterator[Draw]:
        """Up to ``count`` different instances, until so many attempts in a row have found no new one."""
        seen: set[str] = set()
        failures = 0
        while len(seen) < count and failures < patience and self._forms:
            failures += 1
            found = self.draw()
            if found is not None and (key := repr(found[2].assignment)) not in seen:
                seen.add(key)
                failures = 0
                yield found


#: Of rules that have large instances only, as they ask for a dimension of 768 or for rank 6, at most so many are
#: drawn. These, and such as have to be worked out, are given up after so many vain attempts.
LARGE_INSTANCES = 6
LARGE_PATIENCE = 40
#: So many instances are drawn of each number of members, if only many have any.
OF_EACH_LENGTH = 3


def instances(
    rule: RewriteRule, infer: Inference, count: int, patience: int, seed: int = 0, high: float = HIGH_FIRST
) -> Iterator[Draw]:
    """Instances of a rule: small ones, or if there are none a few large ones; or if there are none, either, such as
    have what its conditions ask for; or one that is too large to compute."""
    for thorough in (False, True):
        for limit in (LIMIT, WIDE_LIMIT):
            wide = limit == WIDE_LIMIT
            sampler = Sampler(
                rule, infer, seed, limit=limit, thorough=thorough, high=HIGH_FIRST if wide else high
            )
            most = min(count, LARGE_INSTANCES) if wide else count
            found = sampler.several(most, LARGE_PATIENCE if wide or thorough else patience)
            first = next(found, None)
            if first is not None:
                yield first
                yield from found
                return
    longer = more_members(rule)
    for n in longer:
        sampler = Sampler(rule, infer, seed, high=high, members=(n,))
        yield from sampler.several(min(count, OF_EACH_LENGTH), LARGE_PATIENCE)
    if not longer:
        yield from Sampler(rule, infer, seed, limit=LARGEST, thorough=True).several(1, LARGE_PATIENCE)


def _forms(
    rule: RewriteRule, infer: Inference, members: int, without: Sequence[int], limit: int, thorough: bool
) -> Iterator[SizedRule]:
    """A rule for a number of members. Where a condition on each member is left out, it may be false for any of them,
    or for the first or the last alone."""
    kept = tuple(c for i, c in enumerate(rule.conditions) if i not in without)
    dropped = tuple(rule.conditions[i] for i in without)
    if not members:
        yield SizedRule(replace(rule, conditions=kept), dropped, infer, 0, limit, thorough)
        return
    whole = instantiate(replace(rule, conditions=(*kept, *alike(rule))), members)
    rejected = instantiate(replace(rule, conditions=dropped), members).conditions
    yield SizedRule(whole, rejected, infer, members, limit, thorough)
    for k in {0, len(rejected) - 1} if len(rejected) > 1 else ():
        others = (*whole.conditions, *(c for i, c in enumerate(rejected) if i != k))
        yield SizedRule(replace(whole, conditions=others), (rejected[k],), infer, members, limit, thorough)
