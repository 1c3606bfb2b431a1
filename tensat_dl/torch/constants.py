"""What nodes of a program compute from weights and constants alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument


def compute_ahead(program: torch.export.ExportedProgram, chosen: Callable[[torch.fx.Node], bool]) -> None:
    """Makes constants of the chosen nodes that compute something from weights and constants alone."""
    values, specs = WeightValues(program), program.graph_signature.input_specs
    for node in filter(chosen, tuple(program.graph.nodes)):
        value = values.of(node)
        if not isinstance(value, torch.Tensor):
            continue
        inputs = program.graph.find_nodes(op="placeholder")
        place = next((i for i, s in enumerate(specs) if s.kind == InputKind.USER_INPUT), len(specs))
        before = (
            inputs[place] if place < len(inputs) else next(n for n in program.graph.nodes if n not in inputs)
        )
        with program.graph.inserting_before(before):
            constant = program.graph.placeholder(f"{node.name}_known")
        constant.meta["val"] = node.meta["val"]
        specs.insert(
            place, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), constant.name, None)
        )
        program.constants[constant.name] = value
        node.replace_all_uses_with(constant)
        program.graph.erase_node(node)
    program.graph_module.recompile()


class WeightValues:
    """The values of nodes."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        holders = {**program.state_dict, **program.constants}
        self._known: dict[torch.fx.Node, Any] = {}
        held = {
            s.arg.name: holders.get(s.target)
            for s in program.graph_signature.input_specs
            if s.kind != InputKind.USER_INPUT and s.target is not None
        }
        for node in program.graph.find_nodes(op="placeholder"):
            self._known[node] = held.get(node.name)

    def of(self, node: torch.fx.Node) -> Any:
        """The value of a node; None if it depends on inputs."""
        waiting = [node]
        while waiting:  # programs are deeper than Python's stack
            n = waiting[-1]
            rest = [a for a in n.all_input_nodes if a not in self._known]
            waiting.extend(rest)
            if not rest:
                waiting.pop()
                if n not in self._known:
                    self._known[n] = self._computed(n)
        return self._known[node]

    def _computed(self, node: torch.fx.Node) -> Any:
        if not isinstance(node.target, torch._ops.OpOverload):
            return None
        if any(self._known[a] is None for a in node.all_input_nodes):
            return None
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._known.__getitem__)
        return node.target(*args, **kwargs)
