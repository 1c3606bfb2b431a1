"""Proofs at high ranks from proofs at lower ranks: what an axis runs through without a change is left out.

Slicing. Choose at most one axis of each tensor of both sides, such that each application y = op(x1, .., xn; attrs)
has this property: element i of y along its axis, for any i, is op of elements i of the x along theirs (of element 0,
where the operand has only one; of all of x, where x has no such axis), with attributes that do not depend on i. Then
each slice of both sides of the rule is what both sides of the rule compute from slices of its variables, at an
assignment of lower ranks. If the rule is true there, and its conditions there follow from those here, it is true
here. `LINKS` says which axes of an operator have the property, and `without` gives the attributes; the tests compare
both with the operators' semantics. docs/verification.md has the theorem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tensat_dl.core.expression import base_of, is_every
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, Of, Opaque, Sym
from tensat_dl.ops.typing import Inference
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.conditions import Facts
from tensat_dl.rewrite.source import Variant
from tensat_dl.verify.symbolic.assumptions import without_common
from tensat_dl.verify.symbolic.meanings import POINTWISE

Shape = tuple[Int, ...]
Attributes = Mapping[str, Any]
#: By axis of the result, the axis of each operand along which an application goes on by itself, None where an operand
#: has none. All other axes matter to the operator.
Links = Mapping[int, tuple[int | None, ...]]


def _broadcast(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    starts = [len(shape) - len(x) for x in xs]
    return {j: tuple(j - s if j >= s else None for s in starts) for j in range(len(shape))}


def _along_axis(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    """All axes but one."""
    if not isinstance(attrs["axis"], int):
        return {}
    return {j: (j,) * len(xs) for j in range(len(shape)) if j != attrs["axis"]}


def _transpose(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    return {j: (p,) for j, p in enumerate(attrs["perm"]) if isinstance(p, int)} if _is_known(attrs) else {}


def _is_known(attrs: Attributes) -> bool:
    return all(isinstance(p, int) for p in attrs["perm"])


def _reshape(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    """Axes of one size, with equally many elements before them, or behind them: as many as the whole tensor has are
    before and behind."""
    (x,) = xs
    found: dict[int, tuple[int | None, ...]] = {}
    before = {(_product(x[:k]), n): k for k, n in enumerate(x)}
    behind = {(_product(x[k + 1 :]), n): k for k, n in enumerate(x)}
    for j, n in enumerate(shape):
        k = before.get((_product(shape[:j]), n), behind.get((_product(shape[j + 1 :]), n)))
        if k is not None and (k,) not in found.values():
            found[j] = (k,)
    return found


def _product(shape: Shape) -> Int:
    out: Int = 1
    for n in shape:
        out = sym.mul(out, n)
    return out


def _pad(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    return {
        j: (j,) for j, pads in enumerate(zip(attrs["before"], attrs["after"], strict=True)) if pads == (0, 0)
    }


def _gather(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    axis, (_, indices) = attrs["axis"], xs
    if not isinstance(axis, int):
        return {}
    last = axis + len(indices)
    found: dict[int, tuple[int | None, ...]] = {j: (j, None) for j in range(axis)}
    found |= {j: (None, j - axis) for j in range(axis, last)}
    return found | {j: (j - len(indices) + 1, None) for j in range(last, len(shape))}


def _batch(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    """A matrix product: all but the last two axes, which a bias does not have."""
    return {j: tuple(j if len(x) == len(shape) else None for x in xs) for j in range(len(shape) - 2)}


def _normalised(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    """All but the last axis, which is that of the parameters."""
    return {j: (j, *(None for _ in xs[1:])) for j in range(len(shape) - 1)}


def _behind_channels(xs: Sequence[Shape], shape: Shape, attrs: Attributes) -> Links:
    return {j: (j, *(None for _ in xs[1:])) for j in range(2, len(shape))}


#: Of operators that are not here, all axes matter.
LINKS: Mapping[str, Callable[[Sequence[Shape], Shape, Attributes], Links]] = {
    **dict.fromkeys((*POINTWISE, "cast", "expand", "fill"), _broadcast),
    **dict.fromkeys(
        ("concat", "slice", "softmax", "reduce_sum", "reduce_mean", "reduce_max", "dilate", "iota"),
        _along_axis,
    ),
    "transpose": _transpose,
    "reshape": _reshape,
    "pad": _pad,
    "gather": _gather,
    "matmul": _batch,
    "layernorm": _normalised,
    "rmsnorm": _normalised,
    "batchnorm": _behind_channels,
}


def without(attrs: Attributes, own: int | None, axis: int) -> Attributes:
    """An operator's attributes where the result has an ``axis`` less, and the first operand its ``own``, if any."""
    out = dict(attrs)
    for name, value in attrs.items():
        match name:
            case "axis":
                out[name] = _less(value, own)
            case "perm":
                out[name] = tuple(_less(p, own) for p in _dropped(value, axis))
            case "shape":
                out[name] = _dropped(value, axis)
            case "before" | "after":
                out[name] = _dropped(value, axis)
    return out


def _less(axis: int, gone: int | None) -> int:
    return axis - (gone is not None and gone < axis)


def _dropped(items: tuple[Any, ...], k: int) -> tuple[Any, ...]:
    return (*items[:k], *items[k + 1 :])


# ---- an assignment as applications of operators -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProofStep:
    """An application of an operator that is no composition, to tensors with these numbers. ``listed``: to all tensors
    of a list, of which one is given."""

    op: str
    operands: tuple[int, ...]
    attrs: Attributes
    result: int
    listed: bool = False


class Applications:
    """Both sides of a rule at one assignment, in applications of operators that are no compositions."""

    def __init__(self, rule: RewriteRule, variant: Variant, infer: Inference) -> None:
        self.variant = variant
        self.shapes: list[Shape] = []
        self.steps: list[ProofStep] = []
        self._types: list[SymType] = []
        self._infer = infer
        self.variables = {name: self._named(variant.types[name]) for name in rule.tensor_variables()}
        names = dict(self.variables)
        matched: list[int] = []
        for side, given in ((rule.source, variant.source_attrs), (rule.target, variant.target_attrs)):
            for node, attrs in zip(side.nodes, given, strict=True):
                if any(map(is_every, node.args)):
                    t = variant.types.get(node.result) or variant.types[base_of(node.result)]
                    names[node.result] = self._step(node.op, [names[base_of(node.args[0])]], attrs, t, True)
                else:
                    names[node.result] = self._applied(node.op, [names[a] for a in node.args], attrs)
            if not matched:
                matched = [names[o] for o in side.outputs]
        #: Pairs of tensors that are to be equal.
        self.outputs = list(zip(matched, (names[o] for o in rule.target.outputs), strict=True))

    def _named(self, t: SymType) -> int:
        self._types.append(t)
        self.shapes.append(t.shape)
        return len(self.shapes) - 1

    def _step(self, op: str, xs: Sequence[int], attrs: Attributes, t: SymType, listed: bool = False) -> int:
        result = self._named(t)
        self.steps.append(ProofStep(op, tuple(xs), attrs, result, listed))
        return result

    def _applied(self, op: str, xs: Sequence[int], attrs: Attributes) -> int:
        decl = self._infer.table[op]
        types = [self._types[x] for x in xs]
        if decl.composition is None or op in LINKS:
            return self._step(op, xs, attrs, self._infer(op, types, attrs).types[0])

        def scalar(value: Any, like: int) -> int:
            return self._applied("fill", (), {"value": value, "dtype": self._types[like].dtype, "shape": ()})

        return compose(decl, self._infer.table, xs, attrs, self._types.__getitem__, scalar, self._applied)

    @cached_property
    def conditions(self) -> dict[Bool, None]:
        v = self.variant
        return dict.fromkeys(p for c in (*v.premises, *v.guards, *v.facts) for p in _parts(c))

    @cached_property
    def facts(self) -> Facts:
        facts = Facts()
        facts.add(c for c in self.conditions if isinstance(c, Condition))
        return facts

    def has(self, c: Bool) -> bool:
        """Whether a condition follows, as far as is seen."""
        if c in self.conditions or (rest := self.facts.unproven(c)) is True:
            return True
        return isinstance(rest, Condition) and self.facts.unproven(without_common(rest)) is True

    def slices(self) -> Iterator[Mapping[int, int]]:
        """Choices of an axis of some tensors that can be left out together: see the theorem."""
        parent: dict[tuple[int, int], tuple[int, int]] = {}

        def root(a: tuple[int, int]) -> tuple[int, int]:
            while (up := parent.get(a, a)) != a:
                a = up
            return a

        def join(a: tuple[int, int], b: tuple[int, int]) -> None:
            parent[root(a)] = root(b)

        fixed: set[tuple[int, int]] = set()
        shapes = [sym.substitute(s, self.facts.known) for s in self.shapes]
        for step in self.steps:
            xs = [shapes[x] for x in step.operands]
            links = LINKS[step.op](xs, shapes[step.result], step.attrs) if step.op in LINKS else {}
            for j, own in links.items():
                for x, k in zip(step.operands, own, strict=True):
                    if k is not None:
                        join((x, k), (step.result, j))
            # One tensor may be several operands, and what one of them does not link has to stay.
            for x, axes in zip(
                (step.result, *step.operands), (links, *zip(*links.values(), strict=True)), strict=False
            ):
                fixed.update((x, k) for k in range(len(self.shapes[x])) if k not in axes)
            if not links:
                fixed.update((x, k) for x in step.operands for k in range(len(self.shapes[x])))
        for a, b in self.outputs:
            for k in range(len(self.shapes[a])):
                join((a, k), (b, k))
        classes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for x, shape in enumerate(self.shapes):
            for k in range(len(shape)):
                classes[root((x, k))].append((x, k))
        kept = {root(a) for a in fixed}
        for first, members in classes.items():
            if first not in kept and len(dict(members)) == len(members):
                yield dict(members)


def _parts(c: Bool) -> Iterator[Bool]:
    """Conditions that hold together where ``c`` does: what holds of every member, one at a time."""
    match c:
        case Condition("and", args):
            for part in args:
                yield from _parts(part)
        case Condition("every", (item, length)):
            for part in _parts(item):
                yield sym.every(part, length)
        case _:
            yield c


class Reductions:
    """The assignments of one rule from which others follow."""

    def __init__(self, rule: RewriteRule, variants: Iterable[Variant], infer: Inference) -> None:
        self._rule = rule
        self._infer = infer
        self._names = rule.tensor_variables()
        self._by_ranks: dict[tuple[int, ...], list[Variant]] = defaultdict(list)
        self._flat: dict[int, Applications] = {}
        for v in variants:
            self._by_ranks[self._ranks(v)].append(v)

    def _ranks(self, v: Variant) -> tuple[int, ...]:
        return tuple(len(v.types[name].shape) for name in self._names)

    def _applications(self, v: Variant) -> Applications:
        if id(v) not in self._flat:
            self._flat[id(v)] = Applications(self._rule, v, self._infer)
        return self._flat[id(v)]

    def lower(self, variant: Variant) -> Variant | None:
        """An assignment of lower ranks from which this one follows, if one is found."""
        high = self._applications(variant)
        for axes in high.slices():
            ranks = tuple(len(high.shapes[x]) - (x in axes) for x in high.variables.values())
            for v in self._by_ranks.get(ranks, ()):
                if v is not variant and _Slice(high, self._applications(v), axes).follows():
                    return v
        return None


class _Slice:
    """Whether one assignment follows from a ``low`` one, without some ``axes``: what stands for the unknowns there
    makes both sides equal slices, and meets the conditions."""

    def __init__(self, high: Applications, low: Applications, axes: Mapping[int, int]) -> None:
        self._high = high
        self._low = low
        self._axes = axes
        self._removed = {name: axes.get(x) for name, x in high.variables.items()}
        self._elements: dict[Atom, Int] = {}  #: of lists

    def follows(self) -> bool:
        high, low = self._high, self._low
        if len(high.steps) != len(low.steps) or not all(map(self._agree, high.steps, low.steps)):
            return False
        return all(map(self._holds, low.conditions))

    def _agree(self, high: ProofStep, low: ProofStep) -> bool:
        if (high.op, high.operands, high.listed) != (low.op, low.operands, low.listed):
            return False
        attrs = high.attrs
        if (axis := self._axes.get(high.result)) is not None:
            own = self._axes.get(high.operands[0]) if high.operands else axis
            attrs = without(attrs, own, axis)
        return attrs.keys() == low.attrs.keys() and all(
            self._equal(attrs[n], v) for n, v in low.attrs.items()
        )

    def _equal(self, high: Any, low: Any) -> bool:
        if isinstance(high, tuple) and isinstance(low, tuple):
            return len(high) == len(low) and all(map(self._equal, high, low))
        a = sym.only_atom(low) if isinstance(low, Sym) else None
        if a is not None and a[0] == "elem" and a not in self._elements:
            self._elements[a] = high
            return True
        there = self._there(low)
        return type(there) is type(high) and bool(there == high)

    def _holds(self, condition: Bool) -> bool:
        return all(map(self._high.has, _parts(self._there(condition))))

    def _there(self, value: Any) -> Any:
        """What is said of the slices, said of the tensors."""
        match value:
            case Sym():
                known = {a: x for a in value.mentioned if sym.only_atom(x := self._atom(a)) != a}
                return sym.substitute(value, known)
            case Condition("eq" | "ne" | "le", (p,)):
                return value if (q := self._there(p)) is p else sym.compared(value.kind, q)
            case Condition("and", args):
                return sym.all_of(map(self._there, args))
            case Condition("or", args):
                return sym.any_of(map(self._there, args))
            case Condition("not", (c,)):
                return sym.negate(self._there(c))
            case Condition("every", (item, length)):
                return sym.every(self._there(item), self._there(length))
            case Condition():
                return Condition(value.kind, tuple(map(self._there, value.args)))
            case Opaque(atom):
                return Opaque(tuple(map(self._there, atom)), value.words)
            case tuple():
                return tuple(map(self._there, value))
        return value

    def _atom(self, a: Atom) -> Int:
        if a in self._elements:
            return self._elements[a]
        if a[0] == "dim" and len(a) == 3:
            name = a[1].name if isinstance(a[1], Of) else a[1]
            gone = self._removed.get(name) if isinstance(name, str) else None
            if gone is not None and a[2] >= gone:
                return sym.atom("dim", a[1], a[2] + 1)
        return sym.atom(*a)
