"""Instances meet the cases of a rule, and a verdict names the cases that none has met."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verdict import Verdict

HERE = Path(__file__).parent
QUIET, NEAR = HERE / "false_quiet.tsr", HERE / "false_near.tsr"

pytestmark = pytest.mark.sampled(3)


@cache
def program(path: Path = QUIET) -> Program:
    return load_program(str(path))


def own(found: Program) -> list[RewriteRule]:
    return [r for r in found.rules if r.declared in found.own_rules]


def rule_named(name: str) -> RewriteRule:
    return next(r for r in program().rules if r.name == name)


def verdict(body: str, tmp_path: Path, proofs: bool = False) -> Verdict:
    path = tmp_path / "r.tsr"
    path.write_text(f"rule r {{ {body} }}", encoding="utf-8")
    found = load_program(str(path))
    (rule,) = own(found)
    return Examiner(found.ops, proofs=proofs).verdict(rule)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("path", "rule"),
    [(path, rule) for path in (QUIET, NEAR) for rule in own(program(path))],
    ids=lambda x: "" if isinstance(x, Path) else x.name,
)
def test_a_rule_that_is_nearly_true_does_not_pass(path: Path, rule: RewriteRule, seed: int) -> None:
    found = Examiner(program(path).ops, seed).verdict(rule)
    assert found.status == "refuted" or (found.status == "tested" and found.remarks)


@pytest.mark.parametrize("name", ["sum-of-64", "powers-commute", "slope-above-one"])
def test_a_rule_may_have_any_name(name: str) -> None:
    """Neither the verdict nor the counterexample depends on it."""
    rule = rule_named(name)
    found = Examiner(program().ops).verdict(rule)
    assert found.status == "refuted"
    for other in ("a", "true-for-sure", "r" * 40):
        renamed = Examiner(program().ops).verdict(replace(rule, name=other, declared=other))
        assert repr(renamed) == repr(replace(found, rule=other))  # not a number is not equal to itself


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (
            "reduce_sum(slice(x; axis = k, start = 0, stop = min(dim(x, k), 1000000)); axis = k)"
            " => reduce_sum(x; axis = k)",
            "never tried: `dim(x, k) > 1000000`, of `min(dim(x, k), 1000000)`",
        ),
        (
            "reduce_sum(slice(x; axis = 0, start = dim(x, 0) / 9000000, stop = dim(x, 0)); axis = 0)"
            " => reduce_sum(x; axis = 0)",
            "never tried: `dim(x, 0) > 9000000`, of `dim(x, 0) / 9000000`",
        ),
        (
            """each i: y[i] = matmul(x, w[i])
            where rank(x) == 2, dim(w[i], 1) == dim(w[0], 1)
            =>
            m = matmul(x, concat(w[..]; axis = 1))
            each i: y[i] = slice(m; axis = 1, start = min(i, 30) * dim(w[0], 1), stop = min(i + 1, 31) * dim(w[0], 1))
            """,
            "never tried: more than 17 members",
        ),
    ],
)
def test_what_was_never_tried_is_named(body: str, remark: str, tmp_path: Path) -> None:
    found = verdict(body, tmp_path)
    assert found.status == "tested"
    assert remark in found.remarks


@pytest.mark.parametrize(
    "body",
    [
        "reverse(x; axis = k) => reverse(x; axis = min(k, 4))",
        "softmax(x; axis = k) where rank(x) != 6 or k != 5 or dim(x, 5) > 6 => softmax(x; axis = min(k, 4))",
    ],
)
def test_instances_are_drawn_where_a_proof_fails(body: str, tmp_path: Path) -> None:
    """Both are false at rank 6 for the last axis alone."""
    pytest.importorskip("z3")
    found = verdict(body, tmp_path, proofs=True)
    assert found.status == "refuted"


def test_longer_lists_are_drawn_where_a_condition_asks_for_them(tmp_path: Path) -> None:
    body = "concat(relu(xs[i]) for i in 0..len(xs); axis = k) where len(xs) > 30 => "
    found = verdict(body + "relu(concat(xs[..]; axis = k))", tmp_path)
    assert found.status == "tested"
    assert found.lengths == (31, 32)
    assert verdict(body + "concat(xs[..]; axis = k)", tmp_path).status == "refuted"


def test_lists_of_each_length_are_tried_where_a_condition_counts_elements(tmp_path: Path) -> None:
    """The first is false for six and more alone, the second for four and more, seldom."""
    body = "concat(slice(x; axis = k, start = a[i], stop = b[i]) for i in 0..len(a); axis = k) where "
    target = " => slice(x; axis = k, start = a[0], stop = b[-1])"
    condition = "all(b[i] == a[i + 1] or i >= 3 for i in 0..len(a) - 1)"
    assert verdict(body + condition + target, tmp_path).status == "refuted"
    condition = "all(a[i] == a[0] + i * (b[0] - a[0]) for i in 0..len(a))"
    found = verdict(body + condition + target, tmp_path)
    assert found.status == "refuted" or "never tried: more than 17 members" in found.remarks


def test_lists_that_are_too_long_are_not_tried(tmp_path: Path) -> None:
    body = "concat(relu(xs[i]) for i in 0..len(xs); axis = k) where len(xs) > 300 => concat(xs[..]; axis = k)"
    found = verdict(body, tmp_path)
    assert found.status == "assumed"
    assert found.reason == "no instance of it was tried: groups and lists have up to 65 members there"


@pytest.mark.parametrize(
    "body",
    [
        "relu(relu(x)) => relu(x)",
        # what no size can meet is not missed
        "reduce_sum(slice(x; axis = 0, start = 0, stop = min(dim(x, 0), 512)); axis = 0) where dim(x, 0) <= 512"
        " => reduce_sum(x; axis = 0)",
        "slice(x; axis = k, start = 0, stop = min(dim(x, k), max(dim(x, k), 9))) => x",
        "relu(relu(x)) where dim(x, 0) % 1000 == 0 or dim(x, 0) > 2000 => relu(x)",
    ],
)
def test_no_remark_without_need(body: str, tmp_path: Path) -> None:
    found = verdict(body, tmp_path)
    assert found.status == "tested"
    assert found.remarks == ()


def test_a_maximum_is_not_less_than_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where z3 is not there to tell."""
    monkeypatch.setattr("tensat_dl.verify.symbolic.assumptions.new_terms", lambda: None)
    found = verdict(
        "ewadd(ewadd(x, y), x) where rank(x) == 2, rank(y) == 2 => ewadd(y, smul(x, 2.0))", tmp_path
    )
    assert found.status == "tested"
    assert not any("max" in remark for remark in found.remarks), found.remarks
