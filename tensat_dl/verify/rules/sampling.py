"""Draws instances of a rule: first ranks and axes, then dimensions and attributes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tensat_dl.datalog.groups import instantiate
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ir.types import TensorType
from tensat_dl.lang import ast
from tensat_dl.lang.walk import calls_of
from tensat_dl.ops.kinds import FACTS
from tensat_dl.ops.symbolic import Condition, Opaque, Sym, atom
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.rules.domains import RandomDomain, SmallerDomain
from tensat_dl.verify.rules.expressions import Values
from tensat_dl.verify.rules.instance import Assignment, Instance, Sides
from tensat_dl.verify.rules.skeleton import Skeleton, Skeletons, attribute_variables
from tensat_dl.verify.rules.solve import Domain, Problem

#: How many members a group gets.
MEMBERS = (2, 3, 4)
#: Tensors have at most so many elements.
LIMIT = 400
#: How many instances are drawn at the same ranks, one after the other.
AT_ONCE = 3


#: An instance, with the ranks and the solution that it is made of.
Draw = tuple["Frame", Values, Instance]


class Sampler:
    """Draws instances of a rule. ``without`` are the positions of conditions that are left out; then at least one of
    those is false, so that the instances are such as only the weaker rule has."""

    def __init__(
        self, rule: RewriteRule, infer: Inference, seed: int = 0, without: Sequence[int] = ()
    ) -> None:
        self._rng = random.Random(f"{seed} {rule.name} {sorted(without)}")
        kept = replace(rule, conditions=tuple(c for i, c in enumerate(rule.conditions) if i not in without))
        dropped = replace(rule, conditions=tuple(rule.conditions[i] for i in without))
        sizes = MEMBERS if rule.index is not None else (0,)
        self._forms = [_Form(kept, dropped, infer, n) for n in sizes]
        self._frame: Frame | None = None
        self._left = 0

    def draw(self) -> Draw | None:
        """One attempt at an instance, with where it is from."""
        if self._left == 0 or self._frame is None:
            form = self._rng.choice(self._forms)
            skeleton = form.skeletons.draw(self._rng)
            if skeleton is None:
                return None
            self._frame, self._left = Frame(form, skeleton), AT_ONCE
        self._left -= 1
        frame = self._frame
        values = frame.problem.draw(
            self._rng, RandomDomain(self._rng, frame.form.attrs, frame.form.constants), 2
        )
        if values is None:
            self._left = 0
            return None
        found = frame.instance(values)
        return None if found is None else (frame, values, found)

    def several(self, count: int, patience: int) -> Iterator[Draw]:
        """Up to ``count`` different instances, until so many attempts in a row have found no new one."""
        seen: set[str] = set()
        failures = 0
        while len(seen) < count and failures < patience:
            failures += 1
            found = self.draw()
            if found is not None and (key := repr(found[2].assignment)) not in seen:
                seen.add(key)
                failures = 0
                yield found


class _Form:
    """A rule as it is for one number of members, and what to draw its instances with."""

    def __init__(self, kept: RewriteRule, dropped: RewriteRule, infer: Inference, members: int) -> None:
        rule = instantiate(kept, members) if members else kept
        rejected = (instantiate(dropped, members) if members else dropped).conditions
        self.members = members
        self.rule = rule
        self.skeletons = Skeletons(rule, infer, rejected)
        self.sides = Sides(rule, infer, rejected)
        self.attrs = attribute_variables(rule, infer.table)
        asked = [call for c in (*rule.conditions, *rejected) for call in calls_of(c) if call.fn in FACTS]
        self.facts = tuple(dict.fromkeys((call.fn, _tensor(call)) for call in asked))
        self.constants = tuple(_numbers((*rule.conditions, *rejected)))


class Frame:
    """A rule at chosen ranks: instances of one kind, that differ in dimensions and attributes."""

    def __init__(self, form: _Form, skeleton: Skeleton) -> None:
        self.form = form
        self.skeleton = skeleton
        self.variables = form.rule.tensor_variables()
        unknowns: list[Sym | Opaque] = []
        for name in self.variables:
            t = skeleton.types[name]
            unknowns += [x for x in (t.dtype, *t.shape) if isinstance(x, Sym | Opaque)]
        for name in form.attrs:
            value = skeleton.env[name]
            items = value if isinstance(value, tuple) else (value,)
            unknowns += [x for x in items if isinstance(x, Sym | Opaque)]
        unknowns += [x for f in form.facts if isinstance(x := _unknown(f), Sym | Opaque)]
        self.problem = Problem(skeleton.conditions, unknowns, skeleton.shapes, LIMIT)

    def instance(self, values: Values) -> Instance | None:
        """The instance of a solution."""
        value = self.problem.value
        types = {}
        for name in self.variables:
            t = self.skeleton.types[name]
            types[name] = TensorType(value(t.dtype, values), value(t.shape, values))
        attrs = {name: value(self.skeleton.env[name], values) for name in self.form.attrs}
        facts = {f: values.get(f) if f[0] in ("weight", "start") else value(_unknown(f), values) for f in self.form.facts}
        return self.form.sides.build(Assignment(types, attrs, facts), self.form.members)

    def smaller(self, values: Values, rng: random.Random) -> tuple[Values, Instance] | None:
        """A random instance whose numbers are not larger than those of a solution; it may be the same."""
        domain: Domain = SmallerDomain(rng, values, self.form.attrs)
        found = self.problem.draw(rng, domain, 1)
        instance = None if found is None else self.instance(found)
        return None if found is None or instance is None else (found, instance)


def _unknown(fact: tuple[str, str]) -> Sym | Opaque | Condition:
    """What conditions know a fact by; see `with_facts`."""
    fn, tensor = fact
    if fn == "factors":
        return atom("factors", tensor)
    return Opaque(("value", tensor)) if fn == "value" else Condition(fn, (tensor,))


def _tensor(call: ast.Call) -> str:
    """The tensor that a fact is asked of: ``x``, or ``w[2]`` of a group."""
    assert isinstance(call.args, tuple)
    (arg,) = call.args
    if isinstance(arg, ast.Index):
        assert isinstance(arg.base, ast.Name)
        assert isinstance(arg.index, ast.Const)
        return f"{arg.base.id}[{arg.index.value}]"
    assert isinstance(arg, ast.Name)
    return arg.id


def _numbers(tree: object) -> Iterator[float]:
    """The numbers in conditions, as floats."""
    for c in tree if isinstance(tree, tuple) else ():
        match c:
            case ast.Const(value, "int" | "float"):
                yield float(value)
            case ast.Binary(_, left, right):
                yield from _numbers((left, right))
            case ast.Unary("-", operand):
                yield from (-x for x in _numbers((operand,)))
            case ast.Unary(_, operand):
                yield from _numbers((operand,))
