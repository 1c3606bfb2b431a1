"""Tests one rule: on instances of it, and on such as only the rule without one of its conditions would have."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.expression import facts_of, names_of
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile import compile_rule
from tensat_dl.engine.schema import Schema
from tensat_dl.ops.compose import semantics_of
from tensat_dl.ops.semantics.types import Semantics
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.forms import Forms
from tensat_dl.verify.exact import Difference, Exact, compare_exactly
from tensat_dl.verify.rule_types import check_rule_types
from tensat_dl.verify.rules.counterexample import as_found, counterexample, size, smallest
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.literals import loosened
from tensat_dl.verify.rules.opaque import false_whatever
from tensat_dl.verify.rules.rounding import rounds_alike
from tensat_dl.verify.rules.sampling import LARGE_INSTANCES, WIDE_LIMIT, Draw, Sampler, instances
from tensat_dl.verify.rules.verdict import Counterexample, Rounding, Verdict

#: How many instances a rule is tested on, and after how many vain attempts no more are looked for.
INSTANCES = 36
MOST_DRAWN = 4 * INSTANCES  #: instances whose sides are the same graph included
PATIENCE = 150
#: The same for a rule without one of its conditions: the first that fails is enough.
WEAKER_INSTANCES = 60
WEAKER_PATIENCE = 90
#: How many more instances are looked at to find a small one whose sides differ; at how many of the lowest ranks more
#: are tried, and how often; and how many are made smaller.
MORE = 60
FLATTEST = 6
DRAWS = 8
SHRUNK = 6
#: How often small instances are compared.
REPEATS = 3
#: On how many instances rounding is observed.
ROUNDED = 12
#: What a condition may ask for that says where a rule pays, not where it is true.
ABOUT_COST = frozenset(("weight", "varying", "start", "factors"))


@dataclass(frozen=True)
class Examiner:
    """Tests rules over one table of operators."""

    ops: OpTable
    seed: int = 0
    infer: Inference = field(init=False)
    semantics: Mapping[str, Semantics] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "infer", Inference(self.ops))
        object.__setattr__(self, "semantics", semantics_of(self.ops))

    def verdict(self, rule: RewriteRule) -> Verdict:
        """What instances show of a rule. One that can't be compiled is vacuous, and the reason says so."""
        try:
            return self._verdict(rule)
        except TsrError as e:
            return Verdict(rule.name, "vacuous", reason=e.diagnostics[0].message)

    def _verdict(self, rule: RewriteRule) -> Verdict:
        opaque = self._opaque(rule)
        found: list[tuple[Instance, Exact]] = []
        unsupported: Exact | None = None
        law = False
        for number, (frame, values, instance) in enumerate(self._telling(rule)):
            exact = self._compare(instance, number)
            if exact.status == "different" and (
                not opaque or false_whatever(instance, self.ops, self.seed + number)
            ):
                worst = self._smallest_failing(rule, (frame, values, instance), exact)
                return Verdict(rule.name, "refuted", number + 1, reason=exact.reason, counterexample=worst)
            if exact.status == "different":
                law = True
                continue
            if exact.status == "unsupported":
                unsupported = exact
                continue
            found.append((instance, exact))
        if law:
            return Verdict(rule.name, "assumed", reason=_law(opaque))
        if unsupported is not None and not found:
            return Verdict(rule.name, "assumed", reason=f"it can't be tested: {unsupported.reason}")
        if not found:
            if computed := _values_of_results(rule):
                return Verdict(rule.name, "assumed", reason=f"it asks for the value of {computed}, a result")
            return Verdict(rule.name, "vacuous", reason=self._never(rule))
        tested, results = [instance for instance, _ in found], [exact for _, exact in found]
        compile_rule(rule, Schema(self.ops), _forms(tested[0]))
        bounds = [x.log2_error for x in results if x.log2_error is not None]
        return Verdict(
            rule.name,
            "tested",
            len(found),
            len(bounds),
            max(bounds, default=None),
            next((x.reason for x in results if x.log2_error is None), ""),
            self._rounding(tested),
            unneeded=tuple(self._unneeded(rule, frame.form.wide, frame.form.thorough)),
        )

    def _telling(self, rule: RewriteRule) -> Iterator[Draw]:
        """Instances of a rule; where both sides are one graph nothing is tested, unless they always are."""
        plain: list[Draw] = []
        count = 0
        for draw in instances(rule, self.infer, MOST_DRAWN, PATIENCE, self.seed):
            if count == INSTANCES:
                break
            if draw[2].before == draw[2].after:
                plain.append(draw)
            else:
                count += 1
                yield draw
        if count == 0:
            yield from plain[:INSTANCES]

    def _weaker(self, rule: RewriteRule, without: int, wide: bool, thorough: bool) -> Iterator[Draw]:
        sampler = Sampler(rule, self.infer, self.seed, (without,), wide, thorough)
        return sampler.several(LARGE_INSTANCES if wide else WEAKER_INSTANCES, WEAKER_PATIENCE)

    def _unneeded(self, rule: RewriteRule, wide: bool, thorough: bool) -> Iterator[str]:
        """The conditions without which nothing fails, those about costs excepted, and the literal attributes that can
        be others."""
        for i, condition in enumerate(rule.conditions):
            if any(fact.function in ABOUT_COST for fact in facts_of(condition)):
                continue
            compared = 0
            for compared, (_, _, instance) in enumerate(self._weaker(rule, i, wide, thorough), start=1):
                if self._compare(instance, compared).status == "different":
                    break
            else:
                text = f"`{' '.join(condition.span.text.split())}`"
                if compared:
                    yield f"{text}: the rule is true without it, on {compared} instances"
                else:
                    yield f"{text}: without it the rule was found to apply to nothing more"
        told = set()
        for versions in loosened(rule, self.ops):
            for version in versions:
                compared = self._holds(version.rule, wide, thorough)
                if compared and version.text not in told:
                    told.add(version.text)
                    yield f"`{version.text}`: the rule is true of other values, on {compared} instances"

    def _holds(self, rule: RewriteRule, wide: bool, thorough: bool) -> int:
        """On how many instances a rule is true that its last condition rules out, 0 if it is false on one. Those do
        not count in which nothing changes or a dimension is 1, where many an attribute makes no difference."""
        compared = 0
        try:
            for number, (_, _, instance) in enumerate(
                self._weaker(rule, len(rule.conditions) - 1, wide, thorough)
            ):
                if self._compare(instance, number).status == "different":
                    return 0
                flat = any(1 in t.shape for t in instance.assignment.types.values())
                compared += not flat and instance.before != instance.after
        except TsrError:  # what is computed from the literal has no value for others
            return 0
        return compared

    def _compare(self, instance: Instance, number: int) -> Exact:
        nodes = (*instance.before.nodes, *instance.after.nodes)
        elements = max(t.size for n in nodes for t in n.types)
        if elements > WIDE_LIMIT:
            return Exact("unsupported", "float", reason=f"a tensor has {elements:,} elements")
        return compare_exactly(instance.before, instance.after, self.ops, self.seed + number)

    def _differs(self, instance: Instance) -> bool:
        """With few elements one draw of values is not enough."""
        return any(self._compare(instance, k).status == "different" for k in range(REPEATS))

    def _difference(self, instance: Instance) -> Difference | None:
        """What one of these draws showed, other than residues."""
        found = (self._compare(instance, k).difference for k in range(REPEATS))
        return next((d for d in found if d is not None and d.modulus is None), None)

    def _smallest_failing(self, rule: RewriteRule, first: Draw, exact: Exact) -> Counterexample | None:
        """A small counterexample, the smallest of several that are found from other instances; in small whole
        numbers if there is one, else in those that a comparison found."""
        known: dict[tuple[int, str], bool] = {}

        def differs(instance: Instance) -> bool:
            """The same small instances are come to from several larger ones."""
            key = (instance.members, repr(instance.assignment))
            if key not in known:
                known[key] = self._differs(instance)
            return known[key]

        failing = [first]
        frames = [first[0]]
        sampler = Sampler(rule, self.infer, self.seed + 1, high=0)
        failing += [d for d in sampler.lowest(DRAWS) if differs(d[2])][:1]
        for draw in sampler.several(MORE, PATIENCE):
            if draw[0] not in frames:
                frames.append(draw[0])
            if differs(draw[2]):
                failing.append(draw)
        # The fewer dimensions the better: where there are few, a difference is looked for more than once.
        rng = random.Random(self.seed)
        for frame in sorted(frames, key=lambda f: f.dimensions)[:FLATTEST]:
            drawn = (frame.draw(rng) for _ in range(DRAWS))
            failing += [d for d in drawn if d is not None and differs(d[2])][:1]
        failing.sort(key=lambda draw: size(draw[2]))
        small = [smallest(*draw, differs, self.seed) for draw in failing[:SHRUNK]]
        for instance in sorted([*small, first[2]], key=size):
            found = counterexample(instance, self.ops, self.semantics, self.seed)
            if found is None:  # it takes other numbers than whole ones and halves
                found = as_found(instance, self.ops, self._difference(instance))
            if found is not None:
                return found
        return as_found(first[2], self.ops, exact.difference)

    def _rounding(self, instances: list[Instance]) -> Rounding:
        alike = [rounds_alike(i, self.semantics, self.seed) for i in instances[:ROUNDED]]
        return "reassociating" if False in alike else "exact"

    def _opaque(self, rule: RewriteRule) -> tuple[str, ...]:
        nodes = (*rule.source.nodes, *rule.target.nodes)
        return tuple(dict.fromkeys(n.op for n in nodes if self.ops[n.op].opaque))

    def _never(self, rule: RewriteRule) -> str:
        """Why no instance was found: types that do not fit, or conditions without any one of which there are some."""
        problems = check_rule_types(rule, self.ops)
        if problems:
            return problems[0].message
        needed = [
            f"`{' '.join(c.span.text.split())}`"
            for i, c in enumerate(rule.conditions)
            if next(self._weaker(rule, i, wide=False, thorough=True), None) is not None
        ]
        if needed:
            return f"no instance meets its conditions: there are some without {' or without '.join(needed)}"
        return (
            "its two sides never have equal types"
            if not rule.conditions
            else "no instance meets its conditions"
        )


def _forms(instance: Instance) -> Forms:
    """Whatever has the ranks of its tensors."""
    nodes = (*instance.before.nodes, *instance.after.nodes)
    return Forms(tuple(sorted({t.rank for n in nodes for t in n.types})))


def _values_of_results(rule: RewriteRule) -> str:
    """The results of operators whose values a rule's conditions ask for, which no instance can set."""
    results = {n.result.partition("[")[0] for n in rule.source.nodes}
    asked = [fact for c in rule.conditions for fact in facts_of(c) if fact.function == "value"]
    names = [n.id for fact in asked for n in names_of(fact.tensor) if n.id in results]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def _law(opaque: tuple[str, ...]) -> str:
    names = ", ".join(f"`{op}`" for op in opaque)
    return f"this law of {names}, of which only types are known"
