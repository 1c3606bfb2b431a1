"""Models of operator sets from before those that are read: converted, optimized, compared with the file as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx.helper import make_node

from tensat_dl.onnx.importer import import_model
from tests.cli.running import invoke

from .models import model, operators, random, read, rewriting, round_trip, saved, tensor, value
from .refusing import refused

pytestmark = pytest.mark.sampled(4)

#: Networks without their weights, as the onnx package brings them for its own tests.
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def old() -> Any:
    """What opset 9 writes otherwise: bounds and paddings as attributes, axes of a slice, initialisers as inputs."""
    nodes = [
        make_node("Pad", ["x"], ["p"], mode="constant", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5),
        make_node("Conv", ["p", "w", "b"], ["c"], kernel_shape=[3, 3]),
        make_node("Clip", ["c"], ["k"], min=0.0, max=6.0),
        make_node("Slice", ["k"], ["s"], axes=[2, 3], starts=[1, 0], ends=[5, -1]),
        make_node("Upsample", ["s", "f"], ["u"], mode="nearest"),
        make_node("Dropout", ["u"], ["d"], ratio=0.5),
        make_node("Neg", ["d"], ["n"]),
        make_node("Neg", ["n"], ["y"]),
    ]
    weights = [random("w", 4, 3, 3, 3), random("b", 4), tensor("f", [1, 1, 2, 2])]
    proto = model(nodes, [value("x", 1, 3, 6, 6)], [value("y", 1, 4, 8, 10)], weights, opset=9)
    proto.graph.input.extend([value("w", 4, 3, 3, 3), value("b", 4), value("f", 4)])
    proto.ir_version = 3
    onnx.checker.check_model(proto)
    return proto


def test_operators_are_read_in_their_newer_forms(tmp_path: Path) -> None:
    imported = read(tmp_path, old())
    assert (imported.older, dict(imported.unmapped)) == (9, {})
    assert operators(imported.graph) == ["pad", "conv2d", "clip", "slice", "slice", "upsample", "neg", "neg"]
    assert [n.attr("name") for n in imported.graph.nodes if n.op == "input"] == ["x"]
    found = rewriting(tmp_path, imported)
    assert (found.status, found.message) == ("agrees", "")


def test_the_summary_says_so(tmp_path: Path) -> None:
    path, out = saved(tmp_path, old()), tmp_path / "faster.onnx"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert "8 nodes, converted from opset 9 to 11, none of them opaque" in " ".join(done.out.split())
    assert "agrees: largest error" in done.out


@pytest.mark.parametrize(
    ("mode", "scales"),
    [("linear", [2, 2]), ("nearest", [1.5, 2]), ("nearest", [0.3, 0.7]), ("nearest", [0.5, 2])],
)
def test_images_are_resized_as_before(mode: str, scales: list[float], tmp_path: Path) -> None:
    """Since opset 11 the default is to look at the centres of pixels."""
    nodes = [make_node("Resize", ["x", "f"], ["r"], mode=mode)]
    nodes += [make_node("Neg", ["r"], ["n"]), make_node("Neg", ["n"], ["y"])]
    sizes = [int(n * s) for n, s in zip((14, 16), scales, strict=True)]
    weights = [tensor("f", [1, 1, *scales])]
    proto = model(nodes, [value("x", 1, 2, 14, 16)], [value("y", 1, 2, *sizes)], weights, opset=10)
    path, out = saved(tmp_path, proto), tmp_path / "faster.onnx"
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert "Neg" not in {n.op_type for n in onnx.load(out).graph.node}


def test_a_model_that_stays_as_it_is_is_not_converted(tmp_path: Path) -> None:
    proto = model([make_node("Relu", ["x"], ["y"])], [value("x", 2)], [value("y", 2)], opset=7)
    path, out = saved(tmp_path, proto), tmp_path / "faster.onnx"
    assert invoke("run", path, "-o", out, "--no-measure").code == 0
    assert onnx.load(out).opset_import[0].version == 7


def test_folded_weights_of_an_old_ir_version(tmp_path: Path) -> None:
    """Version 3 has no weights that are not inputs."""
    nodes = [make_node("MatMul", ["x", "w"], ["m"]), make_node("MatMul", ["m", "w"], ["y"])]
    proto = model(nodes, [value("x", 2, 8)], [value("y", 2, 8)], [random("w", 8, 8)], opset=11)
    proto.graph.input.append(value("w", 8, 8))
    proto.ir_version = 3
    path, out = saved(tmp_path, proto), tmp_path / "faster.onnx"
    done = invoke("run", path, "-o", out, "--no-measure", "-q")
    assert (done.code, done.err) == (0, "")
    written = onnx.load(out)
    assert [n.op_type for n in written.graph.node] == ["MatMul"]
    assert written.ir_version == 4
    onnx.checker.check_model(written)


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    names = ["x", "scale", "bias", "mean", "var"]
    node = make_node("BatchNormalization", names, ["y"], spatial=0)
    inputs = [value("x", 2, 3), *(value(name, 3) for name in names[1:])]
    proto = model([node], inputs, [value("y", 2, 3)], opset=7)
    refused(
        saved(tmp_path, proto), say="the model has opset 7, and can't be converted to 11:", hint="export it"
    )


def test_external_data(tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "elsewhere" / "faster.onnx"
    out.parent.mkdir()
    onnx.save(old(), path, save_as_external_data=True, location="weights.bin", size_threshold=100)
    done = invoke("run", path, "-o", out, "--no-measure")
    assert (done.code, done.err) == (0, "")
    assert "agrees: largest error" in done.out


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50"])
def test_networks_of_opset_9(name: str, tmp_path: Path) -> None:
    imported = import_model(str(LIGHT / f"light_{name}.onnx"), {})
    assert imported.older == 9
    assert {op for op, _ in imported.unmapped} == {"ConstantOfShape"}
    assert round_trip(tmp_path, imported).status == "agrees"
