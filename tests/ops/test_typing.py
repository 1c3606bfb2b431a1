"""The operator table: what each operator makes of shapes, and what it refuses in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import DTYPES, FLOATS, TensorType
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.flops import flops
from tensat_dl.ops.semantics import SEMANTICS, computed_in
from tensat_dl.ops.semantics.elementwise import FUNCTIONS
from tensat_dl.ops.typing import IllTyped, Inference, infer
from tests.explore.graphs import explored, graph_in, program_of

from .applications import TABLE

Shapes = tuple[tuple[int, ...], ...]

I = (2, 3, 8, 9)  # noqa: E741 (an image)
REAL_FUNCTIONS = ("silu", *(f for f in FUNCTIONS if f != "relu"))
#: Compositions of one operand that computes with floats, and of one that computes with numbers of any type.
REAL_COMPOSITIONS = ("elu", "hardsigmoid", "hardswish", "softplus", "softsign", "mish", "gelu_tanh")
COMPOSITIONS = ("neg", "abs", "leakyrelu")
BINARY = ("ewadd", "ewsub", "ewmul", "ewdiv", "ewmax", "ewmin", "equal", "greater")
#: Element types of operands, of operators whose operands have several; of results, where not the first operand's.
OPERANDS = {
    "select": "bool f32 f32",
    "gather": "f32 i64",
    "one_hot": "i32",
    "dynamic_slice": "f32 i32",
    "dynamic_update_slice": "f32 f32 i64",
    "logical_not": "bool",
    "logical_and": "bool bool",
    "logical_or": "bool bool",
}
RESULTS = {
    "one_hot": "f32",
    "select": "f32",
    "equal": "bool",
    "greater": "bool",
    "cast": "i32",
    **dict.fromkeys(("not_equal", "greater_equal", "logical_not", "logical_and", "logical_or"), "bool"),
}
POOL = {"kernel": (3, 3)}

#: Operator, operands, attributes, and the shape of the result as worked out by hand.
WORKED: list[tuple[str, Shapes, dict[str, Any], tuple[int, ...]]] = [
    ("input", (), {"name": "x", "dtype": "f32", "shape": (2, 3)}, (2, 3)),
    ("weight", (), {"name": "w", "dtype": "i8", "shape": ()}, ()),
    ("fill", (), {"value": 2.5, "dtype": "f32", "shape": (4,)}, (4,)),
    ("iota", (), {"shape": (2, 3), "axis": 1, "dtype": "i64"}, (2, 3)),
    ("eye", (), {"n": 3, "dtype": "f32"}, (3, 3)),
    ("conv_identity", (), {"channels": 6, "groups": 2, "kernel": (3, 5), "dtype": "f32"}, (6, 3, 3, 5)),
    ("conv_average", (), {"channels": 6, "kernel": (3, 5), "dtype": "f32"}, (6, 1, 3, 5)),
    ("ewadd", ((2, 1, 4), (3, 1)), {}, (2, 3, 4)),
    ("ewsub", ((), (5,)), {}, (5,)),
    ("ewmul", ((2, 3), (2, 3)), {}, (2, 3)),
    ("ewdiv", ((1,), (4, 1, 2)), {}, (4, 1, 2)),
    *((op, ((2, 1, 4), (3, 1)), {}, (2, 3, 4)) for op in ("ewmax", "ewmin", "equal", "greater")),
    ("select", ((4,), (2, 1, 1), (3, 1)), {}, (2, 3, 4)),
    ("logical_not", ((2, 3),), {}, (2, 3)),
    *((op, ((2, 1, 4), (3, 1)), {}, (2, 3, 4)) for op in ("logical_and", "logical_or", "not_equal")),
    *((op, ((2, 1, 4), (3, 1)), {}, (2, 3, 4)) for op in ("greater_equal", "mod")),
    ("smul", ((2, 3), ()), {}, (2, 3)),
    ("clip", ((2, 3),), {"low": 0.0, "high": 6.0}, (2, 3)),
    ("prelu", ((2, 3, 4), (3, 1)), {}, (2, 3, 4)),
    ("power", ((2, 3),), {"exponent": 2.0}, (2, 3)),
    ("one_hot", ((2, 3),), {"n": 5, "to": "f32"}, (2, 3, 5)),
    ("cast", ((2, 3),), {"to": "i32"}, (2, 3)),
    *(
        (op, ((2, 3),), {}, (2, 3))
        for op in ("relu", "dropout", *REAL_FUNCTIONS, *REAL_COMPOSITIONS, *COMPOSITIONS)
    ),
    ("matmul", ((2, 3), (3, 4)), {}, (2, 4)),
    ("matmul", ((5, 6, 2, 3), (5, 6, 3, 4), (4,)), {}, (5, 6, 2, 4)),
    ("conv2d", (I, (4, 3, 3, 3)), {}, (2, 4, 6, 7)),
    ("conv2d", (I, (6, 1, 2, 3), (6,)), {"stride": (2, 3)}, (2, 6, 4, 3)),
    ("conv2d", (I, (4, 3, 3, 2)), {"pads": (1, 0, 2, 3), "dilation": (2, 4)}, (2, 4, 7, 8)),
    ("poolmax", (I,), POOL, (2, 3, 6, 7)),
    ("poolmax", (I,), {**POOL, "stride": (2, 2), "pads": (1, 0, 2, 1)}, (2, 3, 5, 4)),
    ("poolavg", (I,), {**POOL, "stride": (3, 2), "include_pad": True}, (2, 3, 2, 4)),
    ("batchnorm", ((2, 3, 4), *[(3,)] * 4), {}, (2, 3, 4)),
    ("layernorm", ((2, 3), (3,), (3,)), {}, (2, 3)),
    ("instancenorm", ((2, 3, 4, 5), (3,), (3,)), {}, (2, 3, 4, 5)),
    ("rmsnorm", ((2, 3), (3,)), {}, (2, 3)),
    ("softmax", ((2, 3),), {"axis": 0}, (2, 3)),
    *((f"reduce_{r}", ((2, 3, 4),), {"axis": 1}, (2, 1, 4)) for r in ("sum", "mean", "max")),
    ("transpose", ((2, 3, 4),), {"perm": (2, 0, 1)}, (4, 2, 3)),
    ("reshape", ((2, 6),), {"shape": (3, 1, 4)}, (3, 1, 4)),
    ("concat", ((2, 3), (2, 1), (2, 5)), {"axis": 1}, (2, 9)),
    ("concat", ((2, 3),), {"axis": 0}, (2, 3)),
    ("slice", ((2, 7),), {"axis": 1, "start": 2, "stop": 6}, (2, 4)),
    ("expand", ((3, 1),), {"shape": (2, 3, 4)}, (2, 3, 4)),
    ("pad", ((2, 3),), {"before": (0, 1), "after": (3, 0), "mode": "edge"}, (5, 4)),
    ("dilate", ((2, 3),), {"axis": 1, "count": 2}, (2, 7)),
    ("reverse", ((2, 3),), {"axis": 1}, (2, 3)),
    ("dynamic_slice", ((2, 5), ()), {"axis": 1, "size": 3}, (2, 3)),
    ("dynamic_update_slice", ((2, 5), (2, 3), ()), {"axis": 1}, (2, 5)),
    ("gather", ((2, 7, 3), (4, 5)), {"axis": 1}, (2, 4, 5, 3)),
    ("resize", (I,), {"size": (5, 20), "mode": "linear"}, (2, 3, 5, 20)),
    ("upsample", (I,), {"factor": (2, 3)}, (2, 3, 16, 27)),
    ("depth_to_space", ((2, 12, 3, 5),), {"block": 2}, (2, 3, 6, 10)),
    ("pixel_shuffle", ((2, 12, 3, 5),), {"block": 2}, (2, 3, 6, 10)),
    ("space_to_depth", ((2, 3, 6, 10),), {"block": 2}, (2, 12, 3, 5)),
    ("upconv", ((2, 3, 5, 7), (3, 4, 2, 2), (4,)), {}, (2, 4, 10, 14)),
    ("enlarge", ((4, 3, 1, 3),), {"kernel": (3, 5)}, (4, 3, 3, 5)),
    ("merge", ((12, 2, 3, 3),), {"groups": 6, "count": 3}, (12, 6, 3, 3)),
]

NUMBERS = "the elements are numbers"
REAL = "the elements are floats"
ONE_TYPE = "both operands have one element type"
IMAGE = "the input is [n, c, h, w]"
ACT = "an activation of integers is none or relu"
AXIS = "axis is a dimension of the input"
VECTORS = "parameters are vectors"
PARAMETERS = "parameters have the input's element type"
POSITIVE = "dimensions are positive"
W = (4, 3, 3, 3)

#: Operator, operands, attributes, element types (one for all, or one each), and what is said.
REFUSED: list[tuple[str, Shapes, dict[str, Any], str, str]] = [
    ("input", (), {"name": "x", "dtype": "f32", "shape": (2, 0)}, "", POSITIVE),
    ("weight", (), {"name": "x", "dtype": "f32", "shape": (-1,)}, "", POSITIVE),
    ("fill", (), {"value": 1.0, "dtype": "f32", "shape": (0,)}, "", POSITIVE),
    ("fill", (), {"value": 2.7, "dtype": "i32", "shape": ()}, "", "the element type can hold the value"),
    ("fill", (), {"value": 2.0, "dtype": "bool", "shape": ()}, "", "the element type can hold the value"),
    ("fill", (), {"value": np.inf, "dtype": "i8", "shape": ()}, "", "the element type can hold the value"),
    ("iota", (), {"shape": (2, 0), "axis": 0, "dtype": "i32"}, "", POSITIVE),
    ("iota", (), {"shape": (2, 3), "axis": 2, "dtype": "i32"}, "", "axis is a dimension"),
    ("iota", (), {"shape": (300,), "axis": 0, "dtype": "i8"}, "", "places are i32 or i64"),
    ("one_hot", ((2, 3),), {"n": 5, "to": "f32"}, "f32", "places are i32 or i64"),
    ("eye", (), {"n": 0, "dtype": "f32"}, "", "the size is positive"),
    ("conv_identity", (), {"channels": 4, "groups": 0, "dtype": "f32"}, "", "sizes are positive"),
    (
        "conv_identity",
        (),
        {"channels": 4, "groups": 3, "dtype": "f32"},
        "",
        "channels is divisible by groups",
    ),
    ("conv_average", (), {"channels": 4, "kernel": (0, 1), "dtype": "f32"}, "", "sizes are positive"),
    ("conv_average", (), {"channels": 4, "kernel": (2, 1), "dtype": "i32"}, "", REAL),
    *((op, ((2,), (2,)), {}, "f32 f16", ONE_TYPE) for op in BINARY),
    *((op, ((2,), (2,)), {}, "bool", NUMBERS) for op in BINARY),
    *((op, ((2,), (3,)), {}, "f32", "the shapes broadcast: dimensions are equal or 1") for op in BINARY),
    ("select", ((), (2,), (2,)), {}, "f32", "the condition has truth values"),
    ("select", ((), (2,), (2,)), {}, "bool f32 f64", ONE_TYPE),
    ("select", ((), (2,), (3,)), {}, "bool f32 f32", "the shapes broadcast: dimensions are equal or 1"),
    ("select", ((3,), (2,), (2,)), {}, "bool f32 f32", "the shapes broadcast: dimensions are equal or 1"),
    ("power", ((2,),), {"exponent": 2.0}, "i32", REAL),
    ("smul", ((2,), ()), {}, "f32 f64", ONE_TYPE),
    ("smul", ((2,), ()), {}, "bool", NUMBERS),
    ("smul", ((2,), (1,)), {}, "f32", "s is a scalar"),
    ("relu", ((2,),), {}, "bool", NUMBERS),
    *((op, ((2,),), {}, "i32", REAL) for op in REAL_FUNCTIONS),
    ("matmul", ((2, 3), (3, 4)), {}, "f32 i32", ONE_TYPE),
    ("matmul", ((2, 3), (3, 4)), {}, "bool", NUMBERS),
    ("matmul", ((2, 3), (3, 4)), {"act": "gelu"}, "i64", ACT),
    ("matmul", ((1, 2, 3), (3, 4)), {}, "f32", "both operands have one rank"),
    ("matmul", ((3,), (3,)), {}, "f32", "operands have rank 2 or more"),
    ("matmul", ((2, 2, 3), (4, 3, 4)), {}, "f32", "batch dimensions agree"),
    ("matmul", ((2, 3), (2, 4)), {}, "f32", "the inner dimensions agree"),
    ("matmul", ((2, 3), (3, 4), (3,)), {}, "f32", "the bias has one element for each column"),
    ("matmul", ((2, 3), (3, 4), (4,)), {}, "f32 f32 f16", "the bias has the operands' element type"),
    ("conv2d", (I, W), {}, "f32 f16", "input and weight have one element type"),
    ("conv2d", (I, W), {}, "bool", NUMBERS),
    ("conv2d", (I, W), {"act": "tanh"}, "i32", ACT),
    ("conv2d", ((3, 8, 9), W), {}, "f32", IMAGE),
    ("conv2d", (I, (3, 3, 3)), {}, "f32", "the weight is [o, c / groups, kh, kw]"),
    ("conv2d", (I, W), {"stride": (1, 0)}, "f32", "strides and dilations are positive"),
    ("conv2d", (I, W), {"dilation": (-1, 1)}, "f32", "strides and dilations are positive"),
    ("conv2d", (I, W), {"pads": (0, 0, 0, -1)}, "f32", "padding is not negative"),
    ("conv2d", (I, (4, 2, 3, 3)), {}, "f32", "the input's channels are a multiple of the weight's"),
    ("conv2d", (I, (4, 1, 3, 3)), {}, "f32", "the output's channels are a multiple of the number of groups"),
    ("conv2d", (I, (4, 3, 9, 3)), {}, "f32", "the kernel fits into the padded input"),
    ("conv2d", (I, W, (3,)), {}, "f32", "the bias has one element for each output channel"),
    ("conv2d", (I, W, (4,)), {}, "f32 f32 f16", "the bias has the operands' element type"),
    *(
        (op, shapes, {**POOL, **attrs}, dtype, message)
        for op in ("poolmax", "poolavg")
        for shapes, attrs, dtype, message in (
            ((I,), {}, "bool", NUMBERS),
            ((I,), {"act": "sigmoid"}, "i32", ACT),
            (((2, 3),), {}, "f32", IMAGE),
            ((I,), {"stride": (0, 1)}, "f32", "kernel and strides are positive"),
            ((I,), {"pads": (-1, 0, 0, 0)}, "f32", "padding is not negative"),
            ((I,), {"pads": (0, 0, 3, 0)}, "f32", "padding is smaller than the kernel"),
            ((I,), {"kernel": (9, 1)}, "f32", "the window fits into the padded input"),
        )
    ),
    ("batchnorm", ((2, 3), *[(3,)] * 4), {}, "i32", REAL),
    ("batchnorm", ((3,), *[(3,)] * 4), {}, "f32", "the input has a channel dimension"),
    ("batchnorm", ((2, 3), (3,), (1, 3), (3,), (3,)), {}, "f32", VECTORS),
    (
        "batchnorm",
        ((2, 3), (3,), (2,), (3,), (3,)),
        {},
        "f32",
        "scale and bias have one element for each channel",
    ),
    (
        "batchnorm",
        ((2, 3), (3,), (3,), (3,), (2,)),
        {},
        "f32",
        "mean and var have one element for each channel",
    ),
    *(
        (
            "batchnorm",
            ((2, 3), *[(3,)] * 4),
            {},
            " ".join("f16" if i == k else "f32" for i in range(5)),
            PARAMETERS,
        )
        for k in range(1, 5)
    ),
    ("layernorm", ((2, 3), (3,), (3,)), {}, "i32", REAL),
    ("layernorm", ((), (3,), (3,)), {}, "f32", "the input has a dimension to normalise"),
    ("layernorm", ((2, 3), (3,), (1, 3)), {}, "f32", VECTORS),
    (
        "layernorm",
        ((2, 3), (3,), (2,)),
        {},
        "f32",
        "parameters have one element for each element of the last dimension",
    ),
    ("layernorm", ((2, 3), (3,), (3,)), {}, "f32 f32 f64", PARAMETERS),
    ("rmsnorm", ((2, 3), (3,)), {}, "i32", REAL),
    ("rmsnorm", ((), (3,)), {}, "f32", "the input has a dimension to normalise"),
    ("rmsnorm", ((2, 3), (2,)), {}, "f32", "scale has one element for each element of the last dimension"),
    ("rmsnorm", ((2, 3), (3,)), {}, "f32 f64", PARAMETERS),
    ("softmax", ((2, 3),), {"axis": 0}, "i32", REAL),
    ("softmax", ((2, 3),), {"axis": 2}, "f32", AXIS),
    *((f"reduce_{r}", ((2, 3),), {"axis": 0}, "bool", NUMBERS) for r in ("sum", "mean", "max")),
    *((f"reduce_{r}", ((2, 3),), {"axis": -1}, "f32", AXIS) for r in ("sum", "mean", "max")),
    ("transpose", ((2, 3),), {"perm": (0,)}, "f32", "perm names every dimension"),
    ("transpose", ((2, 3),), {"perm": (0, 0)}, "f32", "perm is a permutation"),
    ("transpose", ((2, 3),), {"perm": (0, 2)}, "f32", "perm is a permutation"),
    ("reshape", ((2, 3),), {"shape": (-2, -3)}, "f32", POSITIVE),
    ("reshape", ((2, 3),), {"shape": (7,)}, "f32", "the number of elements stays the same"),
    ("concat", ((2,), (2, 1)), {"axis": 0}, "f32", "all operands have one rank"),
    ("concat", ((2,), (2,)), {"axis": 0}, "f32 f16", "all operands have one element type"),
    ("concat", ((2,), (2,)), {"axis": 1}, "f32", "axis is a dimension of the operands"),
    ("concat", ((), ()), {"axis": 0}, "f32", "axis is a dimension of the operands"),
    ("concat", ((2, 3), (2, 4)), {"axis": 0}, "f32", "all dimensions but the axis agree"),
    ("slice", ((2, 3),), {"axis": 2, "start": 0, "stop": 1}, "f32", AXIS),
    ("slice", ((2, 3),), {"axis": 1, "start": 0, "stop": 4}, "f32", "0 <= start < stop <= the dimension"),
    ("slice", ((2, 3),), {"axis": 1, "start": 1, "stop": 1}, "f32", "0 <= start < stop <= the dimension"),
    ("expand", ((1,),), {"shape": (0,)}, "f32", POSITIVE),
    ("expand", ((1, 3),), {"shape": (3,)}, "f32", "the shape has all dimensions of the input"),
    ("expand", ((2,),), {"shape": (3,)}, "f32", "dimensions are equal to those of the shape or 1"),
    ("expand", ((3,),), {"shape": (3, 1)}, "f32", "dimensions are equal to those of the shape or 1"),
    ("pad", ((2, 3),), {"before": (0,), "after": (0, 0)}, "f32", "before and after have a number for every"),
    ("pad", ((2, 3),), {"before": (0, 0), "after": (0, -1)}, "f32", "padding is not negative"),
    (
        "pad",
        ((2, 3),),
        {"before": (0, 3), "after": (0, 0), "mode": "reflect"},
        "f32",
        "there are as many elements to mirror",
    ),
    (
        "pad",
        ((2,),),
        {"before": (0,), "after": (1,), "value": 0.5},
        "i32",
        "the element type can hold the value",
    ),
    ("gather", ((2, 3), (4,)), {"axis": 0}, "f32", "indices are i32 or i64"),
    ("gather", ((2, 3), (4,)), {"axis": 2}, "f32 i64", AXIS),
    ("resize", ((2, 3),), {"size": (2, 2)}, "f32", IMAGE),
    ("resize", (I,), {"size": (2, 2)}, "bool", NUMBERS),
    ("resize", (I,), {"size": (2, 2), "mode": "linear"}, "i32", "interpolated elements are floats"),
    ("resize", (I,), {"size": (2, 0)}, "f32", POSITIVE),
    ("enlarge", ((2, 3),), {"kernel": (3, 3)}, "f32", "the weight is [o, i, kh, kw]"),
    ("enlarge", (W,), {"kernel": (3, 1)}, "f32", "the new kernel is not smaller than the old one"),
    ("merge", ((2, 3),), {"groups": 2, "count": 2}, "f32", "the weight is [o, i, kh, kw]"),
    ("merge", (W,), {"groups": 4, "count": 3}, "f32", "groups is a multiple of count"),
    ("merge", (W,), {"groups": 3, "count": 3}, "f32", "the output's channels are a multiple of groups"),
]


def operands(shapes: Shapes, dtypes: str) -> list[TensorType]:
    names = dtypes.split() or ["f32"]
    return [TensorType(names[min(i, len(names) - 1)], s) for i, s in enumerate(shapes)]


@pytest.mark.parametrize(("op", "shapes", "attrs", "expected"), WORKED)
def test_worked_shapes(op: str, shapes: Shapes, attrs: dict[str, Any], expected: tuple[int, ...]) -> None:
    attrs = {**defaults(TABLE[op]), **attrs}
    types = operands(shapes, OPERANDS.get(op, "f32"))
    (t,) = infer(TABLE, op, types, attrs).concrete()
    assert t.shape == expected
    assert t.dtype == attrs.get("dtype", RESULTS.get(op, "f32"))
    if op in SEMANTICS:  # and NumPy agrees
        arrays = [np.ones(x.shape, computed_in(x.dtype)) for x in types]
        assert SEMANTICS[op](*arrays, **attrs).shape == expected


def test_every_operator_has_a_worked_shape() -> None:
    assert {op for op, *_ in WORKED} == set(TABLE)


@pytest.mark.parametrize(("op", "shapes", "attrs", "dtypes", "message"), REFUSED)
def test_each_constraint_is_reported(
    op: str, shapes: Shapes, attrs: dict[str, Any], dtypes: str, message: str
) -> None:
    with pytest.raises(IllTyped) as caught:
        infer(TABLE, op, operands(shapes, dtypes), {**defaults(TABLE[op]), **attrs})
    assert caught.value.message.startswith(message)


def test_every_constraint_of_every_operator_is_among_these() -> None:
    seen = [(op, message) for op, *_, message in REFUSED]
    for op, decl in TABLE.items():
        for stmt in decl.requires:
            text = stmt.message or ""
            assert any(o == op and text.startswith(m) for o, m in seen), (op, text)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", range(len(WORKED)))
def test_results_have_the_declared_kind_of_element(case: int, dtype: str) -> None:
    """Whatever element type an operator accepts, it computes elements of that kind: no float declared an integer."""
    op, shapes, attrs, _ = WORKED[case]
    if op not in SEMANTICS:
        return
    complete = {**defaults(TABLE[op]), **attrs}
    if "dtype" in complete:
        complete["dtype"] = dtype
    types = operands(shapes, OPERANDS.get(op, dtype).replace("f32", dtype))
    try:
        (t,) = infer(TABLE, op, types, complete).concrete()
    except IllTyped:
        assert dtype not in FLOATS or op == "iota"
        return
    result = SEMANTICS[op](*(np.ones(x.shape, computed_in(x.dtype)) for x in types), **complete)
    assert result.dtype == computed_in(t.dtype)


@pytest.mark.parametrize(
    ("statement", "caret"),
    [
        ("output x * 2.7", "2.7"),
        ("weight k : i32[2] = 0.5\n  output x + k", "0.5"),
        ("output half(x)", "half(x)"),
        (
            "output x * fill(; value = 2.7, dtype = i32, shape = [])",
            "fill(; value = 2.7, dtype = i32, shape = [])",
        ),
    ],
)
def test_integers_have_no_fractions(statement: str, caret: str) -> None:
    program = program_of(
        f"op half(x: tensor) = ewmul(x, 0.5)\ngraph g {{\n  input x : i32[2]\n  {statement}\n}}"
    )
    with pytest.raises(TsrError) as caught:
        graph_in(program)
    (problem,) = caught.value.diagnostics
    assert problem.span is not None
    assert problem.span.text == caret


def test_a_rule_with_a_fraction_leaves_integers_alone() -> None:
    program = program_of(
        "rule r { relu(x) => (relu(x) * 0.5) * 2.0 }\n"
        "graph g { input x : f32[2]\n input y : i32[2]\n output relu(x), relu(y) }"
    )
    e = explored(graph_in(program), program.rules, ops=program.ops)
    halves = [dict(a)["dtype"] for op, a in zip(e.op, e.attrs, strict=True) if op == "fill"]
    assert halves == ["f32", "f32"]


@pytest.mark.parametrize("size", [4, 5])
def test_a_result_without_elements_is_refused(size: int) -> None:
    """Of a shape rule that has no constraint of its own, too."""
    ops = program_of("opaque op shorter(x: tensor; by: int) { shape [dim(x, 0) - by] }").ops
    (t,) = infer(ops, "shorter", [TensorType("f32", (4,))], {"by": 3}).concrete()
    assert t.shape == (1,)
    with pytest.raises(IllTyped, match=rf"is positive, and its shape is \[{4 - size}\]"):
        infer(ops, "shorter", [TensorType("f32", (4,))], {"by": size})


def test_answers_are_remembered_for_values_of_one_kind() -> None:
    """To Python 1 is True, which is no size."""
    remembered = Inference(TABLE)
    assert remembered("eye", (), {"n": 1, "dtype": "f32"}).types[0].shape == (1, 1)
    with pytest.raises(TsrError, match="expected an integer, found a truth value"):
        remembered("eye", (), {"n": True, "dtype": "f32"})


@pytest.mark.parametrize("statement", ["select(c, 1, 0)", "one_or_zero(c)"])
def test_numbers_beside_truth_values_alone_are_truth_values(statement: str) -> None:
    """And no floats, which nothing says."""
    program = program_of(
        "op one_or_zero(c: tensor) = select(c, 1, 0)\n"
        f"graph g {{\n  input c : bool[2]\n  output {statement}\n}}"
    )
    graph = graph_in(program)
    ((_, output),) = graph.outputs
    assert graph.nodes[output].types == (TensorType("bool", (2,)),)


def test_a_product_of_many_factors() -> None:
    """What kind of number a product is was once asked twice of each part."""
    factors = " * ".join(["dim(x, 0)"] * 100)
    table = program_of(f"opaque op f(x: tensor) {{ shape shape(x) ; flops {factors} }}").ops
    one, two = TensorType("f32", (1,)), TensorType("f32", (2,))
    assert flops(table, "f", [one], {}, one) == 1
    assert flops(table, "f", [two], {}, two) == 0  # no operator has so many


@pytest.mark.parametrize("number", ["6 / (dim(x, 0) - 2)", "5 - 10 * dim(x, 0)", "shape(x)[3]"])
def test_an_application_that_a_rule_makes_has_a_price(number: str) -> None:
    """The place of the rule says nothing of the sizes that it is applied at."""
    table = program_of(f"opaque op f(x: tensor) {{ shape shape(x) ; flops {number} }}").ops
    two = TensorType("f32", (2,))
    assert flops(table, "f", [two], {}, two) == 0
