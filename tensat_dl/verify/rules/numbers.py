"""The numbers that a rule is written with, and for how many members of a group or list it is examined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import isfinite

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import calls_of, children, names_of
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError

#: How many members a group gets, and how many elements a list; and numbers around those of a rule, up to the most.
MEMBERS = (2, 3, 4)
LENGTHS = (1, 2, 3, 4)
MOST_MEMBERS = 17
#: The most where a rule has no instances with fewer: it asks for more.
LONGEST = 65


def sizes(rule: RewriteRule) -> tuple[int, ...]:
    """For how many members a rule is examined: of a group, or elements of a list; none for other rules."""
    if rule.index is None:
        return ()
    usual = LENGTHS if rule.takes_lists else MEMBERS
    return (*usual, *_near(numbers_of(rule), max(usual), MOST_MEMBERS))


def more_members(rule: RewriteRule) -> tuple[int, ...]:
    """For how many members a group or list rule is examined that has no instances with fewer: for numbers near those
    that its conditions compare a length with."""
    lengths = (c for c in rule.conditions if any(call.fn == "len" for call in calls_of(c)))
    return () if rule.index is None else _near(numbers_in(tuple(lengths)), MOST_MEMBERS, LONGEST)


def _near(numbers: Iterable[int | float], above: int, most: int) -> tuple[int, ...]:
    """Numbers near these, within bounds."""
    near = {n + d for n in numbers if isinstance(n, int) for d in (-1, 0, 1, 2)}
    return tuple(sorted(n for n in near if above < n <= most))


def counts_members(rule: RewriteRule) -> bool:
    """Whether a group or list rule compares or divides the place of a member or the number of members: it may be
    another rule for more members than are tried."""
    attrs = (k.value for n in rule.nodes for k in n.attrs)
    parts = (*rule.conditions, *attrs, *(expr for _, expr in rule.target.lets))
    return rule.index is not None and any(_counts(part, rule.index) for part in parts)


def _counts(tree: object, index: str) -> bool:
    match tree:
        case ex.Binary(op) if op not in ("+", "-", "*", "and", "or"):
            found = any(_is_number_of_members(part, index) for part in children(tree))
        case ex.Call("min" | "max") | ex.Index(ex.ListExpr()):
            found = any(_is_number_of_members(part, index) for part in children(tree))
        case ex.EachIn(body, name) if name != index and _is_number_of_members(tree.range, index):
            found = _counts(body, name)  # which runs over places, too
        case _:
            found = False
    return found or any(_counts(part, index) for part in children(tree))


def _is_number_of_members(tree: object, index: str) -> bool:
    """Whether an expression has the place of a member, other than to name what is its own, or the number of them."""
    match tree:
        case ex.Name(name):
            return name == index
        case ex.Call("len"):
            return True
        case ex.Index(base, place):
            return _is_number_of_members(base, index) or (
                not isinstance(place, ex.Name) and _is_number_of_members(place, index)
            )
    return any(_is_number_of_members(part, index) for part in children(tree))


def numbers_of(rule: RewriteRule) -> tuple[int | float, ...]:
    """The numbers that a rule is written with: in its conditions, attributes and lets."""
    attrs = tuple(k.value for n in rule.nodes for k in n.attrs)
    lets = tuple(expr for _, expr in rule.target.lets)
    return tuple(n for n in dict.fromkeys(numbers_in((*rule.conditions, *attrs, *lets))) if isfinite(n))


def numbers_in(tree: object) -> Iterator[int | float]:
    """The numbers that are written in expressions, and what is computed from numbers alone, as in ``16 * 16``."""
    match tree:
        case ex.Const(int() | float() as value, "int" | "float"):
            yield value
        case ex.Unary("-", operand):
            yield from (-x for x in numbers_in(operand))
        case _:
            if isinstance(tree, ex.Binary) and not any(names_of(tree)):
                with suppress(EvaluationError):
                    value = evaluate(tree, {})
                    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
                        yield value
            for child in children(tree):
                yield from numbers_in(child)
