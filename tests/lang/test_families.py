"""Families of rules: each word makes a rule, as if it had been written."""

from __future__ import annotations

from pathlib import Path

from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import load_program

FAMILY = """/// f(x y) in one step.
rule act-f for f in relu, tanh { f(matmul(x, y)) <=> matmul(x, y; act = f) where rank(x) == 2 }
"""
WRITTEN = """/// relu(x y) in one step.
rule act-relu { relu(matmul(x, y)) <=> matmul(x, y; act = relu) where rank(x) == 2 }

/// tanh(x y) in one step.
rule act-tanh { tanh(matmul(x, y)) <=> matmul(x, y; act = tanh) where rank(x) == 2 }
"""


def own_rules(folder: Path, text: str) -> list[RewriteRule]:
    (folder / "rules.tsr").write_text(text)
    program = load_program(str(folder / "rules.tsr"))
    return [r for r in program.rules if r.declared in program.own_rules]


def without_spans(rule: RewriteRule) -> tuple[object, ...]:
    sides = [
        [(n.result, n.op, n.args, n.attrs, n.span.text) for n in side.nodes]
        for side in (rule.source, rule.target)
    ]
    return rule.name, rule.declared, rule.doc, rule.conditions, rule.span.text, *sides


def test_a_family_is_its_rules_written_out(tmp_path: Path) -> None:
    """Texts of spans included, which messages quote."""
    family, written = own_rules(tmp_path, FAMILY), own_rules(tmp_path, WRITTEN)
    assert [r.name for r in family] == ["act-relu", "act-relu-back", "act-tanh", "act-tanh-back"]
    assert list(map(without_spans, family)) == list(map(without_spans, written))
