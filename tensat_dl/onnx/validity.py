"""Whether a model is one by the specification of ONNX: its nodes fit the declarations of their operators, and their
operands fit each other."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnx.shape_inference
import onnx_ir as ir

from tensat_dl.core.words import first_line
from tensat_dl.onnx.facts import SMALL
from tensat_dl.onnx.model_files import failed
from tensat_dl.onnx.session import NotRunnable, Session
from tensat_dl.onnx.tensors import shape_of

#: How ONNX's type inference says what is wrong with the node that gives a value.
_OF_NODE = re.compile(r"\(op_type:(?P<op>[^,)]*), node name: (?P<result>.*?)\): (?P<why>.*)")
#: The class of an error, in front of its message.
_CLASS = re.compile(r"^(\[\w+\] )+")


def refuse_invalid(path: str, model: ir.Model) -> None:
    """Raises `TsrError` for a model that is not valid. ONNX Runtime has the last word: where it loads a model, as one
    with operators that it alone knows, the model is taken as it is."""
    reason = _wrong_input(model) or _wrong_node(model) or _wrong_type(model)
    if not reason:
        return
    try:
        Session(Path(path), optimized=False)
    except NotRunnable:
        hint = "the model is not valid: ONNX's checker and ONNX Runtime refuse it; export it again"
        raise failed(path, reason, hint) from None


def _wrong_input(model: ir.Model) -> str:
    """What is wrong with how inputs are declared; "" if nothing is."""
    names: set[str] = set()
    for value in model.graph.inputs:
        name = str(value.name)
        if name in names:
            return f"two inputs have the name {name}"
        if value.type is None:
            return f"the input {name} has no type"
        names.add(name)
    return ""


def _wrong_node(model: ir.Model) -> str:
    """What is wrong with a node by itself: its operator, its attributes, how many operands it has; "" if nothing
    is."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version or onnx.IR_VERSION
    context.opset_imports = dict(model.opset_imports)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.op_identifier() in model.functions:
            continue
        proto = ir.serde.serialize_node(node)
        proto.name = _result(node)
        for attribute in proto.attribute:  # the nodes in there have a turn of their own
            for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                graph.CopyFrom(onnx.GraphProto(name="body"))
        try:
            onnx.checker.check_node(proto, context)
        except onnx.checker.ValidationError as e:
            return f"{_in_words(node.op_type, _result(node))}: {first_line(e)}"
    return ""


def _wrong_type(model: ir.Model) -> str:
    """What is wrong with the types and shapes of a node's operands, as far as they are known for all sizes of open
    dimensions; "" if nothing is."""
    try:
        slim = _without_weights(model)
    except RuntimeError:  # it takes a value that nothing computes, and who reads the nodes says so
        return ""
    try:
        proto = ir.to_proto(slim)
        onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except Exception as e:  # of several classes
        if (found := _OF_NODE.search(str(e))) is not None:
            return f"{_in_words(found['op'], found['result'])}: {_CLASS.sub('', found['why'])}"
        return _CLASS.sub("", first_line(e))
    return ""


def _without_weights(model: ir.Model) -> ir.Model:
    """The same model where large weights are inputs: they may take gigabytes. A node is called as its result is."""
    slim = model.clone()
    graph = slim.graph
    for value in list(graph.initializers.values()):
        tensor = value.const_value
        if tensor is None:
            continue
        if value not in graph.inputs:  # what the file states beside the tensor counts for nobody
            value.dtype, value.shape = tensor.dtype, ir.Shape(shape_of(tensor))
        if tensor.size > SMALL or isinstance(tensor, ir.ExternalTensor):
            del graph.initializers[str(value.name)]
            if value not in graph.inputs:
                graph.inputs.append(value)
    for node in ir.traversal.RecursiveGraphIterator(graph):
        node.name = _result(node)
    return slim


def _result(node: ir.Node) -> str:
    """The name of the first value that a node gives."""
    return next((str(v.name) for v in node.outputs if v.name), "")


def _in_words(op: str, result: str) -> str:
    return f"the node {op} that gives {result} is not valid" if result else f"a node {op} is not valid"
