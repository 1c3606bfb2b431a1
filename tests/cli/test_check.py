"""``tensat-dl check``: verdicts, messages, exit codes, the JSON report, Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from tensat_dl.verify.rules.prover import prover
from tests.cli.running import Done, invoke, start

TRUE = "rule twice { relu(relu(x)) => relu(x) }\n"
FALSE = "/// Not for negative numbers.\nrule relu-add {\n  relu(ewadd(x, y)) => ewadd(relu(x), relu(y))\n}\n"
TURNED = "rule one-way { tanh(relu(x)) <=> tanh(x) where rank(x) == 0 }\n"
EMPTY = "rule never {\n  relu(relu(x))\n  where rank(x) == 1, dim(x, 0) > 3, dim(x, 0) < 3\n  => relu(x)\n}\n"


def write(folder: Path, text: str, name: str = "r.tsr") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def checked(folder: Path, text: str, *options: object) -> Done:
    return invoke("check", write(folder, text), *options)


def test_a_true_rule(tmp_path: Path) -> None:
    done = checked(tmp_path, TRUE)
    assert (done.code, done.err) == (0, "")
    row, note, summary = done.out.splitlines()
    assert " ".join(row.split()) == "twice proved all sizes, any rank; 18 instances exact"
    assert note.strip().startswith("no bound: ")
    assert summary == f"{tmp_path / 'r.tsr'}: 0 graphs, 1 rule, 0 tests: ok"


def test_a_rule_without_a_proof(tmp_path: Path) -> None:
    done = checked(
        tmp_path, "rule low { cast(cast(x; to = i16); to = i8) where dtype(x) == i32 => cast(x; to = i8) }"
    )
    assert (done.code, done.err) == (0, "")
    row, _, *notes = done.out.splitlines()
    assert row.split()[:2] == ["low", "tested"]
    reason = "no proof for all sizes: the two sides have different normal forms, for x of rank 6"
    assert reason in " ".join(map(str.strip, notes))


def test_without_z3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.verify.rules.verify.prover", lambda: "")
    done = checked(tmp_path, TRUE)
    assert " ".join(done.out.splitlines()[0].split()) == "twice tested 42 instances exact"
    assert "no proof" not in done.out


def test_a_false_rule(tmp_path: Path) -> None:
    done = checked(tmp_path, FALSE)
    path = tmp_path / "r.tsr"
    assert done.code == 1
    assert done.out == f"  relu-add  refuted\n{path}: 0 graphs, 1 rule, 0 tests: 1 refuted\n"
    assert done.err == (
        f"{path}:2:6: error: rule `relu-add` is false\n"
        "  2 | rule relu-add {\n"
        "    |      ^^^^^^^^\n"
        "  = note: for x : f32[], y : f32[]\n"
        "  = note: left:  relu(ewadd(x, y))\n"
        "  = note: right: ewadd(relu(x), relu(y))\n"
        "  = note: with x = 1, y = -1\n"
        "  = note: the result is 0 on the left and 1 on the right\n"
    )


def test_the_other_direction(tmp_path: Path) -> None:
    done = checked(tmp_path, TURNED)
    assert done.code == 1
    assert "one-way       refuted" in done.out
    assert "r.tsr:1:6: error: rule `one-way`, read from right to left, is false" in done.err


def test_a_rule_that_never_applies(tmp_path: Path) -> None:
    done = checked(tmp_path, EMPTY)
    assert done.code == 1
    assert done.out.endswith(": 1 vacuous\n")
    assert "r.tsr:1:6: error: rule `never` never applies" in done.err
    assert "instances exist without `dim(x, 0) > 3` or without `dim(x, 0) < 3`" in done.err


def test_a_rule_whose_condition_no_rank_meets(tmp_path: Path) -> None:
    done = checked(tmp_path, "rule high { relu(x) where rank(x) > 7 => x }\n")
    assert done.code == 1
    assert "rule `high` never applies" in done.err
    assert "instances exist without `rank(x) > 7`" in done.err


def test_a_rule_that_never_type_checks_is_an_error(tmp_path: Path) -> None:
    done = checked(tmp_path, "rule r { relu(x) => reduce_sum(x; axis = 7) }\n")
    assert done.code == 2
    assert "never type-checks" in done.err
    assert done.out == ""


@pytest.mark.parametrize(("axis", "ranks"), [(2, "ranks 3 to 6"), (5, "rank 6")])
def test_at_what_ranks_a_list_has_an_element(axis: int, ranks: str, tmp_path: Path) -> None:
    """The rule applies at the ranks at which the list has this element."""
    source, target = f"reduce_sum(y; axis = {axis})", f"transpose(reduce_sum(x; axis = p[{axis}]); perm = p)"
    done = checked(tmp_path, f"rule r {{\n  y = transpose(x; perm = p)\n  {source}\n  =>\n  {target}\n}}\n")
    assert (done.code, done.err) == (0, "")
    assert f"proved   all sizes, {ranks};" in done.out


def test_what_is_assumed_is_no_failure(tmp_path: Path) -> None:
    law = "opaque op secret(x: tensor) { shape shape(x) }\nrule law { secret(secret(x)) => secret(x) }\n"
    done = checked(tmp_path, law)
    assert done.code == 0
    assert "law  assumed" in done.out
    assert "`secret`" in done.out


def test_a_condition_that_is_not_needed(tmp_path: Path) -> None:
    done = checked(tmp_path, "rule r { relu(relu(x)) where rank(x) == 2 => relu(x) }\n")
    assert done.code == 0
    assert "condition `rank(x) == 2`: the rule is true without it" in done.out


def test_imported_rules_are_not_checked(tmp_path: Path) -> None:
    write(tmp_path, FALSE, "other.tsr")
    assert checked(tmp_path, 'import "./other.tsr"\n' + TRUE).code == 0
    assert invoke("check", tmp_path / "other.tsr", "-q").code == 1


def test_a_pack_that_only_imports() -> None:
    """Nothing of it was checked, and the summary does not say otherwise."""
    done = invoke("check", "standard")
    imported = r"standard: 0 graphs, 0 rules, 0 tests; \d+ imported rules, not checked here: ok"
    assert re.fullmatch(imported, done.out.strip()), done


def test_an_operator_whose_price_has_no_value_everywhere(tmp_path: Path) -> None:
    """Where an operator's number of operations has no value, it can't be applied: instances have other ranks."""
    sorted_ = "opaque op sorted(x: tensor) { shape shape(x) ; flops prod(out) * dim(x, -1) }\n"
    done = checked(tmp_path, sorted_ + "rule once { sorted(sorted(x)) => sorted(x) }\n")
    assert (done.code, done.err) == (0, "")
    assert done.out.split()[:2] == ["once", "assumed"]


def test_neither_a_file_nor_a_pack() -> None:
    done = invoke("check", "standrad")
    hint = "  = hint: did you mean `standard`?\n"
    assert (done.code, done.err) == (2, f"standrad: error: no such file, and no pack of this name\n{hint}")


def test_quiet(tmp_path: Path) -> None:
    assert checked(tmp_path, TRUE, "-q") == Done(0, "", "")
    done = checked(tmp_path, FALSE, "-q")
    assert (done.code, done.out) == (1, "")
    assert "is false" in done.err


def test_json(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = invoke("check", write(tmp_path, TRUE), write(tmp_path, FALSE, "f.tsr"), "--json", report)
    assert done.code == 1
    good, bad = json.loads(report.read_text())["files"]
    (rule,) = good["rules"]
    told = (rule["rule"], rule["status"], rule["proof"], rule["evidence"])
    assert told == ("twice", "proved", "all sizes, any rank", "all sizes, any rank; 18 instances")
    (rule,) = bad["rules"]
    assert rule["status"] == "refuted"
    found = rule["counterexample"]
    assert found["values"] == [["x", 1.0], ["y", -1.0]]
    assert (found["left"], found["right"]) == (0.0, 1.0)
    assert len(bad["failures"]) == 1
    assert bad["tests"] == {"run": 0, "failed": 0}


def test_json_on_standard_output(tmp_path: Path) -> None:
    done = checked(tmp_path, TRUE, "--json", "-")
    assert json.loads(done.out)["files"][0]["errors"] == []


def test_the_report_does_not_overwrite_an_input(tmp_path: Path) -> None:
    path = write(tmp_path, TRUE)
    done = invoke("check", path, "--json", path)
    assert done.code == 2
    assert path.read_text() == TRUE


def test_a_file_with_errors_has_no_verdicts(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = checked(tmp_path, "rule r { relu(x) => }\n", "--json", report)
    assert done.code == 2
    (file,) = json.loads(report.read_text())["files"]
    assert file["rules"] == []
    assert len(file["errors"]) == 1


@pytest.mark.parametrize("rules", [23, 80])
def test_an_interrupt(rules: int, tmp_path: Path) -> None:
    """With one process and with several: 130, one word, and what is known by then is kept."""
    body = "conv2d(conv2d(x, w; stride = s, pads = p), v) => conv2d(conv2d(x, w; pads = p, stride = s), smul(v, 1.0))"
    text = "".join(f"rule r{i} {{ {body} }}\n" for i in range(rules))
    with start("check", write(tmp_path, text), env={"XDG_CACHE_HOME": str(tmp_path)}) as process:
        kept = tmp_path / "tensat-dl" / "verdicts"
        while process.poll() is None and not any(kept.glob("*.json")):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
    verdicts = len(list(kept.glob("*.json")))
    assert 0 < verdicts < rules
    *lines, last = out.splitlines()
    assert f" {verdicts} of {rules} rules verified" in last
    assert sum(line.startswith("  r") for line in lines) == verdicts


def test_a_name_that_looks_like_the_other_direction(tmp_path: Path) -> None:
    """``f-back`` is a rule as any other, and no direction of an ``f`` that has one alone."""
    false = "rule relu-back { relu(x) => x }\n"
    done = checked(tmp_path, false)
    assert (done.code, "relu-back  refuted" in done.out) == (1, True)
    assert "error: rule `relu-back` is false" in done.err
    write(tmp_path, false, "lib.tsr")
    test = "test relu {\n input x : f32[4]\n output relu(x)\n => unchanged\n}\n"
    done = checked(tmp_path, f'import "./lib.tsr"\nrule relu {{ relu(relu(x)) => relu(x) }}\n{test}')
    assert (done.code, done.err) == (0, "")
    assert "relu-back" not in done.out


def test_a_rule_that_only_exchanges_operands(tmp_path: Path) -> None:
    text = "rule swap { exp(x) * (x + y) => (y + x) * exp(x) }\nrule turn { x - y => neg(y) + x }\n"
    done = checked(tmp_path, text)
    assert done.code == 0
    assert done.err.count("warning") == 1
    assert "rule `swap` only exchanges the operands of commutative operators" in done.err


def test_many_rules_that_say_the_same(tmp_path: Path) -> None:
    same = (f"rule r{i} {{ relu(relu(x)) => relu(x) }}\n" for i in range(10))
    swapped = "rule plus { exp(x) + y => y - neg(exp(x)) }\nrule other { y + exp(x) => y - neg(exp(x)) }\n"
    done = checked(tmp_path, swapped + "".join(same))
    assert done.code == 0
    warnings = [line.partition("warning: ")[2] for line in done.err.splitlines() if "warning" in line]
    assert warnings == [
        "rule `other` says the same as rule `plus`",
        "rule `r1` says the same as rule `r0`",
        "rule `r2` says the same as rule `r0`",
        "7 more rules say the same as earlier rules, this one first",
    ]
    assert done.err.count("one of them is enough") == 2


AXIS_OF_A_LIST = """
rule sum-first {
  reduce_sum(transpose(x; perm = p); axis = 5) where rank(x) == 6 => transpose(reduce_sum(x; axis = p[5]); perm = p)
}
rule sum-twice {
  relu(reduce_max(transpose(x; perm = p); axis = p[5])) => reduce_max(relu(transpose(x; perm = p)); axis = p[5])
}
test sum-first {
  input x : f32[2, 3, 4, 5, 6, 7]
  output reduce_sum(transpose(x; perm = [5, 4, 3, 2, 0, 1]); axis = 5)
  =>
  input x : f32[2, 3, 4, 5, 6, 7]
  output transpose(reduce_sum(x; axis = 1); perm = [5, 4, 3, 2, 0, 1])
}
"""


@pytest.mark.skipif(not prover(), reason="proofs need z3")
def test_an_element_of_a_list_is_an_axis(tmp_path: Path) -> None:
    done = checked(tmp_path, AXIS_OF_A_LIST)
    assert (done.code, done.err) == (0, "")
    rows = [line.split()[:2] for line in done.out.splitlines() if line.startswith("  sum")]
    assert rows == [["sum-first", "proved"], ["sum-twice", "proved"]]
    assert "rank 6" in done.out
