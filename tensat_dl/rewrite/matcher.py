"""Matches a rule's source pattern node by node. The engine does this much faster; here it can be followed.

A near miss is found by the same search when it goes on past differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.expression import member, with_lists
from tensat_dl.core.graph import attr_text
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.core.words import plural
from tensat_dl.ops.attributes import attributes, defaults
from tensat_dl.ops.kinds import article
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.rewrite.classes import Terms
from tensat_dl.rewrite.orders import either_order
from tensat_dl.rewrite.source import MAX_RANK


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """A demand on an attribute (on ``element`` of a list, if not None): it has the value ``wanted``, or that of
    ``variable``, which the first test of it binds."""

    attr: str
    element: int | None
    wanted: Any = None
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern node with its attributes sorted out: ``late`` ones are computed from the rest of the match."""

    node: PatternNode
    tests: tuple[AttributeTest, ...]
    late: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """A difference from a pattern node: the class that stands in its place, and the difference in words, with classes
    in braces."""

    node: PatternNode
    at: int
    what: str


@dataclass(frozen=True, slots=True)
class Match:
    """Classes by name, values of attribute variables, and the nodes that the pattern's nodes matched, in order;
    ``exchanged`` names those whose operands stand in the other order. Only a near miss has differences."""

    tensors: Mapping[str, int]
    attrs: Mapping[str, Any]
    nodes: Mapping[str, int]
    differences: tuple[NodeDifference, ...] = ()
    exchanged: frozenset[str] = frozenset()

    @property
    def closeness(self) -> tuple[int, int]:
        """Orders near misses: by operators that are right, then by differences."""
        return len(self.nodes), -len(self.differences)


class Pattern:
    """The source of a rule, ready to be matched. That of a group rule is matched for one member at a time."""

    def __init__(self, rule: RewriteRule, ops: OpTable) -> None:
        self.rule = rule
        self.ops = ops
        self.shapes = {node.result: _shape(node, ops[node.op]) for node in rule.source.nodes}
        self.either = either_order(rule, ops)
        used = {a for n in rule.source.nodes for a in n.args}
        #: The nodes that matching starts at: outputs, without those that are found inside of others.
        self.roots = [o for o in rule.source.outputs if o in self.shapes and o not in used] or [
            o for o in rule.source.outputs if o in self.shapes
        ]

    def matches(
        self,
        terms: Terms,
        fixed: Mapping[str, int] | None = None,
        fits: Callable[[str, int], bool] | None = None,
    ) -> Iterator[Match]:
        """All matches in which names in ``fixed`` stand for these classes, and all others for classes that fit."""
        search = _Search(self, terms, fits)
        for match in search.follow(self.roots, Match(fixed or {}, {}, {})):
            if search.late_difference(match) is None:
                yield match

    def part(self, terms: Terms, root: str, c: int) -> Iterator[Match]:
        """The matches of what one of the roots is computed from, in which it stands for the class c. Whether matches
        of all roots together are one of the pattern, `complete` says."""
        return _Search(self, terms).follow((root,), Match({root: c}, {}, {}))

    def complete(self, terms: Terms, match: Match) -> bool:
        """Whether a match of all nodes meets the demands on ranks, and on attributes given by expressions."""
        return _Search(self, terms).late_difference(match) is None

    def nearest(self, terms: Terms) -> Match | None:
        """The place in a graph with most of the pattern's operators and fewest differences; None if the graph has
        none of the operators."""
        search = _Search(self, terms, near=True)
        for names in (self.roots, reversed(self.shapes)):  # an operator of the inside, if none of the outside
            found = [m for name in names for m in search.near_misses(name)]
            if found:
                return max(found, key=lambda m: m.closeness)
        return None


def _shape(node: PatternNode, decl: OpDecl) -> Shape:
    """Sorts out the attributes of a node."""
    given = {k.name for k in node.attrs}
    tests = [AttributeTest(a, None, value) for a, value in defaults(decl).items() if a not in given]
    late: list[Attribute] = []
    for attribute in node.attrs:
        name, pattern = attribute.name, attribute.pattern
        items = pattern.items if isinstance(pattern, Elements) else (pattern,)
        if any(isinstance(item, Computed) for item in items):
            late.append(attribute)
            continue
        for k, item in enumerate(items):
            element = k if isinstance(pattern, Elements) else None
            if isinstance(item, Variable):
                tests.append(AttributeTest(name, element, variable=item.name))
            elif isinstance(item, Fixed):
                tests.append(AttributeTest(name, element, item.value))
    return Shape(node, tuple(tests), tuple(late))


@dataclass(frozen=True, slots=True)
class _Search:
    """Backtracking over the nodes of classes. ``near`` goes on past differences, each of which the match then has; of
    the nodes that another output may be it takes the one that fits best."""

    pattern: Pattern
    terms: Terms
    fits: Callable[[str, int], bool] | None = None
    near: bool = False

    def follow(self, names: Sequence[str], match: Match) -> Iterator[Match]:
        """A match continued by nodes for these names and for all that they are computed from."""
        if not names:
            yield match
            return
        name, rest = names[0], names[1:]
        if name in match.nodes:
            yield from self.follow(rest, match)
            return
        found = False
        for n in self._candidates(name, match):
            for longer in self._node(name, n, match):
                found = True
                yield from self.follow(rest, longer)
        if self.near and not found:
            yield from self.follow(rest, _with(match, self._absent(name, match)))

    def near_misses(self, name: str) -> Iterator[Match]:
        """The near misses in which a node matches this pattern node, with the differences in the rest of the
        pattern."""
        others = self.pattern.roots if name in self.pattern.roots else ()
        for n in self.terms.with_op(self.pattern.shapes[name].node.op):
            for begun in self._node(name, n, Match({}, {}, {})):
                for match in self.follow(others, begun):
                    if match.differences or len(match.nodes) < len(self.pattern.shapes):
                        yield match
                    else:
                        late = self.late_difference(match)
                        yield match if late is None else _with(match, late)

    def _candidates(self, name: str, match: Match) -> Iterable[int]:
        terms, node = self.terms, self.pattern.shapes[name].node
        if name in match.tensors:
            return tuple(terms.nodes_of(match.tensors[name]))
        if self.near:
            taken = set(match.nodes.values())
            free = [n for n in terms.with_op(node.op) if n not in taken]

            def agreement(n: int) -> int:
                pairs = zip(node.args, terms.children_of(n), strict=False)
                return sum(match.tensors.get(a) == c for a, c in pairs)

            return [max(free, key=agreement)] if free else []
        bound = next((match.tensors[a] for a in node.args if a in match.tensors), None)
        return tuple(terms.with_op(node.op) if bound is None else terms.users_of(bound))

    def _node(self, name: str, n: int, match: Match) -> Iterator[Match]:
        """The pattern node ``name`` matched with the node n, and its operands with n's."""
        shape, terms = self.pattern.shapes[name], self.terms
        if terms.op[n] != shape.node.op or match.tensors.get(name, terms.class_of(n)) != terms.class_of(n):
            return
        children = terms.children_of(n)
        yield from self._ordered(shape, n, children, match)
        if name in self.pattern.either and children[0] != children[1]:
            other = replace(match, exchanged=match.exchanged | {name})
            yield from self._ordered(shape, n, children[::-1], other)

    def _ordered(self, shape: Shape, n: int, children: Sequence[int], match: Match) -> Iterator[Match]:
        """A pattern node matched with the node n, whose operands are taken in this order."""
        name, args = shape.node.result, shape.node.args
        tensors, attrs = {**match.tensors, name: self.terms.class_of(n)}, dict(match.attrs)
        found = self._differences(shape, n, children, tensors, attrs)
        if not self.near and next(found, None) is not None:
            return
        nodes, differences = {**match.nodes, name: n}, (*match.differences, *found)
        if self.fits is not None and not all(self.fits(a, tensors[a]) for a in (name, *args)):
            return
        inner = [a for a in dict.fromkeys(args) if a in tensors and a in self.pattern.shapes]
        yield from self.follow(inner, Match(tensors, attrs, nodes, differences, match.exchanged))

    def _differences(
        self, shape: Shape, n: int, children: Sequence[int], tensors: dict[str, int], attrs: dict[str, Any]
    ) -> Iterator[NodeDifference]:
        """The differences between a node, whose operands are ``children``, and a pattern node. Names and variables
        that are new are bound on the way."""
        node, terms = shape.node, self.terms
        own = terms.class_of(n)
        if len(children) != len(node.args):
            has, wants = (f"{len(x)} {plural(len(x), 'operand')}" for x in (children, node.args))
            yield NodeDifference(node, own, f"it has {has}, and the pattern {wants}")
        actual: dict[str, Any] = dict(terms.attrs[n])
        for test in shape.tests:
            value = actual[test.attr] if test.element is None else actual[test.attr][test.element]
            wanted = attrs.setdefault(test.variable, value) if test.variable else test.wanted
            if value != wanted:
                which = test.attr if test.element is None else f"{test.attr}[{test.element}]"
                where = f"`{test.variable}` is {attr_text(wanted)} elsewhere"
                where = where if test.variable else f"the pattern has {attr_text(wanted)}"
                yield NodeDifference(node, own, f"{which} is {attr_text(value)}, and {where}")
        for a, c in zip(node.args, children, strict=False):
            known = tensors.setdefault(a, c)
            if known != c:
                yield NodeDifference(node, own, f"`{a}` is {{{known}}} in one place and {{{c}}} in another")

    def late_difference(self, match: Match) -> NodeDifference | None:
        """The first demand on a match of the whole pattern that is not met: on ranks, and on attributes that are
        given by expressions."""
        terms, pattern = self.terms, self.pattern

        def differs(name: str, attr: str, value: object, wanted: object) -> NodeDifference:
            node = pattern.shapes[name if name in pattern.shapes else next(iter(match.nodes))].node
            what = f"{attr} is {attr_text(value)}, and has to be {attr_text(wanted)}"
            return NodeDifference(node, match.tensors[name], what)

        rule = pattern.rule
        env: dict[str, Any] = {rule.index: 0} if rule.index else {}
        for name, c in match.tensors.items():
            t = terms.type_of(c)
            if t is None:
                return differs(name, "outputs", "several", "one")
            if t.rank > MAX_RANK:
                return differs(name, "rank", t.rank, f"at most {MAX_RANK}")
            env[name] = (t,) if name in rule.members else t
        env = with_lists({**env, **match.attrs})
        for result, shape in pattern.shapes.items():
            if not shape.late:
                continue
            inputs = [t for a in shape.node.args if (t := terms.type_of(match.tensors[a])) is not None]
            try:
                wanted = attributes(pattern.ops[shape.node.op], shape.node.attrs, env, inputs)
            except (EvaluationError, TsrError) as e:
                return differs(result, shape.late[0].name, "not", str(e))
            actual = dict(terms.attrs[match.nodes[result]])
            for attribute in shape.late:
                name = attribute.name
                if actual[name] != wanted[name]:
                    return differs(result, name, actual[name], wanted[name])
        return None

    def _absent(self, name: str, match: Match) -> NodeDifference:
        """There is no node for a pattern node, in its class or, if that is not known, at all."""
        node = self.pattern.shapes[name].node
        c = match.tensors.get(name)
        if c is None:
            root = next(iter(match.nodes))
            return NodeDifference(node, match.tensors[root], f"there is no other {node.op}")
        ops = list(dict.fromkeys(self.terms.op[n] for n in self.terms.nodes_of(c)))
        found = " and ".join(map(article, ops)) if len(ops) < 4 else f"one of {', '.join(ops)}"
        return NodeDifference(node, c, f"{{{c}}} is {found}, and the pattern has {article(node.op)}")


def merged(rule: RewriteRule, matches: Sequence[Match]) -> Match:
    """The match of a group rule for so many members, made of the matches of single members."""
    tensors: dict[str, int] = {}
    nodes: dict[str, int] = {}
    exchanged: set[str] = set()
    for k, m in enumerate(matches):
        own = {n: member(n, k) if n in rule.members else n for n in (*m.tensors, *m.nodes)}
        tensors |= {own[n]: c for n, c in m.tensors.items()}
        nodes |= {own[n]: c for n, c in m.nodes.items()}
        exchanged |= {own[n] for n in m.exchanged}
    return Match(tensors, matches[0].attrs, nodes, exchanged=frozenset(exchanged))


def _with(match: Match, difference: NodeDifference) -> Match:
    return replace(match, differences=(*match.differences, difference))
