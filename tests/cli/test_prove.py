"""``tensat-dl prove``: which rules follow from a pack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensat_dl.verify.prove import prove
from tensat_dl.verify.rules.prover import prover

from .running import ROOT, invoke

RULES = """\
rule three { relu(relu(relu(x))) => relu(x) }
rule product { relu(matmul(x, matmul(y, z))) => matmul(matmul(x, y), z; act = relu) }
"""
#: True, but not by rules about relu.
UNKNOWN = "rule unknown { ewmul(relu(x), relu(x)) => relu(ewmul(relu(x), x)) }\n"
PUBLISHED = ROOT.parent / "shared" / "data" / "tensat"


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rules.tsr"
    path.write_text(RULES)
    return path


def test_derived(rules: Path) -> None:
    done = invoke("prove", "rules.tsr", "--from", "activation", "--from", "matmul", "--assignments", 3)
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[:2] == [
        "  three    derived      3 assignments, from relu-relu",
        "  product  derived      3 assignments, from matmul-assoc, matmul-relu",
    ]
    assert lines[2].startswith("3 of the 3 axioms used are proved for all sizes" if prover() else "0 of")
    assert lines[3].startswith("rules.tsr: 2 of 2 rules derived from activation, matmul in ")
    assert done.err == ""


def test_not_derived(rules: Path) -> None:
    """Exit code 1, and the first assignment at which it is not."""
    rules.write_text(RULES + UNKNOWN)
    done = invoke("prove", "rules.tsr", "--from", "activation", "--assignments", 2, "--json", "out.json")
    assert done.code == 1
    assert "  unknown  not derived  0 of 2 assignments; the axioms say no more\n" in done.out
    assert "\n      left:  ewmul(relu(x), relu(x))\n      right: relu(ewmul(relu(x), x))\n" in done.out
    report = json.loads(Path("out.json").read_text())
    assert report["derived"] == 1
    assert [r["status"] for r in report["rules"]] == ["derived", "not derived", "not derived"]
    assert report["rules"][0] == {
        "rule": "three",
        "status": "derived",
        "assignments": 2,
        "equal": 2,
        "axioms": ["relu-relu"],
        "stop": None,
        "missed": None,
    }
    assert report["rules"][2]["stop"] == "saturated"
    assert report["rules"][2]["missed"].startswith("not for x : ")


@pytest.mark.parametrize(
    ("rule", "counterexample"),
    [
        (
            "reduce_sum(slice(x; axis = 0, start = 0, stop = 8); axis = 0) => reduce_sum(x; axis = 0)",
            "element [0] is 0 on the left and 1 on the right",
        ),
        (
            "conv2d(concat(x, y; axis = 1), concat(u, v; axis = 1)) => conv2d(x, u) + conv2d(y, v)",
            "x : f32[1, 2, 1, 1], y : f32[1, 2, 1, 1], u : f32[2, 1, 1, 1], v : f32[2, 1, 1, 1]",
        ),
    ],
)
def test_a_false_rule_is_not_derived(rule: str, counterexample: str, rules: Path) -> None:
    """One assignment need not show that it is false."""
    rules.write_text(f"rule false {{ {rule} }}\nrule three {{ relu(relu(relu(x))) => relu(x) }}\n")
    options = ("--from", "standard", "--assignments", 1, "--json", "out.json")
    done = invoke("prove", "rules.tsr", *options)
    assert done.code == 1
    assert "  false  refuted      see the counterexample\n" in done.out
    assert "  three  derived " in done.out
    assert "rules.tsr:1:6: error: rule `false` is false" in done.err
    assert counterexample in done.err
    report = json.loads(Path("out.json").read_text())
    assert [(r["rule"], r["status"]) for r in report["rules"]] == [("three", "derived"), ("false", "refuted")]
    assert report["rules"][1]["counterexample"]["before"]


def test_a_false_axiom_is_not_used(rules: Path) -> None:
    """The rule is derived from others where it can be."""
    Path("axioms.tsr").write_text("rule wrong { relu(x) => x }\n")
    rules.write_text("rule three { relu(relu(relu(x))) => relu(x) }\n")
    done = invoke("prove", "rules.tsr", "--from", "./axioms.tsr", "--assignments", 1)
    assert done.code == 1
    assert "  three  not derived " in done.out
    assert "axioms.tsr:1:6: warning: axiom `wrong` is false: not used" in done.err
    done = invoke("prove", "rules.tsr", "--from", "./axioms.tsr", "--from", "activation", "--assignments", 1)
    assert done.code == 0
    assert "from relu-relu\n" in done.out


def test_from_a_file(rules: Path) -> None:
    """Its imports are axioms too; those of the rules to be proved are not."""
    Path("axioms.tsr").write_text('import "activation"\n')
    rules.write_text('import "matmul"\n' + RULES)
    done = invoke("prove", "rules.tsr", "--from", "./axioms.tsr", "--assignments", 1)
    assert done.code == 1
    assert "three    derived " in done.out
    assert "product  not derived" in done.out


def test_json_on_standard_output(rules: Path) -> None:
    done = invoke("prove", "rules.tsr", "--from", "activation", "--assignments", 1, "--json", "-")
    assert [r["rule"] for r in json.loads(done.out)["rules"]] == ["three", "product"]
    assert "1 of 2 rules derived" in done.err


def test_quiet(rules: Path) -> None:
    done = invoke("prove", "rules.tsr", "--from", "activation", "--assignments", 1, "-q")
    assert (done.code, done.out, done.err) == (1, "", "")


def test_interrupted(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known is printed and written."""
    found = prove.find_equal
    calls = []

    def interrupted(*args: object) -> object:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return found(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(prove, "find_equal", interrupted)
    done = invoke("prove", "rules.tsr", "--from", "activation", "--assignments", 1, "--json", "out.json")
    assert done.code == 130
    assert done.out.rstrip().endswith("interrupted")
    assert json.loads(Path("out.json").read_text())["derived"] == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("rules.tsr",), "Missing option '--from'"),
        (("rules.tsr", "--from", "activatoin"), "--from: error: no rule pack `activatoin`"),
        (("rules.tsr", "--from", "activatoin"), "did you mean `activation`?"),
        (("rules.tsr", "--from", "./nothing.tsr"), "no such file"),
        (("nothing.tsr", "--from", "taso"), "nothing.tsr: error: no such file"),
        (("bad.tsr", "--from", "taso"), "unknown operator `reluu`"),
        (("graph.tsr", "--from", "taso"), "graph.tsr: error: the file has no rules of its own"),
        (("rules.tsr", "--from", "taso", "--assignments", "0"), "'--assignments'"),
        (("rules.tsr", "--from", "taso", "--json", "rules.tsr"), "is an input"),
        (("rules.tsr", "--from", "taso", "--json", "no/such/file"), "no such folder"),
    ],
)
def test_bad_input(args: tuple[str, ...], message: str, rules: Path) -> None:
    Path("bad.tsr").write_text("rule bad { reluu(x) => x }\n")
    Path("graph.tsr").write_text('import "taso"\ngraph g {\n  input x : f32[2]\n  output relu(x)\n}\n')
    done = invoke("prove", *args)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert rules.read_text() == RULES


@pytest.mark.thorough
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published rules are not at hand")
def test_published_pairs(tmp_path: Path) -> None:
    """The pack proves the true ones, and does not prove those that are false for grouped convolutions."""
    out, report = tmp_path / "multi.tsr", tmp_path / "report.json"
    assert invoke("import", "--multi", PUBLISHED / "converted_multi.txt", "-o", out).code == 0
    assert invoke("prove", out, "--from", "taso", "--json", report).code == 1
    missing = [r["rule"] for r in json.loads(report.read_text())["rules"] if r["status"] != "derived"]
    assert missing == ["converted-multi-23", "converted-multi-25"]


def test_proofs_do_not_depend_on_where_they_are_found(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, or in one or several others."""
    reports = []
    for more in ([], ["--jobs", 1], ["--jobs", 3]):
        done = invoke("prove", rules, "--from", "activation", "--json", "r.json", *more)
        report = json.loads(Path("r.json").read_text())
        reports.append((done.code, {k: v for k, v in report.items() if k != "seconds"}))
    assert reports[0] == reports[1] == reports[2]
