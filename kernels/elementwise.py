"""Elementwise operators and chains of them: one generated kernel for each expression.

An expression is a small graph of elementwise operators on inputs and constants. Operands broadcast and may have any
strides. Floats of all types are computed in f32, and rounded to the result's type once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from tensat_dl.core.graph import Graph, GraphBuilder, Node, TensorType
from tensat_dl.cost.application import applied
from tensat_dl.cost.signature import Signature

from .activation import gelu, relu, sigmoid, tanh
from .implementation import TRITON_FLOATS, Family, Implementation, Kernel, Meaning, computable, no_offers
from .launch import TORCH_TYPES, ceil_div, from_source
from .layout import broadcast_strides, collapse, coordinates, offset, wide

#: The functions that generated code calls.
HELPERS = {"tanh": tanh, "sigmoid": sigmoid, "gelu": gelu, "relu": relu}

#: The numbers of elements that a program may compute.
BLOCKS = (256, 1024)

#: By operator, its Triton expression; ``{}`` stands for the expression of an operand.
_TERMS = {
    "ewadd": "{} + {}",
    "ewsub": "{} - {}",
    "ewmul": "{} * {}",
    "smul": "{} * {}",
    "ewdiv": "{} / {}",
    "ewmax": "tl.maximum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
    "ewmin": "tl.minimum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
    "equal": "{} == {}",
    "greater": "{} > {}",
    "select": "tl.where({}, {}, {})",
    "relu": "relu({})",
    "tanh": "tanh({})",
    "sigmoid": "sigmoid({})",
    "gelu": "gelu({})",
    "exp": "tl.exp({})",
    "sqrt": "tl.sqrt_rn({})",
    "rsqrt": "tl.rsqrt({})",
    "erf": "tl.erf({})",
    "log": "tl.log({})",
    "floor": "tl.floor({})",
}
_ROUND = {"f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32"}

#: Operators that an expression may have besides inputs and constants.
FUSIBLE = frozenset({*_TERMS, "power", "cast"})


def fusible(expression: Graph) -> bool:
    """Whether the expression has a Triton kernel: all operators are elementwise, on floats and truth values."""
    types = {t.dtype for n in expression.nodes for t in n.types}
    ops = {n.op for n in expression.nodes} - {"input"}
    fills = (n for n in expression.nodes if n.op == "fill")
    return (
        types <= {*TRITON_FLOATS, "bool"}
        and ops - {"fill"} <= FUSIBLE
        and all(n.type.shape == () for n in fills)
        and len(expression.outputs) == 1
    )


def fused(expression: Graph) -> list[Implementation]:
    """The Triton kernels of an expression."""

    def of(block: int) -> Implementation:
        return Implementation(f"triton {block}", "triton", lambda: _kernel(expression, block))

    return [of(block) for block in BLOCKS]


def _kernel(expression: Graph, block: int) -> Kernel:
    out_type = TORCH_TYPES[expression.nodes[expression.outputs[0][1]].type.dtype]

    def run(operands: Sequence[torch.Tensor]) -> torch.Tensor:
        shape = torch.broadcast_shapes(*(x.shape for x in operands))
        out = torch.empty(shape, dtype=out_type, device=operands[0].device)
        sizes, strides = collapse(shape, [out.stride(), *(broadcast_strides(x, shape) for x in operands)])
        n = math.prod(sizes)
        steps = [s for own in strides[1:] for s in own]
        kernel = _compiled(expression, len(sizes))
        kernel[(ceil_div(n, block),)](
            out, *operands, n, *sizes[1:], *steps, WIDE=wide(sizes, strides, block), BLOCK=block
        )
        return out

    return run


@cache
def _compiled(expression: Graph, rank: int) -> Any:
    return with_helpers(source(expression, rank))


def with_helpers(text: str) -> Any:
    """The Triton kernel that a text defines. The text may call `HELPERS`."""
    kernel = from_source(text)
    kernel.fn.__globals__.update(HELPERS)
    return kernel


def source(expression: Graph, rank: int) -> str:
    """The Triton source of an expression on tensors that are collapsed to ``rank`` dimensions."""
    inputs = [i for i, n in enumerate(expression.nodes) if n.op == "input"]
    sizes = ["", *(f"n{k}" for k in range(1, rank))]
    strides = [[f"s{i}_{k}" for k in range(rank)] for i in range(len(inputs))]
    pointers = [f"x{i}" for i in range(len(inputs))]
    parameters = [
        "out",
        *pointers,
        "n",
        *sizes[1:],
        *(s for own in strides for s in own),
        "WIDE: tl.constexpr",
        "BLOCK: tl.constexpr",
    ]
    lines = [
        f"def kernel({', '.join(parameters)}):\n",
        "    i = tl.program_id(0).to(tl.int64 if WIDE else tl.int32) * BLOCK + tl.arange(0, BLOCK)\n",
        "    mask = i < n\n",
        coordinates("i", sizes, "c"),
    ]
    for k, (i, own) in enumerate(zip(inputs, strides, strict=True)):
        widen = ".to(tl.float32)" if expression.nodes[i].type.dtype != "bool" else " != 0"
        lines.append(f"    v{i} = tl.load(x{k} + {offset('c', own)}, mask){widen}\n")
    for i, node in enumerate(expression.nodes):
        if node.op != "input":
            lines.append(f"    v{i} = {term(node, [f'v{j}' for j in node.inputs])}\n")
    result = expression.outputs[0][1]
    lines.append(f"    tl.store(out + i, v{result}, mask)\n")
    return "".join(lines)


def term(node: Node, operands: Sequence[str]) -> str:
    """The Triton expression of an elementwise operator on the expressions of its operands."""
    attrs: dict[str, Any] = dict(node.attrs)
    match node.op:
        case "fill" if node.type.dtype == "bool":
            return repr(attrs["value"] != 0)
        case "fill":
            return (
                repr(float(attrs["value"]))
                if math.isfinite(float(attrs["value"]))
                else f"float('{attrs['value']}')"
            )
        case "power":
            return _power(operands[0], float(attrs["exponent"]))
        case "cast":
            if attrs["to"] == "bool":
                return f"{operands[0]} != 0"
            return f"{operands[0]}.to({_ROUND[str(attrs['to'])]}).to(tl.float32)"
    return _TERMS[node.op].format(*operands)


def _power(x: str, exponent: float) -> str:
    """x to a power. Whole powers do not use log(x), which is NaN for negative x."""
    if exponent == 0.5:
        return f"tl.sqrt_rn({x})"
    if exponent.is_integer() and abs(exponent) <= 16:
        product = " * ".join([x] * int(abs(exponent))) or f"{x} * 0 + 1"
        return product if exponent >= 0 else f"1 / ({product})"
    if exponent.is_integer():
        sign = f" * tl.where({x} < 0, -1.0, 1.0)" if exponent % 2 else ""
        return f"tl.exp({exponent} * tl.log(tl.abs({x}))){sign}"
    return f"tl.exp({exponent} * tl.log({x}))"


def _quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    whole = not x.is_floating_point()
    return torch.div(x, y, rounding_mode="trunc") if whole else torch.div(x, y)


def _unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Meaning:
    return lambda operands, _: function(operands[0])


def _binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Meaning:
    return lambda operands, _: function(operands[0], operands[1])


MEANING: dict[str, Meaning] = {
    "ewadd": _binary(torch.add),
    "ewsub": _binary(torch.sub),
    "ewmul": _binary(torch.mul),
    "smul": _binary(torch.mul),
    "ewdiv": _binary(_quotient),
    "ewmax": _binary(torch.maximum),
    "ewmin": _binary(torch.minimum),
    "equal": _binary(torch.eq),
    "greater": _binary(torch.gt),
    "select": lambda operands, _: torch.where(*operands),
    "relu": _unary(torch.relu),
    "tanh": _unary(torch.tanh),
    "sigmoid": _unary(torch.sigmoid),
    "exp": _unary(torch.exp),
    "sqrt": _unary(torch.sqrt),
    "rsqrt": _unary(torch.rsqrt),
    "erf": _unary(torch.erf),
    "gelu": _unary(torch.nn.functional.gelu),
    "log": _unary(torch.log),
    "floor": _unary(torch.floor),
    "power": lambda operands, attrs: torch.pow(operands[0], attrs["exponent"]),
    # in PyTorch, casts of floats outside of the range of an integer type are undefined: the GPU decides
    "cast": lambda operands, attrs: operands[0].to(TORCH_TYPES[attrs["to"]]),
}


def _offers(signature: Signature) -> Iterable[Implementation]:
    expression = applied(signature)
    return fused(expression) if fusible(expression) else ()


def _batchnorm(operands: Sequence[torch.Tensor], attrs: Mapping[str, Any]) -> torch.Tensor:
    x, scale, bias, mean, var = operands
    return torch.nn.functional.batch_norm(x, mean, var, scale, bias, eps=attrs["eps"])


def _batchnorm_offers(signature: Signature) -> Iterator[Implementation]:
    """Batch normalisation as a chain of elementwise operators, on parameters that broadcast over images."""
    x, *parameters = signature.inputs
    if not computable(signature.inputs):
        return
    b = GraphBuilder("batchnorm")

    def typed(op: str, *operands: int) -> int:
        return b.add(op, operands, (), (x,))

    over = (1,) * (x.rank - 2)
    image, scale, bias, mean, var = (
        b.add("input", (), (("name", f"x{i}"),), (t,)) for i, t in enumerate((x, *parameters))
    )
    eps = b.add("fill", (), (("value", dict(signature.attrs)["eps"]),), (TensorType(x.dtype, ()),))
    factor = typed("rsqrt", typed("ewadd", var, eps))
    centred = typed("ewmul", typed("ewsub", image, mean), factor)
    expression = b.finish([("y", typed("ewadd", typed("ewmul", centred, scale), bias))])

    def of(implementation: Implementation) -> Implementation:
        def build() -> Kernel:
            kernel = implementation.build()
            return lambda operands: kernel([operands[0], *(p.reshape(-1, *over) for p in operands[1:])])

        return replace(implementation, build=build)

    yield from map(of, fused(expression))


FAMILY = Family(
    {**MEANING, "batchnorm": _batchnorm},
    {**dict.fromkeys(MEANING, _offers), "batchnorm": _batchnorm_offers},
    dict.fromkeys([*MEANING, "batchnorm"], no_offers),
)
