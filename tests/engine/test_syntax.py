"""egglog as data: what is written alike is equal, and what is written is read as it was."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tensat_dl.engine.egglog import Engine
from tensat_dl.engine.syntax import (
    Declaration,
    EgglogRule,
    Lit,
    Var,
    app,
    new_ruleset,
    relation,
    run_once,
    shared,
)


def test_literals_that_are_written_differently_are_not_equal() -> None:
    alike = [Lit(0.0), Lit(-0.0), Lit(0), Lit(False), Lit("0.0")]
    assert len(set(alike)) == len(alike)
    assert all((a == b) == (a is b) for a in alike for b in alike)
    assert app("fill", Lit(0.0)) != app("fill", Lit(-0.0))
    assert len({Lit(1.5), Lit(1.5)}) == 1


@pytest.mark.parametrize("text", ["plain", 'quo"te', "back\\slash", "a\nb", "a\tb", "\\n", "\x01", "héé", ""])
def test_the_engine_reads_a_text_as_it_was(text: str) -> None:
    engine = Engine()
    engine.run(relation("said", "String"), app("said", Lit(text)))
    frozen = engine.freeze()
    engine.close()
    assert [frozen.decoder("String")(value) for (value,) in frozen.rows_of("said")] == [text]


def test_the_layouts_of_a_rule() -> None:
    x, y = Var("x"), Var("x", "type")
    rule = EgglogRule("r", "s", (app("p", x), app("q", y)), (app("a", x), app("b")))
    assert str(rule) == (
        '(rule ((p x)\n       (q x.type))\n      ((a x)\n       (b))\n      :ruleset s :name "r")'
    )
    one = EgglogRule("r", "s", rule.body, rule.actions, "one line")
    assert str(one) == '(rule ((p x) (q x.type)) ((a x) (b)) :ruleset s :name "r")'
    facts = EgglogRule("r", "s", rule.body, rule.actions, "facts")
    assert str(facts) == '(rule ((p x)\n       (q x.type))\n      ((a x) (b))\n      :ruleset s :name "r")'


def test_declarations() -> None:
    assert str(relation("r")) == "(relation r ())"
    merged = Declaration("function", "f", ("T", "i64"), "i64", app("min", Var("old"), Var("new")))
    assert str(merged) == "(function f (T i64) i64 :merge (min old new))"


def test_numbers_that_a_rule_computes_several_times_are_computed_once() -> None:
    x, y, two = Var("x"), Var("y"), Lit(2)
    part, more = app("vec-get", x, two), app("+", app("vec-get", x, two), y)
    facts = [app("p", x), app("<=", part, more), app("=", app("*", more, two), app("type_of", x))]
    assert [str(fact) for fact in shared(facts)] == [
        "(p x)",
        "(= shared.0 (vec-get x 2))",
        "(= shared.1 (+ shared.0 y))",
        "(<= shared.0 shared.1)",
        "(= (* shared.1 2) (type_of x))",
    ]


def test_what_tables_have_is_not_shared() -> None:
    """A function of the e-graph is looked up, and a test has no value."""
    kind = app("type_of", Var("x"))
    facts = [app("=", kind, Var("t")), app("guard", app("bool-=", kind, kind)), app("p", kind)]
    assert shared(facts) == facts


def test_a_term_that_only_a_shared_term_has_stays_in_it() -> None:
    inner = app("*", Var("x"), Lit(2))
    outer = app("+", inner, Lit(1))
    assert [str(f) for f in shared([app("<", outer, Lit(9)), app("<", Lit(3), outer)])] == [
        "(= shared.0 (+ (* x 2) 1))",
        "(< shared.0 9)",
        "(< 3 shared.0)",
    ]


def test_a_long_rule_matches_what_it_says() -> None:
    """Written with shared numbers or not, it has the same matches."""

    def found(limit: int) -> set[tuple[int, int]]:
        total = app("+", app("*", Var("x"), Var("y")), Var("x"))
        body = (
            app("given", Var("x"), Var("y")),
            app("<", total, Lit(20)),
            app("=", Var("z"), total),
            app("=", total, total),
        )
        rule = EgglogRule("r", "s", body, (app("found", Var("x"), Var("z")),))
        engine = Engine()
        with patch("tensat_dl.engine.syntax.LONG", limit):
            assert ("shared" in str(rule)) == (limit == 0)
            engine.run(
                relation("given", "i64", "i64"), relation("found", "i64", "i64"), new_ruleset("s"), rule
            )
            engine.run(*(app("given", Lit(i), Lit(j)) for i in range(6) for j in range(6)), run_once("s"))
        frozen = engine.freeze()
        engine.close()
        number = frozen.decoder("i64")
        return {(number(x), number(z)) for x, z in frozen.rows_of("found")}

    assert found(0) == found(10_000) == {(x, x * y + x) for x in range(6) for y in range(6) if x * y + x < 20}
