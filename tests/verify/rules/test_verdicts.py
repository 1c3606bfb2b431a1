"""Verdicts: what is said of rules that are true, false, empty or out of reach."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from tensat_dl.core.rule import RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.exact.compare import compare_exactly
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.sampling import instances
from tensat_dl.verify.rules.verdict import Verdict, derived

pytestmark = pytest.mark.sampled(5)


def program(text: str, tmp_path: Path, name: str = "r.tsr") -> Program:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_program(str(path))


def verdicts(text: str, tmp_path: Path) -> list[Verdict]:
    found = program(text, tmp_path)
    return [Examiner(found.ops).verdict(r) for r in own_rules(found)]


def own_rules(found: Program) -> list[RewriteRule]:
    return [r for r in found.rules if r.name.removesuffix("-back") in found.own_rules]


def verdict(text: str, tmp_path: Path) -> Verdict:
    (only,) = verdicts(text, tmp_path)
    return only


def test_a_polynomial_rule_has_a_bound(tmp_path: Path) -> None:
    found = verdict("rule r { ewmul(a, ewadd(b, c)) => ewadd(ewmul(a, b), ewmul(a, c)) }", tmp_path)
    assert found.status == "tested"
    assert found.instances == found.bounded
    assert found.log2_error is not None
    assert found.log2_error <= -40
    assert found.evidence == f"p < 2^{int(found.log2_error)}, {found.instances} instances"
    assert found.rounding == "reassociating"


@pytest.mark.parametrize("proofs", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        # 3 / 4 is 0 in integers, also for each of four blocks
        "poolavg(poolavg(x; kernel = [a, a], stride = [a, a]); kernel = [c, c])"
        " => poolavg(x; kernel = [a * c, a * c], stride = [a, a])",
        # 1 / 2 - 1 / 2 * 3 is 0, and -2 / 2 is not
        "x / y - x / y * z where value(z) >= 1.0 => (x - x * z) / y",
        # a factor of 2 comes too late
        "poolavg(x * (z - 1.0); kernel = k, stride = s) where value(z) >= 0.0, rank(z) == 0"
        " => poolavg(x; kernel = k, stride = s) * (z - 1.0)",
    ],
)
def test_no_proof_is_about_integers_that_are_divided(body: str, proofs: bool, tmp_path: Path) -> None:
    found = program(f"rule r {{ {body} }}", tmp_path)
    (rule,) = own_rules(found)
    assert Examiner(found.ops, proofs=proofs).verdict(rule).status == "refuted"


def test_a_rule_for_any_function_has_a_bound(tmp_path: Path) -> None:
    found = verdict("rule r { tanh(transpose(x; perm = p)) => transpose(tanh(x); perm = p) }", tmp_path)
    assert found.log2_error is not None
    assert found.rounding == "exact"


def test_definitions_are_proved_without_a_solver(tmp_path: Path) -> None:
    found = program("op gemm(x: tensor, w: tensor, b: tensor) = x @ w + b", tmp_path)
    examiner = Examiner(found.ops)
    own = [examiner.verdict(r) for r in found.rules if r.name.endswith("-gemm")]
    assert [(v.rule, v.status, v.proof) for v in own] == [
        ("fuse-gemm", "proved", "all sizes, by definition"),
        ("unfuse-gemm", "proved", "all sizes, by definition"),
    ]


def test_a_rule_with_the_name_of_a_definition_is_none(tmp_path: Path) -> None:
    found = program("rule fuse-softsign { ewadd(x, y) => ewadd(y, x) }", tmp_path)
    named = [r for r in found.rules if r.name == "fuse-softsign"]
    assert sorted(Examiner(found.ops).verdict(r).status for r in named) == ["proved", "tested"]


def test_a_rule_for_one_function_has_none(tmp_path: Path) -> None:
    found = verdict("rule r { exp(ewadd(x, y)) => ewmul(exp(x), exp(y)) }", tmp_path)
    assert found.status == "tested"
    assert found.log2_error is None
    assert "exp" in found.reason
    assert found.evidence == f"{found.instances} instances"


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_narrower_floats_round(narrow: str, tmp_path: Path) -> None:
    """A cast there and back is the same number but for rounding; one to the type that is there rounds nothing."""
    back = f"rule r {{ cast(cast(x; to = {narrow}); to = f32) where dtype(x) == f32 => x }}"
    assert verdict(back, tmp_path).rounding == "reassociating"
    same = f"rule r {{ cast(x; to = {narrow}) where dtype(x) == {narrow} => x }}"
    assert verdict(same, tmp_path).rounding == "exact"


def test_some_instances_have_a_bound(tmp_path: Path) -> None:
    """Means of integers are rounded, so nothing can be said of those instances."""
    text = "rule r { relu(poolavg(x; kernel = k)) => poolavg(x; kernel = k, act = relu) }"
    found = verdict(text, tmp_path)
    assert 0 < found.bounded < found.instances
    assert found.evidence.endswith(f" on {found.bounded} of {found.instances} instances")
    assert found.reason


def test_both_directions(tmp_path: Path) -> None:
    """f(x) - f(y) = f(x - y) for one of the two: relu(relu(x)) is relu(x), and relu(x) is never x."""
    forward, back = verdicts("rule r { relu(relu(x)) <=> relu(x) }", tmp_path)
    assert (forward.rule, back.rule) == ("r", "r-back")
    assert forward.status == back.status == "tested"


@pytest.mark.parametrize("wrong", ["a", "b"])
def test_every_output_of_a_multi_pattern_rule(wrong: str, tmp_path: Path) -> None:
    sides = {"a": ("matmul(y, u)", "matmul(x, v)"), "b": ("matmul(x, u)", "matmul(y, v)")}[wrong]
    text = f"""rule r {{
      a = matmul(x, u)
      b = matmul(x, v)
      c = relu(y)
      =>
      a = {sides[0]}
      b = {sides[1]}
      c = relu(y)
    }}"""
    found = verdict(text, tmp_path)
    assert found.status == "refuted"
    assert found.counterexample is not None
    assert found.counterexample.output == {"a": 0, "b": 1}[wrong]


def test_a_rule_that_is_false_for_three_members_only(tmp_path: Path) -> None:
    text = """rule r {
      each i: y[i] = relu(x[i])
      where shape(x[i]) == shape(x[0])
      =>
      m = concat(x[..]; axis = 0)
      last = slice(m; axis = 0, start = dim(m, 0) - dim(x[0], 0), stop = dim(m, 0))
      first = slice(m; axis = 0, start = 0, stop = dim(m, 0) - dim(x[0], 0))
      n = relu(concat(first, slice(m; axis = 0, start = dim(x[0], 0) * (len(x) / 2), stop = \
dim(x[0], 0) * (len(x) / 2 + 1)); axis = 0))
      y[..] = split(n; axis = 0, sizes = [dim(x[i], 0) for i in 0..len(x)])
    }"""
    found = verdict(
        text.replace(
            "      last = slice(m; axis = 0, start = dim(m, 0) - dim(x[0], 0), \
stop = dim(m, 0))\n",
            "",
        ),
        tmp_path,
    )
    assert found.status == "refuted"  # with 2 members the middle is the last
    assert found.counterexample is not None
    assert len(found.counterexample.before) > 2


VACUOUS = {
    "slice(x; axis = 0, start = m, stop = n) where m == 0, n == dim(x, 0), n % m == 0 or n > 2 => x": (
        "division by zero"
    ),
    "relu(relu(x)) where rank(x) == 1, dim(x, 0) > 3, dim(x, 0) < 3 => relu(x)": "`dim(x, 0) > 3`",
    "relu(relu(x)) where rank(x) == 1, dim(x, 0) % 4 == 1, dim(x, 0) % 2 == 0 => relu(x)": "% 4 == 1",
    "relu(relu(x)) where dim(x, 0) > 1000000000000 * 1000000000000 => relu(x)": "dim(x, 0) > 1000",
    "ewmul(relu(relu(x)), c) where value(c) > 1e308 * 10.0 => ewmul(relu(x), c)": "value(c) > 1e308",
    "relu(relu(x)) where dim(x, 0) / 64 == 3, dim(x, 0) % 64 == 70 => relu(x)": "without `dim(x, 0) % 64 == 70`",
    "ewadd(x, y) where rank(x) == 1, rank(y) == 1, dim(x, 0) == dim(y, 0) + 3, dim(y, 0) > 1 => ewadd(y, x)": (
        "dim(x, 0) == dim(y, 0) + 3"
    ),
}


@pytest.mark.parametrize("body", VACUOUS)
def test_vacuous(body: str, tmp_path: Path) -> None:
    found = verdict(f"rule r {{ {body} }}", tmp_path)
    assert found.status == "vacuous"
    assert found.failed
    assert VACUOUS[body] in found.reason


def test_a_rule_with_large_instances_alone(tmp_path: Path) -> None:
    body = "gather(relu(x), i; axis = 0) where dim(x, 0) >= 30000, dim(x, 1) == 768 => relu(gather(x, i; axis = 0))"
    found = verdict(f"rule r {{ {body} }}", tmp_path)
    assert found.status == "assumed"
    assert re.fullmatch(r"it can't be tested: a tensor has [\d,]+ elements", found.reason)


#: Conditions that few numbers or element types meet, on x and a constant c.
NARROW = (
    "dim(x, 0) > 16 * 16",
    "dim(x, 1) / 64 == 3",
    "dim(x, 1) / 64 / 4 == 3",
    "dim(x, 1) % 128 == 70, dim(x, 1) > 1000",
    "dim(x, 1) % 128 == 70, dim(x, 1) % 125 == 20",
    "(2 * dim(x, 1) + 1) % 1001 == 0",
    "dim(x, 0) / 10 % 50 == 40",
    "dim(x, 0) * dim(x, 0) == 6400",
    "dim(x, 0) > 50 * dim(x, 1), dim(x, 1) > 31",
    "dim(x, 0) / 1024 == 500",
    "min(dim(x, 0), 900) / 2 > 400, max(dim(x, 0), 300) < 2000",
    "dim(x, 0) / 77 == 12 or dim(x, 0) % 1000 == 999",
    "value(c) > 0.1, value(c) < 0.12",
    "value(c) > 0.1, value(c) < value(d), value(d) < 0.12",
    "dtype(x) == i8 or dtype(x) == i16",
    "dtype(x) != f32, dtype(x) != f64, dtype(x) != i32",
    "dtype(x) != f32, dtype(x) != f64, dtype(x) != i32, dtype(x) != u8, dtype(x) != i64, not is_float(dtype(x))",
)


@pytest.mark.parametrize("condition", NARROW)
def test_conditions_that_little_meets(condition: str, tmp_path: Path) -> None:
    """Instances are worked out from what the conditions compare with: a false rule differs on the first ones."""
    text = f"rule r {{ ewadd(relu(relu(x)), ewmul(c, d)) where {condition} => ewadd(relu(x), ewmul(d, d)) }}"
    found = program(text, tmp_path)
    (rule,) = own_rules(found)
    drawn = instances(rule, Examiner(found.ops).infer, 3, 150)
    exact = (compare_exactly(i.before, i.after, found.ops) for _, _, i in drawn)
    assert any(e.status == "different" for e in exact)


def test_a_true_rule_that_applies_to_few_sizes(tmp_path: Path) -> None:
    found = verdict("rule r { relu(relu(x)) where dim(x, 0) / 64 == 3 => relu(x) }", tmp_path)
    assert found.status == "tested"
    assert any("the rule is true without it" in text for text in found.unneeded)


def test_every_element_type_that_a_condition_leaves(tmp_path: Path) -> None:
    """What it names is not among the types that are drawn as a rule."""
    text = "rule r { relu(relu(x)) where dtype(x) == i8 or dtype(x) == i16 or dtype(x) == i32 => relu(x) }"
    found = program(text, tmp_path)
    (rule,) = own_rules(found)
    drawn = instances(rule, Examiner(found.ops).infer, 36, 150)
    assert {d[2].assignment.types["x"].dtype for d in drawn} == {"i8", "i16", "i32"}


def test_a_rule_that_is_false_for_a_named_type_alone(tmp_path: Path) -> None:
    text = "rule r { cast(cast(x; to = u8); to = i16) where dtype(x) == i16 or dtype(x) == u8 => cast(x; to = i16) }"
    found = verdict(text, tmp_path)
    assert found.status == "refuted"


OPAQUE = "opaque op secret(x: tensor) { shape shape(x) }\n"


def test_a_law_of_an_opaque_operator_is_assumed(tmp_path: Path) -> None:
    text = OPAQUE + "rule r { secret(concat(a, b; axis = k)) => concat(secret(a), secret(b); axis = k) }"
    found = verdict(text, tmp_path)
    assert found.status == "assumed"
    assert "`secret`" in found.evidence
    assert not found.failed


def test_a_rule_that_holds_whatever_an_opaque_operator_computes(tmp_path: Path) -> None:
    rule = (
        "rule r { slice(concat(secret(a), b; axis = k); axis = k, start = 0, stop = dim(a, k)) => secret(a) }"
    )
    found = verdict(OPAQUE + rule, tmp_path)
    assert found.status == "tested"
    assert found.log2_error is not None
    assert found.rounding == "exact"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("relu(ewadd(secret(x), y)) => ewadd(relu(secret(x)), relu(y))", "refuted"),
        ("ewsub(secret(x), y) => ewsub(y, secret(x))", "refuted"),
        ("concat(secret(x), y; axis = 0) => concat(y, secret(x); axis = 0)", "refuted"),
        # an output that nothing opaque goes into
        ("a = secret(x); b = relu(x) => a = secret(relu(x)); b = x", "refuted"),
        # functions that have no exact values stand beside it
        ("ewmul(exp(secret(x)), exp(y)) => exp(ewmul(secret(x), y))", "refuted"),
        ("softmax(ewadd(secret(x), y); axis = k) => ewadd(secret(x), softmax(y; axis = k))", "refuted"),
        ("ewmul(exp(secret(x)), exp(y)) => exp(ewadd(secret(x), y))", "tested"),
        ("tanh(secret(x)) => secret(x)", "assumed"),
        ("exp(secret(x)) => secret(exp(x))", "assumed"),
        # its result is any number that a condition asks for
        ("t = secret(x); ewmul(t, y) where value(t) == 2.0 => ewadd(y, 3.0)", "refuted"),
        ("t = secret(x); ewmul(t, y) where value(t) == 2.0 => ewadd(y, y)", "assumed"),
        ("t = secret(x); ewmul(t, y) where value(t) == 2.0 => ewadd(y, secret(x))", "assumed"),
        # true if its results are not negative, idempotent, monotonous
        ("relu(secret(x)) => secret(x)", "assumed"),
        ("ewmul(relu(secret(x)), y) => ewmul(secret(x), y)", "assumed"),
        ("secret(secret(x)) => secret(x)", "assumed"),
        ("relu(secret(x)) => secret(relu(x))", "assumed"),
    ],
)
def test_what_no_law_of_an_opaque_operator_excuses(body: str, status: str, tmp_path: Path) -> None:
    found = verdict(OPAQUE + f"rule r {{ {body} }}", tmp_path)
    assert found.status == status
    if found.counterexample is not None:
        told = "t is 2 everywhere" if "value(t)" in body else "secret may be any function"
        assert any(told in line for line in found.counterexample.lines())


def test_weights_among_results(tmp_path: Path) -> None:
    text = "rule r { ewadd(relu(x), y) where weight(x), weight(y) => ewadd(y, relu(x)) }"
    assert verdict(text, tmp_path).status == "tested"


@pytest.mark.parametrize(
    "body",
    [
        "relu(relu(x)) where dim(x, 0) == 768, rank(x) == 2 => relu(x)",
        "relu(relu(x)) where dim(x, 0) > 100 => relu(x)",
        "relu(relu(x)) where rank(x) == 6 => relu(x)",
        "matmul(x, concat(a, b; axis = 1)) where dim(a, 0) == 1024 => concat(matmul(x, a), matmul(x, b); axis = 1)",
        "slice(slice(x; axis = 0, start = 0, stop = 512); axis = 0, start = 0, stop = 256)"
        " => slice(x; axis = 0, start = 0, stop = 256)",
    ],
)
def test_rules_about_large_tensors(body: str, tmp_path: Path) -> None:
    assert verdict(f"rule r {{ {body} }}", tmp_path).status == "tested"


def test_a_false_rule_about_large_tensors(tmp_path: Path) -> None:
    text = "rule r { relu(ewadd(x, y)) where dim(x, 0) == 768, rank(x) == 2 => ewadd(relu(x), relu(y)) }"
    found = verdict(text, tmp_path)
    assert found.status == "refuted"
    assert found.counterexample is not None
    assert any(line.startswith("with x = 0 but for ") for line in found.counterexample.lines())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "relu(x) * 2.0 => relu(x) * 3.0",
            ["for x : f32[]", "with x = 1", "the result is 2 on the left and 3 on the right"],
        ),
        (
            "tanh(x) => x",
            ["for x : f32[]", "with x = 1", "the result is 0.7616 on the left and 1 on the right"],
        ),
        (
            "ewmin(sqrt(x), 100.0) => sqrt(x)",
            ["for x : f32[]", "with x = 100000", "the result is 100 on the left and 316.2 on the right"],
        ),
        (
            "1.0 / x => 1.0 / (x + 0.000001)",
            ["for x : f32[]", "with x = -1", "the result is -1 on the left and -1.000001 on the right"],
        ),
    ],
)
def test_counterexamples_have_written_names_and_short_numbers(
    body: str, told: list[str], tmp_path: Path
) -> None:
    found = verdict(f"rule r {{ {body} }}", tmp_path).counterexample
    assert found is not None
    lines = found.lines()
    assert [lines[0], *lines[-2:]] == told


def test_conditions_that_are_not_needed(tmp_path: Path) -> None:
    """One is redundant, one follows from the types, one is needed, one is about costs."""
    text = """rule r {
      smul(matmul(x, y), s)
      where rank(x) == 2, dim(x, 1) == dim(y, 0), rank(s) == 0, weight(s)
      =>
      matmul(x, smul(y, s))
    }"""
    redundant, implied, same = verdict(text, tmp_path).unneeded
    assert redundant.startswith("`rank(x) == 2`: the rule is true without it, on ")
    assert implied == "`dim(x, 1) == dim(y, 0)`: without it no further instance was found"
    assert same.startswith("`rank(s) == 0`: ")


@pytest.mark.parametrize(
    ("text", "unneeded"),
    [
        # an attribute of one side, and one of both
        (
            "rule r { relu(transpose(relu(x); perm = [1, 0])) => transpose(relu(x); perm = [1, 0]) }",
            "perm = [1, 0]",
        ),
        ("rule r { dropout(x; p = 0.0) => x }", "p = 0.0"),
        ("rule r { poolmax(relu(x); kernel = 2) => relu(poolmax(x; kernel = 2)) }", "kernel = 2"),
        ("rule r { relu(matmul(x, y; act = relu)) => matmul(x, y; act = relu) }", None),
        (
            "rule r { matmul(x, concat(u, v; axis = 1)) => concat(matmul(x, u), matmul(x, v); axis = 1) }",
            "axis = 1",  # the last axis of a batch is 2
        ),
        ("rule r { poolmax(x; kernel = 1) => x }", None),
    ],
)
def test_literal_attributes_are_conditions_too(text: str, unneeded: str | None, tmp_path: Path) -> None:
    found = verdict(text, tmp_path)
    assert found.status == "tested"
    assert [note.split("`")[1] for note in found.unneeded] == ([] if unneeded is None else [unneeded])


def test_derived() -> None:
    assert derived("r", ("a", "b"), 7).evidence == "from a, b, 7 instances"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("power(smul(x, 1e150); exponent = 16.0) => x", "refuted"),
        ("smul(x, 1e308) => ewadd(x, x)", "refuted"),
        ("expand(x; shape = [100000, 100000]) => ewadd(expand(x; shape = [100000, 100000]), 1.0)", "assumed"),
    ],
)
def test_huge_numbers(body: str, status: str, tmp_path: Path) -> None:
    assert verdict(f"rule r {{ {body} }}", tmp_path).status == status


def test_an_element_type_is_a_word_not_a_variable(tmp_path: Path) -> None:
    found = verdict("rule r { cast(cast(x; to = i32); to = f32) where dtype(x) == f32 => x }", tmp_path)
    assert found.status == "refuted"
    assert found.counterexample is not None
    assert dict(found.counterexample.variables)["x"].startswith("f32")
    assert not found.counterexample.attrs


def test_garbage_is_collected_as_before(tmp_path: Path) -> None:
    usual = gc.get_threshold()
    assert verdict("rule twice { relu(relu(x)) => relu(x) }", tmp_path).status == "tested"
    assert gc.get_threshold() == usual
