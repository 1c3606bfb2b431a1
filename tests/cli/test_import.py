"""``tensat-dl import``: S-expression rules become a .tsr file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensat_dl.lang.program import load_program
from tensat_dl.verify.rules.rule_types import check_rule_types

from .running import ROOT, invoke

PUBLISHED = ROOT.parent / "shared" / "data" / "tensat"
RULES = """\
; from products to products
(relu (matmul 0 ?input_1 ?input_2))=>(matmul 2 ?input_1 ?input_2)
(concat 1 2 (relu ?x) (relu ?y))=>(relu (concat 1 2 ?x ?y))
(relu (matmul 0 ?a ?b))=>(matmul 2 ?a ?b)
"""
PAIRS = """\
(relu ?x)=>(split_0 (split 0 (relu (concat 0 2 ?x ?y))))
(relu ?y)=>(split_1 (split 0 (relu (concat 0 2 ?x ?y))))
"""
EXPECTED = """\
// Imported from pairs.txt.

/// (relu ?x)=>(split_0 (split 0 (relu (concat 0 2 ?x ?y))))
/// (relu ?y)=>(split_1 (split 0 (relu (concat 0 2 ?x ?y))))
rule pairs-1 {
  y0 = relu(x)
  y1 = relu(y)
  where rank(x) == 2
  =>
  (y0, y1) = split(relu(concat(x, y; axis = 0)); axis = 0, sizes = [dim(x, 0), dim(y, 0)])
}
"""


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_file(tmp_path: Path) -> None:
    rules, out = written(tmp_path, "rules.txt", RULES), tmp_path / "out.tsr"
    done = invoke("import", rules, "-o", out)
    assert (done.code, done.out) == (0, f"{rules}: 2 rules, 1 left out\n")
    assert f"{rules}:4:1: warning: this rule repeats line 2: left out" in done.err
    assert invoke("fmt", "--check", out).code == 0
    assert invoke("check", out).code == 0


def test_pairs_to_standard_output(tmp_path: Path) -> None:
    done = invoke("import", "--multi", written(tmp_path, "pairs.txt", PAIRS), "-o", "-")
    assert (done.code, done.out) == (0, EXPECTED)
    assert done.err.endswith("pairs.txt: 1 rule\n")


def test_standard_input() -> None:
    done = invoke("import", "-", "-o", "-", "-q", stdin=RULES)
    assert (done.code, done.err) == (0, "")
    assert "rule stdin-2 { relu(matmul(x1, x2)) => matmul(x1, x2; act = relu) }" in done.out


def test_bad_rules(tmp_path: Path) -> None:
    """Every problem has its place, and nothing is written."""
    rules, out = written(tmp_path, "bad.txt", "(relu ?x\n(reluu ?x)=>(tanh ?y)\n"), tmp_path / "out.tsr"
    out.write_text("as it was\n")
    done = invoke("import", rules, "-o", out)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"{rules}:1:1: error: the line has no `=>`\n"
        "  1 | (relu ?x\n"
        "    | ^^^^^^^^\n"
        "  = hint: a rule is written `(..)=>(..)`\n\n"
        f"{rules}:2:2: error: unknown operator `reluu`\n"
        "  2 | (reluu ?x)=>(tanh ?y)\n"
        "    |  ^^^^^\n"
        "  = hint: did you mean `relu`?\n"
    )
    assert out.read_text() == "as it was\n"


def test_rules_that_are_left_out(tmp_path: Path) -> None:
    """The others are written; the exit code says that these are not all."""
    rules, out = written(tmp_path, "some.txt", RULES + "(reluu ?x)=>(tanh ?x)\n"), tmp_path / "out.tsr"
    for options in ((), ("-q",)):
        done = invoke("import", rules, "-o", out, *options)
        assert done.code == 1
        assert done.out == ("" if options else f"{rules}: 2 rules, 2 left out\n")
        assert f"{rules}:5:2: error: unknown operator `reluu`" in done.err
        assert invoke("check", out).code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("rules.txt",), "Missing option '-o'"),
        (("rules.txt", "-o", "rules.txt"), "is an input, which would be lost"),
        (("rules.txt", "-o", "no/such/out.tsr"), "no such folder to write to"),
        (("nothing.txt", "-o", "-"), "nothing.txt: error: no such file"),
        (("binary.txt", "-o", "-"), "the file is not UTF-8"),
        (("pairs.txt", "-o", "-"), "import them with --multi"),
        (("rules.txt", "--multi", "-o", "-"), "the file ends with half a rule"),
    ],
)
def test_bad_usage(
    args: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "rules.txt", RULES)
    written(tmp_path, "pairs.txt", PAIRS)
    (tmp_path / "binary.txt").write_bytes(b"(relu \xff)")
    done = invoke("import", *args)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert (tmp_path / "rules.txt").read_text() == RULES


@pytest.mark.thorough
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published rules are not at hand")
def test_published_rules(tmp_path: Path) -> None:
    for name, rules, left_out in (("converted", 116, 4), ("converted_multi", 12, 1)):
        out = tmp_path / f"{name}.tsr"
        multi = ["--multi"] if "multi" in name else []
        done = invoke("import", PUBLISHED / f"{name}.txt", "-o", out, *multi)
        assert done.out.endswith(f": {rules} rules, {left_out} left out\n")
        assert invoke("fmt", "--check", out).code == 0
        # Whether they are true is tested in tests/rules/test_published_rules.py.
        program = load_program(str(out))
        own = [rule for rule in program.rules if rule.name.startswith(f"{name.replace('_', '-')}-")]
        assert len(own) == rules
        assert not [d for rule in own for d in check_rule_types(rule, program.ops)]
