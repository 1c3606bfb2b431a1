"""An ONNX file as an onnx-ir model. Weights stay in the file until they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.lang.load import readable

#: Operator sets whose operators are read. Models of older ones are converted to the first of these; operators that
#: later ones changed are opaque.
OLDEST, NEWEST = 11, 28


def read_model(path: str) -> ir.Model:
    """The model in a file. Raises `TsrError` if there is none, or it can't be read."""
    with readable(path):
        with open(path, "rb") as file:
            if not file.read(1):
                raise failed(path, "the file is empty")
        try:
            model = ir.load(path)
        except DecodeError:
            message = "this is not an ONNX file, or it is truncated"
            raise failed(path, message, _what_it_is(path)) from None
        except OSError:
            raise
        except Exception as e:  # whatever onnx-ir finds wrong with a model
            reason = str(e.__cause__ or e).strip().partition("\n")[0] or type(e).__name__
            message = f"the model can't be read: {reason}"
            raise failed(path, message, "is the file damaged?") from None
    if not model.graph.outputs:
        raise failed(path, "this is not an ONNX file: it has no graph with outputs", _what_it_is(path))
    _supported(path, model)
    if any(_external_attributes(model)):  # everything else looks for external data among initialisers
        LiftConstantsToInitializersPass(size_limit=0)(model)
        for node in _external_attributes(model):
            message = f"an attribute of a node {node.op_type} is external data"
            raise failed(path, message, "put it into the model: onnx.save(onnx.load(path), path)")
    _has_its_weights(path, model)
    return model


def external_weights(model: ir.Model) -> Iterator[tuple[str, ir.ExternalTensor]]:
    """The weights that stand in other files, by name."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield str(value.name), value.const_value


def data_files(model: ir.Model) -> list[str]:
    """The other files that a model's weights stand in."""
    return list(dict.fromkeys(os.fspath(tensor.path) for _, tensor in external_weights(model)))


def failed(path: str, message: str, hint: str = "") -> TsrError:
    """An error about a file as a whole."""
    return TsrError([Diagnostic(message, None, hint, path=path)])


def opset(model: ir.Model) -> int:
    """The version of the standard operators."""
    return model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))


def _supported(path: str, model: ir.Model) -> None:
    newest = onnx.IR_VERSION
    if (model.ir_version or 0) > newest:
        message = (
            f"the model has IR version {model.ir_version}, and the installed onnx knows those up to {newest}"
        )
        raise failed(path, message, "install a newer onnx")
    version, known = opset(model), onnx.defs.onnx_opset_version()
    if version > known:
        message = f"the model has opset {version}, and the installed onnx knows those up to {known}"
        raise failed(path, message, "install a newer onnx")


def _external_attributes(model: ir.Model) -> Iterator[ir.Node]:
    """Nodes with a tensor among their attributes that stands in another file."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for attr in node.attributes.values():
            if isinstance(attr.value, ir.ExternalTensor):
                yield node


def _has_its_weights(path: str, model: ir.Model) -> None:
    """Raises `TsrError` unless all external data is there."""
    readable = set()
    for name, tensor in external_weights(model):
        hint = "external data stands beside the model, under the name that it was written with"
        try:
            size = os.path.getsize(tensor.path)
        except OSError:
            message = f"the weight {name} is in {tensor.location}, which is not there"
            raise failed(path, message, hint) from None
        if (tensor.offset or 0) + (tensor.length or tensor.nbytes) > size:
            message = f"the weight {name} lies beyond the end of {tensor.location}"
            raise failed(path, message, "the file is truncated, or belongs to another model")
        if tensor.location in readable:
            continue
        try:
            tensor.numpy()
        except ValueError:  # onnx-ir reads nothing that a model of unknown origin should not lead to
            message = f"{tensor.location} is a link, or outside of the model's folder, and is not read"
            raise failed(path, message, "copy the model and its data to one folder (cp -L)") from None
        readable.add(tensor.location)


def _what_it_is(path: str) -> str:
    """A guess from the first bytes."""
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer: fetch the model with `git lfs pull`"
    if start.startswith(b"PK"):
        return "it is a ZIP archive, such as PyTorch writes: export the model to ONNX"
    return "download or export it again"
