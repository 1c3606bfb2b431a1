"""Elements in numbers: what an expression of an element is for given arrays and integers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import inf

import numpy as np

from tensat_dl.ops.semantics import SEMANTICS
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.symbolic import Atom, Condition, Int, Sym
from tensat_dl.verify.symbolic.normal_form import Factor, FunctionOf, Read, Symbol, Value

Integers = Mapping[Atom, int]


def integer(x: Int, known: Integers) -> int:
    if not isinstance(x, Sym):
        return x
    return sum(k * int(np.prod([_atom(a, known) for a in m], dtype=object)) for m, k in x.terms)


def _atom(a: Atom, known: Integers) -> int:
    if a in known:
        return known[a]
    match a[0]:
        case "dim" if len(a[1]) == 1:  # a positive attribute
            return known[a[1][0]]
        case "dim":  # the quotient of a dimension
            whole, part = a[1]
            return _atom(whole, known) // integer(part, known)
        case "div":
            return integer(a[1], known) // integer(a[2], known)
        case "mod":
            return integer(a[1], known) % integer(a[2], known)
        case "max":
            return max(integer(p, known) for p in a[1:])
        case "min":
            return min(integer(p, known) for p in a[1:])
        case "select":
            return integer(a[1][integer(a[2], known)], known)
        case "element":
            return int(known[("array", a[1])].reshape(-1)[integer(a[2], known)])  # type: ignore[attr-defined]
    raise KeyError(a)


def holds(c: Condition, known: Integers) -> bool:
    match c.kind:
        case "eq":
            return integer(c.args[0], known) == 0
        case "ne":
            return integer(c.args[0], known) != 0
        case "le":
            return integer(c.args[0], known) <= 0
        case "and":
            return all(holds(x, known) for x in c.args)
        case "or":
            return any(holds(x, known) for x in c.args)
    assert c.kind == "not"
    return not holds(c.args[0], known)


def number(v: Value, arrays: Mapping[str, Array], known: Integers) -> float:
    known = {**known, **{("array", name): x for name, x in arrays.items()}}
    total = 0.0
    for t, c in v.terms:
        for inner in _ranges(t.over, known):
            if all(holds(g, inner) for g in t.guards):
                total += float(c) * float(
                    np.prod([_factor(f, arrays, inner) ** float(n) for f, n in t.factors])
                )
    return total


def _ranges(over: tuple[tuple[Atom, Int], ...], known: Integers) -> list[Integers]:
    extents = [range(integer(n, known)) for _, n in over]
    return [{**known, **dict(zip((a for a, _ in over), i, strict=True))} for i in product(*extents)]


def _factor(f: Factor, arrays: Mapping[str, Array], known: Integers) -> float:
    match f:
        case Read(tensor, offset):
            return float(arrays[tensor].reshape(-1)[integer(offset, known)])
        case Symbol(("float", atom)) if atom in known:
            return float(known[atom])
        case Symbol(atom):
            return float(integer(Sym((((atom,), 1),)), known))
    assert isinstance(f, FunctionOf)
    if f.fn == "largest":
        inside = [k for k in _ranges(f.over, known) if all(holds(g, k) for g in f.guards)]
        return max((number(f.args[0], arrays, k) for k in inside), default=-inf)
    args = [number(a, arrays, known) for a in f.args]
    match f.fn:
        case "max":
            return max(args)
        case "quotient":
            return float(SEMANTICS["ewdiv"](*(np.asarray(round(x)) for x in args)))
        case "sum":
            return args[0]
        case "is zero":
            return float(args[0] == 0)
        case "is positive":
            return float(args[0] > 0)
    if f.fn.startswith("cast to "):
        return float(SEMANTICS["cast"](np.asarray(args[0]), to=f.fn.removeprefix("cast to ")))
    if f.fn.startswith("weight "):
        words = dict(zip(("mode", "coordinates", "rounding"), f.fn.split()[1:], strict=True))
        new, old, size, count = map(round, args)
        only = (np.arange(count) == old).astype(float).reshape(1, 1, count, 1)
        return float(SEMANTICS["resize"](only, size=(size, 1), **words)[0, 0, new, 0])
    if f.fn.startswith("power "):
        return args[0] ** float(f.fn.removeprefix("power "))
    return float(SEMANTICS[f.fn](np.asarray(args[0])))
