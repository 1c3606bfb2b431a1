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
    graph, masks = program.graph, _Masks(program)
    for call in graph.find_nodes(op="call_function", target=_ATTENTION):
        mask = _mask_of(call)
        if not _can_have_four_dims(call, mask):
            continue
        kwargs = {name: x for name, x in call.kwargs.items() if name != "attn_mask"}
        with graph.inserting_before(call):
            added, after = (None, ()) if mask is None else masks.of(mask, call.args[0].meta["val"].dtype)
            operands = [*(_in_four_dims(graph, x) for x in call.args[:3]), added, *call.args[4:]]
            found = _added(graph, _ATTENTION, *operands, **kwargs)
            found = _as_before(graph, found, call.meta["val"].shape)
            if after:
                found = _added(graph, *(found if x is None else x for x in after))
        # The call becomes the last of these nodes: outputs are known by its name.
        call.target, call.args, call.kwargs = found.target, found.args, found.kwargs
        graph.erase_node(found)
    for view in graph.find_nodes(op="call_function", target=_ATEN.view.default) if masks.known else ():
        view.target = _ATEN.reshape.default  # results lie in another order in memory
    program.graph_module.recompile()


def _mask_of(call: torch.fx.Node) -> torch.fx.Node | None:
    mask: torch.fx.Node | None = call.args[3] if len(call.args) > 3 else call.kwargs.get("attn_mask")
    return mask


def _can_have_four_dims(call: torch.fx.Node, mask: torch.fx.Node | None) -> bool:
    """Whether operands have four dimensions or can have them: those before the last three can be one, if none of them
    matters to the mask, and they can be had again."""
    shapes = [x.meta["val"].shape for x in call.args[:3]]
    leading = shapes[0][:-3]
    of_mask = () if mask is None else mask.meta["val"].shape
    if of_mask and isinstance(of_mask[-1], int) and not of_mask[-1]:
        return False  # there is no key to look for
    if max(map(len, shapes)) <= 4:
        # With more dimensions than a query, a mask would give the result more; PyTorch takes them away again.
        return len(of_mask) <= len(shapes[0])
    return (
        len(of_mask) < 4
        and all(s[:-3] == leading for s in shapes)
        and sum(not isinstance(n, int) for n in leading) < 2
    )


def _in_four_dims(graph: torch.fx.Graph, x: torch.fx.Node) -> torch.fx.Node:
    """An operand of attention of four dimensions."""
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


class _Masks:
    """The masks of a program as attention gets them, each of them made once."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._graph, self._values = program.graph, WeightValues(program)
        #: By mask and type of the scores.
        self.known: dict[Any, tuple[torch.fx.Node, tuple[Any, ...]]] = {}

    def of(self, mask: torch.fx.Node, dtype: torch.dtype) -> tuple[torch.fx.Node, tuple[Any, ...]]:
        """A mask that is added to scores, and the operator, with None for the result of attention, that puts zeros
        where all keys are masked; nothing where that can't be."""
        if (mask, dtype) not in self.known:
            is_bool, value = mask.meta["val"].dtype == torch.bool, self._values.of(mask)
            row = (
                mask if mask.meta["val"].dim() > 1 else _added(self._graph, _ATEN.unsqueeze.default, mask, 0)
            )
            found = (self._of_truth_values if is_bool else self._of_floats)(row, value, dtype)
            self.known[mask, dtype] = found
        return self.known[mask, dtype]

    def _of_truth_values(
        self, mask: torch.fx.Node, value: Any, dtype: torch.dtype
    ) -> tuple[torch.fx.Node, tuple[Any, ...]]:
        # Half of the lowest number: scores are added to it, and infinity times 0 is no number. Choices of two numbers
        # are of f32.
        lowest = max(torch.finfo(dtype).min, torch.finfo(torch.float32).min) / 2
        added = _added(self._graph, _ATEN.where.Scalar, mask, 0.0, lowest)
        if added.meta["val"].dtype != dtype:
            added = _added(self._graph, _ATEN._to_copy.default, added, dtype=dtype)
        if value is not None and bool(value.any(-1).all()):
            return added, ()
        numbers = _added(self._graph, _ATEN._to_copy.default, mask, dtype=dtype)
        return added, (_ATEN.mul.Tensor, None, _added(self._graph, _ATEN.amax.default, numbers, [-1], True))

    def _of_floats(
        self, mask: torch.fx.Node, value: Any, _: torch.dtype
    ) -> tuple[torch.fx.Node, tuple[Any, ...]]:
        if _is_finite_choice(mask, self._values):
            return mask, ()
        if value is not None and bool((value.amax(-1) > -torch.inf).all()):
            return mask, ()
        most = _added(self._graph, _ATEN.amax.default, mask, [-1], True)
        return mask, (
            _ATEN.where.ScalarOther,
            _added(self._graph, _ATEN.ne.Scalar, most, -torch.inf),
            None,
            0.0,
        )


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
