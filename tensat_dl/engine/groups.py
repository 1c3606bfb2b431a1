"""Group rules: all operators that share an operand, merged at once.

The engine lists the possible members, one row each. Here they are put into groups: members agree on what they
share, type-check together, do not depend on one another, and are not themselves products of a merge. Applying a
group means loading its target as facts: one application adds O(n) e-nodes, where pairs of pairs would add a
doubly exponential number.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence, Set
from typing import Any

from tensat_dl.core.graph import DTYPES, Attrs, TensorType
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile import attribute_values
from tensat_dl.engine.compiled import CompiledRule, member_relation
from tensat_dl.engine.exploration import Estimate
from tensat_dl.engine.naming import EngineState
from tensat_dl.rewrite.groups import Group, Member
from tensat_dl.rewrite.variants import Checks


class View:
    """The facts about the e-graph that group matching needs, by handle."""

    def __init__(self, state: EngineState, checks: Checks) -> None:
        self.checks = checks
        self.frozen = frozen = state.frozen
        self.handles = handles = state.handles
        self.rows, self._numbered = state.rows, state.numbered
        self._by_class: dict[int, list[tuple[str, tuple[int, ...], Attrs]]] = {}
        self._costs: dict[tuple[Any, ...], float] = {}
        self._groups: dict[str, list[Group]] = {}
        self._kinds: dict[int, int] = {}
        self.types: dict[int, TensorType] = {}

        def known(function: str) -> Iterator[tuple[int, Any]]:
            """The value of a function for each e-class."""
            return ((handles[r.inputs[0]], r.output) for r in frozen.rows(function) if r.inputs[0] in handles)

        decode = frozen.decoder("Ints")
        types: dict[tuple[int, ...], TensorType] = {}
        for handle, value in known("type_of"):
            vector = decode(value)
            if vector[0] >= 0:
                found = types.get(vector)
                if found is None:
                    found = types[vector] = TensorType(DTYPES[vector[0]], vector[1:])
                self.types[handle] = found
        #: The handles of e-classes that have one type.
        self.typed = {c: handle for c, handle in handles.items() if handle in self.types}
        self.weights, self.varying, self.starts = map(state.members, ("weights_only", "varying", "start"))
        self.merged = set(state.members("merged"))
        number, count = frozen.decoder("f64"), frozen.decoder("i64")
        self.values = {handle: number(value) for handle, value in known("value_of")}
        self.factors = {handle: count(value) for handle, value in known("factors_of")}
        # One well-founded derivation of each e-class: by a node whose children are all older, without products of a
        # merge where there is one.
        self.derivation: dict[int, tuple[int, ...]] = {}
        older: dict[int, list[tuple[int, ...]]] = {}
        for own, children in state.numbered:
            if not children or (max(children) < own and min(children) >= 0):
                older.setdefault(own, []).append(children)
        older.pop(-1, None)
        for own in sorted(older):
            clean = [d for d in older[own] if self.merged.isdisjoint(d)]
            self.derivation[own] = min(clean or older[own])
            if not clean:
                self.merged.add(own)

    def kind(self, handle: int) -> int:
        """A number for all facts about an e-class that conditions of rules can ask for; see `Checks.kind`."""
        found = self._kinds.get(handle)
        if found is None:
            found = self._kinds[handle] = self.checks.kind(self, handle)
        return found

    def groups(self, compiled: CompiledRule) -> list[Group]:
        """The maximal groups of a rule."""
        if compiled.name not in self._groups:
            self._groups[compiled.name] = find_groups(compiled, self)
        return self._groups[compiled.name]

    def canonical(self) -> dict[int, int]:
        """For every handle the one that its e-class has now."""
        return {h: self.handles[c] for h, c in self.frozen.by_handle() if c in self.handles}

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
            for r, (own, children) in zip(self.rows, self._numbered, strict=True):
                if own >= 0 and -1 not in children:
                    self._by_class.setdefault(own, []).append((r.constructor.op, children, r.attrs))
            for nodes in self._by_class.values():
                nodes.sort(key=repr)
        return self._by_class

    def stale(self, rule: RewriteRule, tensors: Sequence[str], handles: Sequence[int]) -> bool:
        """Whether rules may no longer see a possible member, by the handles of its tensors."""
        return False

    def layers(self, needs: Sequence[Sequence[int]], makes: Sequence[Sequence[int]]) -> list[list[int]]:
        """Layers of members; see the function `layers`."""
        return layers(self.derivation, needs, makes, self.weights)


def find_groups(compiled: CompiledRule, view: View) -> list[Group]:
    """The maximal groups of a rule, in the order of their handles."""
    rule = compiled.rule
    shared, varying = compiled.shared, compiled.varying
    weights, merged = view.weights, view.merged
    decoders = [view.frozen.decoder(sort) for sort, _ in compiled.attrs]
    shown: dict[tuple[Any, ...], tuple[str, ...]] = {}  #: the values of attributes as keys
    alike: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], list[int]]]] = {}
    tensors, outputs = compiled.tensors, rule.source.outputs
    width = len(tensors)
    own, common, results = ([tensors.index(n) for n in names] for names in (varying, shared, outputs))
    handle = view.typed.__getitem__
    for row in view.frozen.rows(member_relation(rule.name)):
        inputs = row.inputs
        try:
            found = [*map(handle, inputs[:width])]
        except KeyError:  # seldom
            continue
        if not merged.isdisjoint([found[i] for i in own]) or view.stale(rule, tensors, found):
            continue
        if weights.issuperset([found[i] for i in results]):
            continue  # computed ahead of time, where one product is no better than several
        values = tuple(inputs[width:])
        if values not in shown:
            shown[values] = tuple(repr(d(v)) for d, v in zip(decoders, values, strict=True))
        key = (tuple([found[i] for i in common]), shown[values])
        alike.setdefault(key, []).append((values, found))
    out: list[Group] = []
    attributes: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key in sorted(k for k, members in alike.items() if len(members) > 1):
        values, first = alike[key][0]
        attrs = attributes.get(values)
        if attrs is None:
            columns = {n: d(v) for (_, n), d, v in zip(compiled.attrs, decoders, values, strict=True)}
            attrs = attributes[values] = attribute_values(rule, columns, view.checks.ops)
        members = [
            Member(tuple([(n, h[i]) for n, i in zip(varying, own, strict=True)])) for _, h in alike[key]
        ]
        group = Group({n: first[i] for n, i in zip(shared, common, strict=True)}, attrs, members)
        out += _compatible(compiled, group, view)
    return out


def _compatible(compiled: CompiledRule, group: Group, view: View) -> Iterator[Group]:
    """Parts of a group whose members type-check together and do not depend on one another."""
    rule = compiled.rule
    # members of the same kinds fit alike
    known = view.checks.fits(rule, group.attrs, [view.kind(h) for h in group.shared.values()])

    def kinds(member: Member) -> tuple[int, ...]:
        return tuple([view.kind(h) for _, h in member.tensors])

    def fits(a: Member, b: Member, key: tuple[int, ...]) -> bool:
        if key not in known:
            known[key] = view.checks.target(rule, group.of([a, b]), view) is not None
        return known[key]

    outputs = rule.member_outputs
    operands = [n for n, _ in group.members[0].tensors if n not in outputs]
    buckets: list[tuple[tuple[int, ...], list[Member]]] = []  #: with the kinds of the first member
    taken: set[tuple[int, ...]] = set()
    for m in sorted(group.members, key=lambda m: [m[n] for n in (*operands, *outputs)]):
        result = tuple(m[o] for o in outputs)
        if result in taken:
            continue  # another operand with the same result; the older one was taken
        taken.add(result)
        own = kinds(m)
        bucket = next((b for first, b in buckets if fits(b[0], m, (*first, *own))), None)
        if bucket is None:
            buckets.append((own, [m]))
        else:
            bucket.append(m)
    for _, bucket in buckets:
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


# ---- dependence: one sweep over derivations for a whole group ----------------------------------------------------


def layers(
    derivation: Mapping[int, Sequence[int]],
    needs: Sequence[Sequence[int]],
    makes: Sequence[Sequence[int]],
    constant: Set[int],
) -> list[list[int]]:
    """Layers of members, by index: no member needs a result of another member of its layer, directly or through
    others.

    ``derivation`` has for a handle the older handles that it is computed from; ``needs`` and ``makes`` are each
    member's operands and results. A ``constant`` handle is computed from a result only if some result is constant.
    """
    goals = goals_of(makes)
    ignored: Container[int] = constant if constant.isdisjoint(goals) else ()
    reached = _reached(derivation, {h for need in needs for h in need}, goals, ignored)
    return in_layers(reached, needs)


def goals_of(makes: Sequence[Sequence[int]]) -> dict[int, int]:
    """For each handle the members, as bits, that make it."""
    goals: dict[int, int] = {}
    for i, made in enumerate(makes):
        for h in made:
            goals[h] = goals.get(h, 0) | 1 << i
    return goals


def in_layers(reached: Mapping[int, int], needs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Each member goes into the first layer that takes it. ``reached`` has for a handle the members, as bits, whose
    results it is or is computed from."""
    found: list[tuple[list[int], int, int]] = []  # members, themselves as bits, what they reach
    for i, need in enumerate(needs):
        below = 0
        for h in need:
            below |= reached.get(h, 0)
        for k, (members, own, reach) in enumerate(found):
            if not below & own and not reach >> i & 1:
                members.append(i)
                found[k] = (members, own | 1 << i, reach | below)
                break
        else:
            found.append(([i], 1 << i, below))
    return [members for members, _, _ in found]


def _reached(
    derivation: Mapping[int, Sequence[int]],
    starts: Set[int],
    goals: Mapping[int, int],
    ignored: Container[int],
) -> dict[int, int]:
    """For each handle below the starts the members, as bits, whose results it is or is computed from.

    A handle older than every goal cannot be computed from one. So only the part of the graph between the members is
    visited, however deep the graph is below them.
    """
    oldest = min(goals)
    stack = [h for h in starts if h >= oldest and h not in ignored]
    seen = set(stack)
    while stack:
        for c in derivation.get(stack.pop(), ()):
            if c >= oldest and c not in seen and c not in ignored:
                seen.add(c)
                stack.append(c)
    reached: dict[int, int] = {}
    for h in sorted(seen):  # older ones first
        bits = goals.get(h, 0)
        for c in derivation.get(h, ()):
            bits |= reached.get(c, 0)
        reached[h] = bits
    return reached
