"""Prices of e-graphs and graphs."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.egraph import without_choices
from tensat_dl.core.graph import TensorType
from tensat_dl.cost import CostModel, Device, Measurement, Profile, Signature, UnpricedError, load_device
from tensat_dl.cost.roofline import roofline
from tensat_dl.cost.signature import parse
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.program import load_program
from tensat_dl.ops.table import OpTable

from .builders import Builder, patient, table, toy
from .test_layout import views


def test_each_node_by_hand() -> None:
    b = Builder()
    x = b.input(2, 4)
    w = b.op("transpose", b.weight(6, 4), perm=(1, 0))
    y = b.op("matmul", x, w)  # 2 * 12 * 4 = 96 operations; 4 * (8 + 24 + 12) = 176 bytes
    cut = b.op("slice", y, axis=1, start=0, stop=3)  # a copy moves 2 * 24 bytes
    z = b.op("relu", cut)  # 2 * 24 bytes
    costs = CostModel(table(), toy()).price_graph(b.graph(z)).cost
    assert costs == (0, 0, 0, 177, 0, 49)
    costs = CostModel(table(), toy()).price_graph(b.graph(z, cut)).cost
    assert costs == (0, 0, 0, 177, 49, 49)


def test_several_outputs() -> None:
    b = Builder()
    x = b.input(10)
    both = b.op("pair", x)  # 40 bytes in, 80 out
    a, c = (b.op("proj", both, index=i) for i in (0, 1))
    y = b.op("ewadd", a, c)
    costs = CostModel(table(), toy()).price_graph(b.graph(y)).cost
    assert costs == (0, 121, 0, 0, 121)


def test_weights_only_classes_cost_nothing() -> None:
    b = Builder()
    x = b.input(2, 4)
    w = b.op("concat", b.weight(4, 3), b.weight(4, 3), axis=1)
    y = b.op("matmul", x, w)
    priced, measured = CostModel(table(), toy()).price(b.egraph(y))
    assert priced.cost.tolist() == [0, 0, 0, 0, 177]
    assert not measured.any()


def test_resident_weights_are_counted_once_where_they_are_read() -> None:
    b = Builder()
    x = b.input(2, 4)
    v, w = b.weight(4, 3), b.weight(4, 3)
    both = b.op("concat", v, w, axis=1)  # 96 bytes; its parts are not needed at run time, except v
    one = b.op("matmul", x, both)
    two = b.op("matmul", x, v)
    three = b.op("matmul", b.op("relu", x), v)
    shown = b.op("relu", w)  # 48 bytes, an output
    assert CostModel(table(), toy()).price_graph(b.graph(one, two, three, shown)).weight_bytes == 96 + 48 + 48


def test_a_measurement_goes_before_the_estimate() -> None:
    b = Builder()
    x = b.input(10)
    y = b.op("relu", x)
    z = b.op("tanh", y)
    shape = b.types[0]
    profile = Profile(
        "toy", {}, {}, {Signature("relu", (), shape, shape, "toy").text: Measurement(7.0, 0.1, 9)}
    )
    priced, measured = CostModel(table(), toy(), profile).price(b.egraph(z))
    assert priced.cost.tolist() == [0, 7, 81]
    assert measured.tolist() == [False, True, False]
    graph = CostModel(table(), toy(), profile).price_graph(b.graph(z))
    assert graph.cost == (0, 7, 81)
    assert graph.measured == (False, True, False)


def test_a_copied_view_can_be_measured_and_a_free_one_needs_not_be() -> None:
    b = Builder()
    t = b.op("transpose", b.input(4, 6), perm=(1, 0))
    y = b.op("relu", t)
    estimate = CostModel(table(), toy())
    assert [s.op for s in estimate.signatures(b.egraph(y))] == ["relu"]
    both = estimate.signatures(b.egraph(y, t))
    assert [s.op for s in both] == ["relu", "transpose"]
    profile = Profile("toy", {}, {}, {s.text: Measurement(3.0, 0.0, 1) for s in both})
    priced, measured = CostModel(table(), toy(), profile).price(b.egraph(y, t))
    assert priced.cost.tolist() == [0, 3, 3]
    assert measured.tolist() == [False, True, True]


def test_each_signature_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    c = b.input(4, 4)
    for _ in range(200):
        c = b.op("relu", b.op("matmul", c, b.weight(4, 4)))
    calls: list[Signature] = []

    def counted(table: OpTable, device: Device, signature: Signature) -> float:
        calls.append(signature)
        return roofline(table, device, signature)

    monkeypatch.setattr("tensat_dl.cost.model.roofline", counted)
    model = CostModel(table(), toy())
    for _ in range(2):
        priced, _ = model.price(b.egraph(c))
        assert len(calls) == 2
        assert np.count_nonzero(priced.cost) == 400


def test_what_was_priced_is_priced_anew_by_another_profile() -> None:
    b = Builder()
    y = b.egraph(b.op("relu", b.input(10)))
    shape = b.types[0]
    key = Signature("relu", (), shape, shape, "toy").text
    model = CostModel(table(), toy())
    (estimate,) = model.price(y)[0].cost[1:]
    measured = model.measured_by(Profile("toy", {}, {}, {key: Measurement(7.0, 0.1, 9)}))
    assert [m.price(y)[0].cost[1] for m in (measured, model, measured.estimated())] == [7, estimate, estimate]


def test_a_pickle_has_no_costs_that_were_looked_up() -> None:
    b = Builder()
    y = b.egraph(b.op("relu", b.input(10)))
    model = CostModel(table(), toy())
    before = pickle.dumps(model)
    costs = model.price(y)[0].cost.tolist()
    assert pickle.dumps(model) == before
    again = pickle.loads(before)
    assert again.device == model.device
    assert again.price(y)[0].cost.tolist() == costs


def test_pricing_changes_only_the_costs() -> None:
    b = Builder()
    e = b.egraph(b.op("relu", b.input(4)))
    priced, _ = CostModel(table(), load_device("cpu")).price(e)
    others = [f.name for f in dataclasses.fields(e) if f.name != "cost"]
    assert all(getattr(priced, name) is getattr(e, name) for name in others)
    assert np.isnan(e.cost).all()


def test_a_reshape_without_strides_is_a_launch() -> None:
    """Only of what is computed at run time."""
    b, cpu = Builder(), load_device("cpu")
    x, w = (b.op("reshape", t, shape=(8, 1)) for t in (b.input(2, 4), b.weight(2, 4)))
    e = b.egraph(b.op("ewadd", x, w))
    priced, measured = CostModel(table(), cpu).price(e)
    found = [c for op, c in zip(e.op, priced.cost.tolist(), strict=True) if op == "reshape"]
    assert sorted(found) == [0, cpu.launch_ms]
    assert not measured.any()


def test_an_operator_that_nobody_declared() -> None:
    b = Builder()
    y = b.op("relu", b.input(4))
    e = dataclasses.replace(b.egraph(y), op=("input", "foreign"))
    with pytest.raises(UnpricedError, match="no operator `foreign` is declared"):
        CostModel(table(), toy()).price(e)
    e = dataclasses.replace(b.egraph(y), types=(b.types[0], ()))
    with pytest.raises(UnpricedError, match="e-class 1 has no type"):
        CostModel(table(), toy()).price(e)


def test_costs_need_neither_solver_nor_engine() -> None:
    """Machines with a GPU often have neither."""
    code = "import sys, tensat_dl.cost; print({'pyscipopt', 'egglog'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@patient
@given(st.data())
def test_a_graph_costs_at_most_what_its_nodes_cost_in_an_egraph(data: st.DataObject) -> None:
    """Whatever an e-graph adds to a graph, alternatives and consumers, no node of the graph gets cheaper."""
    b = Builder()
    first = b.op("relu", b.input(2, 6, 4))
    made = [first]

    def grow(count: int) -> None:
        for _ in range(count):
            c = data.draw(st.sampled_from(made))
            op, attrs, _ = data.draw(views(b.types[c][0].shape))
            ops = st.sampled_from([op, op, op, "relu", "blackbox"])
            kind = data.draw(ops)
            made.append(b.op(kind, c, **dict(attrs if kind == op else ())))

    grow(data.draw(st.integers(1, 6)))
    outputs = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
    costs = CostModel(table(), toy())
    alone = costs.price_graph(b.graph(*outputs))
    own = len(b.types)
    grow(data.draw(st.integers(0, 4)))
    for _ in range(data.draw(st.integers(0, 3))):
        c, d = data.draw(st.sampled_from(made)), data.draw(st.sampled_from(made))
        if b.types[c] == b.types[d]:
            b.also(c, "relu", d)
        b.also(c, "dropout", c)
    egraph, _ = costs.price(b.egraph(*outputs))
    within = egraph.cost[egraph.source[:own]]
    assert (np.array(alone.cost) <= within).all()
    assert alone.total <= within.sum()


def test_weights_are_told_apart_where_they_are_packed() -> None:
    b = Builder()
    x, w = b.input(4, 8), b.weight(8, 8)
    y = b.op("matmul", b.op("matmul", x, w), b.op("transpose", w, perm=(1, 0)))
    z = b.op("matmul", x, b.input(8, 8))
    egraph = b.egraph(y, z)
    plain = CostModel(table(), toy(strided=False)).signatures(egraph)
    packed = CostModel(table(), toy(strided=False, packs=True)).signatures(egraph)
    assert [s.weights for s in plain] == [()]
    assert [s.weights for s in packed] == [(), (1,)]


def test_estimates_do_not_depend_on_measurements_where_weights_are_packed() -> None:
    shape = (TensorType("f32", (2,)),)
    key = Signature("relu", (), shape, shape, "toy").text
    profile = Profile("toy", {}, {}, {key: Measurement(7.0, 0.1, 9)})
    found = [
        CostModel(table(), toy(packs=packs), profile).estimate("relu", (), shape, *shape)
        for packs in (False, True)
    ]
    assert found == [7.0, CostModel(table(), toy()).estimate("relu", (), shape, *shape)]


def test_what_a_profile_lacks_is_priced_like_what_it_has() -> None:
    """Everything that was measured took ten times as long as the data sheet says; so does the rest."""
    model = CostModel(table(), toy(packs=True))
    entries = {}
    for n in range(1, 40):
        t = (TensorType("f32", (n * n,)),)
        s = Signature("relu", (), t, t, "toy")
        entries[s.text] = Measurement(10 * roofline(table(), toy(), s), 0.0, 1)
    known = model.measured_by(Profile("toy", {}, {}, entries))
    t = (TensorType("f32", (3000,)),)
    other = Signature("tanh", (), t, t, "toy")
    assert known.cost(other).ms == pytest.approx(10 * model.cost(other).ms, rel=0.1)
    assert not known.cost(other).measured
    assert known.estimated().cost(other) == model.cost(other)
    assert known.estimate("tanh", (), t, t[0]) == model.estimate("tanh", (), t, t[0]), "what is tried stays"


def test_the_input_is_measured_first_then_what_is_costly() -> None:
    b = Builder()
    x = b.input(4)
    y = b.op("relu", x)
    wide = b.op("concat", y, y, axis=0)
    wider = b.op("concat", wide, wide, axis=0)
    cut = b.op("slice", wider, axis=0, start=0, stop=4)
    egraph = b.egraph(y, cut)
    source = np.array([int(n) if egraph.op[n] in ("input", "relu") else -1 for n in range(egraph.num_nodes)])
    egraph = dataclasses.replace(egraph, source=source)
    model = CostModel(table(), toy())
    assert [s.outputs[0].size for s in model.unknown(egraph)] == [4, 16, 8]
    assert {s.text for s in model.unknown(egraph)} == {s.text for s in model.signatures(egraph)}
    entries = {model.unknown(egraph)[1].text: Measurement(1.0, 0.0, 1)}
    model = dataclasses.replace(model, profile=Profile("toy", {}, {}, entries))
    assert [s.outputs[0].size for s in model.unknown(egraph)] == [4, 8]


def test_compositions_of_one_name_are_told_apart_by_what_they_compute(tmp_path: Path) -> None:
    """.. also where only an operator differs that they are made of; and not by how they are written."""
    texts = [
        "op inner(x: tensor) = relu(x)\nop outer(x: tensor) = inner(x) + 1.0",
        "op inner(x: tensor) = tanh(x)\nop outer(x: tensor) = inner(x) + 1.0",
        "op inner(x: tensor) = relu(x)\nop outer(x: tensor) = inner(x) + 2.0",
        "op inner(x: tensor) = relu(x)\n/// One more.\nop outer(x: tensor) = ewadd(inner(x), 1.00)",
        "op inner(x: tensor) = relu(x)\nop outer(x: tensor) = (inner(x)) + 1.00  // written otherwise",
    ]
    found = []
    for i, text in enumerate(texts):
        file = tmp_path / f"{i}.tsr"
        file.write_text(f"{text}\ngraph g {{ input x : f32[4]\n output outer(x) }}")
        program = load_program(str(file))
        (item,) = program.graphs.values()
        graph = elaborate(item, program.ops, program.blocks)
        (signature,) = CostModel(program.ops, toy()).signatures(without_choices(graph))
        assert parse(signature.text) == signature
        found.append(signature.text)
    assert len(set(found[:4])) == 4
    assert found[0] == found[4]
