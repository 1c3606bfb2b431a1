"""The output of ``tensat-dl check`` about rules: a table of verdicts, located messages, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Console
from rich.text import Text

from tensat_dl.core.diagnostics import Diagnostic
from tensat_dl.core.rule import RewriteRule
from tensat_dl.verify.rules import Verdict

STYLES = {
    "derived": "green",
    "tested": "green",
    "assumed": "yellow",
    "refuted": "bold red",
    "vacuous": "bold red",
}
#: Columns that notes take at most; a terminal may have more.
WIDTH = 100


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """One line for each rule: verdict, evidence, rounding. Lines are never broken, so that they can be searched."""
    if not verdicts:
        return
    evidence = [_evidence(v) for v in verdicts]
    names = max(len(v.rule) for v in verdicts)
    room = max(map(len, evidence))
    for v, text in zip(verdicts, evidence, strict=True):
        line = Text.assemble(
            f"  {v.rule.ljust(names)}  ", (v.status.ljust(7), STYLES[v.status]), f"  {text.ljust(room)}  "
        )
        line.append(v.rounding or "")
        line.rstrip()
        console.print(line, soft_wrap=True)
        for note in _notes(v):
            for part in Text(note, "dim").wrap(console, min(WIDTH, max(40, console.width)) - 6):
                part.rstrip()
                console.print(Text.assemble("      ", part), soft_wrap=True)


def _evidence(v: Verdict) -> str:
    return v.evidence if v.status in ("derived", "tested") else ""


def _notes(v: Verdict) -> list[str]:
    notes = [f"condition {text}" for text in v.unneeded]
    if v.status == "tested" and v.reason:
        notes.insert(0, f"no bound{' for the others' if v.bounded else ''}: {v.reason}")
    elif v.status == "assumed":
        notes.insert(0, v.reason)
    return notes


def diagnostic(verdict: Verdict, rule: RewriteRule) -> Diagnostic | None:
    """The message about a failed rule; None if the rule did not fail."""
    name = rule.name
    back = ""
    if rule.span.text != name:  # the other direction of a rule
        name, back = rule.span.text, ", read from right to left,"
    if verdict.status == "refuted":
        found = verdict.counterexample
        notes = tuple(found.lines()) if found is not None else (verdict.reason,)
        return Diagnostic(f"rule `{name}`{back} is false", rule.span, notes=notes)
    if verdict.status == "vacuous":
        hint = "weaken its conditions, or remove it: a rule that never applies says nothing"
        return Diagnostic(f"rule `{name}`{back} never applies", rule.span, hint, notes=(verdict.reason,))
    return None


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Plain data: the fields of `Verdict`, the evidence as text, numbers that are not finite as text."""
    return {**_plain(asdict(verdict)), "evidence": verdict.evidence}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
