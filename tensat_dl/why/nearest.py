"""Where a rule's source comes nearest to matching, and what is different there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tensat_dl.core.rule import PatternNode
from tensat_dl.rewrite.checks import Known, fact
from tensat_dl.rewrite.classes import Terms
from tensat_dl.rewrite.matcher import AttributeTest, Match, Pattern, Shape
from tensat_dl.why.conditions import Failure, failure
from tensat_dl.why.instances import Instances

#: Structural matches of which conditions are looked at.
MAX_MATCHES = 2_000


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """What is not as a pattern node has it: the class that should be it, and what is different."""

    node: PatternNode
    at: int
    what: str


@dataclass(frozen=True, slots=True)
class Near:
    """A part of a pattern that matches at a class, and all that is different in the rest. ``matched`` counts pattern
    nodes of the right operator."""

    root: str
    at: int
    matched: int
    differences: tuple[NodeDifference, ...]

    @property
    def closeness(self) -> tuple[int, int]:
        return self.matched, -len(self.differences)


@dataclass(frozen=True, slots=True)
class FailedMatch:
    """A match of the whole pattern for which the rule does not hold."""

    match: Match
    failure: Failure


@dataclass
class NearMisses:
    """What looking for a pattern found: where the rule applies, where only its conditions fail, the nearest part."""

    fires: list[Match] = field(default_factory=list)
    failed: list[FailedMatch] = field(default_factory=list)
    near: Near | None = None


def look(pattern: Pattern, terms: Terms, known: Known, nearly: bool = True) -> NearMisses:
    """Looks for a rule without members, and, if ``nearly``, for the nearest part if it does not match anywhere. Each
    list has the best first."""
    found = NearMisses()
    instances = Instances(pattern.ops, known)
    for match in islice(pattern.matches(terms), MAX_MATCHES):
        if len({match.nodes[r] for r in pattern.roots}) < len(pattern.roots):
            continue  # merging a thing with itself is nothing that anyone asks for
        variant = instances.variant(pattern.rule, match.tensors, match.attrs)
        if variant is not None:
            found.fires.append(match)
        else:
            wrong = condition_failure(pattern, match, known)
            if wrong is not None:
                found.failed.append(FailedMatch(match, wrong))
    found.failed.sort(key=lambda f: -f.failure.passed)
    if nearly and not found.fires and not found.failed:
        found.near = nearest(pattern, terms)
    return found


def condition_failure(pattern: Pattern, match: Match, known: Known) -> Failure | None:
    """Why a rule does not apply to a match of its whole source."""
    types = {n: known.types[c] for n, c in match.tensors.items()}
    return failure(
        pattern.rule, pattern.ops, types, match.attrs, lambda fn, name: fact(known, fn, match.tensors[name])
    )


def nearest(pattern: Pattern, terms: Terms) -> Near | None:
    """The place where most of a pattern's operators match and least is different; None if there is none of them."""
    best: Near | None = None
    for root in pattern.roots:
        for n in terms.with_op(pattern.shapes[root].node.op):
            near = _near(pattern, terms, root, terms.class_of(n), n)
            if best is None or near.closeness > best.closeness:
                best = near
    if best is not None:
        return best
    for name, shape in reversed(pattern.shapes.items()):  # an operator of the inside, if not of the outside
        for n in terms.with_op(shape.node.op):
            near = _near(pattern, terms, name, terms.class_of(n), n)
            if best is None or near.closeness > best.closeness:
                best = near
    return best


class _Walk:
    """Compares a pattern with nodes, and goes on after differences."""

    def __init__(self, pattern: Pattern, terms: Terms) -> None:
        self.pattern = pattern
        self.terms = terms
        self.tensors: dict[str, int] = {}
        self.attrs: dict[str, Any] = {}
        self.nodes: dict[str, int] = {}
        self.matched = 0
        self.differences: list[NodeDifference] = []

    def node(self, name: str, n: int) -> None:
        """The pattern node ``name`` is compared with a node of its operator."""
        shape, terms = self.pattern.shapes[name], self.terms
        own = terms.class_of(n)
        self.matched += 1
        self.tensors[name] = own
        self.nodes[name] = n
        children = terms.children_of(n)
        args = shape.node.args
        if len(children) != len(args):
            what = (
                f"it has {_count(len(children), 'operand')}, and the pattern {_count(len(args), 'operand')}"
            )
            self.differences.append(NodeDifference(shape.node, own, what))
        self._attributes(shape, n)
        for a, c in zip(args, children, strict=False):
            known = self.tensors.get(a)
            if known is not None and known != c:
                what = f"`{a}` is {{{known}}} in one place and {{{c}}} in another"
                self.differences.append(NodeDifference(shape.node, own, what))
            self.tensors.setdefault(a, c)
            if a in self.pattern.shapes and a not in self.nodes:
                self._operand(a, c)

    def _operand(self, name: str, c: int) -> None:
        node = self.pattern.shapes[name].node
        same = [n for n in self.terms.nodes_of(c) if self.terms.op[n] == node.op]
        if same:
            best = max(same, key=lambda n: _near(self.pattern, self.terms, name, c, n).closeness)
            self.node(name, best)
            return
        ops = dict.fromkeys(self.terms.op[n] for n in self.terms.nodes_of(c))
        what = f"{{{c}}} is {_one_of(list(ops))}, and the pattern has {_article(node.op)}"
        self.differences.append(NodeDifference(node, c, what))

    def _attributes(self, shape: Shape, n: int) -> None:
        actual = dict(self.terms.attrs[n])
        for test in shape.tests:
            value: Any = actual[test.attr]
            if test.element is not None:
                value = value[test.element]
            wanted = test.what if test.kind == "is" else self.attrs.setdefault(test.what, value)
            if value != wanted:
                self.differences.append(
                    NodeDifference(shape.node, self.terms.class_of(n), _attribute(test, value, wanted))
                )


def _near(pattern: Pattern, terms: Terms, root: str, c: int, n: int) -> Near:
    walk = _Walk(pattern, terms)
    walk.node(root, n)
    if root in pattern.roots:
        _others(walk, pattern, terms, c)
    complete = len(walk.nodes) == len(pattern.shapes)
    if complete and not walk.differences:
        late = pattern.late_problem(terms, walk.tensors, walk.attrs, walk.nodes)
        if late is not None:
            name, attr, value, wanted = late
            node = pattern.shapes[name].node if name in pattern.shapes else pattern.shapes[root].node
            what = f"{attr} is {_value(value)}, and has to be {_value(wanted)}"
            walk.differences.append(NodeDifference(node, walk.tensors[name], what))
    return Near(root, c, walk.matched, tuple(walk.differences))


def _others(walk: _Walk, pattern: Pattern, terms: Terms, at: int) -> None:
    """The other outputs of a multi-pattern rule, each at the node that fits best to what is matched, of which the
    first is ``at`` this class."""
    for root in pattern.roots:
        if root in walk.nodes:
            continue
        shape = pattern.shapes[root]
        best: tuple[tuple[int, int], int] | None = None
        for n in terms.with_op(shape.node.op):
            if n in walk.nodes.values():
                continue
            pairs = zip(shape.node.args, terms.children_of(n), strict=False)
            agree = sum(walk.tensors.get(a) == c for a, c in pairs)
            if best is None or (agree, -n) > best[0]:
                best = (agree, -n), n
        if best is None:
            what = f"there is no other {shape.node.op}"
            walk.differences.append(NodeDifference(shape.node, at, what))
        else:
            walk.node(root, best[1])


def _attribute(test: AttributeTest, value: Any, wanted: Any) -> str:
    which = test.attr if test.element is None else f"{test.attr}[{test.element}]"
    if test.kind == "is":
        return f"{which} is {_value(value)}, and the pattern has {_value(wanted)}"
    return f"{which} is {_value(value)}, and `{test.what}` is {_value(wanted)} elsewhere"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _article(op: str) -> str:
    return f"an {op}" if op[0] in "aeiou" else f"a {op}"


def _one_of(ops: Sequence[str]) -> str:
    return " and ".join(_article(op) for op in ops) if len(ops) < 4 else f"one of {', '.join(ops)}"


def names_in(text: str, names: Mapping[int, str]) -> str:
    """A text in which classes stand in braces, with their names."""
    for c, name in names.items():
        text = text.replace(f"{{{c}}}", f"`{name}`")
    return text
