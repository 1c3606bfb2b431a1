"""Runs a graph with the kernels that its prices stand for, or as a torch module.

Nodes that depend on weights alone are computed once, in f64, and stored in their own types. Each other node is one
kernel, except views: a view that the cost model charges is copied, a free view moves no data. A value is dropped
after its last use, and its memory reused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tensat_dl.core.egraph import without_choices
from tensat_dl.core.graph import Graph, Node
from tensat_dl.cost.application import definition
from tensat_dl.cost.model import FREE, CostModel
from tensat_dl.cost.signature import Signature
from tensat_dl.cost.views import free_views
from tensat_dl.fuse.fuse import unfused
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.traits import traits
from tensat_dl.resources import kernels
from tensat_dl.verify.execute import dying, last_uses


class NotExecutable(Exception):
    """No kernels can run a graph. The message says why."""


@dataclass(frozen=True)
class KernelStep:
    """Node ``i`` by a kernel, and the nodes whose values nobody needs afterwards."""

    i: int
    inputs: tuple[int, ...]
    name: str  #: the implementation's
    kernel: Any
    dead: tuple[int, ...]


class Executor:
    """A graph on a device. ``weights`` are by name. Raises `NotExecutable`."""

    def __init__(
        self,
        graph: Graph,
        model: CostModel,
        weights: Mapping[str, Array],
        device: torch.device,
        tf32: bool = False,
    ) -> None:
        self.graph, self.device = graph, device
        needed = last_uses(graph)
        known = graph.weights_only()
        self.constants = constants(graph, model.table, weights, device)
        self.steps = self._steps(model, needed, known, tf32)

    def _steps(
        self, model: CostModel, needed: Mapping[int, int], known: Sequence[bool], tf32: bool
    ) -> tuple[KernelStep, ...]:
        ends = dying({i: user for i, user in needed.items() if not known[i]})
        free = free_views(without_choices(self.graph), model.table, model.device).tolist()
        return tuple(
            KernelStep(i, node.inputs, *choose(model, self.graph, i, free[i], tf32), tuple(ends.get(i, ())))
            for i, node in enumerate(self.graph.nodes)
            if i in needed and not known[i] and node.op != "input"
        )

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs, contiguous; the inputs are in the order of the graph's."""
        values = {**self.constants, **dict(zip(self.graph.inputs, inputs, strict=True))}
        for step in self.steps:
            values[step.i] = step.kernel([values[j] for j in step.inputs])
            for i in step.dead:
                del values[i]
        return [values[i].contiguous() for _, i in self.graph.outputs]

    def chosen(self) -> dict[str, int]:
        """How often each family of implementations runs."""
        counts: dict[str, int] = {}
        for step in self.steps:
            family = step.name.split()[0]
            counts[family] = counts.get(family, 0) + 1
        return counts


def constants(
    graph: Graph, ops: OpTable, weights: Mapping[str, Array], device: torch.device
) -> dict[int, torch.Tensor]:
    """By node, the values that are computed ahead of time and needed at run time, contiguous. Raises
    `NotExecutable`."""
    needed, known = last_uses(graph), graph.weights_only()
    wide = _Wide(graph, ops, device)
    for i, node in enumerate(graph.nodes):
        if known[i] and i in needed:
            wide.compute(i, None if node.op != "weight" else weights[str(node.attr("name"))])
    read = {i for _, i in graph.outputs} | {j for i in needed if not known[i] for j in graph.nodes[i].inputs}
    types = kernels("launch").TORCH_TYPES
    return {
        i: wide.values[i].to(types[graph.nodes[i].type.dtype]).contiguous() for i in sorted(read) if known[i]
    }


def choose(model: CostModel, graph: Graph, i: int, free: bool, tf32: bool) -> tuple[str, Any]:
    """The implementation of node ``i``: a view where that is free, else the fastest by the profile, else a guess."""
    registry = kernels("registry")
    node = graph.nodes[i]
    signature = signature_of(graph, node, model.device.name, model.table)
    means = _definition(model.table, signature)
    try:
        found = registry.implementations(signature, means)
    except registry.Unsupported as e:
        raise NotExecutable(f"no kernel computes {e}") from None
    views = [f for f in found if f.kind == "view"]
    if free and views:
        return views[0].name, views[0].build()
    measured = model.profile.lookup(signature) if model.profile is not None else None
    ops = {node.op} if means is None else {n.op for n in means.nodes}
    # A vendor's library is the best guess for products as long as nothing was measured.
    preferred = "vendor" if any(traits(op).family == "product" for op in ops) else "triton"
    best = min(
        registry.usable(found, tf32),
        key=lambda f: (measured is None or f.name != measured.implementation, f.kind != preferred),
    )
    return best.name, best.build()


def signature_of(graph: Graph, node: Node, device: str, ops: OpTable) -> Signature:
    """The signature of a node, on which its cost depends. Raises `NotExecutable` for a node with several outputs."""
    if node.op in FREE or any(len(graph.nodes[j].types) != 1 for j in node.inputs):
        raise NotExecutable(f"no kernel computes {node.op}, which has several outputs")
    inputs = tuple(graph.nodes[j].type for j in node.inputs)
    return Signature(node.op, node.attrs, inputs, node.types, device, content=ops.content(node.op))


def _definition(ops: OpTable, signature: Signature) -> Graph | None:
    return definition(ops, signature) if signature.inputs else None


class _Wide:
    """Values of nodes, computed in f64 by torch."""

    def __init__(self, graph: Graph, ops: OpTable, device: torch.device) -> None:
        self.graph, self.ops, self.device = graph, ops, device
        self.values: dict[int, torch.Tensor] = {}

    def compute(self, i: int, given: Array | torch.Tensor | None = None) -> None:
        node = self.graph.nodes[i]
        if given is not None:
            value = torch.as_tensor(given).to(self.device)
        else:
            registry = kernels("registry")
            signature = signature_of(self.graph, node, "cpu", self.ops)
            try:
                meaning = registry.reference(signature, _definition(self.ops, signature))
            except registry.Unsupported as e:
                raise NotExecutable(f"no kernel computes {e}") from None
            value = meaning([self.values[j] for j in node.inputs]).to(self.device)
        self.values[i] = value.double() if value.is_floating_point() else value


def in_double(
    graph: Graph, ops: OpTable, values: Mapping[str, Array], device: torch.device
) -> list[torch.Tensor]:
    """The outputs of a graph in f64, with which others are compared. Raises `NotExecutable`."""
    wide = _Wide(graph, ops, device)
    needed = last_uses(graph)
    ends = dying(needed)
    for i, node in enumerate(graph.nodes):
        if i in needed:
            leaf = node.op in ("input", "weight")
            wide.compute(i, values[str(node.attr("name"))] if leaf else None)
            for j in ends.get(i, ()):
                del wide.values[j]
    return [wide.values[i] for _, i in graph.outputs]


def input_tensors(graph: Graph, values: Mapping[str, Array], device: torch.device) -> list[torch.Tensor]:
    """The graph's inputs, in their element types."""
    types = kernels("launch").TORCH_TYPES
    nodes = [graph.nodes[i] for i in graph.inputs]
    return [torch.as_tensor(values[str(n.attr("name"))]).to(types[n.type.dtype]).to(device) for n in nodes]


class TorchGraph(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """A graph as a user of torch would have written it, for torch to run or to compile. Compositions are taken apart.
    ``weights`` are by name. Raises `NotExecutable`."""

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
