"""The library's rules are proved for all sizes, but for those that docs/rules.md lists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tensat_dl import resources
from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import load_program
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.symbolic.proof import Unproved, prove_sizes

pytest.importorskip("z3")
pytestmark = pytest.mark.sampled(20)

DOCUMENT = Path(__file__).parents[2] / "docs" / "rules.md"


@cache
def library() -> dict[str, RewriteRule]:
    paths = sorted(resources.rules().glob("*.tsr"))
    return {rule.name: rule for path in paths for rule in load_program(str(path)).rules}


@cache
def infer() -> Inference:
    return Inference(load_program(str(resources.rules() / "ops.tsr")).ops)


@cache
def section() -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(r"^## Rules without a proof\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@cache
def without() -> frozenset[str]:
    rows = [line.split("|")[1] for line in section().splitlines() if line.startswith("| `")]
    return frozenset(name for row in rows for name in re.findall(r"`([^`]*)`", row))


def test_the_numbers_of_the_document() -> None:
    rules, listed = len(library()), len(without())
    assert without() <= library().keys()
    assert not any(name.startswith("xla-") for name in without())  # docs/xla.md says that all are proved
    assert f"{rules - listed} of the library's {rules} rules" in section()
    assert f"The other {listed} are" in section()


@pytest.mark.parametrize("name", sorted(library()))
def test_rule_is_proved_or_listed(name: str) -> None:
    try:
        prove_sizes(library()[name], infer())
        proved = True
    except Unproved:
        proved = False
    assert proved == (name not in without())
