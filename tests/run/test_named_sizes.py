"""Optimized graphs with named sizes: right at every size, written with names, no costlier at either end."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tensat_dl
from tensat_dl import Model, Result, TsrError
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.run.result import AnswerAtSizes
from tensat_dl.sizes.answers import NotOpen, OtherSizes
from tensat_dl.verify.equivalence import compare
from tests.cli.running import invoke
from tests.lang.test_named_sizes import drawn

STANDARD = 'import "standard"\n'


def read(text: str, **sizes: int) -> Model:
    return tensat_dl.load(text=STANDARD + text, dims=sizes or None)


def sizes_of(result: Result) -> AnswerAtSizes:
    assert result.sizes is not None
    return result.sizes


def right(model: Model) -> Result:
    """The optimized graph of a model, written, read back, and compared with the model at every size."""
    result = tensat_dl.optimize(model, max_nodes=2000)
    assert model.opened is not None
    text = model.answer_text(result, "answer.tsr")
    again = tensat_dl.load(text=text)
    assert again.opened is not None
    assert again.opened.sizes == model.opened.sizes
    assert again.text(again.graph, opened=again.opened).strip() in text
    for values in product(*(range(s.low, s.high + 1) for s in model.opened.sizes)):
        there = dict(zip((s.name for s in model.opened.sizes), values, strict=True))
        before, after = model.opened.at(there), again.opened.at(there)
        found = compare(before, after, semantics_of(again.ops))
        assert found.status == "equivalent", (there, found)
    return result


HEADS = """
graph heads(n: 1..9 = 4) {
  input x : f32[n, 12]
  weight w : f32[12, 12]
  weight v : f32[12, 12]
  h = reshape(x @ w; shape = [n, 3, 4])
  output reshape(relu(h); shape = [n * 3, 4]), relu(x @ v)
}
"""


AT_ONE = """
graph attention(n: 1..9 = 1) {
  input x : f32[n, 12]
  weight w : f32[12, 12]
  weight v : f32[12, 12]
  scores = softmax((x @ w) @ transpose(x @ v; perm = [1, 0]); axis = -1)
  output scores @ x, reduce_sum(x; axis = 0)
}
"""


def test_what_one_element_leaves_out_costs_no_gain() -> None:
    """A softmax over one element is 1, and a sum of one is the element: an answer for all sizes has neither rule."""
    result = right(read(AT_ONE))
    assert result.after.total < result.before.total


def test_the_answer_is_written_with_names() -> None:
    model = read(HEADS)
    result = right(model)
    assert result.after.total < result.before.total
    text = model.answer_text(result, "answer.tsr")
    assert "graph heads(n: 1..9 = 4) {" in text
    assert "input x : f32[n, 12]" in text
    assert "shape = [n * 3, 4]" in text


def test_the_sizes_that_were_compared() -> None:
    result = tensat_dl.optimize(read(HEADS))
    found = sizes_of(result).elsewhere
    assert [at.sizes["n"] for at in found][:2] == [1, 5]
    assert found[-1].sizes == {"n": 9}
    assert len(found) == 4
    assert all(at.equivalence is not None and at.equivalence.status == "equivalent" for at in found)
    ends = [at for at in found if at.costs is not None]
    assert [at.sizes["n"] for at in ends] == [1, 9]
    assert all(at.costs is not None and at.costs[1] < at.costs[0] for at in ends)
    assert "compared for n = 1, 5, " in result.summary()


def test_sizes_that_are_too_large_to_run_are_told() -> None:
    result = tensat_dl.optimize(read(HEADS.replace("1..9", "1..2147483647")))
    assert "; not for n = 2147483647, where they would run for long" in " ".join(result.summary().split())


def test_without_verification_nothing_is_compared() -> None:
    result = tensat_dl.optimize(read(HEADS), verify=False)
    assert all(at.equivalence is None for at in sizes_of(result).elsewhere)
    assert "not compared for others" in result.summary()


BODIES = {
    "halves": (
        "n: 2..9 = 4",
        "input x : f32[n, 4]\nweight w : f32[4, 4]\n(a, b) = split(x; axis = 0, sizes = [n / 2, n - n / 2])\n"
        "output relu(a @ w), relu(b @ w)",
    ),
    "the ends of a concat": (
        "n: 1..9 = 4",
        "input x : f32[n, 4]\ninput y : f32[n, 4]\nc = concat(x, y; axis = 0)\n"
        "output relu(slice(c; axis = 0, start = 0, stop = n)), relu(slice(c; axis = 0, start = n, stop = n * 2))",
    ),
    "same padding": (
        "n: 3..9 = 5",
        "input x : f32[1, 2, n, n]\nweight w : f32[4, 2, 3, 3]\noutput relu(conv2d(x, w; stride = 2, pads = same))",
    ),
    "constants": (
        "n: 1..9 = 4",
        "input x : f32[n, 4]\nweight z : f32[n, 4] = 0.0\nweight o : f32[n, 4] = 1.0\noutput (x + z) * o, x - x",
    ),
    "a batch": (
        "b: 1..3 = 2, n: 1..4 = 3",
        "input x : f32[b, n, 4]\nweight w : f32[4, 4]\nweight v : f32[4, 4]\noutput relu(x @ w), relu(x @ v)",
    ),
    "products of a batch": (
        "b: 1..3 = 2, n: 1..4 = 3",
        "input x : f32[b, n, 4]\ninput y : f32[b, 4, n]\noutput relu(transpose(x @ y; perm = [0, 2, 1]))",
    ),
    "equal by default": (
        "n: 1..4 = 2, m: 1..4 = 2",
        "input x : f32[n, m]\noutput relu(relu(reshape(reshape(x; shape = [n * m]); shape = [m, n])))",
    ),
    "one broadcasts": (
        "n: 1..5 = 1",
        "input x : f32[n, 4]\ninput y : f32[1, 4]\noutput relu(relu(x * y + x))",
    ),
    "one size": ("n: 3..3 = 3", "input x : f32[n, 4]\noutput relu(relu(x))"),
    "identity": ("n: 2..9 = 4", "input x : f32[n, 8]\noutput eye(; n = n, dtype = f32) @ x, x"),
    "zero at the default": (
        "n: 4..9 = 4",
        "input x : f32[n, 4]\ny = relu(relu(pad(x; before = [n - 4, 0], after = [1, 0])))\n"
        "output y, slice(y; axis = 0, start = n - 4, stop = n)",
    ),
    "positions": (
        "n: 1..9 = 4",
        "input x : f32[n, 4]\nweight p : f32[16, 4]\nq = slice(p; axis = 0, start = 0, stop = n)\n"
        "output relu(x + q), x + q",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BODIES)
def test_right_at_every_size(name: str) -> None:
    sizes, body = BODIES[name]
    right(read(f"graph g({sizes}) {{\n{body}\n}}"))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_are_right_at_every_size(seed: int) -> None:
    right(read(drawn(seed)))


def test_attributes_that_depend_on_a_size_stay_so() -> None:
    """Ones that are equal at the sizes that are looked at may differ elsewhere."""
    sizes, body = BODIES["same padding"]
    model = read(f"graph g({sizes}) {{\n{body}\n}}")
    result = right(model)
    assert len(result.after.graph.nodes) < len(model.graph.nodes)
    assert "pads = [" in model.answer_text(result, "answer.tsr")


def test_another_graph_that_does_not_hold_is_refused() -> None:
    """[4, 3] with n = 4 as [2, 6] is no graph for n = 5."""
    model = read("graph g(n: 1..9 = 4) { input x : f32[n, 4]; output reshape(x; shape = [n * 2, 2]) }")
    assert model.opened is not None
    other = OtherSizes(model.opened, model.ops)
    named = other.named(model.graph, model.ops)
    assert named.attrs == model.opened.attrs
    wrong = tensat_dl.load(
        text="graph g { input x : f32[4, 4]; output relu(slice(x; axis = 0, start = 1, stop = 3)) }"
    )
    with pytest.raises(NotOpen):
        other.named(wrong.graph, model.ops)


def test_operators_with_several_outputs() -> None:
    text = """
    opaque op both(x: tensor) -> (a, b) {
      shape a = shape(x)
      shape b = [dim(x, 0)]
      dtype a = dtype(x)
      dtype b = dtype(x)
    }
    graph g(n: 1..9 = 4) {
      input x : f32[n, 4]
      weight w : f32[4, 4]
      (a, b) = both(relu(relu(x)))
      output relu(reshape(reshape(a @ w; shape = [n * 2, 2]); shape = [n * 4])), b
    }
    """
    model = read(text)
    result = tensat_dl.optimize(model)
    assert result.after.total < result.before.total
    assert "shape = [n * 4]" in model.answer_text(result, "answer.tsr")


def test_fused_operators() -> None:
    body = "input x : f32[n, 64]\noutput reshape(tanh(relu(x) * x); shape = [n * 2, 32])"
    model = read(f"graph g(n: 1..64 = 32) {{\n{body}\n}}")
    result = tensat_dl.optimize(model, fuse=True)
    assert result.declared
    assert result.after.total < result.before.total
    assert "shape = [n * 2, 32]" in model.answer_text(result, "answer.tsr")


def test_an_interrupt_while_graphs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensat_dl.run import named_sizes

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(named_sizes, "compare", interrupted)
    result = tensat_dl.optimize(read(HEADS))
    assert result.interrupted
    assert result.unverified
    assert sizes_of(result).elsewhere == ()


#: Without the condition that both operands have one row, this is false for more.
FALSE = """
rule sum-of-one-row { reduce_sum(x; axis = 0) where dim(x, 0) == 1 => x }
graph g(n: 1..9 = 1) { input x : f32[n, 4]; output relu(reduce_sum(x; axis = 0)) }
"""


def test_a_rule_that_holds_at_the_default_alone_changes_nothing() -> None:
    result = right(read(FALSE))
    assert result.after.graph == result.before.graph


def test_an_answer_that_is_costlier_at_an_end_is_declined() -> None:
    """(x y) z is cheaper for few rows of x, x (y z) for many."""
    body = "input x : f32[n, 2048]\ninput y : f32[2048, 2048]\ninput z : f32[2048, 2048]\noutput (x @ y) @ z"
    result = tensat_dl.optimize(read(f"graph g(n: 1..8192 = 8192) {{\n{body}\n}}"), verify=False)
    assert result.after == result.before
    assert result.rules_used == ()
    assert result.notes[0].startswith(
        "the cheapest graph is not the answer: for n = 1 it is estimated to take "
    )
    narrow = tensat_dl.optimize(read(f"graph g(n: 4096..8192 = 8192) {{\n{body}\n}}"), verify=False)
    assert narrow.after.total < narrow.before.total
    assert narrow.after.total < result.after.total


# ---- the command line and the interface of Python ---------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "heads.tsr"
    path.write_text(STANDARD + HEADS)
    return path


def test_run_writes_and_why_reads_back(file: Path) -> None:
    out, report = file.with_name("out.tsr"), file.with_name("report.json")
    done = invoke("run", file, "-o", out, "--json", report, "--html", file.with_name("report.html"))
    assert done.code == 0, done.err
    assert "sizes         n = 4 in 1..9; compared for n = 1, 5, " in done.out
    assert "(n: 1..9 = 4)" in out.read_text()
    found = json.loads(report.read_text())["sizes"]
    assert found["names"] == [{"name": "n", "low": 1, "high": 9, "default": 4}]
    assert [at["status"] for at in found["elsewhere"]] == ["equivalent"] * 4
    assert "compared for n = 1, 5, " in file.with_name("report.html").read_text()
    assert invoke("why", out).code == 0
    assert invoke("check", out).code == 0
    assert invoke("fmt", "--check", out).code == 0


def test_a_size_on_the_command_line(file: Path) -> None:
    out = file.with_name("out.tsr")
    done = invoke("run", file, "--dim", "n=7", "-o", out)
    assert done.code == 0, done.err
    assert "made by: tensat-dl run heads.tsr --dim n=7" in out.read_text()
    assert "(n: 1..9 = 7)" in out.read_text()
    assert invoke("why", out).code == 0
    shown = invoke("show", file, "--dim", "n=7")
    assert "graph heads(n: 1..9 = 7) {" in shown.out


@pytest.mark.parametrize("dim", ["n=10", "m=3", "n=1..4", "n=2,4"])
def test_a_size_that_the_graph_does_not_have(file: Path, dim: str) -> None:
    done = invoke("run", file, "--dim", dim)
    assert done.code == 2
    assert f"{file}:" in done.err
    assert "Traceback" not in done.err


def test_a_size_for_a_batch_is_for_the_graphs_that_have_it(file: Path) -> None:
    other = file.with_name("other.tsr")
    other.write_text("graph other { input x : f32[4]; output relu(relu(x)) }")
    out = file.with_name("out")
    done = invoke("batch", file, other, "-o", out, "--dim", "n=7", "--jobs", "1")
    assert done.code == 0, done.err
    assert "(n: 1..9 = 7)" in (out / file.name).read_text()
    assert "graph other {" in (out / other.name).read_text()


def test_sizes_in_python(file: Path) -> None:
    model = tensat_dl.load(file, dims={"n": 7})
    assert {name: str(said) for name, said in model.dims.items()} == {"n": "7"}
    assert model.graph.nodes[0].type.shape == (7, 12)
    result = tensat_dl.optimize(model)
    tensat_dl.save(model, result, file.with_name("out.tsr"))
    assert tensat_dl.explain(model, result).steps
    with pytest.raises(TsrError, match="outside of 1"):
        tensat_dl.load(file, dims={"n": 10})
    with pytest.raises(TsrError, match="all its sizes are known"):
        tensat_dl.load(text="graph g { input x : f32[2]; output relu(x) }", dims={"n": 2})


def test_results_at_a_size_are_those_of_the_graph_there() -> None:
    """By NumPy alone, written out."""
    model = read(
        "graph g(n: 1..9 = 4) { input x : f32[n, 2]; output reshape(relu(relu(x)); shape = [n * 2]) }"
    )
    result = tensat_dl.optimize(model)
    graph = sizes_of(result).after.at({"n": 3})
    from tensat_dl.verify.execute import execute

    x = np.arange(6.0).reshape(3, 2) - 3
    (found,) = execute(graph, {"x": x}, semantics_of(model.ops))
    assert np.array_equal(found, np.maximum(x, 0).reshape(6))
