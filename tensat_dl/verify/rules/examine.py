"""Tests one rule: on its instances, and on instances that it would have without one of its conditions."""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, product
from math import inf

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.expression import base_of, facts_of, names_of
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.compositions import is_definition
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.symbolic import Opaque
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.source import Forms
from tensat_dl.verify.exact.compare import compare_exactly, either, operations_of
from tensat_dl.verify.exact.result import Difference, Exact
from tensat_dl.verify.opaque_laws import false_whatever, opaque_operators, with_results_given
from tensat_dl.verify.rules.aspects import aspects_of
from tensat_dl.verify.rules.counterexample import counterexample, size, smallest, told
from tensat_dl.verify.rules.coverage import Coverage
from tensat_dl.verify.rules.frame import WIDE_LIMIT, Draw
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.loosened import loosened
from tensat_dl.verify.rules.machine import MachineArithmetic
from tensat_dl.verify.rules.numbers import LONGEST, MOST_MEMBERS, numbers_of
from tensat_dl.verify.rules.rule_types import check_compiles, check_rule_types
from tensat_dl.verify.rules.sampling import LARGE_INSTANCES, LIMIT, Sampler
from tensat_dl.verify.rules.telling import PATIENCE, Telling
from tensat_dl.verify.rules.verdict import Counterexample, Verdict
from tensat_dl.verify.symbolic.unproved import Unproved

#: How many instances of a rule without one of its conditions are tested, of which the first that fails is enough;
#: and after how many vain attempts no more are looked for.
WEAKER_INSTANCES = 36
WEAKER_PATIENCE = 60
#: Fewer instances than this do not tell that a condition is not needed.
FEW = 3
#: How many more instances are looked at to find a small one whose sides differ; at how many of the lowest ranks more
#: are tried, and how often; and how many are made smaller.
MORE = 60
FLATTEST = 6
DRAWS = 8
SHRUNK = 6
#: Instances of more floating-point operations are not compared: a convolution may have a large kernel.
MOST_OPERATIONS = 5e8
#: In at most so many ways a rule's tensors get a rank each when it is compiled.
MOST_FORMS = 2_000
#: How often small instances are compared.
REPEATS = 3
#: Garbage is looked for after so many new objects at the earliest; see `gc.set_threshold`.
SELDOM = 50_000
#: What the definition of a composition is proved for: both sides are computed alike.
BY_DEFINITION = "all sizes, by definition"
#: Facts in conditions that say where a rule pays, not where it is true.
ABOUT_COST = frozenset(("weight", "varying", "start", "factors"))


@dataclass
class _Tests:
    """What the instances of a rule have shown. ``law``: both sides may differ, by what is not known of an opaque
    operator."""

    coverage: Coverage
    equal: list[tuple[Draw, Exact]] = field(default_factory=list)
    unsupported: str = ""
    law: bool = False
    count: int = 0


class Examiner:
    """Tests rules over one table of operators; definitions that pass are proved, and with ``proofs`` all that can be.
    Not ``thorough``, it asks for the truth of a rule alone, and looks for no instances of cases that a proof
    leaves open."""

    def __init__(self, ops: OpTable, seed: int = 0, proofs: bool = False, thorough: bool = True) -> None:
        self.ops = ops
        self.proofs = proofs
        self.thorough = thorough
        self.seed = seed
        self.infer = Inference(ops)
        self.semantics = semantics_of(ops)
        self.machine = MachineArithmetic(ops)

    def verdict(self, rule: RewriteRule) -> Verdict:
        """The verdict on a rule. A rule that can't be compiled is vacuous, and the reason says so."""
        try:
            with _seldom_collected():
                return self._verdict(rule)
        except TsrError as e:
            return Verdict(rule.name, "vacuous", reason=e.diagnostics[0].message)

    def _verdict(self, rule: RewriteRule) -> Verdict:
        rng = random.Random(f"{self.seed} {rule.content}")
        coverage = Coverage(rule, self.infer, rng, self._compute_differently)
        tests = _Tests(coverage)
        telling = Telling(rule, self.infer, self.seed, coverage)
        failed = self._refuted(rule, telling.first(), tests)
        proof, unproved = "", Unproved("")
        if failed is None and tests.equal and not tests.law:
            proof, unproved = self._proof(rule)
        if failed is None and self.thorough:
            failed = self._refuted(rule, chain(coverage.integers(), coverage.places()), tests)
        if failed is None and not proof:
            failed = self._refuted(rule, telling.others(), tests)
            if failed is None and tests.equal and not tests.law and self.thorough:
                sampler = Sampler(rule, self.infer, self.seed)
                draws = chain(coverage.at(sampler, unproved.left), coverage.others())
                failed = self._refuted(rule, draws, tests)
        if failed is not None:
            return failed
        if tests.law:
            names = ", ".join(f"`{op}`" for op in opaque_operators(rule, self.ops))
            return Verdict(rule.name, "assumed", reason=f"this law of {names}, of which only types are known")
        if not tests.equal:
            return self._untested(rule, tests)
        if not self.thorough:
            return Verdict(rule.name, "proved" if proof else "tested", len(tests.equal), proof=proof)
        tested, results = [draw[2] for draw, _ in tests.equal], [exact for _, exact in tests.equal]
        check_compiles(rule, self.ops, _forms(rule, tested[0]))
        aspects = aspects_of(tested, _infinite(draw for draw, _ in tests.equal), self.machine, self.seed)
        bounds = [x.log2_error for x in results if x.log2_error is not None]
        form = tests.equal[0][0][0].form
        remarks = [] if proof else [*coverage.untried(unproved.left), *_never(rule, results)]
        return Verdict(
            rule.name,
            "proved" if proof else "tested",
            len(tested),
            len(bounds),
            max(bounds, default=None),
            next((x.reason for x in results if x.log2_error is None), ""),
            "reassociating" if aspects[0].status == "differs" else "exact",
            unneeded=tuple(self._unneeded(rule, form.limit, form.thorough)),
            lengths=tuple(sorted({i.members for i in tested})) if rule.takes_lists else (),
            remarks=tuple(remarks),
            proof=proof,
            unproved=str(unproved),
            aspects=aspects,
        )

    def _proof(self, rule: RewriteRule) -> tuple[str, Unproved]:
        """What a rule is proved for, and why it is not proved; one of them is empty."""
        definition = BY_DEFINITION if is_definition(rule, self.ops) else ""
        if not self.proofs:
            return definition, Unproved("")
        from tensat_dl.verify.symbolic.proof import prove_sizes

        try:
            return str(prove_sizes(rule, self.infer)), Unproved("")
        except Unproved as e:
            return definition, Unproved("") if definition else e

    def _refuted(self, rule: RewriteRule, draws: Iterable[Draw], tests: _Tests) -> Verdict | None:
        """The verdict on a rule that is false on an instance; else None."""
        opaque = opaque_operators(rule, self.ops)
        for draw in draws:
            seed = self.seed + tests.count
            tests.count += 1
            exact = self._compare(draw[2], seed)
            if exact.status == "equal":
                tests.equal.append((draw, exact))
                tests.coverage.note(draw)
            elif exact.status == "unsupported":
                tests.unsupported = exact.reason
            elif opaque and not false_whatever(draw[2].before, draw[2].after, self.ops, seed):
                tests.law = True
            else:
                worst = self._smallest_failing(rule, draw, exact)
                return Verdict(rule.name, "refuted", tests.count, reason=exact.reason, counterexample=worst)
        return None

    def _untested(self, rule: RewriteRule, tests: _Tests) -> Verdict:
        """The verdict on a rule without an instance that could be compared."""
        if tests.unsupported:
            return Verdict(rule.name, "assumed", reason=f"it can't be tested: {tests.unsupported}")
        if computed := _values_of_results(rule):
            given = with_results_given(rule, self.ops)
            if given is not None and (anyway := self._verdict(given)).status == "refuted":
                return anyway
            reason = f"a condition needs the value of {computed}, a result"
            return Verdict(rule.name, "assumed", reason=reason)
        most = max((n for n in numbers_of(rule) if isinstance(n, int)), default=0)
        if rule.index is not None and most > MOST_MEMBERS:
            reason = f"no instance of it was tried: groups and lists have up to {LONGEST} members there"
            return Verdict(rule.name, "assumed", reason=reason)
        return Verdict(rule.name, "vacuous", reason=self._never(rule))

    def _weaker(self, rule: RewriteRule, without: int, limit: int, thorough: bool) -> Iterator[Draw]:
        """Instances that a rule has without one of its conditions alone."""
        sampler = Sampler(rule, self.infer, self.seed, (without,), limit, thorough)
        return sampler.several(WEAKER_INSTANCES if limit == LIMIT else LARGE_INSTANCES, WEAKER_PATIENCE)

    def _true_without(
        self, rule: RewriteRule, without: int, limit: int, thorough: bool
    ) -> list[Instance] | None:
        """The instances of `_weaker` that were compared; None if the sides of one differ, or can't be compared."""
        found = []
        for number, (_, _, instance) in enumerate(self._weaker(rule, without, limit, thorough), start=1):
            if self._compare(instance, self.seed + number).status != "equal":
                return None
            found.append(instance)
        return found

    def _unneeded(self, rule: RewriteRule, limit: int, thorough: bool) -> Iterator[str]:
        """The conditions without which nothing fails, except conditions about costs; and the literal attributes that
        may have other values."""
        for i, condition in enumerate(rule.conditions):
            if any(fact.function in ABOUT_COST for fact in facts_of(condition)):
                continue
            found = self._true_without(rule, i, limit, thorough)
            if found is None or 0 < len(found) < FEW:
                continue
            if found:
                yield f"`{condition.span.line}`: the rule is true without it, on {len(found)} instances"
            else:
                yield f"`{condition.span.line}`: without it no further instance was found"
        reported = set()
        for text, general in loosened(rule, self.ops):
            try:
                found = self._true_without(general, len(rule.conditions), limit, thorough)
            except TsrError:  # what is computed from the literal has no value for others
                continue
            telling = sum(map(_depends_on_attributes, found or ()))
            if telling >= FEW and text not in reported:
                reported.add(text)
                yield f"`{text}`: the rule is true for other values, too, on {telling} instances"

    def _compare(self, instance: Instance, seed: int) -> Exact:
        return self._compared(instance.before, instance.after, seed)

    def _compared(self, before: Graph, after: Graph, seed: int) -> Exact:
        elements = max(t.size for n in (*before.nodes, *after.nodes) for t in n.types)
        if elements > WIDE_LIMIT:
            return Exact("unsupported", "float", reason=f"a tensor has {elements:,} elements")
        operations = operations_of(before, self.ops) + operations_of(after, self.ops)
        if operations > MOST_OPERATIONS:
            return Exact("unsupported", "float", reason=f"it takes {operations:,.0f} operations")
        return compare_exactly(before, after, self.ops, seed)

    def _compute_differently(self, before: Graph, after: Graph) -> bool:
        return self._compared(before, after, self.seed).status == "different"

    def _differs(self, instance: Instance) -> bool:
        """With few elements one draw of values is not enough."""
        return any(self._compare(instance, self.seed + k).status == "different" for k in range(REPEATS))

    def _difference(self, instance: Instance) -> Difference | None:
        """The first difference in one of these draws that is not one of residues."""
        found = (self._compare(instance, self.seed + k).difference for k in range(REPEATS))
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
                found = told(instance, self.ops, self._difference(instance))
            if found is not None:
                return found
        return told(first[2], self.ops, exact.difference)

    def _never(self, rule: RewriteRule) -> str:
        """The reason why no instance was found: types that do not fit, or conditions that exclude all instances."""
        problems = check_rule_types(rule, self.ops)
        if problems:
            return problems[0].message
        needed = [
            f"`{c.span.line}`"
            for i, c in enumerate(rule.conditions)
            if next(self._weaker(rule, i, LIMIT, thorough=True), None) is not None
        ]
        if needed:
            return f"no instance meets its conditions: instances exist without {' or without '.join(needed)}"
        if not rule.conditions:
            return "its two sides never have equal types"
        return "no instance meets its conditions"


def _forms(rule: RewriteRule, instance: Instance) -> Forms:
    """The ranks of an instance that a rule is compiled for: the most frequent ones, as many as leave few ways to give
    its tensors one each."""
    nodes = (*instance.before.nodes, *instance.after.nodes)
    ranks = [rank for rank, _ in Counter(t.rank for n in nodes for t in n.types).most_common()]
    while len(ranks) > 1 and len(ranks) ** len(rule.tensor_variables()) > MOST_FORMS:
        ranks.pop()
    return Forms(tuple(sorted(ranks)))


def _infinite(draws: Iterable[Draw]) -> list[Instance]:
    """For each float attribute two instances in which it is infinite, as far as the rule has any."""
    found: dict[tuple[str, float], Instance] = {}
    for frame, values, _ in draws:
        attributes = [x for x in frame.unknowns if isinstance(x, Opaque) and frame.is_float(x)]
        for x, value in product(attributes, (inf, -inf)):
            key = (x.atom[1], value)
            if key not in found and (changed := frame.changed(values, x, value)) is not None:
                found[key] = changed[2]
    return [*found.values()]


def _never(rule: RewriteRule, results: Sequence[Exact]) -> Iterator[str]:
    """Remarks about comparisons of elements that came to one truth value in all instances. Those of a group or list
    rule have other comparisons for each number of members."""
    truths: Sequence[tuple[str, frozenset[bool]]] = ()
    for exact in results if rule.index is None else ():
        truths = either(truths, exact.compared)
    for op, found in dict.fromkeys(truths):
        if len(found) == 1:
            never = "false" if found == {True} else "true"
            what = (
                f"`{op}` is {never}"
                if op != "select"
                else f"it matters that a condition of `select` is {never}"
            )
            yield f"never tried: elements for which {what}"


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Garbage is looked for less often: what is remembered of a rule has millions of parts, and no garbage in it."""
    usual = gc.get_threshold()
    gc.set_threshold(max(usual[0], SELDOM), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _depends_on_attributes(instance: Instance) -> bool:
    """Whether both sides differ, and no dimension is 1: at 1 many attributes make no difference."""
    flat = any(1 in t.shape for t in instance.assignment.types.values())
    return not flat and instance.before != instance.after


def _values_of_results(rule: RewriteRule) -> str:
    """The results of operators whose values a rule's conditions ask for, which no instance can set."""
    results = {base_of(n.result) for n in rule.source.nodes}
    asked = [fact for c in rule.conditions for fact in facts_of(c) if fact.function == "value"]
    names = [n.id for fact in asked for n in names_of(fact.tensor) if n.id in results]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))
