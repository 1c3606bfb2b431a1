"""Operators that are defined as compositions of others: what they compute, by expanding their definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from tensat_dl.core import expression as ex
from tensat_dl.core.graph import AttrValue
from tensat_dl.core.types import TensorType
from tensat_dl.ops.semantics import SEMANTICS, Array, Semantics
from tensat_dl.ops.table import INFIX, OpDecl, OpTable
from tensat_dl.ops.typing import attributes, environment, neighbour, scalar_value

T = TypeVar("T")


def semantics_of(ops: OpTable) -> dict[str, Semantics]:
    """What each operator of a table computes: the reference semantics and the expanded compositions.

    Opaque operators are not in it.
    """
    known: dict[str, Semantics] = dict(SEMANTICS)
    for decl in ops.values():
        if decl.composition is not None:
            known[decl.name] = _composed(decl, ops, known)
    return known


def _composed(decl: OpDecl, ops: OpTable, known: Mapping[str, Semantics]) -> Semantics:
    def apply(arrays: Sequence[Array], attrs: Mapping[str, AttrValue]) -> Array:
        return compose(
            decl,
            ops,
            arrays,
            attrs,
            lambda a: a.shape,
            lambda x, like: np.asarray(x, like.dtype),
            lambda op, operands, values: known[op](operands, values),
            lambda x: {"f": "f64", "b": "bool"}.get(x.dtype.kind, "i64"),
        )

    return apply


def compose(
    decl: OpDecl,
    ops: OpTable,
    operands: Sequence[T],
    attrs: Mapping[str, AttrValue],
    shape: Callable[[T], tuple[int, ...]],
    scalar: Callable[[float, T], T],
    apply: Callable[[str, Sequence[T], Mapping[str, AttrValue]], T],
    dtype: Callable[[T], str],
) -> T:
    """The value of a composition, by way of the operators that its definition applies to each other.

    Values may be anything that has a ``shape``: ``scalar`` gives the value of a number in the definition, given what
    it takes its element type from, ``apply`` that of an operator, which may be a composition again. ``dtype`` is what
    a definition finds element types to be.
    """
    names = {p.name: a for p, a in zip(decl.inputs, operands, strict=False)}

    def type_of(value: T) -> TensorType:
        """Types stand in for tensors where attributes are computed."""
        return TensorType(dtype(value), shape(value))

    env = environment(decl, [type_of(a) for a in operands], attrs)

    def value(expr: ex.Expr) -> T:
        match expr:
            case ex.Name(id) if id in names:
                return names[id]
            case ex.Binary(op, left, right) if op in INFIX:
                return operator(INFIX[op], (left, right), ())
            case ex.Call(fn, args, given) if isinstance(args, tuple):
                return operator(fn, args, given)
        raise AssertionError(expr)

    def operator(fn: str, args: Sequence[ex.Expr], given: Sequence[ex.KeywordArg]) -> T:
        numbers = [scalar_value(a, env) for a in args]
        tensors = {i: value(a) for i, (a, n) in enumerate(zip(args, numbers, strict=True)) if n is None}
        like = neighbour(ops[fn], tensors)
        beside = operands[0] if like is None else tensors[like]
        values = [
            tensors[i] if n is None else scalar(float(n), beside)  # type: ignore[arg-type]
            for i, n in enumerate(numbers)
        ]
        return apply(fn, values, attributes(ops[fn], given, env, [type_of(x) for x in values]))

    assert decl.composition is not None
    return value(decl.composition)
