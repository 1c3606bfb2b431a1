"""The conditions of rules: their parts, and what in them only an e-graph knows."""

from __future__ import annotations

from tensat_dl.core import expression as ex
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Condition, EvaluationError, Opaque, Sym

#: Why a rule has no target where its own conditions can't hold.
UNMET = "a condition of the rule does not hold"


def conjuncts(c: sym.Bool) -> list[Condition]:
    if c is False:
        raise EvaluationError("an attribute can't have this value")
    if c is True:
        return []
    assert isinstance(c, Condition)
    return list(c.args) if c.kind == "and" else [c]


def is_about_ranks(expr: ex.Expr) -> bool:
    """Whether a condition is a comparison of ranks with each other or with numbers."""

    def is_rank(e: ex.Expr) -> bool:
        return isinstance(e, ex.Const) or (isinstance(e, ex.Call) and e.fn == "rank")

    return isinstance(expr, ex.Binary) and is_rank(expr.left) and is_rank(expr.right)


def values_in(c: Condition) -> list[str]:
    """The constants whose values a comparison, plain or negated, is about."""
    if c.kind == "not":
        return values_in(c.args[0])
    atoms = [x.atom for x in c.args if c.kind in ("same", "below") and isinstance(x, Opaque)]
    return [a[1] for a in atoms if a[0] == "value"]


def factors_in(c: Condition) -> list[str]:
    """The tensors whose numbers of factors a condition is about."""
    found: dict[str, None] = {}
    for x in c.args:
        if isinstance(x, Condition):
            found |= dict.fromkeys(factors_in(x))
        elif isinstance(x, Sym):
            found |= dict.fromkeys(sorted(a[1] for a in x.mentioned if a[0] == "factors"))
    return list(found)
