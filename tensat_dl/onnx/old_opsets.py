"""Models of operator sets from before those that are read, converted to the first of these."""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir

from tensat_dl.onnx.reading import OLDEST, failed, opset


def is_older(model: ir.Model) -> bool:
    """Whether a model has to be converted."""
    return 0 < opset(model) < OLDEST


def converted(model: ir.Model, path: str) -> ir.Model:
    """``model``, which was read from ``path``, in operators of the set `OLDEST`. Raises `TsrError`.

    Before IR version 4 initialisers had to be listed among the inputs, too. They are no inputs in what is returned.
    """
    proto = ir.to_proto(model)
    constants = {i.name for i in proto.graph.initializer} if proto.ir_version < 4 else set()
    inputs = [i for i in proto.graph.input if i.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    version = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", OLDEST)])
    proto.ir_version = max(proto.ir_version, version)
    try:
        newer = ir.from_proto(onnx.version_converter.convert_version(proto, OLDEST))
    except Exception as e:  # whatever ONNX's converter raises: it has no class of its own for that
        reason = str(e).strip().partition("\n")[0] or type(e).__name__
        message = f"the model has opset {opset(model)}, and can't be converted to {OLDEST}: {reason}"
        raise failed(path, message, f"export it with opset {OLDEST} or a later one") from None
    newer.metadata_props.update(model.metadata_props)
    ir.external_data.set_base_dir(newer.graph, os.path.dirname(path))
    return newer
