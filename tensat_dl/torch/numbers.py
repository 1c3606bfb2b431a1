"""Numbers that TorchDynamo leaves open in an FX graph, as those of modules with ``dynamic=True``."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def numbers_in(graph: torch.fx.GraphModule) -> list[int]:
    """The positions of the inputs that are numbers: tensors of f64 whose item alone is asked for."""
    inputs = graph.graph.find_nodes(op="placeholder")
    return [i for i, node in enumerate(inputs) if _is_number(node)]


def with_numbers(graph: torch.fx.GraphModule, values: Mapping[int, float]) -> torch.fx.GraphModule:
    """The same graph with the values of numbers, by position. It takes these inputs, and does not look at them."""
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    for i, node in enumerate(copied.find_nodes(op="placeholder")):
        if i in values:
            for item in tuple(node.users):
                item.op, item.target, item.args = "call_function", float, (values[i],)
    return torch.fx.GraphModule(graph, copied)


def _is_number(node: torch.fx.Node) -> bool:
    value = node.meta.get("example_value")
    return (
        isinstance(value, torch.Tensor)
        and value.dtype == torch.float64
        and not value.shape
        and all((user.op, user.target) == ("call_method", "item") for user in node.users)
    )
