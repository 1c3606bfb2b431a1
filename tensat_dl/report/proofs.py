"""The output of ``tensat-dl prove``: a line for each rule, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tensat_dl.ops.table import OpTable
from tensat_dl.verify.prove.types import Pair, Proof
from tensat_dl.verify.rules.terms import terms

#: Why a search without a proof ended.
REASONS = {
    "saturated": "the axioms say no more",
    "nodes": "the limit of e-nodes was reached",
    "iterations": "the limit of iterations was reached",
    "time": "the time limit was reached",
    "memory": "the memory limit was reached",
    "interrupted": "interrupted",
}


def print_proofs(proofs: Sequence[Proof], ops: OpTable, console: Console) -> None:
    """One line for each rule; under a rule that was not derived, the first assignment at which it was not."""
    names = max((len(p.goal.rule) for p in proofs), default=0)
    for proof in proofs:
        verdict = ("derived    ", "green") if proof.derived else ("not derived", "yellow")
        line = Text.assemble(f"  {proof.goal.rule.ljust(names)}  ", verdict, f"  {evidence(proof)}")
        console.print(line, soft_wrap=True)
        if not proof.derived and proof.stop not in ("time", "interrupted") and proof.missed is not None:
            for part in _assignment(proof.missed, ops):
                console.print(Text(f"      {part}", "dim"), soft_wrap=True)


def evidence(proof: Proof) -> str:
    """The axioms and the number of assignments of a proof, or the reason why there is none."""
    n = len(proof.goal.pairs)
    if proof.derived:
        return f"{n} assignment{'s' if n != 1 else ''}, from {', '.join(proof.axioms) or 'the axioms'}"
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
