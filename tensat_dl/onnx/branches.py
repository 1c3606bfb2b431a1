"""Conditions that are known: the branch that is taken stands in place of its If."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from tensat_dl.onnx.facts import ModelFacts
from tensat_dl.onnx.operator import names_in


def resolved(model: ir.Model, sizes: Sequence[Mapping[str, int]]) -> list[ModelFacts]:
    """What is known of a model at each of several sizes of its open dimensions, after every If of its main graph gave
    way to its branch whose condition is the same constant at all of them. Changes the model."""
    while True:
        facts = [ModelFacts(model, dims) for dims in sizes]
        found = [(node, taken) for node in model.graph if (taken := _taken(node, facts)) is not None]
        if not found:
            return facts
        for node, taken in found:
            _inline(model.graph, node, taken)


def _taken(node: ir.Node, facts: Sequence[ModelFacts]) -> ir.Graph | None:
    """The branch that an If takes wherever it is looked at."""
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or node.inputs[0] is None:
        return None
    conditions = [f.small(str(node.inputs[0].name)) for f in facts]
    values = {None if c is None or c.size != 1 else bool(c.reshape(())) for c in conditions}
    if len(values) != 1 or None in values:
        return None
    attr = node.attributes["then_branch" if values.pop() else "else_branch"]
    return None if attr.is_ref() else attr.as_graph()


def _inline(graph: ir.Graph, node: ir.Node, branch: ir.Graph) -> None:
    """The branch's nodes and weights, under names of their own, then the results under those of the If."""
    node.replace_input_with(0, None)
    results, weights, inside = list(branch.outputs), list(branch.initializers.values()), list(branch)
    branch.outputs.clear()
    branch.initializers.clear()
    branch.remove(inside)
    taken = names_in(graph)
    for value in weights:
        value.name = _free(value.name, taken)
        graph.register_initializer(value)
    for inner in inside:
        inner.name = _free(inner.name, taken)
        for value in inner.outputs:
            if value.name:
                value.name = _free(value.name, taken)
        graph.insert_before(node, inner)
    for old, result in zip(node.outputs, results, strict=True):
        if old.name:
            new = ir.Value(name=old.name, type=old.type, shape=old.shape)
            old.name = _free(f"{old.name}_of_if", taken)
            graph.insert_before(
                node, ir.Node("", "Identity", [result], outputs=[new], name=_free(None, taken))
            )
            old.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _free(wanted: str | None, taken: set[str]) -> str:
    """A name that nothing has yet; from now on it is taken."""
    name, count = wanted or "If", 0
    while name in taken:
        count += 1
        name = f"{wanted or 'If'}_{count}"
    taken.add(name)
    return name
