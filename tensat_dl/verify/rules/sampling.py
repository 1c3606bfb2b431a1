"""Draws instances of a rule: first ranks and axes, then dimensions and attributes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import calls_of, children, facts_of, names_of
from tensat_dl.core.graph import TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import Condition, EvaluationError, Opaque, Sym, at_most, atom, fact, substitute
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.groups import alike, instantiate
from tensat_dl.verify.assigned import Assigned
from tensat_dl.verify.rules.cases import RuleCase, cases, products
from tensat_dl.verify.rules.domains import RandomDomain, SmallerDomain
from tensat_dl.verify.rules.instance import Assignment, Instance, build
from tensat_dl.verify.rules.skeleton import HIGH, Skeleton, Skeletons, attribute_variables
from tensat_dl.verify.rules.solve import Constraints, Domain
from tensat_dl.verify.rules.unknowns import Values

#: How many members a group gets, and how many elements a list; and numbers around those of a rule, up to the most.
MEMBERS = (2, 3, 4)
LENGTHS = (1, 2, 3, 4)
MOST_MEMBERS = 17
#: The most where a rule has no instances with fewer: it asks for more.
LONGEST = 65
#: Tensors have at most so many elements; where a rule has no such instances, so many more.
LIMIT = 400
WIDE_LIMIT = 1 << 22
#: Larger ones are not computed: an instance with one tells that a rule has no others.
LARGEST = 1 << 40
#: At most so many elements have the tensors of instances that meet a certain case.
CASE_LIMIT = 1 << 18
#: How many of the ranks are high ones if possible: there are rules that are false for these alone.
HIGH_FIRST = 0.2
#: A number of members for which so many searches for ranks have found none is not tried any more.
VAIN = 3
#: After how many vain attempts in a row no more instances are drawn at the same ranks.
VAIN_DRAWS = 6


#: An instance, with the ranks and the solution that it is made of.
Draw = tuple["Frame", Values, Instance]


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


def sizes(rule: RewriteRule) -> tuple[int, ...]:
    """For how many members a rule is examined: of a group, or elements of a list; none for other rules."""
    if rule.index is None:
        return ()
    usual = LENGTHS if rule.takes_lists else MEMBERS
    return (*usual, *_near(numbers_of(rule), max(usual), MOST_MEMBERS))


def more_members(rule: RewriteRule) -> tuple[int, ...]:
    """For how many members a group or list rule is examined that has no instances with fewer: for numbers near those
    that its conditions compare a length with."""
    lengths = (c for c in rule.conditions if any(call.fn == "len" for call in calls_of(c)))
    return () if rule.index is None else _near(_numbers(tuple(lengths)), MOST_MEMBERS, LONGEST)


def _near(numbers: Iterable[int | float], above: int, most: int) -> tuple[int, ...]:
    """Numbers near these, within bounds."""
    near = {n + d for n in numbers if isinstance(n, int) for d in (-1, 0, 1, 2)}
    return tuple(sorted(n for n in near if above < n <= most))


def counts_members(rule: RewriteRule) -> bool:
    """Whether a group or list rule compares or divides the place of a member or the number of members: it may be
    another rule for more members than are tried."""
    attrs = (k.value for n in rule.nodes for k in n.attrs)
    parts = (*rule.conditions, *attrs, *(expr for _, expr in rule.target.lets))
    return rule.index is not None and any(_counts(part, rule.index) for part in parts)


def _counts(tree: object, index: str) -> bool:
    match tree:
        case ex.Binary(op) if op not in ("+", "-", "*", "and", "or"):
            found = any(_is_number_of_members(part, index) for part in children(tree))
        case ex.Call("min" | "max") | ex.Index(ex.ListExpr()):
            found = any(_is_number_of_members(part, index) for part in children(tree))
        case _:
            found = False
    return found or any(_counts(part, index) for part in children(tree))


def _is_number_of_members(tree: object, index: str) -> bool:
    """Whether an expression has the place of a member, other than to name what is its own, or the number of them."""
    match tree:
        case ex.Name(name):
            return name == index
        case ex.Call("len"):
            return True
        case ex.Index(base, place):
            return _is_number_of_members(base, index) or (
                not isinstance(place, ex.Name) and _is_number_of_members(place, index)
            )
    return any(_is_number_of_members(part, index) for part in children(tree))


def numbers_of(rule: RewriteRule) -> tuple[int | float, ...]:
    """The numbers that a rule is written with: in its conditions, attributes and lets."""
    attrs = tuple(k.value for n in rule.nodes for k in n.attrs)
    lets = tuple(expr for _, expr in rule.target.lets)
    return tuple(n for n in dict.fromkeys(_numbers((*rule.conditions, *attrs, *lets))) if isfinite(n))


def _forms(
    rule: RewriteRule, infer: Inference, members: int, without: Sequence[int], limit: int, thorough: bool
) -> Iterator[_Form]:
    """A rule for a number of members. Where a condition on each member is left out, it may be false for any of them,
    or for the first or the last alone."""
    kept = tuple(c for i, c in enumerate(rule.conditions) if i not in without)
    dropped = tuple(rule.conditions[i] for i in without)
    if not members:
        yield _Form(replace(rule, conditions=kept), dropped, infer, 0, limit, thorough)
        return
    whole = instantiate(replace(rule, conditions=(*kept, *alike(rule))), members)
    rejected = instantiate(replace(rule, conditions=dropped), members).conditions
    yield _Form(whole, rejected, infer, members, limit, thorough)
    for k in {0, len(rejected) - 1} if len(rejected) > 1 else ():
        others = (*whole.conditions, *(c for i, c in enumerate(rejected) if i != k))
        yield _Form(replace(whole, conditions=others), (rejected[k],), infer, members, limit, thorough)


class _Form:
    """A rule as it is for one number of members, and what to draw its instances with."""

    def __init__(
        self,
        rule: RewriteRule,
        rejected: tuple[ex.Expr, ...],
        infer: Inference,
        members: int,
        limit: int,
        thorough: bool,
    ) -> None:
        self.members = members
        self.rule = rule
        self.thorough = thorough
        self.limit = limit
        self.skeletons = Skeletons(rule, infer, rejected)
        self.infer = infer
        self.rejected = rejected
        self.attrs = attribute_variables(rule, infer.table)
        conditions = (*rule.conditions, *rejected)
        self.every_type = thorough or any(call.fn == "dtype" for call in calls_of(conditions))
        asked = list(facts_of(conditions))
        functions = ("weight" if f.function == "varying" else f.function for f in asked)
        self.facts = tuple(dict.fromkeys(zip(functions, (f.name for f in asked), strict=True)))
        used = {n.op for n in rule.nodes}
        wraps = (1 << 7, 1 << 8) if {"iota", "cast"} <= used else ()  #: places that one byte does not hold
        rejecting = filter(isfinite, _numbers(rejected))
        self.constants = tuple(dict.fromkeys((*numbers_of(rule), *rejecting, *wraps)))
        self._frames: dict[Skeleton, Frame] = {}

    def frame(self, skeleton: Skeleton) -> Frame:
        """The frame of a skeleton; made once, since the same ranks come up again and again."""
        if skeleton not in self._frames:
            self._frames[skeleton] = Frame(self, skeleton)
        return self._frames[skeleton]

    def domain(self, rng: random.Random, thorough: bool) -> RandomDomain:
        """Values to try for one instance."""
        return RandomDomain(rng, self.attrs, self.constants, self.every_type, thorough)

    def below(self, tensor: str) -> Iterator[str]:
        """The variables that a tensor of the source is computed from: itself, if it is one."""
        node = next((n for n in self.rule.source.nodes if n.result == tensor), None)
        if node is None:
            yield tensor
        else:
            for a in node.args:
                yield from self.below(a)


class Frame:
    """A rule at chosen ranks: instances of one kind, that differ in dimensions and attributes."""

    def __init__(self, form: _Form, skeleton: Skeleton) -> None:
        self.form = form
        self.skeleton = skeleton
        self.variables = form.rule.tensor_variables()
        types = [skeleton.types[name] for name in self.variables]
        attrs = [skeleton.env[name] for name in form.attrs]
        self.unknowns = [x for t in types for x in (t.dtype, *t.shape)]
        self.unknowns += [x for value in attrs for x in (value if isinstance(value, tuple) else (value,))]
        self.unknowns += [x for f in form.facts if not isinstance(x := fact(*f), Condition)]
        self.problem = self._problem(())
        self.vain = 0  #: how many of the last attempts found no instance

    def _problem(self, more: Sequence[Condition]) -> Constraints:
        conditions = (*self.skeleton.conditions, *more)
        return Constraints(conditions, self.unknowns, self.skeleton.shapes)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of all variables together."""
        return sum(len(self.skeleton.types[name].shape) for name in self.variables)

    @cached_property
    def cases(self) -> tuple[RuleCase, ...]:
        """The cases of the rule at these ranks."""
        values = self._expressions
        simple = substitute(values, self.problem.facts.known)
        return cases((values, simple), self.names)

    @cached_property
    def products(self) -> Mapping[str, Sym]:
        """The products of outcomes in the rule at these ranks."""
        return products(self._expressions)

    @property
    def _expressions(self) -> tuple[Any, ...]:
        return (*self.skeleton.conditions, self.skeleton.shapes, self.skeleton.attrs)

    @property
    def names(self) -> Mapping[int, str]:
        """The rule's variables for axes, by value."""
        return {k: name for name, k in self.axes.items()}

    @property
    def axes(self) -> dict[str, int]:
        """The rule's variables for axes, and their values."""
        return {name: self.skeleton.env[name] for name, a in self.form.attrs.items() if a.type == "axis"}

    def is_float(self, x: Opaque) -> bool:
        """Whether an unknown is the value of a float attribute."""
        return self._is_attribute(x, "float")

    def is_dtype(self, x: Opaque) -> bool:
        """Whether an unknown is the value of an attribute that is an element type."""
        return self._is_attribute(x, "dtype")

    def _is_attribute(self, x: Opaque, type_: str) -> bool:
        a = self.form.attrs.get(x.atom[1]) if x.atom[0] == "attr" else None
        return a is not None and a.type == type_

    def meets(self, case: RuleCase, values: Values) -> bool:
        """Whether the instance of a solution is one of a case."""
        with suppress(ArithmeticError, EvaluationError):
            return bool(self.problem.value(case.condition, values))
        return False

    @cached_property
    def assigned(self) -> Assigned:
        return Assigned.of({x: len(self.skeleton.types[x].shape) for x in self.variables}, self.axes)

    @cached_property
    def wide(self) -> tuple[Condition, ...]:
        """Conditions that no dimension is 1 which need not be: where one is, many attributes make no difference."""
        known = self.problem.facts.known
        dims = (substitute(d, known) for shape in self.skeleton.shapes for d in shape if isinstance(d, Sym))
        wide = (at_most(2, d) for d in dict.fromkeys(dims))
        return tuple(c for c in wide if isinstance(c, Condition))

    def is_wide(self, values: Values) -> bool:
        """Whether the instance of a solution has no dimension of 1 that need not be."""
        with suppress(ArithmeticError, EvaluationError):
            return all(self.problem.value(c, values) for c in self.wide)
        return False

    def draw_case(self, case: RuleCase | None, rng: random.Random, wide: bool = True) -> Draw | None:
        """One attempt at an instance of a case, or of any: a small one, or a large one if the case is to be told. If
        it is to be ``wide``, it has no dimension of 1 that need not be."""
        words = {x.atom: x for x in self.unknowns if isinstance(x, Opaque)}
        usual = self.form.limit
        beyond = max(usual, min(CASE_LIMIT, max((4 * int(n) for n in self.form.constants), default=0)))
        attempts = [(usual, False)] * (1 if wide else 4)
        attempts += [(usual, True), (beyond, True), (CASE_LIMIT, True)][
            : 3 if case is not None and case.told else 2
        ]
        more = (*(() if case is None else (case.condition,)), *(self.wide if wide else ()))
        problem = self._problem(more)
        for limit, thorough in attempts:
            solution = problem.draw(rng, self.form.domain(rng, True), limit=limit, thorough=thorough)
            if solution is None:
                continue
            values = {
                a: solution[a] if a in solution else problem.value(words.get(a, atom(*a)), solution)
                for a in self.problem.free
            }
            found = self.instance(values)
            if found is not None and found.assignment.largest <= limit:
                return self, values, found
        return None

    def changed(self, values: Values, x: Opaque, value: Any) -> Draw | None:
        """The instance of a solution with another value of an unknown, if there is one."""
        known = self.problem.facts.value(x)
        if not isinstance(known, Opaque):
            return None
        changed = {**values, known.atom: value}
        found = self.instance(changed)
        return None if found is None else (self, changed, found)

    def draw(self, rng: random.Random) -> Draw | None:
        """One attempt at an instance."""
        tries = 2 if max((len(s) for s in self.skeleton.shapes), default=0) < HIGH else 30
        form = self.form
        domain = form.domain(rng, form.thorough)
        values = self.problem.draw(rng, domain, tries, form.limit, form.thorough)
        found = None if values is None else self.instance(values)
        self.vain = self.vain + 1 if found is None else 0
        return None if values is None or found is None else (self, values, found)

    def instance(self, values: Values) -> Instance | None:
        """The instance of a solution."""
        value = self.problem.value
        types = {}
        for name in self.variables:
            t = self.skeleton.types[name]
            types[name] = TensorType(value(t.dtype, values), value(t.shape, values))
        attrs = {name: value(self.skeleton.env[name], values) for name in self.form.attrs}
        facts = {
            f: values.get(f) if f[0] in ("weight", "start") else value(fact(*f), values)
            for f in self.form.facts
        }
        for fn, tensor in self.form.facts:
            if facts[fn, tensor] is True and fn == "weight":  # of a result: all that it is computed from
                facts |= dict.fromkeys((("weight", x) for x in self.form.below(tensor)), True)
        given = Assignment(types, attrs, facts)
        return build(self.form.rule, self.form.infer, given, self.form.rejected, self.form.members)

    def smaller(self, values: Values, rng: random.Random) -> tuple[Values, Instance] | None:
        """A random instance whose numbers are not larger than those of a solution; it may be the same."""
        domain: Domain = SmallerDomain(rng, values, self.form.attrs)
        found = self.problem.draw(rng, domain, 1, WIDE_LIMIT)
        instance = None if found is None else self.instance(found)
        return None if found is None or instance is None else (found, instance)


def _numbers(tree: object) -> Iterator[int | float]:
    """The numbers that are written in expressions, and what is computed from numbers alone, as in ``16 * 16``."""
    match tree:
        case ex.Const(int() | float() as value, "int" | "float"):
            yield value
        case ex.Unary("-", operand):
            yield from (-x for x in _numbers(operand))
        case _:
            if isinstance(tree, ex.Binary) and not any(names_of(tree)):
                with suppress(EvaluationError):
                    value = evaluate(tree, {})
                    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
                        yield value
            for child in children(tree):
                yield from _numbers(child)
