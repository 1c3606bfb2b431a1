"""Merges: laws about concatenations of two results, as rules that have both of these results.

That f(x [y z]) = [f(x y) f(x z)] and that f(x y) and f(x z) are the parts of f(x [y z]) follow from each other for
`tensat-dl prove`, which has all terms at hand. A search meets f(x y) and f(x z), but no concatenation of them.
"""

from __future__ import annotations

from tensat_dl.discover.candidates import Equation, Tree, candidate_in_order
from tensat_dl.discover.generalise import General
from tensat_dl.ops.table import OpTable


def merged(g: General, ops: OpTable) -> Equation | None:
    """The equation of a law, with the concatenation on the left; None if there is no concatenation of two different
    terms of which one term that reads fewer tensors computes both."""
    c = g.equation
    for parts, whole, back in ((c.left, c.right, "<="), (c.right, c.left, "=>")):
        if g.arrow != back and parts.op == "concat" and _is_merge(parts.args, whole):
            return candidate_in_order(parts, whole, ops)
    return None


def _is_merge(parts: tuple[Tree, ...], whole: Tree) -> bool:
    one, two = parts
    fewer = sum(1 for _ in whole.leaves()) < sum(1 for t in parts for _ in t.leaves())
    return bool(one.args and two.args) and one.shape != two.shape and fewer
