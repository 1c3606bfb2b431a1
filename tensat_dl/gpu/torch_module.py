"""A graph as a torch module: what a user of torch would have written, for torch to run or to compile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tensat_dl.core.graph import Graph
from tensat_dl.fuse.unfuse import unfused
from tensat_dl.gpu.executor import NotExecutable, constants
from tensat_dl.ops.semantics.types import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.resources import kernels


class TorchGraph(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Compositions are taken apart. ``weights`` are by name. Raises `NotExecutable`."""

    def __init__(
        self, graph: Graph, ops: OpTable, weights: Mapping[str, Array], device: torch.device
    ) -> None:
        super().__init__()
        meaning = kernels("registry").MEANING
        composed = {name for name, decl in ops.items() if decl.composition is not None}
        graph = unfused(graph, ops, composed)
        known = graph.weights_only()
        self.ahead = constants(graph, ops, weights, device)
        self.inputs = graph.inputs
        self.outputs = tuple(i for _, i in graph.outputs)
        self.steps: list[tuple[int, Any, tuple[int, ...], dict[str, Any]]] = []
        for i, node in enumerate(graph.nodes):
            if known[i] or node.op == "input":
                continue
            if node.op not in meaning:
                raise NotExecutable(f"torch does not know {node.op}")
            self.steps.append((i, meaning[node.op], node.inputs, dict(node.attrs)))

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values = {**self.ahead, **dict(zip(self.inputs, inputs, strict=True))}
        for i, function, operands, attrs in self.steps:
            values[i] = function([values[j] for j in operands], attrs)
        return [values[i] for i in self.outputs]
