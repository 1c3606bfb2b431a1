"""A rule at concrete types and attributes, as two graphs. Whether it applies there is decided here, by the same
typing and the same conditions that decide it for a graph of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.graph import Attrs, AttrValue, Graph, GraphBuilder
from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.core.types import INTEGERS, TensorType
from tensat_dl.ops.evaluate import evaluate, knowing
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.ops.typing import IllTyped, Inference, attributes
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.target import type_target


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a rule's variables stand for: the types of tensors, the values of attributes, and ``facts``, by function
    and tensor, that a condition may ask for: ("weight", x), ("start", x), ("factors", x) and ("value", x), which is
    the one value that all elements of x have. The members of a group are ``w[0]``, ``w[1]``, .."""

    types: Mapping[str, TensorType]
    attrs: Mapping[str, AttrValue]
    facts: Mapping[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        """How many elements its tensors have together."""
        return sum(prod(t.shape) for t in self.types.values())


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule's two sides as graphs of the same inputs, whose outputs have equal names and types. ``members`` is the
    size of the group, 0 for a rule without one."""

    assignment: Assignment
    before: Graph
    after: Graph
    members: int = 0


class Sides:
    """Builds instances of a rule without a group (see `instantiate`); see `Skeletons` for ``rejected``."""

    def __init__(self, rule: RewriteRule, infer: Inference, rejected: Sequence[ex.Expr] = ()) -> None:
        self.rule = rule
        self.infer = infer
        self.ops: OpTable = infer.table
        self.rejected = tuple(rejected)
        self._opaque = [n.op for n in (*rule.source.nodes, *rule.target.nodes) if self.ops[n.op].opaque]

    def build(self, given: Assignment, members: int = 0) -> Instance | None:
        """The instance for an assignment, or None if the rule does not apply: a side that does not type-check, a
        condition that does not hold, an output that changes its type."""
        try:
            return self._build(given, members)
        except (IllTyped, EvaluationError):
            return None

    def _build(self, given: Assignment, members: int) -> Instance | None:
        rule = self.rule
        variant = Variant({}, dict(given.attrs), {})
        for name, t in given.types.items():
            variant.bind(name, SymType(t.dtype, t.shape), False)
        source: list[Attrs] = []
        for node in rule.source.nodes:
            inputs = [variant.types[a] for a in node.args]
            attrs = attributes(self.ops[node.op], node.attrs, variant.env, inputs)
            source.append(_ordered(self.ops[node.op], attrs))
            variant.bind(node.result, self.infer(node.op, inputs, attrs).types[0], False)
        before_types = {n: _concrete(t) for n, t in variant.types.items()}
        if not self._met(given, variant):
            return None
        type_target(rule, self.infer, variant)
        if variant.guards:  # cannot be with known numbers
            return None
        target = [
            _ordered(self.ops[n.op], a) for n, a in zip(rule.target.nodes, variant.target_attrs, strict=True)
        ]
        builder = GraphBuilder(rule.name, self._opaque)
        known = {name: self._leaf(builder, name, t, given) for name, t in given.types.items()}
        _add(builder, rule.source.nodes, source, before_types, known)
        outputs = [(f"out{i}", known[o]) for i, o in enumerate(rule.source.outputs)]
        before = builder.finish(outputs)
        after_types = {n: _concrete(t) for n, t in variant.types.items()}
        _add(builder, rule.target.nodes, target, after_types, known)
        outputs = [(f"out{i}", known[o]) for i, o in enumerate(rule.target.outputs)]
        return Instance(given, before, builder.finish(outputs), members)

    def _met(self, given: Assignment, variant: Variant) -> bool:
        def known(fn: str, tensor: str) -> Any:
            return self._fact(fn, tensor, given)

        def true(c: ex.Expr) -> bool:
            return evaluate(c, knowing(variant.env, known)) is True

        if not all(true(c) for c in self.rule.conditions):
            return False
        return not self.rejected or not all(_defined(true, c) for c in self.rejected)

    def _fact(self, fn: str, tensor: str, given: Assignment) -> Any:
        """What holds of a tensor. Of an intermediate result: it is known ahead of time if its operands are."""
        if fn == "varying":
            return not self._fact("weight", tensor, given)
        default = {"weight": False, "start": True, "factors": 1, "value": float("nan")}[fn]
        node = next((n for n in self.rule.source.nodes if n.result == tensor), None)
        if node is not None and fn == "value":
            return default
        if node is not None and fn == "weight":
            return all(self._fact(fn, a, given) for a in node.args)
        if fn == "weight" and ("value", tensor) in given.facts:
            return True
        return given.facts.get((fn, tensor), default)

    def _leaf(self, builder: GraphBuilder, name: str, t: TensorType, given: Assignment) -> int:
        value = given.facts.get(("value", name))
        if value is not None:
            least, most = INTEGERS.get(t.dtype, (value, value))
            if not least <= value <= most:
                raise EvaluationError(f"{value} is not one of {t.dtype}")
            attrs: Attrs = (("value", float(value)), ("dtype", t.dtype), ("shape", t.shape))
            return builder.add("fill", (), attrs, (t,))
        op = "weight" if given.facts.get(("weight", name)) else "input"
        return builder.add(op, (), (("name", name), ("dtype", t.dtype), ("shape", t.shape)), (t,), name)


def _defined(true: Any, c: ex.Expr) -> bool:
    """Whether a condition is true; one that has no value is not."""
    try:
        return bool(true(c))
    except EvaluationError:
        return False


def _add(
    builder: GraphBuilder,
    nodes: Sequence[PatternNode],
    attrs: Sequence[Attrs],
    types: Mapping[str, TensorType],
    known: dict[str, int],
) -> None:
    for node, values in zip(nodes, attrs, strict=True):
        inputs = [known[a] for a in node.args]
        known[node.result] = builder.add(node.op, inputs, values, (types[node.result],))


def _ordered(decl: OpDecl, attrs: Mapping[str, Any]) -> Attrs:
    return tuple((a.name, attrs[a.name]) for a in decl.attrs)


def _concrete(t: Any) -> TensorType:
    return TensorType(str(t.dtype), tuple(t.shape))
