"""Integers that may be unknown: polynomials over atoms, and conditions on them.

Shape rules are evaluated in two domains by one evaluator. With concrete shapes every value is a Python int and
every condition a Python bool. With pattern variables a dimension is an *atom*, arithmetic builds polynomials with
integer coefficients, and a condition that is neither plainly true nor plainly false is a `Condition`. Atoms are
tuples whose first element tells their kind:

    ("dim", x, i)        dimension i of tensor variable x
    ("attr", a)          integer attribute variable a
    ("elem", a, i, n)    element i of list variable a, which has n
    ("div", p, q)        p / q, rounded down            ("mod", p, q)    the remainder
    ("max", p, q)  ("min", p, q)                        ("select", ps, p)  element p of the list ps
    ("unselect", ps, qs, p)  element of ps where the permutation qs has p
    ("element", x, p)  the element of an integer tensor variable x at offset p
    ("before", p)  the sum of p over the members of a list before `MEMBER`    ("after", p)  over those after it

What varies by member of a list has the name ``Of(x, i)``: ("dim", Of("w", p), 0) is dimension 0 of member p of w.
"""

from tensat_dl.ops.symbolic.conditions import (
    all_of,
    any_of,
    at_most,
    below,
    compared,
    equal,
    every,
    fact,
    negate,
)
from tensat_dl.ops.symbolic.integers import (
    add,
    element,
    floordiv,
    maximum,
    minimum,
    mod,
    mul,
    neg,
    select,
    sub,
    unselect,
)
from tensat_dl.ops.symbolic.substitution import after, before, is_sum_of_dimensions, substitute
from tensat_dl.ops.symbolic.terms import (
    EACH,
    LENGTH,
    MEMBER,
    Atom,
    Bool,
    Condition,
    EvaluationError,
    Int,
    Monomial,
    NotKnown,
    Of,
    Opaque,
    Sym,
    atom,
    atoms_of,
    elements,
    only_atom,
    remembered,
    terms_of,
    text_of,
)

__all__ = [
    "EACH",
    "LENGTH",
    "MEMBER",
    "Atom",
    "Bool",
    "Condition",
    "EvaluationError",
    "Int",
    "Monomial",
    "NotKnown",
    "Of",
    "Opaque",
    "Sym",
    "add",
    "after",
    "all_of",
    "any_of",
    "at_most",
    "atom",
    "atoms_of",
    "before",
    "below",
    "compared",
    "element",
    "elements",
    "equal",
    "every",
    "fact",
    "floordiv",
    "is_sum_of_dimensions",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "neg",
    "negate",
    "only_atom",
    "remembered",
    "select",
    "sub",
    "substitute",
    "terms_of",
    "text_of",
    "unselect",
]
