"""Answers that must not be used, and false rules: errors that carry the messages of the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.shown import Shown
from tensat_dl.run.result import Result
from tensat_dl.verify.rules.verdict import Verdict, diagnostic


class Mismatch(TsrError):
    """Two graphs that were to be equivalent differ. ``result`` is the answer that must not be used, if any."""

    def __init__(self, diagnostics: Iterable[Diagnostic], result: Result | None = None) -> None:
        super().__init__(diagnostics)
        self.result = result


class RefutedRule(Mismatch):
    """A rule is false, with a counterexample; or, if it led to an answer, can never apply."""


@dataclass(frozen=True, slots=True, repr=False)
class Verdicts(Shown, Sequence[Verdict]):
    """The verdicts on some rules, in order."""

    rules: tuple[RewriteRule, ...]
    verdicts: tuple[Verdict, ...]

    @overload
    def __getitem__(self, index: int) -> Verdict: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Verdict, ...]: ...
    def __getitem__(self, index: int | slice) -> Verdict | tuple[Verdict, ...]:
        return self.verdicts[index]

    def __len__(self) -> int:
        return len(self.verdicts)

    def __repr__(self) -> str:
        kinds = [v.status for v in self.verdicts]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        return f"<Verdicts: {counts or 'none'}>"

    @property
    def refuted(self) -> tuple[Verdict, ...]:
        """The verdicts on false rules."""
        return tuple(v for v in self.verdicts if v.status == "refuted")

    def raise_for_refuted(self) -> None:
        """Raises `RefutedRule`, with counterexamples, if a rule is false."""
        if self.refuted:
            raise RefutedRule(failures(self.rules, self.refuted))


def failures(rules: Iterable[RewriteRule], verdicts: Iterable[Verdict]) -> list[Diagnostic]:
    """The messages about the rules that failed."""
    failed = {v.rule: v for v in verdicts if v.failed}
    found = (diagnostic(failed[r.name], r) for r in rules if r.name in failed)
    return [d for d in found if d is not None]


def refusal(result: Result, own_rules: Collection[str]) -> Mismatch | None:
    """The reason why an answer must not be used; None if there is none. ``own_rules`` are names of the rules that are
    suspected first."""
    if false := failures(result.rules, result.verdicts):
        return RefutedRule(false, result)
    compared, measured = result.equivalence, result.measured
    if compared is not None and compared.status == "different":
        message = f"the optimized graph computes something else: {compared.message}"
        return Mismatch([Diagnostic(message, None, _suspects(result, own_rules))], result)
    if measured is not None and measured.mismatch:
        message = f"the optimized model computes something else: {measured.mismatch}"
        return Mismatch([Diagnostic(message, None)], result)
    return None


def rounded_apart(result: Result) -> str:
    """How rounding alone makes an answer another than the input, as far as comparisons tell; empty if it does not."""
    compared, exact, measured = result.equivalence, result.exact, result.measured
    if compared is None or any(v.failed for v in result.verdicts):
        return ""
    if compared.status == "different":
        equal = exact is not None and exact.status == "equal"
        return f"equal in exact numbers, but rounded, {compared.message}" if equal else ""
    if compared.status == "equivalent" and measured is not None and measured.mismatch:
        return f"equal in float64, but rounded on the machine, {measured.mismatch}"
    return ""


def check_usable(result: Result, own_rules: Collection[str]) -> None:
    """Raises `Mismatch` for an answer that must not be used, or is not verified though it was to be."""
    wrong = refusal(result, own_rules)
    if wrong is None and result.unverified:
        wrong = Mismatch(
            [Diagnostic("verification was interrupted: the result is not verified", None)], result
        )
    if wrong is not None:
        raise wrong


def _suspects(result: Result, own_rules: Collection[str]) -> str:
    """The rules that may be at fault: rules of the file itself, if any was applied, else all."""
    applied = dict.fromkeys(s.rule for step in result.iterations for s in step.rules if s.applied)
    declared = {r.name: r.declared for r in result.rules}
    own = [name for name in applied if declared.get(name) in own_rules]
    names = own or list(applied)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"an applied rule must be false; rules{' of this file' if own else ''} that were applied: {shown}"
