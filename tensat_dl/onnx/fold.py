"""What is computed from weights alone, computed: in float64, stored in its own element type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from tensat_dl.core.graph import Graph, GraphBuilder
from tensat_dl.onnx.operator import numpy_dtype
from tensat_dl.onnx.types import ONNX_DTYPES
from tensat_dl.ops.compose import semantics_of
from tensat_dl.ops.semantics.types import Array, computed_in
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.execute import execute


def fold(graph: Graph, ops: OpTable, i: int, value: Callable[[str], Array]) -> ir.TensorProtocol:
    """The value of node ``i``, which needs weights only. ``value`` gives those by name.

    Raises `ValueError` where it can't be computed.
    """
    builder = GraphBuilder(graph.name)
    builder.nodes = list(graph.nodes[: i + 1])
    needed = builder.finish([("y", i)])
    weights = {}
    for j in needed.weights:
        name = str(needed.nodes[j].attr("name"))
        weights[name] = np.asarray(value(name)).astype(computed_in(needed.nodes[j].type.dtype))
    with np.errstate(all="ignore"):
        (result,) = execute(needed, weights, semantics_of(ops))
    dtype = graph.nodes[i].type.dtype
    return ir.tensor(np.asarray(result).astype(numpy_dtype(dtype)), dtype=ONNX_DTYPES[dtype])
