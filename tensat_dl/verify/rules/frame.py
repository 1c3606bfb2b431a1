"""A rule at chosen ranks and axes, of which an instance is a solution for dimensions and attributes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import isfinite
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import calls_of, facts_of
from tensat_dl.core.graph import TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.symbolic import Condition, EvaluationError, Opaque, Sym, at_most, atom, fact, substitute
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.assigned import Assigned
from tensat_dl.verify.rules.cases import RuleCase, cases, products
from tensat_dl.verify.rules.domains import RandomDomain, SmallerDomain
from tensat_dl.verify.rules.instance import Assignment, Instance, build
from tensat_dl.verify.rules.numbers import numbers_in, numbers_of
from tensat_dl.verify.rules.skeleton import HIGH, Skeleton, Skeletons, attribute_variables
from tensat_dl.verify.rules.solve import Constraints, Domain
from tensat_dl.verify.rules.unknowns import Values

#: Where a rule has no instances whose tensors have few elements, these have up to so many.
WIDE_LIMIT = 1 << 22
#: At most so many elements have the tensors of instances that meet a certain case.
CASE_LIMIT = 1 << 18

#: An instance, with the ranks and the solution that it is made of.
Draw = tuple["Frame", Values, Instance]


class SizedRule:
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
        #: Places, and sums of as many truth values, that one byte does not hold.
        self.wraps = (1 << 7, 1 << 8) if "cast" in used and used & {"iota", "reduce_sum"} else ()
        rejecting = filter(isfinite, numbers_in(rejected))
        self.constants = tuple(dict.fromkeys((*numbers_of(rule), *rejecting, *self.wraps)))
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

    def __init__(self, form: SizedRule, skeleton: Skeleton) -> None:
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
