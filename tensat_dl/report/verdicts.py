"""The output of `check` and `prove` about rules: a line for each rule, located messages, JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tensat_dl.core.words import plural
from tensat_dl.ops.table import OpTable
from tensat_dl.report.terminal import print_wrapped
from tensat_dl.verify.rules.verdict import Verdict, lists_of, terms

if TYPE_CHECKING:
    from tensat_dl.verify.prove.goals import Pair, Proof

STYLES = {
    "proved": "green",
    "derived": "green",
    "tested": "green",
    "assumed": "yellow",
    "refuted": "bold red",
    "vacuous": "bold red",
}
#: Columns that notes take at most; a terminal may have more.
WIDTH = 100

#: Why a search without a proof ended.
REASONS = {
    "saturated": "the axioms say no more",
    "nodes": "the limit of e-nodes was reached",
    "iterations": "the limit of iterations was reached",
    "time": "the time limit was reached",
    "memory": "the memory limit was reached",
    "interrupted": "interrupted",
}


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """One line for each rule: verdict, evidence, rounding. Lines are never broken, so that they can be searched."""
    if not verdicts:
        return
    evidence = [v.evidence if v.status in ("proved", "derived", "tested") else "" for v in verdicts]
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
            print_wrapped(Text(note, "dim"), "      ", min(WIDTH, max(40, console.width)) - 6, console)


def _notes(v: Verdict) -> list[str]:
    notes = [*_aspects(v), *v.remarks, *(f"condition {text}" for text in v.unneeded)]
    if v.unproved:
        notes.insert(0, f"no proof for all sizes: {v.unproved}")
    if v.status in ("proved", "tested") and v.reason:
        notes.insert(0, f"no bound{' for the others' if v.bounded else ''}: {v.reason}")
    elif v.status == "assumed":
        notes.insert(0, v.reason)
    return notes


def _aspects(v: Verdict) -> list[str]:
    """In one note what machine arithmetic makes of a rule, but for rounding, which has a column."""
    differ = [f"{a.name}, {a.example}" for a in v.aspects if a.status == "differs" and a.name != "rounding"]
    unknown = [a.name for a in v.aspects if a.status == "not examined"]
    notes = [f"differs: {'; '.join(differ)}"] if differ else []
    return notes + ([f"not examined: {', '.join(unknown)}"] if unknown else [])


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Plain data: the fields of `Verdict`, the evidence as text, numbers that are not finite as text."""
    return {**plain(asdict(verdict), str), "evidence": verdict.evidence}


def plain(value: Any, instead: Callable[[float], Any]) -> Any:
    """Data as JSON has it: lists for tuples, and something ``instead`` of numbers that are not finite."""
    if isinstance(value, dict):
        return {k: plain(v, instead) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, instead) for v in value]
    return instead(value) if isinstance(value, float) and not isfinite(value) else value


def print_proofs(proofs: Sequence[Proof], refuted: Sequence[str], ops: OpTable, console: Console) -> None:
    """One line for each rule; under a rule that was not derived, the first assignment at which it was not. Rules that
    were ``refuted`` come last."""
    names = max(map(len, (*(p.goal.rule for p in proofs), *refuted)), default=0)
    for proof in proofs:
        verdict = ("derived    ", "green") if proof.derived else ("not derived", "yellow")
        line = Text.assemble(f"  {proof.goal.rule.ljust(names)}  ", verdict, f"  {evidence(proof)}")
        console.print(line, soft_wrap=True)
        if not proof.derived and proof.stop not in ("time", "interrupted") and proof.missed is not None:
            for part in _assignment(proof.missed, ops):
                console.print(Text(f"      {part}", "dim"), soft_wrap=True)
    for name in refuted:
        line = Text.assemble(
            f"  {name.ljust(names)}  ", ("refuted    ", STYLES["refuted"]), "  see the counterexample"
        )
        console.print(line, soft_wrap=True)


def evidence(proof: Proof) -> str:
    """The axioms and the number of assignments of a proof, or the reason why there is none."""
    n = len(proof.goal.pairs)
    if proof.derived:
        lists = lists_of(proof.goal.lengths)
        return f"{n} {plural(n, 'assignment')}{lists}, from {', '.join(proof.axioms) or 'the axioms'}"
    if not n:
        return "no assignment meets its conditions"
    return f"{len(proof.equal)} of {n} assignments; {REASONS[proof.stop or 'saturated']}"


def _assignment(pair: Pair, ops: OpTable) -> list[str]:
    """An assignment: the types of variables, and the two sides that were not found equal."""
    leaves = {n.name: str(n.type) for graph in pair for n in graph.nodes if n.op in ("input", "weight")}
    types = ", ".join(f"{name} : {t}" for name, t in leaves.items())
    left, right = (", ".join(terms(graph, ops)) for graph in pair)
    return [f"not for {types}" if types else "not for", f"left:  {left}", f"right: {right}"]


def proof_to_json(proof: Proof, ops: OpTable) -> dict[str, Any]:
    """Plain data. ``status`` is derived, not derived, or vacuous where no assignment was found."""
    status = "derived" if proof.derived else "not derived" if proof.goal.pairs else "vacuous"
    missed = None if proof.derived or proof.missed is None else "; ".join(_assignment(proof.missed, ops))
    return {
        "rule": proof.goal.rule,
        "status": status,
        "assignments": len(proof.goal.pairs),
        "equal": len(proof.equal),
        "axioms": list(proof.axioms),
        "stop": proof.stop,
        "missed": missed,
    }
