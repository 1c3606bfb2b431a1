"""Symmetric multi-pattern rules, whose matches all come twice: (a, b) and (b, a)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from tensat_dl.core.rule import AttrPattern, Elements, Fixed, RewriteRule, Side, Variable

#: Rules with more outputs than this keep their mirror images: there are too many orders to try.
MAX_OUTPUTS = 5


def mirror(rule: RewriteRule, tensors: Sequence[str]) -> tuple[int, ...] | None:
    """The permutation from a match, given by its ``tensors``, to its mirror image: the position that each tensor
    comes from. None if the rule is not symmetric. Whether the image is a match too depends on the rule's
    conditions."""
    renaming = automorphism(rule)
    if renaming is None:
        return None
    images = [renaming.get(t, t) for t in tensors]
    return tuple(map(tensors.index, images)) if set(images) <= set(tensors) else None


def automorphism(rule: RewriteRule) -> dict[str, str] | None:
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
        search = _RenamingSearch(rule)
        if all(search.match(a, b) for a, b in zip(outputs, shuffled, strict=True)):
            return search.renaming
    return None


class _RenamingSearch:
    """Grows a renaming of the source pattern's names, node by node."""

    def __init__(self, rule: RewriteRule) -> None:
        self.nodes = {n.result: n for n in rule.source.nodes}
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
        other = {k.name: k.pattern for k in y.attrs}
        if x.op != y.op or len(x.args) != len(y.args) or {k.name for k in x.attrs} != set(other):
            return False
        return all(map(self.match, x.args, y.args)) and all(
            self.match_attr(k.pattern, other[k.name]) for k in x.attrs
        )

    def match_attr(self, a: AttrPattern, b: AttrPattern) -> bool:
        match a, b:
            case Variable(x), Variable(y):
                return self.bind(x, y)
            case Elements(p), Elements(q) if len(p) == len(q):
                return all(map(self.match_attr, p, q))
        return isinstance(a, Fixed) and a == b


def _forms(side: Side) -> dict[str, tuple[Any, ...]]:
    """The tree of operators that computes each result, variables left open."""
    forms: dict[str, tuple[Any, ...]] = {}
    for n in side.nodes:
        forms[n.result] = (n.op, *(forms.get(a, ()) for a in n.args))
    return forms
