"""Rules about opaque operators are taken on trust, and the verdict says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import tensat_dl
from tensat_dl.verify.opaque_laws import assumed

LOOKUP = """
opaque op lookup(table: tensor, ids: tensor) { shape [dim(ids, 0), dim(table, 1)] }
rule add-lookups {
  lookup(a, ids) + lookup(b, ids) where weight(a), weight(b), shape(a) == shape(b) => lookup(a + b, ids)
}
graph g {
  input ids : i64[8]
  weight a : f32[16, 4]
  weight b : f32[16, 4]
  y = relu(lookup(a, ids) + lookup(b, ids))
  output y
}
"""
#: Nothing opaque in it, and false.
FALSE = "rule nothing-below-zero { relu(x) => x }\n"


def loaded(text: str, folder: Path) -> tensat_dl.Model:
    path = folder / "model.tsr"
    path.write_text(text)
    return tensat_dl.load(str(path))


def refused(model: tensat_dl.Model) -> tensat_dl.Result:
    """The answer to which a false rule led."""
    with pytest.raises(tensat_dl.RefutedRule) as raised:
        tensat_dl.optimize(model)
    assert raised.value.result is not None
    return raised.value.result


def test_a_law_of_an_opaque_operator_is_used_and_named(tmp_path: Path) -> None:
    model = loaded(LOOKUP, tmp_path)
    assert assumed(model.rules, model.ops) == {"add-lookups": ("lookup",)}
    result = tensat_dl.optimize(model)
    assert result.after.graph.count()["lookup"] == 1
    assert result.equivalence is not None
    assert result.equivalence.status == "inconclusive"
    assert "add-lookups (lookup)" in result.equivalence.message


def test_a_false_rule_is_caught_where_no_law_was_applied(tmp_path: Path) -> None:
    text = LOOKUP.replace("weight(a), weight(b), ", "weight(ids), ") + FALSE
    result = refused(loaded(text, tmp_path))
    assert result.equivalence is not None
    assert result.equivalence.status == "different"


def test_rules_about_known_operators_are_not_assumed(tmp_path: Path) -> None:
    model = loaded('import "standard"\n' + LOOKUP, tmp_path)
    assert list(assumed(model.rules, model.ops)) == ["add-lookups"]


def test_outputs_out_of_its_reach_keep_their_verdict(tmp_path: Path) -> None:
    text = LOOKUP.replace("output y", "input x : f32[4, 4]\n  output y, relu(x)") + FALSE
    result = refused(loaded(text, tmp_path))
    assert result.equivalence is not None
    assert result.equivalence.status == "different"
    assert [o.status for o in result.equivalence.outputs] == ["inconclusive", "different"]
