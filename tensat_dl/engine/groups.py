"""Group rules: all operators that share an operand, merged at once.

The engine lists the possible members, one row each. Here they are put into groups: members agree on what they
share, type-check together, do not depend on one another, and are not themselves products of a merge. Applying a
group means loading its target as facts: one application adds O(n) e-nodes, where pairs of pairs would add a
doubly exponential number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensat_dl.core.graph import Attrs
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import DTYPES, TensorType
from tensat_dl.engine.compile_group import attribute_values
from tensat_dl.engine.compiled import CompiledRule, member_relation
from tensat_dl.engine.dependence import layers
from tensat_dl.engine.egglog import Frozen
from tensat_dl.engine.naming import NodeRow
from tensat_dl.engine.types import Estimate
from tensat_dl.rewrite.checks import Checks, Group, Member


class View:
    """What group matching needs to know of the e-graph, by handle."""

    def __init__(
        self, frozen: Frozen, rows: Sequence[NodeRow], handles: Mapping[Any, int], checks: Checks
    ) -> None:
        self.checks = checks
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
        self.varying = {handles[r.inputs[0]] for r in frozen.rows("varying") if r.inputs[0] in handles}
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


def find_groups(compiled: CompiledRule, frozen: Frozen, view: View) -> list[Group]:
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
            columns = {name: v for (_, name), v in zip(compiled.attrs, values, strict=True)}
            attrs = attribute_values(rule, columns, view.checks.ops)
            group = groups[key] = Group({n: handle[n] for n in shared_names}, attrs)
        group.members.append(Member(tuple((n, handle[n]) for n in varying)))
    found: list[Group] = []
    for key in sorted(groups):
        found += _compatible(compiled, groups[key], view)
    return found


def _compatible(compiled: CompiledRule, group: Group, view: View) -> Iterator[Group]:
    """Parts of a group whose members type-check together and do not depend on one another."""
    rule = compiled.rule

    def fits(a: Member, b: Member) -> bool:
        return view.checks.target(rule, group.of([a, b]), view) is not None

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
