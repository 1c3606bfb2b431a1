"""Fusion: what is found, that it is the same function, and that answers with it can be written and read."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensat_dl
from tensat_dl.core.egraph import without_choices
from tensat_dl.core.graph import Graph, GraphBuilder, TensorType
from tensat_dl.cost import CostModel, load_device
from tensat_dl.extract.api import extract
from tensat_dl.extract.rebuild import rebuild
from tensat_dl.fuse.fuse import extended, fuse, unfused
from tensat_dl.fuse.terms import MOST_OPERATORS, MOST_TENSORS
from tensat_dl.lang.program import load_program
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.resources import rules
from tensat_dl.verify.execute import execute
from tensat_dl.verify.weights import draw_values
from tests.cli.running import invoke
from tests.run.graphs import gru

OPS = load_program(str(rules() / "ops.tsr")).ops
DEVICE = load_device("h100")
TYPE = TensorType("f32", (8, 16))

pytestmark = pytest.mark.sampled(3)


def graph_of(steps: list[tuple[str, int, int]], inputs: int) -> Graph:
    """A graph of unary and binary operators, each on earlier values; all that nobody reads are outputs."""
    b = GraphBuilder("g")
    for i in range(inputs):
        b.add("input", (), (("name", f"x{i}"), ("dtype", "f32"), ("shape", TYPE.shape)), (TYPE,))
    for op, left, right in steps:
        count = len(b.nodes)
        operands = (left % count, right % count) if op.startswith("ew") else (left % count,)
        b.add(op, operands, (), (TYPE,))
    read = {j for n in b.nodes for j in n.inputs}
    return b.finish([(f"y{i}", i) for i in range(len(b.nodes)) if i not in read and b.nodes[i].op != "input"])


steps = st.lists(
    st.tuples(
        st.sampled_from(["ewadd", "ewmul", "tanh", "sigmoid", "relu"]), st.integers(0, 99), st.integers(0, 99)
    ),
    min_size=1,
    max_size=12,
)


def best(graph: Graph, fusing: bool) -> tuple[float, Graph, object]:
    egraph, ops = without_choices(graph), OPS
    declared: object = {}
    if fusing:
        found = fuse(egraph, OPS, DEVICE)
        egraph, ops, declared = found.egraph, found.ops, found.declared
    priced = CostModel(ops, DEVICE).price(egraph)[0]
    extraction = extract(priced)
    return extraction.cost, rebuild(priced, extraction, graph)[0], (ops, declared)


@given(steps)
@settings(max_examples=25, deadline=None)
def test_fused_graphs_compute_the_same_for_less(drawn: list[tuple[str, int, int]]) -> None:
    graph = graph_of(drawn, 3)
    if not graph.outputs:
        return
    before, _, _ = best(graph, fusing=False)
    after, fused, (ops, declared) = best(graph, fusing=True)  # type: ignore[misc]
    assert after <= before * (1 + 1e-12)
    values = draw_values([graph], 0, {})
    for x, y in zip(
        execute(graph, values, semantics_of(OPS)), execute(fused, values, semantics_of(ops)), strict=True
    ):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    apart = unfused(fused, ops, declared)
    assert {n.op for n in apart.nodes} <= set(OPS)
    assert len(apart.nodes) <= len(graph.nodes), "equal nodes are shared again"


def test_a_chain_is_one_kernel() -> None:
    graph = graph_of([("ewadd", 0, 1), ("tanh", 3, 0), ("ewmul", 4, 2)], 3)
    cost, fused, _ = best(graph, fusing=True)
    (node,) = [n for n in fused.nodes if n.op != "input"]
    assert node.op.startswith("fused_ewmul_")
    # one launch, and the bytes at the ends
    assert cost == pytest.approx(DEVICE.launch_ms + 1e3 * 4 * TYPE.nbytes / DEVICE.bandwidth)


def test_a_long_chain_takes_as_few_kernels_as_its_length_asks_for() -> None:
    length = 2 * MOST_OPERATORS + 3
    graph = graph_of([("tanh" if i % 2 else "sigmoid", i, 0) for i in range(length)], 1)
    _, fused, _ = best(graph, fusing=True)
    assert sum(n.op != "input" for n in fused.nodes) == math.ceil(length / MOST_OPERATORS)


def test_no_term_reads_too_many_tensors() -> None:
    steps_ = [("ewadd", 0, 1)] + [("ewadd", 11 + i, 2 + i) for i in range(1, 9)]
    graph = graph_of(steps_, 12)
    found = fuse(without_choices(graph), OPS, DEVICE)
    assert max(len(found.ops[name].inputs) for name in found.declared) <= MOST_TENSORS


def test_what_is_broadcast_is_not_computed_for_each_place() -> None:
    b = GraphBuilder("g")
    small = TensorType("f32", (16,))
    x = b.add("input", (), (("name", "x"), ("dtype", "f32"), ("shape", TYPE.shape)), (TYPE,))
    v = b.add("input", (), (("name", "v"), ("dtype", "f32"), ("shape", small.shape)), (small,))
    t = b.add("tanh", (v,), (), (small,))
    graph = b.finish([("y", b.add("ewadd", (x, t), (), (TYPE,)))])
    assert not fuse(without_choices(graph), OPS, DEVICE).declared


def test_e_classes_and_the_input_program_stay() -> None:
    graph = graph_of([("ewadd", 0, 1), ("tanh", 3, 0), ("ewmul", 4, 2)], 3)
    egraph = without_choices(graph)
    found = fuse(egraph, OPS, DEVICE).egraph
    assert found.num_classes == egraph.num_classes
    assert found.num_nodes > egraph.num_nodes
    for old, new in zip(egraph.source.tolist(), found.source.tolist(), strict=True):
        assert (egraph.op[old], egraph.children_of(old)) == (found.op[new], found.children_of(new))
        assert egraph.node_class[old] == found.node_class[new]


CELL = """
graph cell {
  input x : f32[1, 64]
  input c : f32[1, 64]
  for i in 0..3 { weight w[i] : f32[64, 64] }
  next = sigmoid(x @ w[0]) * c + sigmoid(x @ w[1]) * tanh(x @ w[2])
  output next, hardswish(tanh(next) + 1.0)
}
"""


def test_answers_are_written_and_read_back(tmp_path: Path) -> None:
    file, out, again = (tmp_path / name for name in ("cell.tsr", "out.tsr", "again.tsr"))
    file.write_text(CELL)
    done = invoke(
        "run", file, "--fuse", "-o", out, "--html", tmp_path / "r.html", "--signatures", tmp_path / "s.json"
    )
    assert done.code == 0, done.err
    assert "equivalent" in done.out
    text = out.read_text()
    assert "op fused_" in text
    assert '"definition"' in (tmp_path / "s.json").read_text()
    done = invoke("check", out)
    assert done.code == 0, done.err
    assert " --fuse\n" in text, "how it was made"
    done = invoke("why", out)
    assert done.code == 0, done.err
    done = invoke("run", file, "--fuse", "-q", "-o", again)
    for line, other in itertools.zip_longest(text.splitlines(), again.read_text().splitlines()):
        assert line == other or str(line).startswith("// made by")


def test_a_gated_cell_is_one_kernel(tmp_path: Path) -> None:
    """The state of a step is read by a product, so the next step does not compute it again."""
    path = tmp_path / "gru.tsr"
    path.write_text("""graph gru {
  input h : f32[8, 64]
  for t in 0..2 { for g in 0..3 { input x[3 * t + g] : f32[8, 64] } }
  for g in 0..3 { weight u[g] : f32[64, 64] }
  for t in 0..2 {
    z = sigmoid(x[3 * t] + h @ u[0])
    n = tanh(x[3 * t + 2] + sigmoid(x[3 * t + 1] + h @ u[1]) * (h @ u[2]))
    h = n - z * n + z * h
  }
  output h
}
""")
    model = tensat_dl.load(str(path))
    _, fused, _ = best(model.graph, fusing=True)
    assert Counter(n.op.split("_")[0] for n in fused.nodes)["fused"] == 2


def test_a_kernel_computes_nothing_twice(tmp_path: Path) -> None:
    """The e-graph has x + b + u and x + u + b in one e-class, and the kernel needs it in two places."""
    path = tmp_path / "g.tsr"
    path.write_text(f'import "standard"\ngraph g {{\n{gru(1, 64)}\n}}\n')
    model = tensat_dl.load(str(path))
    answer = tensat_dl.optimize(model, verify=False, fuse=True)
    whole = unfused(answer.after.graph, extended(model.ops, answer.declared), answer.declared)
    assert Counter(n.op for n in whole.nodes)["tanh"] == 4
