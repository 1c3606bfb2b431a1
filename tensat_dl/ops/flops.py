"""How many floating-point operations an application takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensat_dl.core.graph import TensorType
from tensat_dl.ops.attributes import environment
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.typing import IllTyped, Typing, infer

#: No operator has more operations than this.
MOST_FLOPS = 1e30


def check_flops(decl: OpDecl, inputs: Sequence[TensorType], attrs: Mapping[str, Any], typing: Typing) -> None:
    """Raises `IllTyped` for an application of an opaque operator whose number of operations has no value, or no
    possible one. In a file there is a place to point at; for what rules make of it, `flops` is 0 then."""
    if not decl.opaque or decl.flops is None:
        return
    what = f"its number of operations, `{decl.flops.span.line}`,"
    try:
        value = evaluate(decl.flops, {**environment(decl, inputs, attrs), "out": typing.types[0].shape})
    except EvaluationError as e:
        raise IllTyped(f"{what} can be computed ({e})") from None
    if not 0 <= value <= MOST_FLOPS:
        raise IllTyped(f"{what} is from 0 to {MOST_FLOPS:.0e} (it is {value:g})")


def flops(
    table: OpTable, op: str, inputs: Sequence[TensorType], attrs: Mapping[str, Any], output: TensorType
) -> float:
    """Floating-point operations of one application, whose first output has this type; 0 where the declaration says
    nothing, or nothing possible."""
    decl = table[op]
    if decl.composition is not None:
        total = 0.0

        def apply(inner: str, operands: Sequence[TensorType], values: Mapping[str, Any]) -> TensorType:
            nonlocal total
            found = infer(table, inner, operands, values).concrete()[0]
            total += flops(table, inner, operands, values, found)
            return found

        def scalar(_: float, like: TensorType) -> TensorType:
            return TensorType(like.dtype, ())

        compose(decl, table, inputs, attrs, lambda t: t, scalar, apply)
        return total
    if decl.flops is None:
        return 0.0
    env = {**environment(decl, inputs, attrs), "out": output.shape}
    try:
        found = float(evaluate(decl.flops, env))
    except EvaluationError:
        return 0.0
    return found if 0 <= found <= MOST_FLOPS else 0.0
