"""A rule at concrete types and attributes, as two graphs. The typing and the conditions that decide about a user's
graph decide here, too, whether the rule applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import with_lists
from tensat_dl.core.graph import (
    INTEGERS,
    Attrs,
    AttrValue,
    Graph,
    GraphBuilder,
    TensorType,
    fill_attrs,
    leaf_attrs,
)
from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.ops.attributes import attributes
from tensat_dl.ops.evaluate import evaluate, knowing
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import Env, SymType
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.variants import concrete
from tensat_dl.verify.opaque_laws import opaque_operators


@dataclass(frozen=True, slots=True)
class Assignment:
    """Values of a rule's variables: the types of tensors, the values of attributes, and ``facts``, by function
    and tensor, that a condition may ask for: ("weight", x), ("start", x), ("factors", x) and ("value", x), which is
    the one value that all elements of x have. The members of a group are ``w[0]``, ``w[1]``, .."""

    types: Mapping[str, TensorType]
    attrs: Mapping[str, AttrValue]
    facts: Mapping[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        """The number of elements of all tensors together."""
        return sum(prod(t.shape) for t in self.types.values())

    @property
    def largest(self) -> int:
        """The largest magnitude of an integer among the attributes."""
        numbers = (x for a in self.attrs.values() for x in (a if isinstance(a, tuple) else (a,)))
        return max((abs(x) for x in numbers if isinstance(x, int)), default=0)


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule's two sides as graphs of the same inputs, whose outputs have equal names and types. ``members`` is the
    size of the group, 0 for a rule without one."""

    assignment: Assignment
    before: Graph
    after: Graph
    members: int = 0


def build(
    rule: RewriteRule,
    infer: Inference,
    given: Assignment,
    rejected: Sequence[ex.Expr] = (),
    members: int = 0,
) -> Instance | None:
    """The instance of a rule without a group (see `instantiate`) for an assignment. None if the rule does not apply:
    a side that does not type-check, a condition that does not hold, an output that changes its type. Some of the
    ``rejected`` conditions must be false (see `Skeletons`)."""
    try:
        return _build(rule, infer, given, rejected, members)
    except (IllTyped, EvaluationError):
        return None


def _build(
    rule: RewriteRule, infer: Inference, given: Assignment, rejected: Sequence[ex.Expr], members: int
) -> Instance | None:
    ops = infer.table
    variant = Variant({}, with_lists(given.attrs), {})
    for name, t in given.types.items():
        variant.bind(name, SymType(t.dtype, t.shape), False)
    source: list[Attrs] = []
    for node in rule.source.nodes:
        inputs = [variant.types[a] for a in node.args]
        attrs = attributes(ops[node.op], node.attrs, variant.env, inputs)
        source.append(ops[node.op].ordered(attrs))
        variant.bind(node.result, infer(node.op, inputs, attrs).types[0], False)

    def known(function: str, tensor: str) -> Any:
        return _fact(rule, function, tensor, given)

    before_types = {n: _concrete(t) for n, t in variant.types.items()}
    built = concrete(rule, infer, before_types, variant.env, known)
    if built is None or built.guards:  # there are no guards with known numbers
        return None
    if rejected and all(_true(c, knowing(variant.env, known)) for c in rejected):
        return None
    target = [ops[n.op].ordered(a) for n, a in zip(rule.target.nodes, built.target_attrs, strict=True)]
    builder = GraphBuilder(rule.name, opaque_operators(rule, ops))
    nodes = {name: _leaf(builder, name, t, given) for name, t in given.types.items()}
    _add(builder, rule.source.nodes, source, before_types, nodes)
    before = builder.finish((f"out{i}", nodes[o]) for i, o in enumerate(rule.source.outputs))
    _add(builder, rule.target.nodes, target, {n: _concrete(t) for n, t in built.types.items()}, nodes)
    after = builder.finish((f"out{i}", nodes[o]) for i, o in enumerate(rule.target.outputs))
    return Instance(given, before, after, members)


def _fact(rule: RewriteRule, fn: str, tensor: str, given: Assignment) -> Any:
    """The value of a fact about a tensor. An intermediate result is known ahead of time if its operands are."""
    if fn == "varying":
        return not _fact(rule, "weight", tensor, given)
    default = {"weight": False, "start": True, "factors": 1, "value": float("nan")}[fn]
    node = next((n for n in rule.source.nodes if n.result == tensor), None)
    if node is not None and fn == "value":
        return default
    if node is not None and fn == "weight":
        return all(_fact(rule, fn, a, given) for a in node.args)
    if fn == "weight" and ("value", tensor) in given.facts:
        return True
    return given.facts.get((fn, tensor), default)


def _leaf(builder: GraphBuilder, name: str, t: TensorType, given: Assignment) -> int:
    value = given.facts.get(("value", name))
    if value is not None:
        least, most = INTEGERS.get(t.dtype, (value, value))
        if not least <= value <= most or (t.dtype in INTEGERS and value != int(value)):
            raise EvaluationError(f"{value} is not one of {t.dtype}")
        return builder.add("fill", (), fill_attrs(float(value), t), (t,))
    op = "weight" if given.facts.get(("weight", name)) else "input"
    return builder.add(op, (), leaf_attrs(name, t), (t,), name)


def _true(c: ex.Expr, env: Env) -> bool:
    """Whether a condition is true; one that has no value is not."""
    try:
        return evaluate(c, env) is True
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


def _concrete(t: Any) -> TensorType:
    return TensorType(str(t.dtype), tuple(t.shape))
