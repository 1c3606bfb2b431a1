"""Independent implementations: ONNX's reference evaluator and ONNX Runtime, one node at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]


def reference(op: str, *arrays: Array, opset: int = 20, **attrs: Any) -> Array:
    """ONNX's own Python implementation, in the arrays' element type."""
    return np.asarray(ReferenceEvaluator(_model(op, arrays, opset, attrs)).run(None, _feeds(arrays))[0])


def runtime(
    op: str, *arrays: Array, opset: int = 20, size: tuple[int, int] | None = None, **attrs: Any
) -> Array:
    """ONNX Runtime's CPU kernel, in float32: exact on small integers where the operator is polynomial.

    With a ``size`` the operator is Resize to an image of that size.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    singles = [a.astype(np.float32) for a in arrays]
    made = _model(op, singles, opset, attrs)
    if size is not None:
        made.graph.node[0].input.extend(["", "", "sizes"])
        sizes = np.array((*arrays[0].shape[:2], *size), np.int64)
        made.graph.initializer.append(numpy_helper.from_array(sizes, "sizes"))
    model = made.SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, _feeds(singles))[0])


def _feeds(arrays: Any) -> dict[str, Array]:
    return {f"x{i}": a for i, a in enumerate(arrays)}


def _model(op: str, arrays: Any, opset: int, attrs: dict[str, Any]) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
    ]
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(arrays[0].dtype), None)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attrs)], "one", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    return model
