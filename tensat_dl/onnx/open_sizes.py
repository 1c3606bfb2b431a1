"""Models of graphs with named sizes: whether one that keeps the sizes open computes what the graph does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tensat_dl.onnx.agreement import relative_error
from tensat_dl.onnx.session import NotRunnable, Session
from tensat_dl.onnx.tensors import numpy_dtype
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.sizes.named import OpenGraph, Sizes, in_words, other_sizes
from tensat_dl.verify.execute import execute
from tensat_dl.verify.weights import draw_values


def weights_vary(opened: OpenGraph) -> str:
    """The reason why weights have no one value; "" if they have."""
    for i in opened.graph.weights:
        if opened.attrs[i]:
            return f"the weight `{opened.graph.nodes[i].attr('name')}` has a size that is open"
    return ""


def wrong(model: Path, opened: OpenGraph, ops: OpTable, weights: Mapping[str, Array], seed: int) -> str:
    """What is wrong with a model with open dimensions; "" if it computes what the graph does at other sizes."""
    try:
        session = Session(model)
    except NotRunnable as e:
        return f"ONNX Runtime does not load a model with open sizes: {e}"
    sizes_to_run = other_sizes(opened.sizes)
    if len(sizes_to_run) > 1:
        sizes_to_run.pop()  # the largest may take long to compute in float64
    for sizes in sizes_to_run:
        try:
            if not _agrees(session, opened, ops, weights, sizes, seed):
                return f"a model with open sizes computes something else for {in_words(sizes)}"
        except NotRunnable as e:
            return f"ONNX Runtime does not run a model with open sizes for {in_words(sizes)}: {e}"
    return ""


def _agrees(
    session: Session,
    opened: OpenGraph,
    ops: OpTable,
    weights: Mapping[str, Array],
    sizes: Sizes,
    seed: int,
) -> bool:
    graph = opened.at(sizes)
    values = draw_values([graph], seed, weights)
    feeds = {}
    for i in graph.inputs:
        name = str(graph.nodes[i].attr("name"))
        feeds[name] = values[name].astype(numpy_dtype(graph.nodes[i].type.dtype))
    for expected, found in zip(
        execute(graph, values, semantics_of(ops)), session.outputs(feeds), strict=True
    ):
        if expected.shape != found.shape:
            return False
        error, tolerance = relative_error(expected.astype(found.dtype), found)
        if error > tolerance:
            return False
    return True
