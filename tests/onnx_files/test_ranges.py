"""Ranges of open dimensions: an answer holds there, and nothing is looked at beyond."""

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
from onnx import TensorProto, helper
from onnx.helper import make_node

import tensat_dl
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.onnx.agreement import FURTHER, Reference, further
from tensat_dl.onnx.importer import import_model
from tensat_dl.onnx.ranges import METADATA
from tensat_dl.sizes.dim_sizes import DimSizes
from tests.cli.running import invoke

from .models import model, random, read, saved, tensor, value
from .open_models import attention


def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, n))


@pytest.mark.parametrize("low", [1, 2, 7, 90])
@pytest.mark.parametrize("width", [0, 1, 2, 3, 20, 400])
def test_other_sizes_lie_in_the_range(low: int, width: int) -> None:
    within = DimSizes((), low, low + width)
    for size in {low, low + width // 2, low + width}:
        found = list(further(size, within))
        assert len(set(found)) == len(found) >= min(FURTHER, width)
        assert all(n in within and n != size for n in found)
        compared = found[:FURTHER]
        assert low in (*compared, size)
        if any(is_prime(n) for n in range(low, low + width + 1) if n != size):
            assert any(map(is_prime, compared)), (size, within, found)


@pytest.mark.parametrize(
    ("said", "size", "others"),
    [
        ("1..512", 128, [1, 131, 256]),
        ("1..200", 128, [1, 64, 131]),
        ("1..128", 128, [1, 64, 127]),
        ("100..130", 128, [100, 127, 130]),
        ("300..400", 300, [301, 307, 400]),
        ("64..64", 64, []),
    ],
)
def test_models_are_compared_in_the_range(said: str, size: int, others: list[int], tmp_path: Path) -> None:
    path = saved(tmp_path, model([make_node("Relu", ["x"], ["y"])], [value("x", 3, "seq")], ["y"]))
    imported = import_model(path, {"seq": said})
    assert dict(imported.dims) == {"seq": size}
    found = Reference.of(imported, 0)._others()
    assert sorted(sizes["seq"] for sizes, _ in found) == others


def test_sizes_that_are_timed_lie_in_the_range(tmp_path: Path) -> None:
    for said, expected in (("1..512", 256), ("1..150", 64), ("100..130", 100)):
        found = Reference.of(read(tmp_path, attention(2), {"seq": said}), 0).feeds_elsewhere
        assert found is not None
        assert found[1]["x"].shape == (2, expected, 64)


def test_typical_sizes_lie_in_the_range(tmp_path: Path) -> None:
    imported = read(tmp_path, attention(), {"seq": "1..100", "batch": "16..32"})
    assert dict(imported.dims) == {"batch": 16, "seq": 64}
    assert imported.sizes() == (
        "batch = 16, seq = 64 (typical sizes; --dim gives others); for batch = 16..32, seq = 1..100 only"
    )
    assert imported.to_json()["ranges"] == {"batch": [16, 32], "seq": [1, 100]}


def longer_than(limit: int) -> Any:
    """exp(x) of sequences up to a length, else x."""
    yes = helper.make_graph([make_node("Exp", ["x"], ["a"])], "yes", [], [value("a", 2, "seq")])
    no = helper.make_graph([make_node("Identity", ["x"], ["b"])], "no", [], [value("b", 2, "seq")])
    nodes = [
        make_node("Shape", ["x"], ["shape"]),
        make_node("Gather", ["shape", "one"], ["length"]),
        make_node("LessOrEqual", ["length", "limit"], ["short"]),
        make_node("If", ["short"], ["y"], then_branch=yes, else_branch=no),
    ]
    weights = [tensor("one", 1, np.int64), tensor("limit", limit, np.int64)]
    return model(nodes, [value("x", 2, "seq")], [value("y", 2, "seq")], weights)


@pytest.mark.parametrize(("said", "known"), [("1..300", True), ("1..301", False), ("301..400", True)])
def test_a_condition_that_holds_in_the_range_is_known(said: str, known: bool, tmp_path: Path) -> None:
    ops = {node.op for node in read(tmp_path, longer_than(300), {"seq": said}).graph.nodes}
    assert ("exp" in ops or ops == {"input"}) == known


def turned(batch: int | str = "batch") -> Any:
    """A transpose, which is a reshape for a batch of 1, between two reshapes."""
    nodes = [
        make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        make_node("Reshape", ["t", "flat"], ["f"]),
        make_node("Reshape", ["f", "rows"], ["r"]),
        make_node("MatMul", ["r", "w"], ["y"]),
    ]
    weights = [tensor("flat", [-1], np.int64), tensor("rows", [-1, 8], np.int64), random("w", 8, 8)]
    return model(nodes, [value("x", batch, 8)], [value("y", batch, 8)], weights)


def answer(tmp_path: Path, dims: dict[str, Any]) -> tuple[set[str], onnx.ModelProto]:
    """The operators of the answer, and the written model."""
    loaded = tensat_dl.load(saved(tmp_path, turned()), dims=dims)
    found = tensat_dl.optimize(loaded, device="cpu", measure=False)
    tensat_dl.save(loaded, found, tmp_path / "out.onnx")
    return {node.op for node in found.after.graph.nodes}, onnx.load(tmp_path / "out.onnx")


def test_what_holds_in_the_range_alone_is_used(tmp_path: Path) -> None:
    ops, made = answer(tmp_path, {"batch": range(1, 2)})
    assert "transpose" not in ops
    for side in (made.graph.input[0], made.graph.output[0]):
        assert side.type.tensor_type.shape.dim[0].dim_value == 1, "a dimension of one size is a constant"
    assert {p.key: p.value for p in made.metadata_props} == {METADATA: '{"batch": "1..1"}'}
    ops, made = answer(tmp_path, {"batch": 2})
    assert "transpose" in ops, "a size alone leaves the dimension open"
    assert not made.metadata_props
    with pytest.raises(tensat_dl.Mismatch, match=r"right for batch = 1 only(.|\n)*--dim batch=1..1"):
        answer(tmp_path, {"batch": 1})


def test_a_written_range_is_kept(tmp_path: Path) -> None:
    proto = attention(2)
    proto.metadata_props.add(key=METADATA, value=json.dumps({"seq": "1..100", "gone": "1..2"}))
    assert dict(read(tmp_path, proto).dims) == {"seq": 64}
    assert read(tmp_path, proto, {"seq": 90}).said["seq"] == DimSizes((90,), 1, 100)
    assert read(tmp_path, proto, {"seq": "8..90"}).said["seq"] == DimSizes((64,), 8, 90)
    for said in (101, "1..101", "101..200"):
        with pytest.raises(TsrError, match=r"seq is not in the range 1\.\.100 that the model is for"):
            read(tmp_path, proto, {"seq": said})
    for text in ("{", "[]", '{"seq": 5}', '{"seq": "many"}', "7"):
        proto.metadata_props[0].value = text
        assert dict(read(tmp_path, proto).dims) == {"seq": 128}


def test_a_run_says_the_range(tmp_path: Path) -> None:
    path, out = saved(tmp_path, turned()), tmp_path / "out.onnx"
    report = tmp_path / "report.json"
    page = tmp_path / "report.html"
    arguments = ("--no-measure", "--json", report, "--html", page)
    done = invoke("run", path, "-o", out, *arguments, "--dim", "batch=1..1")
    assert (done.code, done.err) == (0, "")
    assert "holds for     batch = 1; nothing is promised for other sizes" in done.out
    assert json.loads(report.read_text())["model"]["ranges"] == {"batch": [1, 1]}
    assert "Sizes of open dimensions: batch = 1; for batch = 1 only." in page.read_text()
    text = tmp_path / "out.tsr"
    assert invoke("run", path, "-q", "-o", text, *arguments, "--dim", "batch=1..1").code == 0
    assert "--dim batch=1..1=1\n" in text.read_text()
    assert invoke("why", text).code == 0


def test_inputs_lie_in_the_range(tmp_path: Path) -> None:
    path = saved(tmp_path, attention(2))
    np.savez(tmp_path / "data.npz", x=np.ones((2, 9, 64), np.float32))
    data = str(tmp_path / "data.npz")
    assert dict(import_model(path, {"seq": "1..9"}, (), data).dims) == {"seq": 9}
    with pytest.raises(TsrError, match=r"seq is 9 in `x`, which is not in the range 1\.\.8"):
        import_model(path, {"seq": "1..8"}, (), data)
    with pytest.raises(TsrError, match="seq is 9 in `x`, and 8, 9 by --dim"):
        import_model(path, {"seq": "8,9"}, (), data)


def test_value_infos_of_other_types_stay(tmp_path: Path) -> None:
    """A dimension without a name is found by its place."""
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("Relu", ["r"], ["y"])]
    proto = model(nodes, [value("x", None, 4)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    loaded = tensat_dl.load(saved(tmp_path, proto), dims={"x.0": "2..2"})
    found = tensat_dl.optimize(loaded, device="h100", measure=False, max_iters=2)
    tensat_dl.save(loaded, found, tmp_path / "out.onnx")
    made = onnx.load(tmp_path / "out.onnx")
    assert [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim] == [2, 4]


def test_a_batch_of_models_with_ranges(tmp_path: Path) -> None:
    """Models without the dimension are done as ever. Another range is other work, and the same one is none."""
    (tmp_path / "models").mkdir()
    saved(tmp_path / "models", turned(), "open.onnx")
    saved(tmp_path / "models", turned(3), "closed.onnx")
    run = (
        "batch",
        tmp_path / "models",
        "-o",
        tmp_path / "out",
        "--jobs",
        1,
        "--no-measure",
        "--max-iters",
        3,
    )
    done = invoke(*run, "--dim", "batch=1..1")
    assert (done.code, done.err) == (0, "")
    made = onnx.load(tmp_path / "out" / "open.onnx")
    assert {p.key: p.value for p in made.metadata_props} == {METADATA: '{"batch": "1..1"}'}
    assert not onnx.load(tmp_path / "out" / "closed.onnx").metadata_props
    before = json.loads((tmp_path / "out" / "manifest.json").read_text())["models"]
    assert "2 done before" in invoke(*run, "--dim", "batch=1..1").out
    assert "1 done before" in invoke(*run, "--dim", "batch=2..8").out
    after = json.loads((tmp_path / "out" / "manifest.json").read_text())["models"]
    assert before["closed.onnx"] == after["closed.onnx"]
    assert before["open.onnx"]["key"] != after["open.onnx"]["key"]
