"""What machine arithmetic makes of rules that are true of real numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.lang.program import load_program
from tensat_dl.report.verdicts import verdict_to_json
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verdict import Aspect, Verdict


def verdict(body: str, tmp_path: Path) -> Verdict:
    path = tmp_path / "r.tsr"
    path.write_text(f"rule r {{ {body} }}", encoding="utf-8")
    found = load_program(str(path))
    (rule,) = (r for r in found.rules if r.declared in found.own_rules)
    return Examiner(found.ops).verdict(rule)


def aspects(body: str, tmp_path: Path) -> dict[str, Aspect]:
    return {a.name: a for a in verdict(body, tmp_path).aspects}


@pytest.mark.parametrize(
    ("body", "differ"),
    [
        ("relu(relu(x)) => relu(x)", set()),
        ("transpose(transpose(x; perm = [1, 0]); perm = [1, 0]) where rank(x) == 2 => x", set()),
        (
            "ewdiv(x, x) => fill(; value = 1.0, dtype = dtype(x), shape = shape(x))",
            {"infinities", "zero divisors"},
        ),
        (
            "ewdiv(ewmul(x, y), y) where is_float(dtype(x)) => x",
            {"rounding", "infinities", "zero divisors"},
        ),
        (  # an infinite number less itself is no number
            "pad(x; before = b, after = a, value = v) where is_float(dtype(x))"
            " => pad(x; before = b, after = a, value = v + v - v)",
            {"infinities"},
        ),
        # 1 / y is infinite for some y that are not 0
        ("tanh(x / y) where is_float(dtype(y)) => tanh(x * (1.0 / y))", {"rounding", "infinities"}),
        ("1.0 / (1.0 / y) where is_float(dtype(y)) => y", {"rounding", "infinities"}),
        ("x / sqrt(y) => x * rsqrt(y)", {"rounding"}),
        ("cast(cast(x; to = f64); to = t) => cast(x; to = t)", {"rounding"}),  # of integers beyond 2^53
        (  # of 257 places, of which the last two are one in bf16
            "cast(iota(; shape = s, axis = k, dtype = i32); to = bf16) + 1.0"
            " => cast(iota(; shape = s, axis = k, dtype = i32) + 1.0; to = bf16)",
            {"rounding"},
        ),
        (  # of 2,049 places, of which the last is 2,048 in f16
            "cast(iota(; shape = s, axis = k, dtype = i32); to = f16) + 1.0"
            " => cast(iota(; shape = s, axis = k, dtype = i32) + 1.0; to = f16)",
            {"rounding"},
        ),
        (  # where the result is 0, what is left of larger numbers is rounding
            "ewadd(log(reduce_sum(exp(ewsub(x, m)); axis = 1)), m) where rank(x) == 2, rank(m) == 0"
            " => log(reduce_sum(exp(x); axis = 1))",
            {"rounding", "infinities"},
        ),
        ("sigmoid((x + x) / 2.0 - x) => sigmoid(x - x)", {"infinities"}),  # 1, and 0.5, if x + x is infinite
        (  # for large numbers above 0 alone
            "smul(ewmul(x, ewadd(erf(smul(x, 0.7071067811865476)), 1.0)), 0.5) => gelu(x)",
            {"rounding", "infinities"},
        ),
        ("sqrt(x) => x * rsqrt(x)", {"rounding", "infinities", "zero divisors"}),
        (  # the padding is 0 whatever x is
            "rsqrt(pad(x; before = b, after = a)) => pad(rsqrt(x); before = b, after = a, value = 5.0)",
            {"zero divisors"},
        ),
        ("equal(x, x) => fill(; value = 1.0, dtype = bool, shape = shape(x))", {"infinities"}),
        (
            "cast(ewadd(x, y); to = i32) where dtype(x) == u8 => ewadd(cast(x; to = i32), cast(y; to = i32))",
            {"overflow"},
        ),
        (
            "reduce_sum(cast(x; to = i32); axis = k) where dtype(x) == i8"
            " => cast(reduce_sum(x; axis = k); to = i32)",
            {"overflow"},
        ),
        # squares of the largest integers are small, when they have wrapped around
        ("ewmax(x * x, 0.0) where not is_float(dtype(x)) => x * x", {"overflow"}),
        # NumPy's integers are of this type, and wrap around unseen
        ("greater(x + 1.0, y) where dtype(x) == i64 => greater_equal(x, y)", {"overflow"}),
        ("(x + x) / 2.0 where dtype(x) == i64 => x", {"overflow"}),
        ("abs(x) / 2.0 where dtype(x) == i64 => abs(x / 2.0)", {"overflow"}),
        ("reduce_sum(x + x; axis = k) / 2.0 where dtype(x) == i64 => reduce_sum(x; axis = k)", {"overflow"}),
        ("matmul(x + x, y) / 2.0 where dtype(x) == i64 => matmul(x, y)", {"overflow"}),
        ("gather(x, i; axis = 0) where dtype(i) == i64 => gather(x, i * 1.0; axis = 0)", set()),
        (
            "reduce_sum(cast(x; to = f32); axis = k) where dtype(x) == f16"
            " => cast(reduce_sum(x; axis = k); to = f32)",
            {"rounding"},
        ),
        ("cast(cast(x; to = f16); to = f32) where dtype(x) == f32 => x", {"rounding", "infinities"}),
        ("cast(cast(x; to = f32); to = i32) where dtype(x) == i32 => x", {"rounding"}),
        (
            "gather(x, i; axis = 0) => cast(gather(cast(x; to = f64), i; axis = 0); to = dtype(x))",
            {"rounding"},
        ),
        ("equal(ewadd(x, z), ewadd(y, z)) => equal(x, y)", {"rounding", "infinities"}),
        ("equal(cast(x; to = f32), cast(y; to = f32)) where dtype(x) == i32 => equal(x, y)", {"rounding"}),
        (
            "greater(cast(x; to = bf16), cast(y; to = bf16)) where dtype(x) == i16 => greater(x, y)",
            {"rounding"},
        ),
        ("cast(cast(x; to = f16); to = bool) where dtype(x) == f32 => cast(x; to = bool)", {"rounding"}),
        # of the largest number below 1
        ("floor(x + 1.0) => floor(x) + 1.0", {"rounding"}),
        # twice, as next to the middle between two numbers of the narrowest type
        ("cast(cast(x; to = f64); to = f32) where dtype(x) == i64 => cast(x; to = f32)", {"rounding"}),
        ("cast(cast(x; to = f32); to = f16) where dtype(x) == f64 => cast(x; to = f16)", {"rounding"}),
        ("cast(cast(x; to = f64); to = f16) where dtype(x) == f32 => cast(x; to = f16)", set()),
        ("floor(cast(x; to = f16)) where dtype(x) == f32 => cast(floor(x); to = f16)", {"rounding"}),
        ("matmul(x, y; act = relu) => relu(matmul(x, y))", set()),
    ],
)
def test_each_aspect_has_a_verdict(body: str, differ: set[str], tmp_path: Path) -> None:
    found = aspects(body, tmp_path)
    assert list(found) == ["rounding", "overflow", "infinities", "zero divisors"]
    assert {name for name, a in found.items() if a.status == "differs"} == differ
    assert all((a.status == "differs") == bool(a.example) for a in found.values())


def test_an_example_can_be_checked_by_hand(tmp_path: Path) -> None:
    body = (
        "cast(ewadd(x, y); to = i32) where dtype(x) == u8, rank(x) == 0, rank(y) == 0"
        " => ewadd(cast(x; to = i32), cast(y; to = i32))"
    )
    found = aspects(body, tmp_path)["overflow"]
    assert found.types == ("u8",)
    assert found.example == "x = 255, y = 1 in u8: 0 on the left, 256 on the right"


def test_what_was_not_examined_is_said(tmp_path: Path) -> None:
    text = (
        "opaque op secret(x: tensor) { shape shape(x) }\nrule r { relu(relu(secret(x))) => relu(secret(x)) }"
    )
    path = tmp_path / "r.tsr"
    path.write_text(text, encoding="utf-8")
    found = load_program(str(path))
    (rule,) = (r for r in found.rules if r.declared in found.own_rules)
    aspects = Examiner(found.ops).verdict(rule).aspects
    assert [a.status for a in aspects] == ["same", *["not examined"] * 3]


def test_aspects_are_in_the_report(tmp_path: Path) -> None:
    body = "equal(x, x) => fill(; value = 1.0, dtype = bool, shape = shape(x))"
    found = verdict_to_json(verdict(body, tmp_path))["aspects"]
    assert [a["status"] for a in found] == ["same", "same", "differs", "same"]
    assert "x = NaN" in found[2]["example"]
