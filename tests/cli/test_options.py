"""Every command and option, with good values and bad ones."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from .running import EXAMPLES, Done, invoke

pytestmark = pytest.mark.sampled(5)

SHARED = EXAMPLES / "tiny_share_input.tsr"
RULE = "rule once { relu(relu(x)) => relu(x) }\n"
GRAPH = "graph g {\n  input x : f32[4]\n  output relu(relu(x))\n}\n"
TWO = GRAPH + GRAPH.replace("graph g", "graph h").replace("relu(relu(x))", "tanh(x)")
METHODS = ["exact", "ilp-real", "ilp-int", "ilp-none", "greedy", "greedy-dag"]


def write(folder: Path, text: str, name: str = "g.tsr") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(done: Done, *messages: str) -> None:
    """Bad input or usage: exit code 2, and a message that helps."""
    assert done.code == 2, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    for message in messages:
        assert message in done.err


def test_every_output(tmp_path: Path) -> None:
    names = ("out.tsr", "r.json", "r.html", "g.dot", "s.json", "e.json")
    out, report, html, dot, signatures, egraph = (tmp_path / n for n in names)
    done = invoke(
        *("run", SHARED, "-o", out, "--json", report, "--html", html, "--dot", dot),
        *("--signatures", signatures, "--save-egraph", egraph),
    )
    assert (done.code, done.err) == (0, "")
    assert "written to" in done.out
    assert invoke("fmt", "--check", out).code == 0
    assert dot.read_text().startswith('digraph "tiny_share_input" {')
    assert "e-nodes" in html.read_text()
    assert json.loads(signatures.read_text())
    assert json.loads(egraph.read_text())["nodes"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)

    found = json.loads(report.read_text())
    assert found["graph"] == "tiny_share_input"
    assert found["device"] == "h100"
    assert found["output"] == str(out)
    assert found["stop"] == "saturated"
    assert found["cost"]["after"] < found["cost"]["before"]
    assert found["cost"]["measured_share"] == 0
    assert found["egraph"].keys() >= {"nodes", "classes"}
    assert all(i.keys() >= {"nodes", "classes", "seconds", "matches"} for i in found["iterations"])
    assert found["time"].keys() >= {"parse", "explore", "cost", "extract", "verify", "total"}
    assert found["extract"].keys() >= {"method", "status", "cost", "bound", "gap"}
    assert found["extract"]["status"] == "optimal"
    assert found["verify"]["status"] == "equivalent"
    assert found["verify"].keys() >= {"max_abs_error", "max_rel_error"}

    saved = json.loads(invoke("extract", egraph, "--json", "-", "-q").out)
    assert saved["extract"]["cost"] == pytest.approx(found["extract"]["cost"])


@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    assert invoke("run", SHARED, "-q", "--extract", method, "--json", report).code == 0
    found = json.loads(report.read_text())
    assert found["extract"]["method"] == method
    assert found["cost"]["after"] <= found["cost"]["before"]


def test_the_ilp_without_cycle_constraints_is_refused_on_a_cyclic_e_graph(tmp_path: Path) -> None:
    """Here e-classes of tanh and relu are each other's operands. (The rule is false, so it is not verified.)"""
    text = "rule loop { tanh(x) => exp(relu(tanh(x))) }\ngraph g {\n  input x : f32[4]\n  output tanh(x)\n}\n"
    path = write(tmp_path, text)
    done = invoke("run", path, "-q", "--extract", "ilp-none", "-o", tmp_path / "out.tsr")
    refused(done, "cycle")
    assert not (tmp_path / "out.tsr").exists()
    assert invoke("run", path, "-q", "--extract", "ilp-real", "--no-verify").code == 0


def test_rules(tmp_path: Path) -> None:
    graph = write(tmp_path, GRAPH)
    rule = write(tmp_path, RULE, "rule.tsr")
    assert "relu(relu_1)" in invoke("run", graph, "-q", "-o", "-").out
    for given in (["--rules", rule], ["--rules", "identity", "--rules", rule], ["--rules", "standard"]):
        assert "y = relu(x)" in invoke("run", graph, "-q", "-o", "-", *given).out.replace("out0", "y")
    refused(invoke("run", graph, "--rules", "standrd"), "did you mean `standard`?")
    refused(invoke("run", graph, "--rules", "nonesuch.tsr"), "nonesuch.tsr")
    refused(invoke("run", graph, "--rules", tmp_path), str(tmp_path))
    bad = write(tmp_path, "rule bad { relu(x => x }\n", "bad.tsr")
    refused(invoke("run", graph, "--rules", bad), f"{bad}:1:")


def test_graphs(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    for command in ("run", "show"):
        refused(invoke(command, path), "2 graphs: g, h", "--graph")
        refused(invoke(command, path, "--graph", "hh"), "did you mean `h`?")
    assert "graph h {" in invoke("run", path, "--graph", "h", "-q", "-o", "-").out
    assert "tanh(x)" in invoke("show", path, "--graph", "h").out
    only_rules = write(tmp_path, RULE, "rule.tsr")
    for command in ("run", "show"):
        refused(invoke(command, only_rules), "no graph")
    assert invoke("check", only_rules).code == 0


def test_devices() -> None:
    refused(invoke("run", SHARED, "--device", "h10"), "did you mean `h100`?")
    refused(invoke("run", SHARED, "--device", ""), "devices are")
    assert "for cpu" in invoke("run", SHARED, "--device", "cpu").out


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--k-multi", ["-1", "x", "1.5"]),
        ("--max-nodes", ["0", "-5", "many"]),
        ("--max-iters", ["-1", ""]),
        ("--time-limit", ["-1", "nan", "soon"]),
        ("--extract-time-limit", ["-0.1", "nan"]),
        ("--max-memory", ["0", "1.5"]),
        ("--seed", ["-1", "x"]),
        ("--extract", ["best", ""]),
        ("--cycles", ["all", "", "Vanilla", "0"]),
    ],
)
def test_bad_values(option: str, values: list[str]) -> None:
    for value in values:
        refused(invoke("run", SHARED, option, value), option, "Usage: ")


@pytest.mark.parametrize("args", [["run"], ["run", SHARED, SHARED], ["run", SHARED, "--nonesuch"], ["check"]])
def test_bad_usage(args: list[object]) -> None:
    refused(invoke(*args), "Usage: ")


def test_commands() -> None:
    refused(invoke("rn", SHARED), "did you mean `run`?")
    assert invoke("--help").out.startswith("Usage: ")
    assert re.fullmatch(r".*\b\d+\.\d+.*\n", invoke("--version").out)
    for command in ("run", "check", "fmt", "show", "extract"):
        done = invoke(command, "--help")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("Usage: ")


@pytest.mark.parametrize(
    ("limit", "stop"),
    [
        (["--max-iters", 0], "iterations"),
        (["--max-iters", 1], "iterations"),
        (["--max-nodes", 1], "nodes"),
        (["--time-limit", 0], "time"),
        (["--time-limit", "inf"], "saturated"),
        (["--max-nodes", 10**30, "--max-iters", 10**30, "--seed", 10**30], "saturated"),
    ],
)
def test_limits(limit: list[object], stop: str, tmp_path: Path) -> None:
    """Every limit leaves a result, and the report names the one that bound."""
    report, out = tmp_path / "r.json", tmp_path / "out.tsr"
    assert invoke("run", SHARED, "-q", "--json", report, "-o", out, *limit).code == 0
    assert json.loads(report.read_text())["stop"] == stop
    assert out.exists()


def test_no_time_to_extract(tmp_path: Path) -> None:
    """The input graph is an answer, and the report has its gap."""
    report = tmp_path / "r.json"
    assert invoke("run", SHARED, "-q", "--extract-time-limit", 0, "--json", report).code == 0
    found = json.loads(report.read_text())
    assert found["extract"]["status"] == "feasible"
    assert found["extract"]["gap"] > 0
    assert found["cost"]["after"] <= found["cost"]["before"]


def test_k_multi(tmp_path: Path) -> None:
    """Without multi-pattern rules nothing is merged."""
    assert "matmul 2 -> 1" in invoke("run", SHARED).out
    assert "matmul 2 -> 1" not in invoke("run", SHARED, "--k-multi", 0).out


def test_rules_that_reassociate_can_be_left_out(tmp_path: Path) -> None:
    associative, out = EXAMPLES / "tiny_associativity.tsr", tmp_path / "o.tsr"
    assert "matmul 2 -> 1" in invoke("run", associative).out
    assert "matmul 2 -> 1" not in invoke("run", associative, "--no-reassociate").out
    assert "matmul 2 -> 1" in invoke("run", SHARED, "--no-reassociate", "-o", out).out
    assert out.read_text().splitlines()[0].endswith("tiny_share_input.tsr --no-reassociate")
    assert invoke("why", out).code == 0


TWICE = """
graph g {
  input x : f32[64, 128]
  output relu(relu(transpose(transpose(x; perm = [1, 0]); perm = [1, 0])))
}
"""


@pytest.mark.parametrize("mode", ["none", "vanilla", "efficient", "incremental"])
def test_cycles(mode: str, tmp_path: Path) -> None:
    """Without cycles in the e-graph it can be extracted without constraints against them."""
    path, report = write(tmp_path, TWICE), tmp_path / "r.json"
    options = [path, "--rules", "standard", "--cycles", mode, "--json", report]
    done = invoke("run", *options, "--extract", "ilp-none")
    if mode == "none":
        refused(done, "this e-graph has some")
        done = invoke("run", *options)
    assert done.code == 0
    found = json.loads(report.read_text())
    assert found["operators"]["after"]["relu"] == 1
    assert found["cycles"]["mode"] == mode
    assert found["cycles"]["filtered"] == found["iterations"][-1]["filtered"]
    assert found["cycles"]["skipped"] == sum(it["skipped"] for it in found["iterations"])
    assert (found["cycles"]["filtered"] > 0) == (mode != "none")
    assert ("on the filter list" in done.out) == (mode != "none")


def test_verification(tmp_path: Path) -> None:
    assert "skipped" in invoke("run", SHARED, "--no-verify").out
    assert "seed 7" in invoke("run", SHARED, "--seed", 7).out


def test_quiet(tmp_path: Path) -> None:
    assert invoke("run", SHARED, "-q", "-o", tmp_path / "out.tsr") == Done(0, "", "")
    assert invoke("check", SHARED, "-q") == Done(0, "", "")


def test_check(tmp_path: Path) -> None:
    test = (
        "test once {\n  input x : f32[4]\n  output relu(relu(x))\n  =>\n  input x : f32[4]\n  output OUT\n}\n"
    )
    good = write(tmp_path, RULE + test.replace("OUT", "relu(x)"), "good.tsr")
    failing = write(tmp_path, RULE + test.replace("OUT", "tanh(x)"), "failing.tsr")
    bad = write(tmp_path, GRAPH.replace("relu(x)", "relu(y)"), "bad.tsr")
    done = invoke("check", good)
    assert (done.code, done.err) == (0, "")
    assert "1 rule, 1 test: ok" in done.out
    done = invoke("check", good, failing)
    assert done.code == 1
    assert f"{failing}:2:6: error: test of rule `once` failed" in done.err
    done = invoke("check", failing, bad, good, tmp_path / "none.tsr")
    assert done.code == 2
    assert f"{bad}:3:" in done.err
    assert "no such file" in done.err
    assert "good.tsr: 0 graphs, 1 rule, 1 test: ok" in done.out  # what comes after a bad file is checked too


def test_fmt(tmp_path: Path) -> None:
    good, ugly = write(tmp_path, GRAPH, "good.tsr"), write(tmp_path, GRAPH.replace("  ", "     "), "ugly.tsr")
    bad = write(tmp_path, "graph {", "bad.tsr")
    done = invoke("fmt", "--check", good, ugly)
    assert (done.code, done.out, done.err) == (1, "", f"{ugly}: not formatted\n")
    assert "     " in ugly.read_text()
    before = good.stat()
    assert invoke("fmt", good, ugly) == Done(0, "", "")
    assert ugly.read_text() == GRAPH
    assert good.stat() == before  # a formatted file is not touched
    done = invoke("fmt", bad, ugly)
    assert done.code == 2
    assert bad.read_text() == "graph {"
    assert invoke("fmt", "-", stdin=GRAPH.replace("  ", "   ")) == Done(0, GRAPH, "")
    assert invoke("fmt", "--check", "-", stdin=GRAPH) == Done(0, "", "")


def test_show(tmp_path: Path) -> None:
    path = write(tmp_path, RULE + GRAPH)
    assert (
        invoke("show", path).out
        == "graph g {\n  input x : f32[4]\n\n  relu_1 = relu(x)\n  out0 = relu(relu_1)\n\n  output out0\n}\n"
    )
    assert "once  (single)" in invoke("show", path, "--list", "rules").out
    assert "matmul(" in invoke("show", path, "--list", "ops").out
    assert invoke("show", path, "--dot").out.startswith('digraph "g" {')
    assert "(ruleset" in invoke("show", path, "--egglog").out
    refused(invoke("show", path, "--list", "rules", "--dot"), "exclude")
    refused(invoke("show", path, "--list", "rules", "--graph", "g"), "--graph")


def test_standard_input_and_output() -> None:
    text = SHARED.read_text()
    done = invoke("run", "-", "-o", "-", stdin=text)
    assert done.code == 0
    made, _, graph = done.out.partition("\n\n")
    assert made.startswith("// made by: tensat-dl run -\n")
    assert graph.startswith("graph tiny_share_input {")
    assert "optimal" in done.err
    again = invoke("run", "-", "-q", "-o", "-", stdin=done.out)
    assert (again.code, again.out.partition("\n\n")[2], again.err) == (0, graph, "")
    report = invoke("run", SHARED, "--json", "-")
    assert json.loads(report.out)["output"] is None
    assert invoke("check", "-", "-q", stdin=text).code == 0
    HTMLParser().feed(invoke("run", SHARED, "-q", "--html", "-").out)
    refused(invoke("run", "-", stdin=""), "no graph")


def test_a_result_is_not_made_worse_by_another_run(tmp_path: Path) -> None:
    """The output is an input: formatted, understood, and with the same rules as good as it gets."""
    first, second, report = tmp_path / "a.tsr", tmp_path / "b.tsr", tmp_path / "r.json"
    source = EXAMPLES / "tiny_own_op.tsr"
    assert invoke("run", source, "-q", "-o", first, "--json", report).code == 0
    found = json.loads(report.read_text())["cost"]["after"]
    assert "op gemm" in first.read_text()  # what the graph needs comes with it
    assert invoke("fmt", "--check", first).code == 0
    done = invoke("run", first, "-q", "-o", second, "--json", report, "--rules", "standard")
    assert done.code == 0
    cost = json.loads(report.read_text())["cost"]
    assert cost["before"] == pytest.approx(found)
    assert cost["after"] <= cost["before"]


def test_verbose() -> None:
    """A table above the summary, in 80 columns wherever it goes."""
    plain, verbose = (invoke("run", SHARED, *more) for more in ([], ["-v"]))
    assert (verbose.code, verbose.err) == (0, "")
    table, _, summary = verbose.out.partition("\n\n")
    assert re.search(r"^iteration 1 +11 +9 +[\d.]+ m?s$", table, re.MULTILINE)
    assert re.search(r"^  merge-matmul +1 +1 +\+4 +[\d.]+ m?s$", table, re.MULTILINE)
    assert max(map(len, table.splitlines())) <= 80
    assert summary.splitlines()[:4] == plain.out.splitlines()[:4]
    assert "iteration 1" not in plain.out
    to_pipe = invoke("run", SHARED, "--verbose", "-o", "-")
    assert "iteration 1" in to_pipe.err
    assert "iteration 1" not in to_pipe.out


def test_verbose_and_quiet(tmp_path: Path) -> None:
    for options in (["-v", "-q"], ["--quiet", "--verbose"]):
        refused(invoke("run", SHARED, *options, "-o", tmp_path / "out.tsr"), "Usage: ", "exclude each other")
    assert list(tmp_path.iterdir()) == []


def test_fusion_is_for_gpus() -> None:
    refused(invoke("run", SHARED, "--device", "cpu", "--fuse"), "Usage: ", "fusion is for GPUs")


def test_what_made_the_e_graph_grow(tmp_path: Path) -> None:
    """The rule that brought most of what reached the limit is named, and what to do about it."""
    sums = " + ".join(f"x{i}" for i in range(8))
    inputs = "\n".join(f"  input x{i} : f32[4]" for i in range(8))
    rules = "rule commute { x + y => y + x }\nrule associate { (x + y) + z => x + (y + z) }\n"
    path = write(tmp_path, f"{rules}graph g {{\n{inputs}\n  output {sums}\n}}\n")
    report = tmp_path / "r.json"
    done = invoke("run", path, "--max-nodes", 300, "--json", report)
    assert done.code == 0
    found = json.loads(report.read_text())
    assert found["stop"] == "nodes"
    most = max(found["growth"], key=found["growth"].get)
    each = [(r["rule"], r["new_nodes"]) for it in found["iterations"] for r in it["rules"]]
    assert found["growth"][most] == sum(n for rule, n in each if rule == most)
    assert re.search(rf"^growth +{most} \+", done.out, re.MULTILINE)
    assert any(note.startswith(f"rule {most} brought ") for note in found["notes"])


def test_tensors_that_no_rule_takes_are_named(tmp_path: Path) -> None:
    deep = "graph g {\n  input x : f32[2, 2, 2, 2, 2, 2, 2]\n  input z : f32[4]\n  y = tanh(x)\n"
    path = write(tmp_path, f"{RULE}{deep}  output relu(relu(y)), relu(relu(z))\n}}\n")
    done = invoke("run", path)
    note = "rules take tensors of up to 6 dimensions, so none applies to x, y, relu_1, out0"
    assert " ".join(done.out.split()).count(note) == 1
    assert "dimensions" not in invoke("run", SHARED).out
