"""Models that are not valid, and files that are no models. Bad input is a message with exit code 2, and nothing is
written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import onnx
from onnx.helper import make_node

from .models import saved, value
from .refusing import product, refused

pytestmark = pytest.mark.sampled(5)


def future_opset(proto: Any) -> None:
    proto.opset_import[0].version = 999


def future_ir(proto: Any) -> None:
    proto.ir_version = 999


def undefined_operand(proto: Any) -> None:
    proto.graph.node[0].input[0] = "nobody"


def undefined_output(proto: Any) -> None:
    proto.graph.output[0].name = "nobody"


def no_outputs(proto: Any) -> None:
    del proto.graph.output[:]


def no_opset(proto: Any) -> None:
    del proto.opset_import[:]
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))


def circle(proto: Any) -> None:
    proto.graph.node[0].input[0] = "y"


def output_of_another_graph(proto: Any) -> None:
    branch = onnx.helper.make_graph([], "branch", [], [value("p", 4, 32)])
    proto.graph.node.append(make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=branch))
    proto.graph.input.append(value("flag", dtype=onnx.TensorProto.BOOL))
    proto.graph.output.append(value("z", 4, 32))


def map_of_scores(proto: Any) -> None:
    """As skl2onnx writes classifiers."""
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    proto.graph.node.append(
        make_node("ZipMap", ["y"], ["scores"], domain="ai.onnx.ml", classlabels_int64s=range(32))
    )
    scores = onnx.helper.make_map_type_proto(
        onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    proto.graph.output.append(
        onnx.helper.make_value_info("scores", onnx.helper.make_sequence_type_proto(scores))
    )


def optional_map(proto: Any) -> None:
    scores = onnx.helper.make_map_type_proto(
        onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    maybe = onnx.helper.make_optional_type_proto(scores)
    proto.graph.value_info.append(onnx.helper.make_value_info("scores", maybe))


def scan_of_a_batch(proto: Any) -> None:
    proto.opset_import[0].version = 8
    body = onnx.helper.make_graph([make_node("Relu", ["a"], ["b"])], "body", [value("a")], [value("b")])
    proto.graph.node.append(make_node("Scan", ["", "y"], ["z"], body=body, num_scan_inputs=1))
    proto.graph.output.append(value("z", 4, 32))


def negative_input(proto: Any) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5


def negative_output(proto: Any) -> None:
    proto.graph.output[0].type.tensor_type.shape.dim[0].dim_value = -5


def negative_weight(proto: Any) -> None:
    proto.graph.initializer[0].dims[0] = -1


def short_weight(proto: Any) -> None:
    weight = proto.graph.initializer[0]
    weight.raw_data = weight.raw_data[:7]


def long_weight(proto: Any) -> None:
    proto.graph.initializer[0].raw_data += bytes(4)


def short_constant(proto: Any) -> None:
    weight = proto.graph.initializer.pop()
    weight.raw_data = weight.raw_data[:8]
    proto.graph.node.insert(0, make_node("Constant", [], ["w"], value=weight))


def endless_input(proto: Any) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2**50


@pytest.mark.parametrize(
    ("damage", "say"),
    [
        (endless_input, "x has a shape of"),
        (negative_input, "x has a dimension of -5"),
        (negative_output, "y has a dimension of -5"),
        (negative_weight, "the tensor w has the shape [-1,32]"),
        (short_weight, "the tensor w can't be read: buffer size must be a multiple"),
        (long_weight, "the tensor w can't be read: cannot reshape"),
        (short_constant, "the tensor of a node Constant can't be read"),
        (future_opset, "opset 999"),
        (future_ir, "IR version 999"),
        (undefined_operand, "takes nobody, which nothing computes"),
        (undefined_output, "nothing computes the output nobody"),
        (no_outputs, "no graph with outputs"),
        (no_opset, "does not say which opset its operator MatMul is of"),
        (circle, "the model can't be read: Graph contains a cycle"),
        (output_of_another_graph, "a graph in a node If gives p, which it does not compute"),
        (map_of_scores, "the output scores is a map"),
        (optional_map, "the value scores is a map"),
        (scan_of_a_batch, "the model has opset 8, and ONNX does not convert its Scan to 11"),
    ],
)
def test_models_that_are_not_valid(
    damage: Callable[[Any], None], say: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    proto = product()
    damage(proto)
    refused(saved(tmp_path, proto), say=say)
    assert not caplog.messages  # what onnx-ir logs is no part of the error


@pytest.mark.parametrize(
    ("content", "say", "hint"),
    [
        (b"", "the file is empty", ""),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "ONNX file", "git lfs pull"),
        (b"PK\x03\x04 and so on", "ONNX file", "ZIP archive"),
        (b"graph g { input x : f32[2] }", "ONNX file", ""),
        (bytes(range(256)), "ONNX file", ""),
    ],
)
def test_files_that_are_no_models(content: bytes, say: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    refused(tmp_path / "model.onnx", say=say, hint=hint)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    proto = product()
    undefined_operand(proto)
    damaged = proto.SerializeToString().replace(b"nobody", b"nob\xa7dy")
    (tmp_path / "model.onnx").write_bytes(damaged)
    refused(tmp_path / "model.onnx", say="the name b'nob\\xa7dy' of a value is not text")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_models(share: float, tmp_path: Path) -> None:
    whole = product().SerializeToString()
    (tmp_path / "model.onnx").write_bytes(whole[: int(len(whole) * share)])
    refused(tmp_path / "model.onnx", say="error:")


def test_there_is_no_such_file(tmp_path: Path) -> None:
    refused(tmp_path / "model.onnx", say="no such file")
    (tmp_path / "folder.onnx").mkdir()
    refused(tmp_path / "folder.onnx", say="is a directory")
