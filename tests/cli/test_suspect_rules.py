"""What a run makes of rules that are false, never apply, or are not proved."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from tensat_dl.verify.rules.prover import prover

from .running import invoke
from .test_options import GRAPH, RULE, refused, write


def test_a_wrong_rule(tmp_path: Path) -> None:
    """A result that computes something else is reported, and never written."""
    path = write(tmp_path, "rule bad { relu(x) => x }\n" + GRAPH)
    out, dot, report = (write(tmp_path, "as it was\n", n) for n in ("out.tsr", "g.dot", "r.json"))
    done = invoke("run", path, "-o", out, "--dot", dot, "--json", report)
    assert done.code == 1
    assert f"{path}:1:6: error: rule `bad` is false" in done.err
    assert "the result is 0 on the left and -1 on the right" in done.err
    assert "rules applied 1 refuted (bad)" in done.out
    assert out.read_text() == dot.read_text() == "as it was\n"
    found = json.loads(report.read_text())
    assert found["verify"]["status"] == "different"
    assert [(v["rule"], v["status"]) for v in found["rules_applied"]] == [("bad", "refuted")]
    assert found["output"] is None


def test_a_wrong_rule_that_shows_in_the_result_alone(tmp_path: Path) -> None:
    """As if the rule had passed: both graphs are executed all the same."""
    path = write(tmp_path, "rule bad { relu(x) => x }\n" + GRAPH)
    out = write(tmp_path, "as it was\n", "out.tsr")
    with patch("tensat_dl.run.checked.verify_rules", return_value=()):
        done = invoke("run", path, "-o", out)
    assert done.code == 1
    assert "computes something else" in done.err
    assert "an applied rule must be false; rules of this file that were applied: bad" in done.err
    assert out.read_text() == "as it was\n"


def test_a_rule_that_is_false_elsewhere(tmp_path: Path) -> None:
    """It is refused although the result is right: with one group its equation holds."""
    rule = (
        "rule grouped { ewadd(conv2d(x, u), conv2d(y, v)) => conv2d(concat(x, y; axis = 1), "
        "concat(u, v; axis = 1)) }\n"
    )
    leaves = "".join(
        f"  input {x} : f32[1, 4, 8, 8]\n  weight {w} : f32[4, 4, 3, 3]\n" for x, w in ("xu", "yv")
    )
    path = write(tmp_path, f"{rule}graph g {{\n{leaves}  output conv2d(x, u) + conv2d(y, v)\n}}\n")
    report = tmp_path / "r.json"
    done = invoke("run", path, "-o", tmp_path / "out.tsr", "--json", report)
    assert done.code == 1
    assert "error: rule `grouped` is false" in done.err
    assert not (tmp_path / "out.tsr").exists()
    assert json.loads(report.read_text())["verify"]["status"] == "equivalent"


def test_rules_that_are_not_applied_are_not_verified(tmp_path: Path) -> None:
    path = write(tmp_path, "rule bad { tanh(x) => x }\n" + RULE + GRAPH)
    report = tmp_path / "r.json"
    done = invoke("run", path, "--json", report)
    assert done.code == 0
    assert [v["rule"] for v in json.loads(report.read_text())["rules_applied"]] == ["once"]


def test_without_verification_rules_are_trusted(tmp_path: Path) -> None:
    path = write(tmp_path, "rule bad { relu(x) => x }\n" + GRAPH)
    done = invoke("run", path, "--no-verify")
    assert done.code == 0
    assert "rules applied" not in done.out


def test_trust_proved_keeps_to_proved_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # another test may have proved the rule
    narrow = "rule narrow { cast(cast(x; to = i16); to = i8) where dtype(x) == i32 => cast(x; to = i8) }\n"
    graph = "graph g {\n  input x : i32[4]\n  output cast(cast(relu(relu(x)); to = i16); to = i8)\n}\n"
    path, report = write(tmp_path, narrow + RULE + graph), tmp_path / "r.json"
    applied = {}
    for trust in ("tested", "proved"):
        done = invoke("run", path, "--trust", trust, "--json", report)
        assert done.code == 0, done.err
        applied[trust] = {v["rule"]: v["status"] for v in json.loads(report.read_text())["rules_applied"]}
    assert applied == {"tested": {"narrow": "tested", "once": "proved"}, "proved": {"once": "proved"}}
    assert "1 proved for all sizes" in " ".join(done.out.split())


def test_proofs_need_z3(tmp_path: Path) -> None:
    with patch("tensat_dl.verify.rules.prover.prover", lambda: ""):
        done = invoke("run", write(tmp_path, RULE + GRAPH), "--trust", "proved")
    refused(done, "proofs need z3: pip install 'tensat-dl[prove]'")


NARROW = {
    "product": ("relu(relu(x))", "dim(x, 0) > 16 * 16", "relu(x)", "f32[300, 4]"),
    "quotient": ("relu(relu(x))", "dim(x, 1) / 64 == 3", "relu(x)", "f32[2, 200]"),
    "between": ("x * c + y * c", "value(c) > 0.1, value(c) < 0.12", "(x + y) * c", "f32[4]"),
    "either-type": ("relu(relu(x))", "dtype(x) == i8 or dtype(x) == i16", "relu(x)", "i16[4]"),
    "few-types": ("relu(relu(x))", "dtype(x) != f32, dtype(x) != f64, dtype(x) != i32", "relu(x)", "i16[4]"),
}


@pytest.mark.parametrize("name", NARROW)
def test_a_run_with_a_rule_that_seldom_applies(name: str, tmp_path: Path) -> None:
    source, condition, target, type_ = NARROW[name]
    values = "".join(f"  input {v} : {type_}\n" for v in ("x", "y") if v in source)
    values += "  weight c : f32[] = 0.11\n" if "c" in source else ""
    text = (
        f"rule {name} {{ {source} where {condition} => {target} }}\n"
        f"graph g {{\n{values}  output {source}\n}}\n"
    )
    path = write(tmp_path, text)
    out, report = tmp_path / "out.tsr", tmp_path / "r.json"
    done = invoke("run", path, "-o", out, "--json", report)
    assert (done.code, done.err) == (0, "")
    assert out.exists()
    (said,) = json.loads(report.read_text())["rules_applied"]
    assert (said["rule"], said["status"]) == (name, "proved" if prover() else "tested")


def test_a_rule_that_was_applied_is_not_vacuous(tmp_path: Path) -> None:
    """No instance is found of it alone; that there is one is seen in the graph."""
    hard = "(dim(x, 0) * dim(x, 0) + 3 * dim(x, 0)) % 1000003 == 526455"
    rule = f"rule hard {{ relu(relu(x)) where {hard} => relu(x) }}\n"
    path = write(tmp_path, rule + GRAPH.replace("f32[4]", "f32[1234]"))
    assert "rule `hard` never applies" in invoke("check", path).err
    out, report = tmp_path / "out.tsr", tmp_path / "r.json"
    done = invoke("run", path, "-o", out, "--json", report)
    assert (done.code, done.err) == (0, "")
    assert out.exists()
    assert "rules applied 1 assumed (hard)" in done.out
    assert "rule hard: sampling found no instance of it" in done.out
    found = json.loads(report.read_text())
    assert [v["status"] for v in found["rules_applied"]] == ["assumed"]
    assert found["verify"]["status"] == "equivalent"


def test_a_false_rule_without_instances_is_refused_by_its_graph(tmp_path: Path) -> None:
    hard = "(dim(x, 0) * dim(x, 0) + 3 * dim(x, 0)) % 1000003 == 526455"
    rule = f"rule hard {{ relu(relu(x)) where {hard} => x }}\n"
    out = tmp_path / "out.tsr"
    done = invoke("run", write(tmp_path, rule + GRAPH.replace("f32[4]", "f32[1234]")), "-o", out)
    assert done.code == 1
    assert "the optimized graph computes something else" in done.err
    assert not out.exists()
