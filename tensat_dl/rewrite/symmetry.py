"""Symmetric multi-pattern rules, whose matches all come twice: (a, b) and (b, a)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.rule import PatternNode, RewriteRule, Side
from tensat_dl.ops.table import OpTable

#: Rules with more outputs than this keep their mirror images: there are too many orders to try.
MAX_OUTPUTS = 5


def mirror(rule: RewriteRule, ops: OpTable, tensors: Sequence[str]) -> tuple[int, ...] | None:
    """How a match, given by its ``tensors``, is reordered to its mirror image: the position that each one comes
    from. None if the rule is not symmetric. Whether the image is a match too depends on the rule's conditions."""
    renaming = automorphism(rule, ops)
    if renaming is None:
        return None
    images = [renaming.get(t, t) for t in tensors]
    return tuple(map(tensors.index, images)) if set(images) <= set(tensors) else None


def automorphism(rule: RewriteRule, ops: OpTable) -> dict[str, str] | None:
    """A renaming that exchanges matched outputs and maps the source pattern onto itself.

    Outputs that the target computes in different ways are not exchanged: there the mirror image of a match gives
    something else.
    """
    outputs = rule.source.outputs
    if not 2 <= len(outputs) <= MAX_OUTPUTS:
        return None
    forms = _forms(rule.target)
    form = {s: forms.get(t, ()) for s, t in zip(outputs, rule.target.outputs, strict=True)}
    for shuffled in permutations(outputs):
        if shuffled == outputs or any(form[a] != form[b] for a, b in zip(outputs, shuffled, strict=True)):
            continue
        search = _Search(rule, ops)
        if all(search.match(a, b) for a, b in zip(outputs, shuffled, strict=True)):
            return search.renaming
    return None


class _Search:
    """Grows a renaming of the source pattern's names, node by node."""

    def __init__(self, rule: RewriteRule, ops: OpTable) -> None:
        self.nodes = {n.result: n for n in rule.source.nodes}
        self.ops = ops
        self.renaming: dict[str, str] = {}

    def bind(self, a: str, b: str) -> bool:
        if a in self.renaming or b in self.renaming.values():
            return self.renaming.get(a) == b
        self.renaming[a] = b
        return True

    def match(self, a: str, b: str) -> bool:
        """Maps a tensor's name, and the operator whose result it is, onto another."""
        if a in self.renaming or not self.bind(a, b):
            return self.renaming.get(a) == b
        x, y = self.nodes.get(a), self.nodes.get(b)
        if x is None or y is None:
            return x is y
        other = {k.name: k.value for k in y.attrs}
        if x.op != y.op or len(x.args) != len(y.args) or {k.name for k in x.attrs} != set(other):
            return False
        return all(map(self.match, x.args, y.args)) and all(
            self.match_attr(x, k.name, k.value, other[k.name]) for k in x.attrs
        )

    def match_attr(self, node: PatternNode, attr: str, a: ex.Expr, b: ex.Expr) -> bool:
        if isinstance(a, ex.Name) and isinstance(b, ex.Name):
            if self.is_word(node.op, attr, a.id) or self.is_word(node.op, attr, b.id):
                return a == b
            return self.bind(a.id, b.id)
        match a, b:
            case ex.ListExpr(tuple(p)), ex.ListExpr(tuple(q)) if len(p) == len(q):
                return all(self.match_attr(node, attr, x, y) for x, y in zip(p, q, strict=True))
        return isinstance(a, ex.Const) and a == b

    def is_word(self, op: str, attr: str, name: str) -> bool:
        """Whether an attribute is given by a word of its own, such as ``act = relu``."""
        decl = self.ops[op].attr(attr)
        return decl is not None and (name in decl.choices or self.ops[op].preset(attr, name) is not None)


def _forms(side: Side) -> dict[str, tuple[Any, ...]]:
    """The tree of operators that computes each result, variables left open."""
    forms: dict[str, tuple[Any, ...]] = {}
    for n in side.nodes:
        forms[n.result] = (n.op, *(forms.get(a, ()) for a in n.args))
    return forms
