"""Matches a rule's source pattern node by node. The engine does this much faster; here it can be followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.typing import attributes, defaults
from tensat_dl.rewrite.classes import Terms
from tensat_dl.rewrite.source import MAX_RANK


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """What an attribute (``element`` of a list, if not None) must be: a value, or equal to a variable, which the
    first test of it binds."""

    attr: str
    element: int | None
    kind: Literal["is", "variable"]
    what: Any


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern node with its attributes sorted out: ``late`` ones are computed from what the rest matched."""

    node: PatternNode
    tests: tuple[AttributeTest, ...]
    late: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """Classes by name, values of attribute variables, and the nodes that the pattern's nodes matched."""

    tensors: Mapping[str, int]
    attrs: Mapping[str, Any]
    nodes: Mapping[str, int]


class Pattern:
    """The source of a rule, ready to be matched. That of a group rule is matched for one member at a time."""

    def __init__(self, rule: RewriteRule, ops: OpTable) -> None:
        self.rule = rule
        self.ops = ops
        self.shapes = {node.result: _shape(node, ops[node.op]) for node in rule.source.nodes}
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
        for tensors, attrs, nodes in search.roots(self.roots, dict(fixed or {}), {}, {}):
            if self.late_problem(terms, tensors, attrs, nodes) is None:
                yield Match(tensors, attrs, nodes)

    def environment(
        self, terms: Terms, tensors: Mapping[str, int], attrs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What expressions of the pattern may name."""
        env: dict[str, Any] = {self.rule.index: 0} if self.rule.index else {}
        for name, c in tensors.items():
            t = terms.type_of(c)
            env[name] = (t,) if name in self.rule.members else t
        return env | dict(attrs)

    def late_problem(
        self,
        terms: Terms,
        tensors: Mapping[str, int],
        attrs: Mapping[str, Any],
        nodes: Mapping[str, int],
    ) -> tuple[str, str, Any, Any] | None:
        """Of attributes given by expressions the first that is something else: the pattern node, the attribute, what
        it is and what it has to be."""
        for name, c in tensors.items():
            t = terms.type_of(c)
            if t is None:
                return name, "outputs", "several", "one"
            if t.rank > MAX_RANK:
                return name, "rank", t.rank, f"at most {MAX_RANK}"
        for result, shape in self.shapes.items():
            if not shape.late:
                continue
            env = self.environment(terms, tensors, attrs)
            inputs = [t for a in shape.node.args if (t := terms.type_of(tensors[a])) is not None]
            try:
                wanted = attributes(self.ops[shape.node.op], shape.node.attrs, env, inputs)
            except (EvaluationError, TsrError) as e:
                return result, shape.late[0].name, "not", str(e)
            actual = dict(terms.attrs[nodes[result]])
            for attribute in shape.late:
                name = attribute.name
                if actual[name] != wanted[name]:
                    return result, name, actual[name], wanted[name]
        return None


def _shape(node: PatternNode, decl: OpDecl) -> Shape:
    """Sorts out the attributes of a node."""
    given = {k.name for k in node.attrs}
    tests = [AttributeTest(a, None, "is", value) for a, value in defaults(decl).items() if a not in given]
    late: list[Attribute] = []
    for attribute in node.attrs:
        name = attribute.name
        match attribute.pattern:
            case Fixed(value):
                tests.append(AttributeTest(name, None, "is", value))
            case Variable(variable):
                tests.append(AttributeTest(name, None, "variable", variable))
            case Elements(items) if not any(isinstance(item, Computed) for item in items):
                for k, item in enumerate(items):
                    if isinstance(item, Variable):
                        tests.append(AttributeTest(name, k, "variable", item.name))
                    elif isinstance(item, Fixed):
                        tests.append(AttributeTest(name, k, "is", item.value))
            case _:
                late.append(attribute)
    return Shape(node, tuple(tests), tuple(late))


_State = tuple[dict[str, int], dict[str, Any], dict[str, int]]


@dataclass(frozen=True, slots=True)
class _Search:
    """Backtracking over the nodes of classes."""

    pattern: Pattern
    terms: Terms
    fits: Callable[[str, int], bool] | None

    def roots(
        self, roots: Sequence[str], tensors: dict[str, int], attrs: dict[str, Any], nodes: dict[str, int]
    ) -> Iterator[_State]:
        if not roots:
            yield tensors, attrs, nodes
            return
        root, rest = roots[0], roots[1:]
        if root in nodes:
            yield from self.roots(rest, tensors, attrs, nodes)
            return
        if root in tensors:
            candidates = self.terms.nodes_of(tensors[root])
        else:
            node = self.pattern.shapes[root].node
            bound = next((tensors[a] for a in node.args if a in tensors), None)
            candidates = self.terms.with_op(node.op) if bound is None else self.terms.users_of(bound)
        for n in tuple(candidates):
            for state in self._node(root, n, tensors, attrs, nodes):
                yield from self.roots(rest, *state)

    def _node(
        self, name: str, n: int, tensors: dict[str, int], attrs: dict[str, Any], nodes: dict[str, int]
    ) -> Iterator[_State]:
        """The pattern node ``name`` matched with the node n."""
        shape, terms = self.pattern.shapes[name], self.terms
        args = shape.node.args
        if terms.op[n] != shape.node.op:
            return
        children = terms.children_of(n)
        if len(children) != len(args):
            return
        bound = bind(shape, terms.attrs[n], attrs)
        if bound is None:
            return
        own = terms.class_of(n)
        if tensors.get(name, own) != own or (self.fits is not None and not self.fits(name, own)):
            return
        tensors = {**tensors, name: own}
        for a, c in zip(args, children, strict=True):
            if tensors.setdefault(a, c) != c:
                return
            if self.fits is not None and not self.fits(a, c):
                return
        inner = [a for a in dict.fromkeys(args) if a in self.pattern.shapes and a not in nodes]
        yield from self._inner(inner, tensors, bound, {**nodes, name: n})

    def _inner(
        self, names: Sequence[str], tensors: dict[str, int], attrs: dict[str, Any], nodes: dict[str, int]
    ) -> Iterator[_State]:
        if not names:
            yield tensors, attrs, nodes
            return
        if names[0] in nodes:
            yield from self._inner(names[1:], tensors, attrs, nodes)
            return
        for n in tuple(self.terms.nodes_of(tensors[names[0]])):
            for state in self._node(names[0], n, tensors, attrs, nodes):
                yield from self._inner(names[1:], *state)


def bind(shape: Shape, given: Attrs, attrs: dict[str, Any]) -> dict[str, Any] | None:
    """The variables after matching a node's attributes; None if one is something else."""
    actual = dict(given)
    bound = attrs
    for test in shape.tests:
        value = actual[test.attr]
        if test.element is not None:
            assert isinstance(value, tuple)
            value = value[test.element]
        if test.kind == "is":
            if value != test.what:
                return None
        elif test.what not in bound:
            bound = {**bound, test.what: value}
        elif bound[test.what] != value:
            return None
    return bound
