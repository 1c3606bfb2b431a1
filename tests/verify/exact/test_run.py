"""The exact comparison that every run makes, and what reports say of it."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.equivalence import compare
from tensat_dl.verify.exact.result import Exact
from tensat_dl.verify.exact.run import compare_if_small, described, refuted_by
from tests.cli.running import invoke
from tests.explore.graphs import graph_of, library

pytestmark = pytest.mark.sampled(3)

OPS = library().ops
LEAVES = "input x : f32[2, 4]\ninput y : f32[2, 4]\n"

#: The false rule is about a part that is tiny beside the rest, which no tolerance in float64 sees.
HIDDEN = """
rule forget { ewsub(x, y) => x }
graph g {
  input x : f32[1, 64]
  input y : f32[1, 64]
  large = (x * 1000000.0) * 1000000.0
  output y = concat(large, x - y; axis = 1)
}
"""


def found(before: str, after: str) -> Exact:
    b, a = (graph_of(f"{LEAVES}output z = {body}") for body in (before, after))
    return compare_if_small(b, a, OPS, 0)


def test_equal_graphs() -> None:
    exact = found("(x + y) * x", "x * x + y * x")
    assert exact.status == "equal"
    assert described(exact) == "equal modulo 2^31 - 1 and 2^31 - 19 (error probability < 2^-59)"


def test_functions_are_named() -> None:
    exact = found("relu(tanh(x + y))", "relu(tanh(y + x))")
    assert "for any relu and tanh (error probability < 2^-5" in described(exact)


def test_what_relu_is_is_compared_in_exact_numbers() -> None:
    bound = "(no bound on the error: equality depends on the values of relu)"
    assert described(found("relu(relu(x))", "relu(x)")) == f"equal in exact numbers {bound}"
    assert described(found("relu(relu(x))", "x")) == "different in exact numbers"


def test_what_other_functions_are_is_not_compared() -> None:
    bound = "(no bound on the error: equality depends on the values of exp, relu)"
    assert (
        described(found("relu(relu(exp(x)))", "relu(exp(x))"))
        == f"equal in exact numbers for any exp {bound}"
    )
    other = found("relu(relu(exp(x) * exp(y)))", "relu(exp(x + y))")
    assert described(other) == "not compared: equality depends on the values of exp, relu"


def test_few_of_many_functions_are_named() -> None:
    """An ONNX model had 61 constants in this line."""
    many = "gelu(erf(log(rsqrt(tanh(exp(x))))))"
    exact = found(f"{many} * x + relu(relu(x))", f"x * {many} + relu(x)")
    assert exact.reason == "equality depends on the values of erf, exp, gelu, log, relu, and 2 more"


def test_larger_graphs_are_not_compared_in_exact_numbers() -> None:
    before, after = (
        graph_of(f"input x : f32[100, 100]\noutput z = {body} @ x") for body in ("relu(relu(x))", "relu(x)")
    )
    exact = compare_if_small(before, after, OPS, 0)
    assert described(exact) == "not compared: equality depends on the values of relu"


def test_what_constants_were_rounded_from_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second graph has a product of the first's constants, rounded. A graph that takes long is not even begun."""
    before = graph_of(f"{LEAVES}output z = x * 0.1234567890123 * 1.234567890123")
    after = graph_of(f"{LEAVES}output z = x * {0.1234567890123 * 1.234567890123!r}")
    quick = compare_if_small(before, after, OPS, 0)
    monkeypatch.setattr("tensat_dl.verify.exact.run.QUICK", 0.0)
    with patch("tensat_dl.verify.exact.run.compare_modular", side_effect=AssertionError):
        for first, second in ((before, after), (after, before)):
            exact = compare_if_small(first, second, OPS, 0)
            assert (exact.status, exact.level) == ("unsupported", "integer")
            assert "equality depends on the values of the constant 0.1" in described(exact)
    assert quick.status == "unsupported"
    assert compare_if_small(before, before, OPS, 0).status == "equal"


def test_large_graphs_are_not_compared() -> None:
    body = "input x : f32[2000, 2000]\nweight w : f32[2000, 2000]\noutput z = "
    exact = compare_if_small(graph_of(f"{body} x @ w"), graph_of(f"{body} x @ w"), OPS, 0)
    assert described(exact).startswith("not compared: too large (it would take about ")


@pytest.mark.parametrize(
    ("small", "other", "level"), [("x - y", "x + y", "modular"), ("x", "relu(x)", "integer")]
)
def test_a_difference_that_float64_does_not_show(small: str, other: str, level: str) -> None:
    before, after = (
        graph_of(f"{LEAVES}output z = concat(x * 1000000.0 * 1000000.0, {part}; axis = 0)")
        for part in (small, other)
    )
    floats = compare(before, after, semantics_of(OPS))
    assert floats.status == "equivalent"
    both = refuted_by(floats, compare_if_small(before, after, OPS, 0))
    assert both.status == "different"
    assert "of output z is" in both.message
    assert ("modulo 2147483647" in both.message) == (level == "modular")
    assert both.max_rel_error == floats.max_rel_error


def test_a_difference_that_float64_shows_is_told_in_float64() -> None:
    """How large it is says more than two residues."""
    before, after = (graph_of(f"{LEAVES}output z = {body}") for body in ("x - y", "x + y"))
    floats, exact = compare(before, after, semantics_of(OPS)), compare_if_small(before, after, OPS, 0)
    assert floats.status == exact.status == "different"
    assert "relative error" in floats.message
    assert refuted_by(floats, exact) == floats


def test_a_run_refuses_what_float64_does_not_show(tmp_path: Path) -> None:
    (tmp_path / "hidden.tsr").write_text(HIDDEN)
    report, output = tmp_path / "report.json", tmp_path / "out.tsr"
    with patch("tensat_dl.run.checked.verify_rules", return_value=()):  # as if the rule had passed
        done = invoke("run", tmp_path / "hidden.tsr", "-o", output, "--json", report)
    assert done.code == 1
    assert "computes something else: element [0, 64] of output y is" in done.err
    assert not output.exists()
    verify = json.loads(report.read_text())["verify"]
    assert verify["status"] == "different"
    assert verify["max_rel_error"] < 1e-9
    assert verify["exact"]["status"] == "different"


@pytest.mark.parametrize(
    ("body", "rule", "status", "functions", "moduli"),
    [
        ("relu(x @ w)", "x + y => y + x", "equal", ["relu"], [2**31 - 1, 2**31 - 19]),
        ("(x @ w) @ w", "x + y => y + x", "equal", [], [2**31 - 1, 2**31 - 19]),
        ("relu(relu(x))", "relu(relu(x)) => relu(x)", "equal", [], []),
        ("exp(x) * exp(x + x)", "exp(x) * exp(y) => exp(x + y)", "not compared", [], []),
    ],
)
def test_reports(
    body: str, rule: str, status: str, functions: list[str], moduli: list[int], tmp_path: Path
) -> None:
    path, report, page = (tmp_path / name for name in ("g.tsr", "r.json", "r.html"))
    path.write_text(
        f"rule own {{ {rule} }}\ngraph g {{\ninput x : f32[4, 4]\nweight w : f32[4, 4]\noutput y = {body}\n}}"
    )
    done = invoke("run", path, "--json", report, "--html", page)
    assert done.code == 0
    exact = json.loads(report.read_text())["verify"]["exact"]
    assert (exact["status"], exact["functions"], exact["moduli"]) == (status, functions, moduli)
    assert (exact["log2_error"] is not None) == bool(moduli)
    said = "equal modulo 2^31 - 1" if moduli else "equal in exact numbers"
    assert (said in " ".join(done.out.split())) == (status == "equal")
    assert (f"Exactly: {said}" in page.read_text()) == (status == "equal")


def test_it_is_part_of_verification(tmp_path: Path) -> None:
    (tmp_path / "g.tsr").write_text(HIDDEN)
    report = tmp_path / "r.json"
    assert invoke("run", tmp_path / "g.tsr", "--no-verify", "--json", report).code == 0
    assert json.loads(report.read_text())["verify"]["exact"]["status"] == "skipped"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ewmin(sqrt(x), 100.0)", "sqrt(x)"),
        ("clip(gelu(x); low = -65504.0, high = 65504.0)", "gelu(x)"),
        ("ewmin(sqrt(x), 100.0) + cast(n / 2; to = f32)", "sqrt(x) + cast(n / 2; to = f32)"),
    ],
)
def test_a_bound_beyond_a_function_is_passed(before: str, after: str) -> None:
    """Near 1 these graphs are equal, and for random functions they are not."""
    leaves = f"{LEAVES}input n : i64[2, 4]\n"
    b, a = (graph_of(f"{leaves}output z = {body}") for body in (before, after))
    floats, exact = compare(b, a, semantics_of(OPS)), compare_if_small(b, a, OPS, 0)
    assert floats.status == "equivalent"
    assert described(exact) == "different in float64, far beyond constants"
    assert refuted_by(floats, exact).status == "different"


def test_equal_bounds_beyond_a_function_are_not() -> None:
    exact = found("ewmin(sqrt(x), 100.0)", "sqrt(ewmin(x, 10000.0))")
    assert exact.status == "unsupported"


def test_quotients_of_integers_are_compared_in_exact_numbers() -> None:
    """Means of small integers are 0, and of larger ones they are not: 3 / 4 is 0 four times."""
    body = "input x : i32[1, 1, 4, 4]\noutput"
    before = graph_of(f"{body} poolavg(poolavg(x; kernel = 2, stride = 2); kernel = 2)")
    after = graph_of(f"{body} poolavg(x; kernel = 4)")
    assert compare_if_small(before, before, OPS, 0).status == "equal"
    assert compare_if_small(before, after, OPS, 0).status == "different"


GUARDED = """
/// True but where y is 0.
rule drop { select(equal(y, 0.0), x, x / y) => x / y }
graph g {
  input x : f32[8, 8]
  input y : f32[8, 8]
  output z = select(equal(y, 0.0), x, x / y)
}
"""


def test_a_guard_that_is_dropped_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "guard.tsr"
    path.write_text(GUARDED)
    done = invoke("run", path, "-o", tmp_path / "out.tsr")
    assert done.code == 1
    assert "of output z is" in " ".join(done.out.split())
    assert "nan after" in " ".join(done.out.split())
    assert not (tmp_path / "out.tsr").exists()
