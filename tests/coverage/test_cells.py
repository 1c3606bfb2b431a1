"""Cells of an operator and a transformation: rules, derivations, counterexamples, reasons."""

from __future__ import annotations

from functools import cache

import pytest

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.progress import Progress
from tensat_dl.coverage.catalogue import catalogue
from tensat_dl.coverage.cells import Axioms, Cell, CellExaminer, Finding, questions
from tensat_dl.coverage.equations import Law
from tensat_dl.coverage.holes import holes_text
from tensat_dl.coverage.page import page
from tensat_dl.coverage.transformations import TRANSFORMATIONS
from tensat_dl.coverage.work import coverage
from tensat_dl.discover.written import rewrites
from tensat_dl.jobs.run import Where
from tensat_dl.lang.library import library_operators
from tensat_dl.lang.program import load_program
from tensat_dl.verify.prove.prove import axioms_of

pytestmark = pytest.mark.sampled(3)

RULES = """
/// f(x^T) = f(x)^T.
rule transpose-f for f in relu, sigmoid { f(transpose(x; perm = p)) <=> transpose(f(x); perm = p) }
/// x^T y^T = (x y)^T.
rule transpose-mul {
  ewmul(transpose(x; perm = p), transpose(y; perm = p)) => transpose(ewmul(x, y); perm = p)
}
"""


@cache
def sources() -> tuple[Axioms, ...]:
    path = "transposed.tsr"
    program = load_program(path, (), Source(path, RULES))
    return (Axioms("own", tuple(axioms_of(program, ["ops"])) + program.rules),)


@cache
def examiner() -> CellExaminer:
    return CellExaminer(library_operators(), sources(), proofs=False)


def test_an_equation_that_a_rule_says() -> None:
    (finding,) = examiner().cell("relu", "transpose").findings
    assert finding.law == Law("relu(transpose(x; perm = p))", "transpose(relu(x); perm = p)")
    assert finding.status == "true"
    assert examiner().derivation(finding.law) == ("own", ("transpose-relu",))


def test_an_equation_that_several_rules_say() -> None:
    """silu(x) is x sigmoid(x)."""
    (finding,) = examiner().cell("silu", "transpose").findings
    found = examiner().derivation(finding.law)
    assert found is not None
    assert {"transpose-mul", "transpose-sigmoid"} <= set(found[1])


def test_an_equation_that_no_rule_says() -> None:
    (finding,) = examiner().cell("exp", "negate").findings
    assert finding.law == Law("exp(neg(x))", "ewdiv(1.0, exp(x))")
    assert examiner().derivation(finding.law) is None


def test_a_rule_with_operators_of_its_own_on_each_side() -> None:
    """No rule has `ewdiv` on its left side, nor the product that `neg` is composed of."""
    text = "/// exp(-x) = 1 / exp(x).\nrule negated { exp(neg(x)) => ewdiv(1.0, exp(x)) }\n"
    rules = load_program("negated.tsr", (), Source("negated.tsr", text)).rules
    own = CellExaminer(library_operators(), (Axioms("own", rules),), proofs=False)
    assert own.derivation(Law("exp(neg(x))", "ewdiv(1.0, exp(x))")) == ("own", ("negated",))


def test_a_cast_that_does_nothing_derives_nothing() -> None:
    """It was said to pass every operator by the rule that drops it."""
    text = "/// cast(x) = x, to the type of x.\nrule nothing { cast(x; to = dtype(x)) => x }\n"
    program = load_program("casts.tsr", (), Source("casts.tsr", text))
    casts = CellExaminer(library_operators(), (Axioms("own", program.rules),), proofs=False)
    assert casts.derivation(Law("sigmoid(cast(x; to = t))", "cast(sigmoid(x); to = t)")) is None
    twice = Law("cast(cast(x; to = dtype(x)); to = t)", "cast(x; to = t)")
    assert casts.derivation(twice) == ("own", ("nothing",))


def test_what_types_force_to_do_nothing_is_no_finding() -> None:
    """A stretched tensor that is joined to another has the shape that it had."""
    assert all(
        f.law.right != "concat(x, y; axis = r)" for f in examiner().cell("concat", "broadcast").findings
    )


def test_paddings_are_proved() -> None:
    pytest.importorskip("z3")
    (finding,) = CellExaminer(library_operators(), ()).cell("relu", "pad").findings
    assert finding.evidence == "all sizes, ranks 0 to 6"


def test_a_condition_is_found() -> None:
    (finding,) = examiner().cell("relu", "scale").findings
    assert finding.law.where == ("value(s) > 0.0",)
    found = {f.law.where for f in examiner().cell("layernorm", "slice").findings}
    assert () in found  # types leave no slice of the last axis


def test_a_false_equation_has_a_counterexample() -> None:
    (finding,) = examiner().cell("exp", "scale").findings
    assert finding.status == "false"
    assert finding.law == Law("exp(smul(x, s))", "smul(exp(x), s)")
    assert finding.counterexample[-1].startswith("the result is ")


def test_what_never_fits_has_a_reason() -> None:
    cell = examiner().cell("logical_not", "scale")
    assert not cell.findings
    assert cell.status == "none"
    assert "numbers" in cell.reason


def test_products_with_weights_are_among_the_questions() -> None:
    laws = [f.law for f in examiner().cell("matmul", "scale-channels").findings]
    assert any("weight(w)" in " ".join(law.where) and "matmul(ewmul(x, c), w" in law.left for law in laws)


@pytest.mark.parametrize("t", TRANSFORMATIONS, ids=lambda t: t.name)
def test_every_operator_has_questions(t: object) -> None:
    """The first law of each question is what one would ask, without a condition but on what is transformed."""
    ops = library_operators()
    for op, decl in ops.items():
        if decl.inputs:
            asked = questions(decl, t.name)  # type: ignore[attr-defined]
            assert asked, op
            assert all(question for question in asked), op


def test_the_catalogue_is_about_operators_and_types() -> None:
    ops = library_operators()
    for (op, _), laws in catalogue().items():
        assert op in ops
        for law in laws:
            assert rewrites(law.rule("stated"), ops)
            assert f"{op}(" in law.left


class Stopping(Progress):
    """Presses Ctrl-C when so many cells are there."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def counting(self, done: int, total: int) -> None:
        if done == self.after:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_what_was_found(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ops = library_operators()
    wanted = [("relu", "transpose"), ("sqrt", "scale"), ("exp", "scale")]
    stopped = coverage(wanted, ops, sources(), Where(1), Stopping(2))
    assert stopped.interrupted
    assert len(stopped.cells) < len(wanted)
    whole = coverage(wanted, ops, sources(), Where(2), Progress())
    assert not whole.interrupted
    assert [(c.op, c.transformation) for c in whole.cells] == wanted
    assert [c.status for c in whole.cells] == ["rule", "true", "false"]
    assert (
        coverage(wanted, ops, sources(), Where(1), Stopping(1)) == whole
    )  # all is known: nothing is counted up
    changed = coverage(wanted, ops, (Axioms("own", ()),), Where(1), Progress())
    assert [c.status for c in changed.cells] == ["true", "true", "false"]


def test_holes_are_a_pack() -> None:
    laws = [
        Law(f"{f}(pad(x; before = b, after = a))", f"pad({f}(x); before = b, after = a)")
        for f in ("relu", "tanh")
    ]
    alone = Law("exp(neg(x))", "ewdiv(1.0, exp(x))")
    cells = [
        *(Cell(f, "pad", (Finding(law, "true"),)) for f, law in zip(("relu", "tanh"), laws, strict=True)),
        Cell("exp", "negate", (Finding(alone, "true"), Finding(laws[0], "derived"))),
    ]
    text = holes_text(cells)
    program = load_program("holes.tsr", (), Source("holes.tsr", text))
    assert [r.name for r in program.rules if r.name.startswith("pass-")] == [
        "pass-pad-relu",
        "pass-pad-tanh",
        "pass-negate-exp",
    ]
    assert "/// exp(neg(x)) = ewdiv(1.0, exp(x)).\n" in text


def test_a_page_says_what_cells_say() -> None:
    cells = [
        Cell(
            "exp",
            "scale",
            (Finding(Law("exp(x)", "x"), "false", counterexample=("for x : f32[]", "left:  exp(x)")),),
        ),
        Cell("exp", "cast", reason="no types fit"),
        Cell(
            "relu",
            "scale",
            (Finding(Law("relu(x)", "x", ("rank(x) == 0",)), "derived", "36 instances", ("a", "b"), "x"),),
        ),
        Cell("relu", "cast", (Finding(Law("x", "y"), "derived", "all sizes", ("a",), "inference"),)),
    ]
    text = page(cells)
    assert "| [exp](#exp) | – | false |" in text
    assert "| [relu](#relu) | rule | derived |" in text
    assert "- *scale*: `exp(x)` = `x` is false: for x : f32[]\n" in text
    assert "- *cast*: –, no types fit\n" in text
    assert "- *scale*: `relu(x)` = `x` where `rank(x) == 0`: tested, derived from `a`, `b`\\*\n" in text
    assert "- *cast*: `x` = `y`: proved, rule `a`\n" in text
