"""The conditions of rules: their parts, what in them only an e-graph knows, and the words they may name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import children
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.kinds import FACTS
from tensat_dl.ops.symbolic import Condition, EvaluationError, Opaque, Sym
from tensat_dl.ops.table import OpTable

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


def words(ops: OpTable) -> dict[str, str]:
    """What attributes can be set to by name; a condition may compare with it, as in ``act == relu``."""
    return {choice: choice for decl in ops.values() for a in decl.attrs for choice in a.choices}


def negated_weight(expr: Any) -> ex.Call | None:
    """``weight(x)`` of ``not weight(x)``, which is a fact of its own: an e-class may be both computed from weights
    alone in one way and from an input in another."""
    match expr:
        case ex.Unary("not", ex.Call("weight") as call):
            return call
    return None


def asks_varying(expr: Any) -> bool:
    """Whether a condition says ``not weight(x)`` somewhere."""
    return negated_weight(expr) is not None or any(map(asks_varying, children(expr)))


def with_facts(expr: Any, env: dict[str, Any], known: Callable[[str, str], Any] | None = None) -> Any:
    """``weight(x)`` and the like replaced by names that stand for what the e-graph knows about x: unknowns,
    or what ``known(function, x)`` says, for ``not weight(x)`` as the function ``varying``."""
    call = None if known is None else negated_weight(expr)
    if call is not None:
        return with_facts(replace(call, fn="varying"), env, known)
    if isinstance(expr, ex.Call) and expr.fn in (*FACTS, "varying") and isinstance(expr.args, tuple):
        (arg,) = expr.args
        tensor = None
        if isinstance(arg, ex.Name):
            tensor = arg.id
        elif isinstance(arg, ex.Index) and isinstance(arg.base, ex.Name) and isinstance(arg.index, ex.Const):
            tensor = f"{arg.base.id}[{arg.index.value}]"
        if tensor is not None:
            name = f"{expr.fn} of {tensor}"
            if known is not None:
                env[name] = known(expr.fn, tensor)
            elif expr.fn in ("weight", "start"):
                env[name] = Condition(expr.fn, (tensor,))
            elif expr.fn == "factors":
                env[name] = sym.atom("factors", tensor)
            else:
                env[name] = Opaque(("value", tensor))
            return ex.Name(name, span=expr.span)
    if isinstance(expr, ex.Binary):
        left, right = (with_facts(e, env, known) for e in (expr.left, expr.right))
        return replace(expr, left=left, right=right)
    if isinstance(expr, ex.Unary):
        return replace(expr, operand=with_facts(expr.operand, env, known))
    return expr
