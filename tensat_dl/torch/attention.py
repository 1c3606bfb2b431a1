"""Attention as ONNX can have it. `scaled_dot_product_attention` is 0 where all keys are masked; a translation gives
the mean of all values there, or NaN, and asks for four dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tensat_dl.torch.constants import WeightValues

_ATEN = torch.ops.aten
_ATTENTION = _ATEN.scaled_dot_product_attention.default
#: Operators whose results have elements of their first operand alone.
_VIEWS = frozenset((_ATEN.alias, _ATEN.expand, _ATEN.slice, _ATEN.unsqueeze, _ATEN.view, _ATEN.reshape))


def mend_attention(program: torch.export.ExportedProgram) -> None:
    """Has attention in a program be 0 where all keys are masked, and take four dimensions."""
    values = WeightValues(program)
    #: By mask and type: the mask in floats, and what is done to the result of attention.
    masks: dict[Any, tuple[torch.fx.Node, tuple[Any, ...]]] = {}
    for call in program.graph.find_nodes(op="call_function", target=_ATTENTION):
        graph, kwargs = program.graph, dict(call.kwargs)
        operands = [*call.args[:3], call.args[3] if len(call.args) > 3 else kwargs.pop("attn_mask", None)]
        mask, key = operands[3], (operands[3], call.args[0].meta["val"].dtype)
        if not _can_have_four_dims(call, mask):
            continue
        with graph.inserting_before(call):
            if mask is not None:
                if key not in masks:
                    masks[key] = _in_floats(graph, *key, values)
                operands[3] = masks[key][0]
            operands[:3] = [_in_four_dims(graph, x) for x in operands[:3]]
            found = _added(graph, _ATTENTION, *operands, *call.args[4:], **kwargs)
            found = _as_before(graph, found, call.meta["val"].shape)
            if mask is not None and (after := masks[key][1]):
                found = _added(graph, *(found if x is None else x for x in after))
        call.target, call.args, call.kwargs = (
            found.target,
            found.args,
            found.kwargs,
        )  # outputs are known by their node
        graph.erase_node(found)
    for view in program.graph.find_nodes(op="call_function", target=_ATEN.view.default) if masks else ():
        view.target = _ATEN.reshape.default  # results lie in another order in memory
    program.graph_module.recompile()


def _can_have_four_dims(call: torch.fx.Node, mask: torch.fx.Node | None) -> bool:
    """Whether the dimensions before the last three can be one, which is so if none of them matters to the mask, and
    can be had again."""
    shapes = [x.meta["val"].shape for x in call.args[:3]]
    leading = shapes[0][:-3]
    return len(leading) < 2 or (
        (mask is None or mask.meta["val"].dim() < 4)
        and all(s[:-3] == leading for s in shapes)
        and sum(not isinstance(n, int) for n in leading) < 2
    )


def _in_four_dims(graph: torch.fx.Graph, x: torch.fx.Node) -> torch.fx.Node:
    """An operand of attention with other leading dimensions, on which only a mask of as many depends."""
    for _ in range(4 - x.meta["val"].dim()):
        x = _added(graph, _ATEN.unsqueeze.default, x, 0)
    more = x.meta["val"].dim() - 4
    return _added(graph, _ATEN.flatten.using_ints, x, 0, more) if more > 0 else x


def _as_before(graph: torch.fx.Graph, found: torch.fx.Node, shape: Sequence[Any]) -> torch.fx.Node:
    """The result with the leading dimensions that attention had."""
    for _ in range(4 - len(shape)):
        found = _added(graph, _ATEN.squeeze.dim, found, 0)
    if len(shape) > 4:
        leading = [n if isinstance(n, int) else -1 for n in shape[:-3]]
        found = _added(graph, _ATEN.unflatten.int, found, 0, leading)
    return found


def _in_floats(
    graph: torch.fx.Graph, mask: torch.fx.Node, dtype: Any, values: WeightValues
) -> tuple[torch.fx.Node, tuple[Any, ...]]:
    """A mask that is added to scores, and the operator, with None for the result of attention, that puts zeros where
    all keys are masked; nothing where that can't be."""
    found = values.of(mask)
    if mask.meta["val"].dtype != torch.bool:
        if _is_finite_choice(mask, values) or (
            found is not None and bool((found.amax(-1) > -torch.inf).all())
        ):
            return mask, ()
        most = _added(graph, _ATEN.amax.default, mask, [-1], True)
        return mask, (_ATEN.where.ScalarOther, _added(graph, _ATEN.ne.Scalar, most, -torch.inf), None, 0.0)
    # Half of the lowest number: scores are added to it, and infinity times 0 is no number.
    lowest = torch.finfo(dtype).min / 2
    added = _added(graph, _ATEN.where.Scalar, mask, 0.0, lowest)
    if added.meta["val"].dtype != dtype:
        added = _added(graph, _ATEN._to_copy.default, added, dtype=dtype)
    if found is not None and bool(found.any(-1).all()):
        return added, ()
    kept = _added(
        graph, _ATEN.amax.default, _added(graph, _ATEN._to_copy.default, mask, dtype=dtype), [-1], True
    )
    return added, (_ATEN.mul.Tensor, None, kept)


def _is_finite_choice(mask: torch.fx.Node, values: WeightValues) -> bool:
    """Whether each element of a mask is one of two finite numbers."""
    while getattr(mask.target, "overloadpacket", None) in _VIEWS:
        mask = mask.args[0]
    if getattr(mask.target, "overloadpacket", None) is not _ATEN.where or len(mask.args) != 3:
        return False
    found = [values.of(x) if isinstance(x, torch.fx.Node) else torch.tensor(x) for x in mask.args[1:]]
    return all(x is not None and bool(torch.isfinite(x).all()) for x in found)


def _added(graph: torch.fx.Graph, op: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """A new node, of which is known what PyTorch would know of it."""
    node: torch.fx.Node = graph.call_function(op, args, kwargs)
    given, named = torch.fx.map_arg((args, kwargs), lambda n: n.meta["val"])
    node.meta["val"] = op(*given, **named)
    return node
