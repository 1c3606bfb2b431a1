"""A cell: the equations in which an operator and a transformation pass each other, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Graph, Node
from tensat_dl.core.rule import RewriteRule
from tensat_dl.coverage.catalogue import stated
from tensat_dl.coverage.equations import Law, OpTerms, Question
from tensat_dl.coverage.transformations import TRANSFORMATIONS
from tensat_dl.discover.generalise import PATIENCE, Generaliser
from tensat_dl.discover.written import rewrites
from tensat_dl.engine.exploration import Limits, RuleAlarm
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.exact.compare import compare_exactly
from tensat_dl.verify.prove.equality import find_equal
from tensat_dl.verify.prove.goals import Goal, goal
from tensat_dl.verify.prove.prove import Prover
from tensat_dl.verify.rules.coverage import QUOTIENTS
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.rule_types import check_rule_types
from tensat_dl.verify.rules.sampling import Sampler

#: How many instances an equation is tried on before it is examined, and on how many if these tell little.
INSTANCES = 12
MORE = 36
#: At how many assignments an equation is derived, of how many times as many, and the limits of each e-graph.
ASSIGNMENTS = 3
TRIES = 3
LIMITS = Limits(3000, 6, k_multi=None)
#: Operators that derivations may take beside those of an equation.
HELPERS = ("reshape", "transpose", "expand", "concat", "slice", "ewadd", "ewmul", "smul", "fill")

#: Operators that have nothing before them.
LEAVES = frozenset(("fill", "input", "weight", "iota", "eye"))

#: "true" is an equation that the rules do not derive.
Status = Literal["derived", "true", "false"]


@dataclass(frozen=True, slots=True)
class Finding:
    """An equation. ``evidence`` is that of the check; of a false one, ``counterexample`` has its lines. A derived one
    has the rules that it takes, and the first ``source`` of rules that is enough. ``asked`` are those that
    a catalogue states, not made from the operator's declaration."""

    law: Law
    status: Status
    evidence: str = ""
    rules: tuple[str, ...] = ()
    source: str = ""
    counterexample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of an operator and a transformation. ``reason`` says why there is no equation."""

    op: str
    transformation: str
    findings: tuple[Finding, ...] = ()
    reason: str = ""

    @property
    def status(self) -> str:
        """ "rule", "derived", "true", "false" or "none": the best of the findings."""
        found = {a.status for a in self.findings}
        if "derived" in found:
            return "rule" if any(len(a.rules) == 1 for a in self.findings) else "derived"
        return "true" if "true" in found else "false" if found else "none"


@dataclass(frozen=True, slots=True)
class Axioms:
    """Rules to derive from, by a name."""

    name: str
    rules: tuple[RewriteRule, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """On how many instances a law held, whether its transformation did something in one of these, and whether the law
    failed on one."""

    passed: int
    telling: bool
    failed: bool


class CellExaminer:
    """Examines cells over one table of operators. Equations are derived from the first of ``sources`` that is enough,
    each of which has the rules of those before; with ``proofs``, those that are true are proved for all sizes, if
    they can be."""

    def __init__(self, ops: OpTable, sources: Sequence[Axioms], proofs: bool = True) -> None:
        self.ops = ops
        self.sources = sources
        self.proofs = proofs
        self.examiner = Examiner(ops, thorough=False)
        self.generaliser = Generaliser(ops)

    def cell(self, op: str, transformation: str) -> Cell:
        """The cell, without derivations."""
        own = stated(op, transformation)
        found: list[Finding] = []
        reasons: list[str | RewriteRule] = []
        for question in questions(self.ops[op], transformation):
            finding = self._answer(question, reasons)
            found += [] if finding is None else [finding]
        found += [a for law in own if (a := self._stated(law)) is not None]
        # A false equation about some operands says nothing new beside a true one about others.
        is_true = any(a.status != "false" for a in found)
        chosen = [a for a in found if not is_true or a.status != "false" or a.law in own]
        if chosen:
            return Cell(op, transformation, tuple(dict.fromkeys(chosen)))
        texts = (r if isinstance(r, str) else self._never(r) for r in reasons)
        usual = "the two never fit each other's types" if self.ops[op].inputs else "it has no operand"
        return Cell(op, transformation, reason=next(filter(None, texts), usual))

    def _answer(self, question: Question, reasons: list[str | RewriteRule]) -> Finding | None:
        """The first law that is true; if there is none, the first that has instances. Of each law that says nothing
        it adds the reason why, or the rule if this has no instances."""
        first: Law | None = None
        for law in question:
            rule, problem = self._rule(law)
            if rule is None:
                reasons.append(problem)
                continue
            try:
                trial = self._trial(law, rule)
            except TsrError as e:  # an expression has no value at unknown dimensions
                reasons.append(e.diagnostics[0].message)
                continue
            if not (trial.passed or trial.failed):
                reasons.append(rule)
            elif trial.failed:
                first = first or law
            elif trial.telling:
                finding = self._examined(law, tried=True)
                if finding is not None and finding.status != "false":
                    return finding
                first = first or law
            else:
                reasons.append("types leave it nothing to change")
        return None if first is None else self._examined(first)

    def _stated(self, law: Law) -> Finding | None:
        """What is known of an equation that the catalogue states."""
        rule, _ = self._rule(law)
        return self._examined(law, tried=rule is not None and not self._trial(law, rule).failed)

    def _trial(self, law: Law, rule: RewriteRule) -> Tried:
        """A trial of a law up to the first instance on which it fails. It is on more instances if all have a
        dimension of 1, where more is true than elsewhere, though the law does not ask for one."""
        units = any("== 1" in c for c in law.where)
        passed, wide, telling = 0, units, False
        for _, _, i in Sampler(rule, self.generaliser.infer).several(MORE, PATIENCE):
            if i.before == i.after:
                continue
            equal = self.generaliser.equal(i)
            if equal is False and compare_exactly(i.before, i.after, self.ops).status != "equal":
                return Tried(passed, telling, True)
            if equal is not None:  # false means true of this function alone: tanh is odd
                passed += 1
                wide |= not any(1 in t.shape for t in i.assignment.types.values())
                telling |= _does_something((i.before, i.after))
            if passed >= INSTANCES and wide and telling:
                break
        return Tried(passed, telling, False)

    def _proof(self, rule: RewriteRule) -> str:
        """What a law is proved for; empty if it is not."""
        if not self.proofs:
            return ""
        from tensat_dl.verify.symbolic.proof import prove_sizes
        from tensat_dl.verify.symbolic.unproved import Unproved

        try:
            return str(prove_sizes(rule, self.generaliser.infer))
        except (Unproved, TsrError):
            return ""

    def _never(self, rule: RewriteRule) -> str:
        problems = check_rule_types(rule, self.ops)
        return problems[0].message.partition("never type-checks: ")[2] if problems else ""

    def _rule(self, law: Law) -> tuple[RewriteRule | None, str]:
        try:
            return rewrites(law.rule("cell"), self.ops)[0], ""
        except TsrError as e:
            return None, e.diagnostics[0].message

    def _examined(self, law: Law, tried: bool = False) -> Finding | None:
        """The verdict on an equation; None if it never applies. One that was ``tried`` on instances may be proved at
        once."""
        rule, _ = self._rule(law)
        if rule is None:
            return None
        proof = self._proof(rule) if tried else ""
        divides = not self.ops.closure(n.op for n in rule.nodes).isdisjoint(QUOTIENTS)
        if proof and not divides:  # it says nothing of integers that are rounded
            return Finding(law, "true", proof)
        verdict = self.examiner.verdict(rule)
        if verdict.status == "refuted":
            example = verdict.counterexample
            lines = (verdict.reason,) if example is None else tuple(example.lines())
            return Finding(law, "false", counterexample=lines)
        if verdict.status not in ("proved", "tested"):
            return None
        return Finding(law, "true", proof or f"{verdict.instances} instances")

    def derivation(self, law: Law) -> tuple[str, tuple[str, ...]] | None:
        """The source that an equation follows from, and the rules that it takes; None if it follows from none."""
        rule, _ = self._rule(law)
        assert rule is not None
        own = frozenset(n.op for n in rule.nodes)
        ways = [
            (source.name, axioms)
            for helpers in ((), HELPERS)
            for source in self.sources
            if not self._stays(own, axioms := self._about(source, [*own, *helpers]))
        ]
        if not ways:
            return None
        target = telling_goal(rule, self.generaliser.infer)
        if not target.pairs or self._out_of_reach(target, ways[-1][1]):
            return None
        for name, axioms in ways:
            with suppress(RuleAlarm, TsrError):
                (proof,) = Prover(axioms, self.ops, LIMITS).run([target])
                if proof.derived:
                    return name, proof.axioms
        return None

    def _about(self, source: Axioms, ops: Sequence[str]) -> tuple[RewriteRule, ...]:
        """The rules that are about some operators alone."""
        known = self.ops.closure(ops) | LEAVES
        return tuple(a for a in source.rules if a.kind != "group" and all(n.op in known for n in a.nodes))

    def _out_of_reach(self, target: Goal, axioms: Sequence[RewriteRule]) -> bool:
        """Whether all that follows from axioms leaves the sides of a law different, and no limit ended the search."""
        with suppress(RuleAlarm, TsrError):
            found = find_equal(target.pairs[:1], axioms, self.ops, LIMITS)
            return not found.equal and found.stop == "saturated"
        return False

    def _stays(self, own: frozenset[str], axioms: Sequence[RewriteRule]) -> bool:
        """Whether no axiom is about an operator of a law, nor about what is composed of it, apart from definitions.
        Then it stays where it is, as do its operands."""
        defined = {f"{kind}-{op}" for kind in ("fuse", "unfuse") for op in self.ops}
        moved = self.ops.closure(n.op for a in axioms if a.name not in defined for n in a.nodes)
        parts = {op for op in self.ops.closure(own) if self.ops[op].composition is None}
        return not parts <= moved | LEAVES


def questions(decl: OpDecl, transformation: str) -> list[Question]:
    """What is asked of an operator and a transformation by its declaration."""
    (made,) = (t for t in TRANSFORMATIONS if t.name == transformation)
    return list(made.questions(OpTerms(decl)))


def telling_goal(rule: RewriteRule, infer: Inference) -> Goal:
    """What is to be derived of an equation: it at the first assignments at which all transformations do something, if
    there are such."""
    target = goal(rule, infer, TRIES * ASSIGNMENTS)
    telling = [pair for pair in target.pairs if _does_something(pair)]
    return replace(target, pairs=tuple(telling or target.pairs)[:ASSIGNMENTS])


def _does_something(sides: tuple[Graph, Graph]) -> bool:
    """Whether no cast, reshape, stretching, slice, permutation or padding of both sides gives its operand."""
    return not any(_does_nothing(node, graph) for graph in sides for node in graph.nodes)


def _does_nothing(node: Node, graph: Graph) -> bool:
    attrs = dict(node.attrs)
    match node.op:
        case "cast" | "reshape" | "expand" | "slice":
            return node.type == graph.nodes[node.inputs[0]].type
        case "transpose":
            return attrs["perm"] == tuple(range(node.type.rank))
        case "pad":
            return attrs["before"] == attrs["after"] == (0,) * node.type.rank
    return False
