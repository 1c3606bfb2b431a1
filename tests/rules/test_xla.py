"""The pack "xla": docs/xla.md has a rule for each of XLA's rewrites, and each rule is proved for all sizes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tensat_dl import resources
from tensat_dl.lang.program import Program, load_program

pytest.importorskip("z3")

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (Path(__file__).parents[2] / "docs" / "xla.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and ("⇒" in line or "no equation" in line)
]


@cache
def pack() -> Program:
    return load_program(str(resources.rules() / "xla.tsr"))


RULES = [r for r in pack().rules if r.declared in pack().own_rules]


def named(row: list[str]) -> list[str]:
    return [f"xla-{name}" for name in re.findall(r"`([a-z-]+)`", row[2])]


def test_every_rewrite_has_its_row_and_its_rules() -> None:
    assert len(ROWS) == 119
    assert sum(bool(named(row)) for row in ROWS) == 116
    assert {name for row in ROWS for name in named(row)} == {r.name for r in RULES}


def test_the_numbers_of_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "verification.md").read_text(encoding="utf-8")
    assert f"116 of them as {len(RULES)} rules" in text
