"""What graphs run as: models with the weights of the file that they came from, or with random ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from tensat_dl.core.graph import Graph
from tensat_dl.onnx.agreement import Reference
from tensat_dl.onnx.exporter import export
from tensat_dl.onnx.fresh import build, random_weights
from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.staging import save
from tensat_dl.ops.table import OpTable


@dataclass(frozen=True, slots=True)
class Runnable:
    """``model`` makes a model of a graph. ``reference`` has the original, loaded; it may write it to the folder that
    it is given, and raise `Incomparable`."""

    model: Callable[[Graph], ir.Model]
    reference: Callable[[Path], Reference]


def of_model(imported: Imported, seed: int) -> Runnable:
    """Graphs of a model that was read from a file."""
    return Runnable(lambda graph: export(imported, graph), lambda _: reference(imported, seed))


def reference(imported: Imported, seed: int) -> Reference:
    """The model in its file, on random inputs, and on those that came with it. Raises `Incomparable`."""
    return Reference(imported.model, imported.path, imported.dims, seed, imported.given)


def of_graph(graph: Graph, ops: OpTable, seed: int) -> Runnable:
    """A graph of the language, and others with the same weights."""
    weights = random_weights(graph, seed)

    def original(folder: Path) -> Reference:
        model = build(graph, ops, weights)
        return Reference(model, str(save(model, folder / "original.onnx")), {}, seed)

    return Runnable(lambda other: build(other, ops, weights), original)
