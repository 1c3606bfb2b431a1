"""The cases of a rule that its instances have met, and instances that meet others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, combinations, islice, pairwise, permutations, product

from tensat_dl.core.expression import base_of
from tensat_dl.core.graph import DTYPES, Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Condition, EvaluationError, Int, Opaque, Sym
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.assigned import Assigned
from tensat_dl.verify.rules.cases import SMALL, RuleCase, named, place
from tensat_dl.verify.rules.frame import CASE_LIMIT, Draw, Frame
from tensat_dl.verify.rules.numbers import MOST_MEMBERS, counts_members, more_members, sizes
from tensat_dl.verify.rules.sampling import Sampler
from tensat_dl.verify.rules.unknowns import INTEGERS, Values
from tensat_dl.verify.symbolic.assumptions import Assumptions, Undecided
from tensat_dl.verify.symbolic.solver import TooHard

#: How many frames a case is looked for in, at most, and how many cases of each kind are looked for.
FRAMES = 3
MOST = 40
#: How many more instances have each element type where a rule casts.
MORE_OF_TYPE = 6
#: How many instances of a rule without a proof have a number be 0, and 1.
OF_EACH_NUMBER = 5
#: How many more instances are of integers where quotients of these are rounded.
MORE_INTEGERS = 40
#: So many places narrow floats do not tell apart. Those of f32, 2^24, are too many to draw.
PLACES = {"bf16": 258, "f16": 2050}
#: Operators that round quotients of integers.
QUOTIENTS = frozenset(("ewdiv", "poolavg", "reduce_mean"))
#: How often an instance without dimensions of 1 is looked for, or one of which two things are asked.
WIDE_TRIES = 3
#: How many numbers are tried in the place of one that a rule compares.
MOST_VALUES = 16
#: How many other numbers are tried in its place, and how many instances in each frame, to see one that matters.
CHANGES = 3
#: Where numbers between two others are: one in the middle, and one that is not in the middle of anything.
BETWEEN = (0.5, 0.382)
#: How many of the cases that were never tried are told.
MOST_TOLD = 4


class Coverage:
    """Which cases instances have met. ``rng`` decides about instances of others. ``differs`` tells whether two graphs
    of the same inputs compute different outputs."""

    def __init__(
        self,
        rule: RewriteRule,
        infer: Inference,
        rng: random.Random,
        differs: Callable[[Graph, Graph], bool],
    ) -> None:
        self._rule = rule
        self._rng = rng
        self._differs = differs
        ops = infer.table.closure(n.op for n in rule.nodes)
        self._casts, self._divides = "cast" in ops, not ops.isdisjoint(QUOTIENTS)
        self._sizes = (*sizes(rule), *more_members(rule)) or (0,)
        self._met: set[str] = set()
        self._met_wide: set[str] = set()  #: on an instance without dimensions of 1
        self._tried: set[Assigned] = set()
        self._later: list[Draw] = []  #: noted, of which other cases than element types were not asked for
        self._first: dict[str, int] = {}  #: the first values of products of outcomes
        self._types: dict[Frame, tuple[RuleCase, ...]] = {}
        self._cases: dict[Frame, tuple[RuleCase, ...]] = {}
        self._where: dict[
            str, dict[Frame, RuleCase]
        ] = {}  #: the cases by name, and by the frames that have them
        self._numbers: set[str] = set()  #: the cases that a number is a certain one
        self._wide: dict[Frame, bool] = {}  #: whether frames have instances without dimensions of 1
        self._assumed: dict[tuple[Frame, bool], Assumptions] = {}

    def note(self, draw: Draw) -> None:
        """Takes note of an instance on which both sides were equal. A rule that is proved is not asked for more than
        its element types, so other cases are looked at later."""
        frame = draw[0]
        self._tried.add(frame.assigned)
        if frame.form.members in self._sizes:  # each member more has cases of its own
            self._later.append(draw)
        if frame not in self._types:
            self._types[frame] = self._known(frame, _types_of(frame))
        self._meet(draw, self._types[frame], wide=False)

    def _look(self) -> None:
        """Takes note of all cases of the instances that were noted."""
        for draw in self._later:
            frame, values, _ = draw
            wide = frame.is_wide(values)
            if wide:
                self._wide[frame] = True
            if frame not in self._cases:
                self._cases[frame] = self._known(
                    frame, chain(self._cases_of(frame), self._varied(frame, values))
                )
            self._meet(draw, self._cases[frame], wide)
        self._later.clear()

    def _known(self, frame: Frame, found: Iterable[RuleCase]) -> tuple[RuleCase, ...]:
        """Cases that a frame has."""
        known = tuple(found)
        for case in known:
            self._where.setdefault(case.name, {})[frame] = case
        return known

    def _meet(self, draw: Draw, found: Iterable[RuleCase], wide: bool) -> None:
        """Takes note of which of these cases an instance has."""
        frame, values, _ = draw
        for case in found:
            new = case.name not in self._met or (wide and case.told and case.name not in self._met_wide)
            if new and frame.meets(case, values) and self._matters(draw, case):
                self._met.add(case.name)
                if wide:
                    self._met_wide.add(case.name)

    def _matters(self, draw: Draw, case: RuleCase) -> bool:
        """Whether a side computes something else with another number, if a case is that a number is a certain one:
        what a pad is filled with tells nothing where nothing is padded. A number that must be this one matters."""
        if case.name not in self._numbers:
            return True
        frame, values, instance = draw
        x, value = _parts(case)
        others = (v for v in _between(frame.form.constants) if v != value)
        changed = (c for v in others if (c := frame.changed(values, x, v)) is not None)
        found = [c[2] for c in islice(changed, CHANGES)]
        return not found or any(
            self._differs(instance.before, c.before) or self._differs(instance.after, c.after) for c in found
        )

    def types(self) -> Iterator[Draw]:
        """Instances with element types that none has had; where a rule casts, a few of each type: of numbers that a
        narrow type takes for one another, few differ in what is made of them."""
        for name in [n for n in self._where if n.startswith(_TYPES)]:
            frames = [(f, self._where[name][f]) for f in self._frames(name)]
            for frame, case in frames:
                if name in self._met:
                    break
                if (found := frame.draw_case(case, self._rng, wide=False)) is not None:
                    yield found
            if self._casts and name in self._met:
                yield from self._more(name, MORE_OF_TYPE)

    def _more(self, name: str, count: int) -> Iterator[Draw]:
        """Instances of a case in several frames."""
        frames = self._frames(name)
        for _ in range(count):
            frame = self._rng.choice(frames)
            if (found := frame.draw_case(self._where[name][frame], self._rng)) is not None:
                yield found

    def integers(self) -> Iterator[Draw]:
        """Instances of integers whose quotients are rounded, if the rule has any: no proof is about these."""
        for name in [n for n in self._where if n.startswith(_TYPES) and n.endswith(" i32")]:
            if self._divides and name in self._met:
                yield from self._more(name, MORE_INTEGERS)

    def places(self) -> Iterator[Draw]:
        """Instances with more places than narrow floats tell apart, if the rule casts places: no proof is about
        rounding."""
        if not {"iota", "cast"} <= {n.op for n in self._rule.nodes}:
            return
        for frame in [*self._types][:FRAMES]:
            axes = frame.axes.values()
            sizes = {x: sym.only_atom(x) or () for x in frame.unknowns if isinstance(x, Sym)}
            long = [x for x, a in sizes.items() if a[0] == "elem" and a[2] in (axes or a)]
            types = [x for x in frame.unknowns if isinstance(x, Opaque) and frame.is_dtype(x)]
            for x, (dtype, count) in product(long, PLACES.items()):
                flat = sym.all_of(sym.at_most(y, 1) for y, a in sizes.items() if y != x and a[0] == "elem")
                for narrow in (True, *(sym.equal(t, dtype) for t in types)):
                    many = sym.all_of((sym.at_most(count, x), narrow))
                    attempts = (
                        frame.draw_case(named(c, frame.names), self._rng, wide=False)
                        for c in (sym.all_of((many, flat)), many)
                        if isinstance(c, Condition)
                    )
                    if (found := next(filter(None, attempts), None)) is not None:
                        yield found

    def numbers(self) -> Iterator[Draw]:
        """Instances in which a number that a rule matches is 0, or 1, as most functions of it are others there. They
        have no dimensions of 1, so that what moves elements does something."""
        places: dict[str, list[tuple[Frame, Opaque]]] = {}
        for frame in self._types:
            for x in frame.unknowns:
                if isinstance(x, Opaque) and self._is_number(frame, x):
                    places.setdefault(base_of(x.atom[1]), []).append((frame, x))
        for found in places.values():
            for value in (0.0, 1.0) * OF_EACH_NUMBER:
                frame, x = self._rng.choice(found)
                if (draw := frame.draw_case(_same(x, value), self._rng)) is not None:
                    yield draw

    def others(self) -> Iterator[Draw]:
        """Instances of cases that were not met, one for each case, as far as any are found."""
        self._look()
        for told, wide in ((True, True), (True, False), (False, False)):
            names = [n for n in self._where if self._is_told(n) is told and not n.startswith(_TYPES)]
            names = sorted(self._rng.sample(names, len(names)), key=lambda n: n not in self._numbers)
            yield from self._instances(names[:MOST], wide)

    def at(self, sampler: Sampler, places: Iterable[Assigned]) -> Iterator[Draw]:
        """Instances at ranks and axes that none has had."""
        for assigned in islice((p for p in places if p not in self._tried), MOST):
            found = sampler.at(assigned)
            if found is not None:
                yield found

    def _instances(self, names: Iterable[str], wide: bool = False) -> Iterator[Draw]:
        """``wide`` ones have no dimensions of 1."""
        met = self._met_wide if wide else self._met
        for name in names:
            for frame in self._frames(name):
                self._look()
                if name in met:
                    break
                case = self._where[name][frame]
                if (wide and not self._has_wide(frame)) or not self._possible(frame, case):
                    continue
                if name in self._numbers:
                    yield from self._until_met(frame, case)
                    continue
                tries = WIDE_TRIES if wide or case.condition.kind == "and" else 1
                drawn = (frame.draw_case(case, self._rng, wide) for _ in range(tries))
                found = next((d for d in drawn if d is not None), None)
                if found is not None:
                    yield found

    def _until_met(self, frame: Frame, case: RuleCase) -> Iterator[Draw]:
        """Instances in which a number is a certain one, until it matters in one."""
        for _ in range(CHANGES):
            found = frame.draw_case(case, self._rng, wide=False)
            if found is not None:
                yield found
            self._look()
            if case.name in self._met:
                return

    def _frames(self, name: str) -> Sequence[Frame]:
        """Some of those that have a case, the smallest."""
        frames = [*self._where[name]]
        self._rng.shuffle(frames)
        return sorted(frames, key=lambda f: sum(map(len, f.skeleton.shapes)))[:FRAMES]

    def _has_wide(self, frame: Frame) -> bool:
        """Whether a frame was seen to have an instance without dimensions of 1. One that has none, as far as a few
        attempts tell, has none of any case."""
        if frame not in self._wide:
            drawn = (frame.draw_case(None, self._rng) for _ in range(WIDE_TRIES))
            self._wide[frame] = any(d is not None for d in drawn)
        return self._wide[frame]

    def untried(self, places: Sequence[Assigned] = ()) -> Iterator[str]:
        """Remarks about those of these ranks and axes that no instance has, and about the cases that none has met,
        though nothing excludes them."""
        self._look()
        left = [p for p in places if p not in self._tried]
        if left:
            others = f", and {len(left) - 1} more choices of ranks and axes" if len(left) > 1 else ""
            yield f"never tried: {left[0]}{others}"
        untried: list[RuleCase] = []
        for name, found in self._where.items():
            if name not in self._met and self._is_told(name):
                untried += islice((c for f, c in found.items() if self._possible(f, c)), 1)
        different = [c.condition.args[0] for c in untried if c.condition.kind == "ne"]
        untried = [c for c in untried if not _tells_which_is_less(c.condition, different)]
        for case in untried[:MOST_TOLD]:
            yield f"never tried: {self._told(case)}"
        if (more := len(untried) - MOST_TOLD) > 0:
            yield f"never tried: {more} more case{'s' if more > 1 else ''}"
        for name, found in self._where.items():
            if name not in self._met or name in self._met_wide or not self._is_told(name):
                continue
            frame, case = next(iter(found.items()))
            if place(case, self._rule) and self._possible(frame, case, wide=True):
                yield f"tried only with dimensions of 1: {self._told(case)}"
        if counts_members(self._rule):
            yield f"never tried: more than {MOST_MEMBERS} members"

    def _told(self, case: RuleCase) -> str:
        where = place(case, self._rule)
        return f"`{case.text}`" + (f", of `{where}`" if where else "")

    def _is_told(self, name: str) -> bool:
        return next(iter(self._where[name].values())).told

    def _possible(self, frame: Frame, case: RuleCase, wide: bool = False) -> bool:
        """Whether the conditions leave room for a case, or for one without dimensions of 1, as far as z3 tells."""
        if not case.told:
            return True
        if _is_less_than_part(case.condition):  # seen without z3, too
            return False
        key = (frame, wide)
        try:
            if key not in self._assumed:
                self._assumed[key] = Assumptions((*frame.skeleton.conditions, *(frame.wide if wide else ())))
            return self._assumed[key].truth(case.condition) is not False
        except (TooHard, Undecided):
            return True

    def _cases_of(self, frame: Frame) -> Iterator[RuleCase]:
        """Those of the rule, and such as are to be tried whether or not an expression asks for them."""
        yield from frame.cases
        for x in frame.unknowns:
            if isinstance(x, Opaque) and self._is_number(frame, x):
                for case in (_same(x, v) for v in _between(frame.form.constants)):
                    self._numbers.add(case.name)
                    yield case
            elif isinstance(x, Sym):
                yield from self._beyond(frame, x)
        yield from self._of_one_type(frame)
        whole = [x for x in frame.unknowns if isinstance(x, Sym) and (sym.only_atom(x) or "-")[0] != "dim"]
        for both in (sym.all_of(sym.at_most(2, x) for x in xs) for xs in combinations(whole, 2)):
            if isinstance(both, Condition):  # blocks of blocks: where one has a size of 1, the other does all
                yield named(both, frame.names, told=False)
        floats = [x for x in frame.unknowns if isinstance(x, Opaque) and self._is_number(frame, x)]
        for x, y in permutations(floats, 2):
            pair = f"{x.atom[1]}, {y.atom[1]}"
            less, inverse = sym.below(x, y), sym.all_of((sym.equal(x, 2.0), sym.equal(y, 0.5)))
            assert isinstance(less, Condition)
            assert isinstance(inverse, Condition)
            yield RuleCase(f"{pair}: below", pair, less, told=False)
            yield RuleCase(f"{pair}: reciprocals", pair, inverse, told=False)

    def _varied(self, frame: Frame, values: Values) -> Iterator[RuleCase]:
        """Products of outcomes are not always what they were first."""
        for name, p in frame.products.items():
            with suppress(ArithmeticError, EvaluationError):
                first = self._first.setdefault(name, frame.problem.value(p, values))
                differs = sym.negate(sym.equal(p, first))
                if isinstance(differs, Condition):
                    yield named(differs, frame.names)

    @staticmethod
    def _of_one_type(frame: Frame) -> Iterator[RuleCase]:
        """A tensor, and what an attribute such as a cast's ``to`` says, have one element type: there and back again
        shows what is lost on the way."""
        opaque = [x for x in frame.unknowns if isinstance(x, Opaque)]
        for x, y in product((x for x in opaque if x.atom[0] == "dtype"), filter(frame.is_dtype, opaque)):
            for t in DTYPES:
                both = sym.all_of((sym.equal(x, t), sym.equal(y, t)))
                assert isinstance(both, Condition)
                name = f"{x.atom[1]}, {y.atom[1]}: {t}"
                yield RuleCase(name, name, both, told=False)

    def _beyond(self, frame: Frame, x: Sym) -> Iterator[RuleCase]:
        """Sizes beyond each number of the rule, and those that wrap around: along its axes, and along others."""
        a = sym.only_atom(x)
        if a is None or a[0] not in INTEGERS:
            return
        axes = frame.axes.values()
        place = [k == a[2] for k in axes] if axes and len(a) > 2 else a[2:]
        for n in frame.form.constants:
            if SMALL < n <= CASE_LIMIT:
                beyond = sym.at_most(int(n) + 2, x)
                assert isinstance(beyond, Condition)
                name = f"{a[1]} {place} beyond {n}"
                yield RuleCase(name, name, beyond, told=False)
        for n in frame.form.wraps:
            wrapping = sym.equal(n, x)
            if isinstance(wrapping, Condition):
                name = f"{a[1]} {place} is {n}"
                yield RuleCase(name, name, wrapping, told=False)

    @staticmethod
    def _is_number(frame: Frame, x: Opaque) -> bool:
        return x.atom[0] == "value" or frame.is_float(x)


def _between(numbers: Iterable[float]) -> Sequence[float]:
    """Numbers between these, beyond them, and these."""
    points = sorted({-1.0, 0.0, 1.0, *map(float, numbers)})
    middle, others = ([low + part * (high - low) for low, high in pairwise(points)] for part in BETWEEN)
    return [*middle, 2 * points[0] - 1, 2 * points[-1] + 1, *others, *points][:MOST_VALUES]


def _tells_which_is_less(c: Condition, different: Sequence[Int]) -> bool:
    """Whether a condition p < 0 is about a number p that was never tried to be other than 0."""
    p = sym.sub(c.args[0], 1) if c.kind == "le" else 0
    return p in different or sym.neg(p) in different


def _is_less_than_part(c: Condition) -> bool:
    """Whether a condition says that a maximum is less than one of its operands, or that one of a minimum's is less
    than the minimum."""
    if c.kind != "le" or len(c.args[0].terms) != 3 or c.args[0].coefficients.get((), 0) < 1:
        return False
    by = {k: m[0] for m, k in c.args[0].terms if len(m) == 1}
    low, high = by.get(1), by.get(-1)
    if low is None or high is None:
        return False
    return (low[0] == "max" and sym.atom(*high) in low[1:]) or (
        high[0] == "min" and sym.atom(*low) in high[1:]
    )


def _types_of(frame: Frame) -> Iterator[RuleCase]:
    """The cases that a tensor has an element type, for one of each set of tensors that must have the same."""
    value = frame.problem.facts.value
    for x in dict.fromkeys(value(x) for x in frame.unknowns if isinstance(x, Opaque)):
        if isinstance(x, Opaque) and x.atom[0] == "dtype":
            for t in DTYPES:
                same = sym.equal(x, t)
                assert isinstance(same, Condition)
                name = f"{_TYPES}{base_of(x.atom[1])} {t}"
                yield RuleCase(name, name, same, told=False)


#: What the names of these cases begin with.
_TYPES = "element type of "


def _same(x: Opaque, value: float) -> RuleCase:
    same = sym.equal(x, value)
    assert isinstance(same, Condition)
    name = f"{x.atom[1]} {value}"
    return RuleCase(name, name, same, told=False)


def _parts(case: RuleCase) -> tuple[Opaque, str | float]:
    """Of a case that an unknown is a certain value: both."""
    left, right = case.condition.args
    return (left, right) if isinstance(left, Opaque) else (right, left)
