"""The targets of group rules: the e-nodes that a group adds, and their estimated cost.

A target is planned first, as operators by name, and then either priced or put into the tables that are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum

from tensat_dl.core.graph import Attrs, AttrValue, TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compiled import CompiledRule
from tensat_dl.engine.exploration import Estimate
from tensat_dl.engine.groups import View
from tensat_dl.engine.naming import NewNode, Store
from tensat_dl.ops.table import OpDecl, OpTable, coerce
from tensat_dl.ops.typing import infer
from tensat_dl.rewrite.classes import Known
from tensat_dl.rewrite.groups import Group
from tensat_dl.rewrite.source import Variant

#: A concat of more members than this is nested: the engine plans a join over all inputs of a node.
MAX_ARITY = 12


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a target. ``args`` name other operators or the source's tensors."""

    result: str
    op: str
    attrs: Attrs
    args: tuple[str, ...]
    inputs: tuple[TensorType, ...]
    type: TensorType
    constant: bool  #: computed from weights alone


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a group rule for a group: operators, in order. ``names`` are the handles of the source's
    tensors."""

    rule: str
    names: dict[str, int]
    operators: tuple[Operator, ...]
    outputs: tuple[tuple[str, str], ...]  #: an output of the source, and what the target computes it as

    def cost(self, estimate: Estimate) -> float:
        """Estimated milliseconds at run time; tensors computed ahead of time cost nothing."""
        return fsum(estimate(o.op, o.attrs, o.inputs, o.type) for o in self.operators if not o.constant)


@dataclass(frozen=True)
class Plans:
    """Plans the targets of groups. Groups whose tensors are of the same kinds, of which repeated blocks have many,
    have the same target for other tensors."""

    #: By the id of their typed target, which is shared and kept.
    known: dict[int, tuple[Variant, Target]] = field(default_factory=dict)

    def target(self, compiled: CompiledRule, group: Group, view: View) -> Target | None:
        """The target for a group; None if the rule does not apply to the whole group."""
        variant = view.checks.target(compiled.rule, group, view)
        if variant is None:
            return None
        found = self.known.get(id(variant))
        if found is None:
            rule = view.checks.instance(compiled.rule, len(group.members))
            target = target_of(rule, group.names, variant, view, view.checks.ops, nested=True)
            found = self.known[id(variant)] = variant, target
        return replace(found[1], names=group.names)


def target_of(
    rule: RewriteRule, names: dict[str, int], variant: Variant, view: Known, ops: OpTable, nested: bool
) -> Target:
    """The target of a rule for the tensors ``names``, typed by ``variant``. That of a group rule is ``nested`` where
    it concatenates many members; other rules are compiled as they stand."""
    types = {n: view.types[h] for n, h in names.items()}
    constant = {n for n, h in names.items() if h in view.weights}
    # An output of the target may have the name of the source's: what the target builds comes first there.
    built: dict[str, str] = {}
    operators: list[Operator] = []

    def add(result: str, op: str, attrs: Attrs, args: Sequence[str]) -> None:
        inputs = tuple(types[a] for a in args)
        (types[result],) = infer(ops, op, inputs, dict(attrs)).concrete()
        known = op != "input" and not ops[op].opaque and constant.issuperset(args)
        if known:
            constant.add(result)
        operators.append(Operator(result, op, attrs, tuple(args), inputs, types[result], known))

    for node, values in zip(rule.target.nodes, variant.target_attrs, strict=True):
        attrs = _attributes(ops[node.op], values)
        args = [built.get(a, a) for a in node.args]
        while nested and node.op == "concat" and len(args) > MAX_ARITY:
            # Parts of equal size, so that each input is copied into few of them.
            count = -(-len(args) // MAX_ARITY)
            cuts = [len(args) * i // count for i in range(count + 1)]
            parts = [f"{node.result}:{len(args)}.{i}" for i in range(count)]
            for part, (a, b) in zip(parts, pairwise(cuts), strict=True):
                add(part, node.op, attrs, args[a:b])
            args = parts
        built[node.result] = f"{node.result}:"
        add(built[node.result], node.op, attrs, args)
    outputs = zip(rule.source.outputs, rule.target.outputs, strict=True)
    return Target(rule.name, names, tuple(operators), tuple((s, built.get(t, t)) for s, t in outputs))


def _attributes(decl: OpDecl, values: Mapping[str, object]) -> Attrs:
    attrs: list[tuple[str, AttrValue]] = []
    for a in decl.attrs:
        value = coerce(a, values[a.name])
        assert value is not None, (decl.name, a.name, values[a.name])
        attrs.append((a.name, value))
    return tuple(attrs)


@dataclass
class Additions:
    """The additions of applied groups: nodes, their types, equal handles, merged classes."""

    nodes: list[NewNode] = field(default_factory=list)
    types: list[tuple[int, TensorType]] = field(default_factory=list)
    equal: list[tuple[int, int]] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)

    def add(self, target: Target, store: Store) -> dict[str, int]:
        """Puts a target into the tables; the handles of its tensors. Tensors between the source and the outputs are
        marked as merged."""
        handles = dict(target.names)
        outputs = {t for _, t in target.outputs}
        for o in target.operators:
            handle = handles[o.result] = store.fresh()
            self.nodes.append((handle, o.op, o.attrs, tuple(handles[a] for a in o.args), target.rule))
            self.types.append((handle, o.type))
            if o.result not in outputs:
                self.merged.append(handle)
        self.equal += [(handles[s], handles[t]) for s, t in target.outputs]
        return handles

    def extend(self, other: Additions) -> None:
        self.nodes += other.nodes
        self.types += other.types
        self.equal += other.equal
        self.merged += other.merged
