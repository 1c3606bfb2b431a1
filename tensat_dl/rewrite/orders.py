"""Matching modulo commutativity: the operands of ``+``, ``*`` and the like may stand in either order in a pattern.

The engine looks such a pattern node up in a table that has every e-node in both orders (see `Constructor.either`), so
a rule is compiled once, however many of its operators commute. Where the other order of one node says nothing new, as
in ``s x + s y => s (x + y)``, the node is matched as it stands, and each match is found once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import base_of, is_every, replaced
from tensat_dl.core.rule import Attribute, Elements, Fixed, PatternNode, RewriteRule, Side, Variable
from tensat_dl.ops.table import OpDecl, OpTable

#: Rules with more commutative operators than this are not compared with other rules: there are too many orders.
MOST_COMPARED = 8


def either_order(rule: RewriteRule, ops: OpTable) -> frozenset[str]:
    """The results of those source nodes that are matched in both orders of their operands."""
    candidates = [n.result for n in rule.source.nodes if ops[n.op].commutative and n.args[0] != n.args[1]]
    if not candidates:
        return frozenset()
    form = nameless(rule, ops)
    return frozenset(c for c in candidates if nameless(_exchanged(rule, (c,)), ops) != form)


def mirror_form(rule: RewriteRule, ops: OpTable) -> object:
    """A value that two rules share if each is the other in another order of operands and with other names; None for
    a rule with too many orders."""
    results = sorted(either_order(rule, ops))
    if len(results) > MOST_COMPARED:
        return None
    orders = chain.from_iterable(combinations(results, k) for k in range(len(results) + 1))
    return min((nameless(_exchanged(rule, chosen), ops) for chosen in orders), key=repr)


def only_reorders(rule: RewriteRule, ops: OpTable) -> bool:
    """Whether the sides of a rule differ at most in the order of commutative operands."""
    return not rule.target.lets and _terms(rule.source, ops) == _terms(rule.target, ops)


def _terms(side: Side, ops: OpTable) -> list[str]:
    made: dict[str, str] = {}
    for node in side.nodes:
        args = [made.get(a, a) for a in node.args]
        args = sorted(args) if ops[node.op].commutative else args
        attrs = sorted((a.name, repr(a.pattern), repr(a.value)) for a in node.attrs)
        made[node.result] = repr((node.op, args, attrs, node.each))
    return [made.get(o, o) for o in side.outputs]


def commuted(decl: OpDecl) -> RewriteRule:
    """``f(x, y) => f(y, x)`` for a commutative f: a rule that explanations show and the engine does not need."""
    span = decl.span
    names = {a.name: f"{a.name}.a" for a in decl.attrs}
    attrs = tuple(Attribute(a, ex.Name(n, span=span), Variable(n)) for a, n in names.items())
    x, y = (t.name for t in decl.inputs)
    source, target = (PatternNode("z", decl.name, args, attrs, None, span) for args in ((x, y), (y, x)))
    return RewriteRule(
        f"{decl.name}-commutes",
        Side((source,), ("z",)),
        Side((target,), ("z",)),
        (),
        frozenset(),
        None,
        f"{decl.name}({x}, {y}) = {decl.name}({y}, {x}).",
        span,
        f"{decl.name}-commutes",
    )


def other_orders(rule: RewriteRule, ops: OpTable) -> Iterator[tuple[PatternNode, RewriteRule]]:
    """Each source node in which the order of operands matters, with the rule that has two of its operands
    exchanged."""
    for node in rule.source.nodes:
        if ops[node.op].commutative:
            continue
        for i, j in combinations(range(len(node.args)), 2):
            args = list(node.args)
            args[i], args[j] = args[j], args[i]
            nodes = tuple(replace(n, args=tuple(args)) if n is node else n for n in rule.source.nodes)
            yield node, replace(rule, source=replace(rule.source, nodes=nodes))


def _exchanged(rule: RewriteRule, results: Collection[str]) -> RewriteRule:
    """A rule with the operands of these source nodes exchanged."""
    nodes = (replace(n, args=n.args[::-1]) if n.result in results else n for n in rule.source.nodes)
    return replace(rule, source=replace(rule.source, nodes=tuple(nodes)))


def nameless(rule: RewriteRule, ops: OpTable) -> tuple[Any, ...]:
    """A rule without its names: equal for rules that differ in names, and in the order of commutative operands and
    of parts of a concat in the target."""
    return _Nameless(rule, ops).whole()


class _Nameless:
    """Names become numbers in the order in which the source's outputs lead to them."""

    def __init__(self, rule: RewriteRule, ops: OpTable) -> None:
        self.rule = rule
        self.ops = ops
        self.number: dict[str, int] = {}
        self.seen: set[str] = set()  #: results of source nodes
        self.source = {n.result: n for n in rule.source.nodes}
        sides = (*rule.source.nodes, *rule.target.nodes)
        self.names = {base_of(a) for n in sides for a in (n.result, *n.args)}
        self.names |= {base_of(v) for n in rule.source.nodes for a in n.attrs for v in a.variables()}
        self.names |= {name for name, _ in rule.target.lets}

    def whole(self) -> tuple[Any, ...]:
        rule = self.rule
        matched = tuple(chain.from_iterable(self._matched(o) for o in rule.source.outputs))
        lets = tuple((self._name(name), self._expression(e)) for name, e in rule.target.lets)
        built: dict[str, Any] = {}
        for node in rule.target.nodes:
            args = [built.get(a, self._name(a)) for a in node.args]
            # A true rule may exchange parts of a concat only if it exchanges them wherever they are used.
            if self.ops[node.op].commutative or node.op == "concat":
                args.sort(key=repr)
            built[node.result] = (node.op, *args, *self._attributes(node))
        outputs = tuple(built.get(o, self._name(o)) for o in rule.target.outputs)
        conditions = tuple(sorted(map(self._expression, rule.conditions)))
        members = tuple(sorted(map(repr, map(self._name, rule.members))))
        return matched, lets, outputs, conditions, members

    def _name(self, name: str) -> tuple[int, str]:
        base = base_of(name)
        return self.number.setdefault(base, len(self.number)), name.removeprefix(base)

    def _matched(self, name: str) -> Iterator[tuple[Any, ...]]:
        """The source nodes from a name down, each once."""
        own = self._name(name)
        result = base_of(name) if is_every(name) else name
        if result in self.seen or result not in self.source:
            return
        self.seen.add(result)
        node = self.source[result]
        args = []
        below: list[tuple[Any, ...]] = []
        for a in node.args:
            below += self._matched(a)
            args.append(self._name(a))
        yield own, node.op, *args, *self._attributes(node), node.each is not None
        yield from below

    def _attributes(self, node: PatternNode) -> Iterator[tuple[Any, ...]]:
        for a in sorted(node.attrs, key=lambda a: a.name):
            parts = a.pattern.items if isinstance(a.pattern, Elements) else (a.pattern,)
            literal = all(isinstance(p, Fixed) for p in parts)  # a word may be spelled as a name is
            yield a.name, repr(a.pattern) if literal else self._expression(a.value)

    def _expression(self, expr: ex.Expr) -> str:
        def change(part: Any) -> Any:
            if isinstance(part, ex.Name) and part.id in self.names:
                return ex.Name(f"?{self._name(part.id)[0]}", span=part.span)
            return None

        return repr(replaced(expr, change))
