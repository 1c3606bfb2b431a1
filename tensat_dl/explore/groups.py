"""Group rules: all operators that share an operand, merged at once.

The engine lists the possible members, one row each. Here they are put into groups: members agree on what they
share, type-check together, do not depend on one another, and are not themselves products of a merge. Applying a
group means loading its target as facts: one application adds O(n) e-nodes, where pairs of pairs would add a
doubly exponential number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from tensat_dl.datalog.compiled import CompiledRule, member_relation
from tensat_dl.datalog.engine import Frozen
from tensat_dl.datalog.groups import instantiate, member
from tensat_dl.datalog.render import variable
from tensat_dl.datalog.source import Variant
from tensat_dl.datalog.target import concrete
from tensat_dl.explore.dependence import layers
from tensat_dl.explore.naming import Row
from tensat_dl.explore.types import Estimate
from tensat_dl.ir.graph import Attrs
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ir.types import DTYPES, TensorType
from tensat_dl.lang import ast
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.values import SymType


@dataclass(frozen=True, slots=True)
class Member:
    """Handles of what varies by member, by name; outputs included."""

    tensors: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        return dict(self.tensors)[name]


@dataclass
class Group:
    """Members that share ``shared`` (handles by name) and ``attrs`` (values by variable)."""

    shared: dict[str, int]
    attrs: dict[str, Any]
    members: list[Member] = field(default_factory=list)

    def of(self, members: Sequence[Member]) -> Group:
        """The group of these members alone."""
        return Group(self.shared, self.attrs, list(members))


class Known(Protocol):
    """What is known of tensors, by number: all that conditions of rules and types of targets can ask for."""

    @property
    def types(self) -> Mapping[int, TensorType]: ...
    @property
    def weights(self) -> Set[int]: ...
    @property
    def values(self) -> Mapping[int, float]: ...
    @property
    def factors(self) -> Mapping[int, int]: ...
    @property
    def starts(self) -> Set[int]: ...


def fact(known: Known, function: str, tensor: int) -> Any:
    """What ``weight(x)``, ``value(x)``, ``factors(x)`` or ``start(x)`` says of a tensor."""
    match function:
        case "weight":
            return tensor in known.weights
        case "factors":
            return known.factors.get(tensor, 1)
        case "start":
            return tensor in known.starts
    return known.values.get(tensor)


class View:
    """What group matching needs to know of the e-graph, by handle."""

    def __init__(self, frozen: Frozen, rows: Sequence[Row], handles: Mapping[Any, int]) -> None:
        decode = frozen.decoder("Ints")
        self.handles = handles
        self._rows = rows
        self._by_class: dict[int, list[tuple[str, tuple[int, ...], Attrs]]] = {}
        self._costs: dict[tuple[Any, ...], float] = {}
        self.types: dict[int, TensorType] = {}
        for row in frozen.rows("type_of"):
            vector = decode(row.output)
            if vector[0] >= 0 and row.inputs[0] in handles:
                self.types[handles[row.inputs[0]]] = TensorType(DTYPES[vector[0]], vector[1:])
        self.weights = {handles[r.inputs[0]] for r in frozen.rows("weights_only") if r.inputs[0] in handles}
        self.merged = {handles[r.inputs[0]] for r in frozen.rows("merged") if r.inputs[0] in handles}
        number = frozen.decoder("f64")
        self.values = {
            handles[r.inputs[0]]: number(r.output) for r in frozen.rows("value_of") if r.inputs[0] in handles
        }
        count = frozen.decoder("i64")
        self.factors = {
            handles[r.inputs[0]]: count(r.output) for r in frozen.rows("factors_of") if r.inputs[0] in handles
        }
        self.starts = {handles[r.inputs[0]] for r in frozen.rows("start") if r.inputs[0] in handles}
        self._instances: dict[tuple[str, int], RewriteRule] = {}
        self._checked: dict[tuple[Any, ...], Variant | None] = {}
        # One well-founded derivation of each e-class: by a node whose children are all older, without products of a
        # merge where there is one.
        self.derivation: dict[int, tuple[int, ...]] = {}
        older: dict[int, list[tuple[int, ...]]] = {}
        for r in rows:
            own = handles.get(r.output)
            if own is None or any(c not in handles for c in r.children):
                continue
            children = tuple(handles[c] for c in r.children)
            if all(c < own for c in children):
                older.setdefault(own, []).append(children)
        for own in sorted(older):
            clean = [d for d in older[own] if self.merged.isdisjoint(d)]
            self.derivation[own] = min(clean or older[own])
            if not clean:
                self.merged.add(own)

    def cost(self, handle: int, ops: set[str], estimate: Estimate) -> float:
        """Estimated milliseconds of the cheapest e-node of a class with one of these operators, without operands."""
        key = (handle, *sorted(ops))
        if key not in self._costs:
            costs = [
                estimate(op, attrs, tuple(self.types[c] for c in children), self.types[handle])
                for op, children, attrs in self._nodes().get(handle, ())
                if op in ops and all(c in self.types for c in children)
            ]
            self._costs[key] = min(costs, default=0.0)
        return self._costs[key]

    def attributes(self, op: str, children: tuple[int, ...], handle: int) -> Attrs | None:
        """The attributes of an e-node; None if there is none such."""
        found = (attrs for o, c, attrs in self._nodes().get(handle, ()) if o == op and c == children)
        return next(found, None)

    def _nodes(self) -> dict[int, list[tuple[str, tuple[int, ...], Attrs]]]:
        """Operator, operands and attributes of the e-nodes of each class, in an order of their own."""
        if not self._by_class:
            for r in self._rows:
                if r.output in self.handles and all(c in self.handles for c in r.children):
                    children = tuple(self.handles[c] for c in r.children)
                    own = self._by_class.setdefault(self.handles[r.output], [])
                    own.append((r.constructor.op, children, r.attrs))
            for nodes in self._by_class.values():
                nodes.sort(key=repr)
        return self._by_class

    def stale(self, rule: RewriteRule, tensors: Mapping[str, int]) -> bool:
        """Whether a possible member is no longer to be seen by rules."""
        return False

    def layers(self, needs: Sequence[Sequence[int]], makes: Sequence[Sequence[int]]) -> list[list[int]]:
        """Members in layers within which none needs what another makes, see `dependence.layers`."""
        return layers(self.derivation, needs, makes, self.weights)

    def kind(self, handle: int) -> tuple[object, ...]:
        """All of a tensor that conditions of rules can ask for."""
        facts = handle in self.weights, handle in self.starts, self.values.get(handle)
        return self.types[handle], *facts, self.factors.get(handle, 1)

    def instance(self, rule: RewriteRule, n: int) -> RewriteRule:
        """A group rule for that many members, made once."""
        key = (rule.name, n)
        if key not in self._instances:
            self._instances[key] = instantiate(rule, n)
        return self._instances[key]

    def check(self, rule: RewriteRule, group: Group, ops: OpTable) -> Variant | None:
        """The typed target for a group's members, or None. Groups of equal types, of which repeated blocks have
        many, are checked once."""
        tensors = [*group.shared.values(), *(h for m in group.members for _, h in m.tensors)]
        kinds = tuple(map(self.kind, tensors))
        key = (rule.name, len(group.members), *map(repr, group.attrs.values()), kinds)
        if key not in self._checked:
            self._checked[key] = check(self.instance(rule, len(group.members)), rule, group, self, ops)
        return self._checked[key]


def find_groups(compiled: CompiledRule, frozen: Frozen, view: View, ops: OpTable) -> list[Group]:
    """The maximal groups of a rule, in the order of their handles."""
    rule = compiled.rule
    shared_names = [t for t in compiled.tensors if t not in rule.members]
    varying = [t for t in compiled.tensors if t in rule.members]
    decoders = [frozen.decoder(sort) for sort, _ in compiled.attrs]
    groups: dict[tuple[Any, ...], Group] = {}
    for row in frozen.rows(member_relation(rule.name)):
        inputs = list(row.inputs)
        tensors = inputs[: len(compiled.tensors)]
        if any(t not in view.handles for t in tensors):
            continue
        handle = {n: view.handles[t] for n, t in zip(compiled.tensors, tensors, strict=True)}
        if any(h not in view.types for h in handle.values()):
            continue
        if any(handle[n] in view.merged for n in varying) or view.stale(rule, handle):
            continue
        if all(handle[o] in view.weights for o in rule.source.outputs):
            continue  # computed ahead of time, where one product is no better than several
        values = [d(v) for d, v in zip(decoders, inputs[len(tensors) :], strict=True)]
        key = (tuple(handle[n] for n in shared_names), tuple(map(repr, values)))
        group = groups.get(key)
        if group is None:
            attrs = {name: v for (_, name), v in zip(compiled.attrs, values, strict=True)}
            group = groups[key] = Group({n: handle[n] for n in shared_names}, attrs)
        group.members.append(Member(tuple((n, handle[n]) for n in varying)))
    found: list[Group] = []
    for key in sorted(groups):
        found += _compatible(compiled, groups[key], view, ops)
    return found


def _compatible(compiled: CompiledRule, group: Group, view: View, ops: OpTable) -> Iterator[Group]:
    """Parts of a group whose members type-check together and do not depend on one another."""
    rule = compiled.rule

    def fits(a: Member, b: Member) -> bool:
        return view.check(rule, Group(group.shared, group.attrs, [a, b]), ops) is not None

    outputs = [o for o in rule.source.outputs if o in rule.members]
    operands = [n for n, _ in group.members[0].tensors if n not in outputs]
    buckets: list[list[Member]] = []
    taken: set[tuple[int, ...]] = set()
    for m in sorted(group.members, key=lambda m: [m[n] for n in (*operands, *outputs)]):
        result = tuple(m[o] for o in outputs)
        if result in taken:
            continue  # another operand with the same result; the older one was taken
        taken.add(result)
        bucket = next((b for b in buckets if fits(b[0], m)), None)
        if bucket is None:
            buckets.append([m])
        else:
            bucket.append(m)
    for bucket in buckets:
        for layer in _independent(bucket, operands, outputs, view):
            if len(layer) > 1:
                yield Group(group.shared, group.attrs, layer)


def _independent(
    members: list[Member], operands: list[str], outputs: list[str], view: View
) -> list[list[Member]]:
    """Layers of members none of whose operands is computed from another's output in the same layer."""
    if all(m[n] in view.weights for m in members for n in operands) and not any(
        m[o] in view.weights for m in members for o in outputs
    ):
        return [members]
    needs = [[m[n] for n in operands] for m in members]
    makes = [[m[o] for o in outputs] for m in members]
    return [[members[i] for i in layer] for layer in view.layers(needs, makes)]


def check(
    rule: RewriteRule, group_rule: RewriteRule, group: Group, view: Known, ops: OpTable
) -> Variant | None:
    """The typed target for a group's members (``rule`` is the group rule for that many), or None."""
    names: dict[str, int] = dict(group.shared)
    lists: dict[str, tuple[SymType, ...]] = {}
    for k, m in enumerate(group.members):
        for name, handle in m.tensors:
            names[member(name, k)] = handle
            t = view.types[handle]
            lists[name] = (*lists.get(name, ()), SymType(t.dtype, t.shape))
    env: dict[str, Any] = {**lists, **attribute_values(group_rule, group.attrs, ops)}
    types = {n: view.types[h] for n, h in names.items()}
    return concrete(rule, ops, types, env, lambda function, tensor: fact(view, function, names[tensor]))


def attribute_values(rule: RewriteRule, columns: Mapping[str, Any], ops: OpTable) -> dict[str, Any]:
    """Values of attribute variables from the columns of the member relation."""
    out: dict[str, Any] = {}
    for node in rule.source.nodes:
        for keyword in node.attrs:
            a = ops[node.op].attr(keyword.name)
            assert a is not None
            expr = keyword.value
            items: Sequence[ast.Expr] = ()
            if isinstance(expr, ast.ListExpr) and isinstance(expr.items, tuple):
                items = expr.items
            for item in items:
                if isinstance(item, ast.Name) and variable(item.id) in columns:
                    out[item.id] = columns[variable(item.id)]
            if not isinstance(expr, ast.Name):
                continue
            name = variable(expr.id)
            if a.length is not None and f"{name}.0" in columns:
                out[expr.id] = tuple(columns[f"{name}.{i}"] for i in range(a.length))
            elif name in columns:
                value = columns[name]
                value = DTYPES[value] if a.type == "dtype" else bool(value) if a.type == "bool" else value
                out[expr.id] = value
    return out
