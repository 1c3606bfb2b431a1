"""A cell: the equations in which an operator and a transformation pass each other, and what is known of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.rule import RewriteRule
from tensat_dl.coverage.catalogue import stated
from tensat_dl.coverage.equations import Law, OpTerms, Question
from tensat_dl.coverage.transformations import TRANSFORMATIONS
from tensat_dl.discover.generalise import LEAST, PATIENCE, Generaliser
from tensat_dl.discover.written import rewrites
from tensat_dl.engine.exploration import Limits, RuleAlarm
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.prove.goals import goal
from tensat_dl.verify.prove.prove import Prover
from tensat_dl.verify.rules.examine import Examiner, check_rule_types
from tensat_dl.verify.rules.instance import Assignment
from tensat_dl.verify.rules.sampling import Sampler

#: How many instances an equation is tried on before it is examined, and on how many if these tell little.
INSTANCES = 12
MORE = 36
#: At how many assignments an equation is derived, and the limits of each e-graph.
ASSIGNMENTS = 3
LIMITS = Limits(3000, 6, k_multi=None)
#: Operators that derivations may take beside those of an equation.
HELPERS = ("reshape", "transpose", "expand", "concat", "slice", "ewadd", "ewmul", "smul", "fill")

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
    """The instances on which a law held, and whether it failed on one."""

    passed: tuple[Assignment, ...]
    failed: bool


class CellExaminer:
    """Examines cells over one table of operators. Equations are derived from the first of ``sources`` that is enough;
    with ``proofs``, those that are true are proved for all sizes, if they can be."""

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
        reason = ""
        for question in questions(self.ops[op], transformation):
            finding, why = self._answer(question)
            reason = reason or why
            found += [] if finding is None else [finding]
        found += [a for law in own if (a := self._stated(law)) is not None]
        # A false equation about some operands says nothing new beside a true one about others.
        is_true = any(a.status != "false" for a in found)
        chosen = [a for a in found if not is_true or a.status != "false" or a.law in own]
        if not chosen and not reason:
            reason = (
                "it has no operand" if not self.ops[op].inputs else "the two never fit each other's types"
            )
        return Cell(op, transformation, tuple(dict.fromkeys(chosen)), "" if chosen else reason)

    def _answer(self, question: Question) -> tuple[Finding | None, str]:
        """The first law that is true; if there is none, the first that has instances; or the reason why none has."""
        first: Law | None = None
        reason = ""
        for law in question:
            rule, problem = self._rule(law)
            reason = reason or problem
            if rule is None:
                continue
            try:
                trial = self._trial(law, rule)
            except TsrError as e:  # an expression has no value at unknown dimensions
                reason = reason or e.diagnostics[0].message
                continue
            if not (trial.passed or trial.failed):
                reason = reason or self._never(rule)
            elif trial.failed:
                first = first or law
            elif len(trial.passed) >= LEAST and not _trivial(trial):
                finding = self._examined(law, tried=True)
                if finding is not None and finding.status != "false":
                    return finding, ""
                first = first or law
        return (None if first is None else self._examined(first)), reason

    def _stated(self, law: Law) -> Finding | None:
        """What is known of an equation that the catalogue states."""
        rule, _ = self._rule(law)
        return self._examined(law, tried=rule is not None and not self._trial(law, rule).failed)

    def _trial(self, law: Law, rule: RewriteRule) -> Tried:
        """A trial of a law up to the first instance on which it fails. It is on more instances if all have a
        dimension of 1, where more is true than elsewhere, though the law does not ask for one."""
        units = any("== 1" in c for c in law.where)
        passed: list[Assignment] = []
        telling = False
        for _, _, i in Sampler(rule, self.generaliser.infer).several(MORE, PATIENCE):
            if i.before == i.after:
                continue
            equal = self.generaliser.equal(i)
            if equal is False:
                return Tried(tuple(passed), True)
            if equal:
                passed.append(i.assignment)
                telling |= units or not any(1 in t.shape for t in i.assignment.types.values())
            if len(passed) >= INSTANCES and telling:
                break
        return Tried(tuple(passed), False)

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
        if proof:
            return Finding(law, "true", proof)
        verdict = self.examiner.verdict(rule)
        if verdict.status == "refuted":
            example = verdict.counterexample
            lines = (verdict.reason,) if example is None else tuple(example.lines())
            return Finding(law, "false", counterexample=lines)
        if verdict.status not in ("proved", "tested"):
            return None
        return Finding(law, "true", verdict.proof or f"{verdict.instances} instances")

    def derivation(self, law: Law) -> tuple[str, tuple[str, ...]] | None:
        """The source that an equation follows from, and the rules that it takes; None if it follows from none."""
        rule, _ = self._rule(law)
        assert rule is not None
        target = goal(rule, self.generaliser.infer, ASSIGNMENTS)
        own = frozenset(n.op for n in rule.nodes)
        for helpers in ((), HELPERS):
            known = self.ops.closure([*own, *helpers]) | {"fill", "input", "weight"}
            for source in self.sources:
                axioms = [
                    a for a in source.rules if a.kind != "group" and all(n.op in known for n in a.nodes)
                ]
                try:
                    (proof,) = Prover(tuple(axioms), self.ops, LIMITS).run([target])
                except (RuleAlarm, TsrError):
                    continue
                if proof.derived:
                    return source.name, proof.axioms
        return None


def questions(decl: OpDecl, transformation: str) -> list[Question]:
    """What is asked of an operator and a transformation by its declaration."""
    (made,) = (t for t in TRANSFORMATIONS if t.name == transformation)
    return list(made.questions(OpTerms(decl)))


def _trivial(trial: Tried) -> bool:
    """Whether types force the transformation to change nothing: a cast, a permutation, a reshape, a stretching."""
    return all(map(_changes_nothing, trial.passed))


def _changes_nothing(a: Assignment) -> bool:
    types = a.types.values()
    perm, shape = a.attrs.get("p"), a.attrs.get("s")
    return (
        a.attrs.get("t") == next(iter(types)).dtype
        or (isinstance(perm, tuple) and perm == tuple(range(len(perm))))
        or (isinstance(shape, tuple) and all(t.shape == shape for t in types if t.rank == len(shape)))
    )
