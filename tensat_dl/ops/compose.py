"""Operators that are defined as compositions of others: what they compute, by expanding their definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensat_dl.ir.graph import AttrValue
from tensat_dl.ir.types import TensorType
from tensat_dl.lang import ast
from tensat_dl.ops.semantics import SEMANTICS, Array, Semantics
from tensat_dl.ops.table import INFIX, OpDecl, OpTable
from tensat_dl.ops.typing import attributes, environment, is_number, number


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
        names = {p.name: a for p, a in zip(decl.inputs, arrays, strict=False)}
        # Types stand in for tensors where attributes are computed; the element type is of no consequence there.
        env = environment(decl, [_type(a) for a in arrays], attrs)

        def value(expr: ast.Expr) -> Array:
            match expr:
                case ast.Name(id) if id in names:
                    return names[id]
                case ast.Binary(op, left, right) if op in INFIX:
                    return operator(INFIX[op], (left, right), ())
                case ast.Call(fn, args, given) if isinstance(args, tuple):
                    return operator(fn, args, given)
            raise AssertionError(expr)

        def operator(fn: str, args: Sequence[ast.Expr], given: Sequence[ast.KeywordArg]) -> Array:
            like = next(iter(names.values()))
            operands = [np.asarray(number(a), like.dtype) if is_number(a) else value(a) for a in args]
            values = attributes(ops[fn], given, env, [_type(x) for x in operands])
            return known[fn](operands, values)

        assert decl.composition is not None
        return value(decl.composition)

    return apply


def _type(array: Array) -> TensorType:
    return TensorType("f64", array.shape)
