"""``run`` and ``show`` with ONNX models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx
import onnxruntime
from onnx.helper import make_node

from tests.cli.running import EXAMPLES, invoke

from .models import model, random, saved, value
from .refusing import refused

pytestmark = pytest.mark.sampled(6)


def terms(batch: int | str = 4) -> Any:
    """x a + x b, which is x (a + b), and a copy of x that costs nothing to leave out."""
    nodes = [
        make_node("Identity", ["x"], ["same"]),
        make_node("MatMul", ["x", "a"], ["xa"], name="left"),
        make_node("MatMul", ["same", "b"], ["xb"], name="right"),
        make_node("Add", ["xa", "xb"], ["sum"]),
        make_node("Relu", ["sum"], ["y"]),
        make_node("Tanh", ["same"], ["z"]),
    ]
    weights = [random("a", 64, 32), random("b", 64, 32)]
    proto = model(nodes, [value("x", batch, 64)], [value("y", batch, 32), value("z", batch, 64)], weights)
    proto.metadata_props.add(key="author", value="somebody")
    proto.doc_string = "two products"
    return proto


def test_run_makes_a_faster_model(tmp_path: Path) -> None:
    path, out, report = saved(tmp_path, terms()), tmp_path / "out.onnx", tmp_path / "report.json"
    done = invoke("run", path, "-o", out, "--json", report, "--device", "h100")
    assert (done.code, done.err) == (0, "")
    assert "6 nodes, none of them opaque" in done.out
    assert "agrees: largest error" in done.out
    made, before = onnx.load(out), onnx.load(path)
    assert [n.op_type for n in made.graph.node] == ["Tanh", "MatMul", "Relu"]
    assert [w.dims for w in made.graph.initializer] == [[64, 32]]
    assert list(made.graph.input) == list(before.graph.input)
    assert list(made.graph.output) == list(before.graph.output)
    assert (made.metadata_props, made.doc_string) == (before.metadata_props, before.doc_string)
    told = json.loads(report.read_text())
    assert told["output"] == str(out)
    said = {"nodes": 6, "opaque": 0, "opset": 17, "converted_from": None, "reasons": []}
    assert told["model"] == {**said, "dims": {}, "typical": [], "ranges": {}, "mix": {}, "sizes": ""}
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    results = [onnxruntime.InferenceSession(str(p)).run(None, {"x": x}) for p in (path, out)]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_function_of_the_standard_domain(tmp_path: Path) -> None:
    """It stays a function, though an operator has its name."""
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Relu", ["a"], ["b"]), make_node("Exp", ["b"], ["y"])]
    proto = model(nodes, [value("x", 3)], [value("y", 3)])
    body = [make_node("Sign", ["a"], ["s"]), make_node("Neg", ["s"], ["b"])]
    opsets = [onnx.helper.make_opsetid("", 17)]
    proto.functions.append(onnx.helper.make_function("", "Exp", ["a"], ["b"], body, opsets))
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, proto), "--no-measure", "-o", out)
    assert (done.code, done.err) == (0, "")
    assert "Exp (the model has a function of this name) ×1" in " ".join(done.out.split())
    made = onnx.load(out)
    assert [n.op_type for n in made.graph.node] == ["Relu", "Exp"]
    assert [(f.domain, f.name) for f in made.functions] == [("", "Exp")]
    onnx.checker.check_model(made)


def test_an_operator_that_the_opset_lacks(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Gelu", ["a"], ["y"])]
    path = saved(tmp_path, model(nodes, [value("x", 3)], [value("y", 3)]))
    refused(path, say="the node Gelu that gives y is not valid: No Op registered for Gelu")


def test_what_stood_in_the_way_is_said(tmp_path: Path) -> None:
    """An operator that is not known, a form of one that is, and a model that does not run on what is drawn for it."""
    nodes = [
        make_node("Sign", ["x"], ["a"]),
        make_node("Pow", ["a", "three"], ["b"]),
        make_node("Relu", ["b"], ["b2"]),
        make_node("Relu", ["b2"], ["c"]),
        make_node("Reshape", ["c", "shape"], ["y"]),
    ]
    three = onnx.numpy_helper.from_array(np.array([1, 2, 3], np.float32), "three")
    inputs = [value("x", 2, 3), value("shape", 3, dtype=onnx.TensorProto.INT64)]
    path, out = saved(tmp_path, model(nodes, inputs, [value("y", 3, 2, 1)], [three])), tmp_path / "out.onnx"
    done = invoke("run", path, "-o", out)
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "5 nodes, 2 of them opaque (40%): Pow (input 1 is not one number) ×1, Sign ×1" in said
    assert "the original can't be timed: it does not run" in said
    assert out.read_bytes() == Path(path).read_bytes(), "the answer is the model itself"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert done.code == 0
    assert "out.onnx is not compared with the original: it does not run" in done.err


def test_a_file_that_grows_is_said_to(tmp_path: Path) -> None:
    """Two weights are added up, and needed as they are, too."""
    nodes = [*terms().graph.node[:5], *(make_node("MatMul", ["z0", w], [f"z{w}"]) for w in "ab")]
    weights = [random("a", 64, 32), random("b", 64, 32)]
    inputs = [value("x", 4, 64), value("z0", 4, 64)]
    path = saved(
        tmp_path, model(nodes, inputs, [value("y", 4, 32), value("za", 4, 32), value("zb", 4, 32)], weights)
    )
    done = invoke("run", path, "-o", tmp_path / "out.onnx", "--device", "h100")
    assert done.code == 0
    assert "model size    16.3 KiB -> 24.4 KiB" in done.out


def test_a_model_that_does_not_load_is_said_not_to(tmp_path: Path) -> None:
    """.. although it is written as it was read."""
    nodes = [make_node("Secret", ["x"], ["y"], domain="acme")]
    proto = model(nodes, [value("x", 2)], [value("y", 2)], domains={"acme": 1})
    out = tmp_path / "out.onnx"
    done = invoke("run", saved(tmp_path, proto), "-o", out, "--no-measure")
    said = f"warning: {out} is not compared with the original: ONNX Runtime does not load either of them: "
    assert (done.code, done.err[: len(said)]) == (0, said)
    assert "acme:Secret" in done.err


def test_open_dimensions_stay_open(tmp_path: Path) -> None:
    path, out = saved(tmp_path, terms("batch")), tmp_path / "out.onnx"
    assert invoke("run", path, "-o", out, "--dim", "batch=4", "--device", "h100", "-q").code == 0
    session = onnxruntime.InferenceSession(str(out))
    assert [i.shape for i in (*session.get_inputs(), *session.get_outputs())] == [
        ["batch", 64],
        ["batch", 32],
        ["batch", 64],
    ]
    assert session.run(None, {"x": np.zeros((7, 64), np.float32)})[0].shape == (7, 32)


def test_show_prints_a_file_that_can_be_read(tmp_path: Path) -> None:
    nodes = [
        make_node("Conv", ["the input:0", "w.1"], ["c/1"], pads=[1, 1, 1, 1]),
        make_node("HardSwish", ["c/1"], ["h"]),
        make_node("TopK", ["h", "k"], ["best", "where"]),
        make_node("Relu", ["best"], ["relu"]),
    ]
    k = onnx.numpy_helper.from_array(np.array([2], np.int64), "k")
    outputs = [value("relu", 1, 4, 8, 2)]
    path = saved(
        tmp_path, model(nodes, [value("the input:0", 1, 3, 8, 8)], outputs, [random("w.1", 4, 3, 3, 3), k])
    )
    shown = invoke("show", path)
    assert (shown.code, shown.err) == (0, "")
    text = tmp_path / "model.tsr"
    text.write_text(shown.out)
    assert invoke("fmt", "--check", text).code == 0
    assert invoke("check", text).code == 0
    assert invoke("show", text).out == shown.out
    for option in (["--dot"], ["--egglog"], ["--list", "rules"], ["--list", "ops"]):
        assert invoke("show", path, *option).code == 0


def test_run_writes_an_optimized_model_as_text_too(tmp_path: Path) -> None:
    out = tmp_path / "out.tsr"
    assert invoke("run", saved(tmp_path, terms()), "-o", out, "-q").code == 0
    assert invoke("check", out).code == 0


@pytest.mark.parametrize("name", ["tiny_share_input", "squeezenet"])
def test_a_graph_of_the_language_becomes_a_model(name: str, tmp_path: Path) -> None:
    """With random weights, which are the same for the same seed."""
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    for out in (first, second):
        done = invoke("run", EXAMPLES / f"{name}.tsr", "-o", out, "--max-iters", 1)
        assert (done.code, done.err) == (0, "")
        assert "random, seed 0" in done.out
    assert first.read_bytes() == second.read_bytes()
    onnx.checker.check_model(first, full_check=True)
    session = onnxruntime.InferenceSession(str(first))
    feeds = {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()}
    assert all(np.isfinite(y).all() for y in session.run(None, feeds))


@pytest.mark.parametrize(
    "program",
    [
        "opaque op own(x: tensor) { shape shape(x) }\ngraph g {\n  input x : f32[2]\n  output own(x)\n}\n",
        "opaque op own(x: tensor) -> (a, b) { shape a = shape(x)\n shape b = shape(x) }\n"
        "graph g {\n  input x : f32[2]\n  (a, b) = own(x)\n  output a\n}\n",
    ],
)
def test_an_opaque_operator_of_the_language_has_no_counterpart(program: str, tmp_path: Path) -> None:
    text = tmp_path / "own.tsr"
    text.write_text(program)
    done = invoke("run", text, "-o", tmp_path / "out.onnx", "-q")
    assert done.code == 2
    assert "`own` can't be written to ONNX" in done.err
    assert [p.name for p in tmp_path.iterdir()] == ["own.tsr"]


def test_outputs_that_weights_alone_decide(tmp_path: Path) -> None:
    """A weight, and what is computed of weights, are outputs and used elsewhere as well."""
    text, out = tmp_path / "graph.tsr", tmp_path / "out.onnx"
    body = ("input x : f32[4]", "weight a : f32[4]", "v = relu(a)", "w = x + v", "output w, v, a")
    text.write_text("graph g {\n" + "\n".join(body) + "\n}\n", encoding="utf-8")
    assert invoke("run", text, "--no-measure", "-o", out).code == 0
    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    w, v, a = session.run(["w", "v", "a"], {"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(v, np.maximum(a, 0))
    np.testing.assert_array_equal(w, v + 1)
