"""egglog as data: what is written alike is equal, and what is written is read as it was."""

from __future__ import annotations

import pytest

from tensat_dl.engine.egglog import Engine
from tensat_dl.engine.syntax import Declaration, EgglogRule, Lit, Var, app, relation


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
