"""Proves that a rule's two sides are equal for all sizes: both as functions of an index, in one normal form.

A proof is for one assignment of ranks and axes at a time, and may go on in cases. It is a proof over the real
numbers; a divisor is taken not to be 0. The method is that of TensorRight (Arora et al., POPL 2025): tensors are
functions of indices, operators are functions of such functions. Here a normal form decides most equations, and an
SMT solver decides about integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from math import factorial, prod
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.expression import base_of, calls_of, is_every
from tensat_dl.core.rule import RewriteRule, Side
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.lists import AnyLength, Many
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, NotKnown, Opaque
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.conditions import values_in
from tensat_dl.rewrite.groups import lists_apart
from tensat_dl.rewrite.source import MAX_RANK, Forms, Variant
from tensat_dl.rewrite.variants import Assignments
from tensat_dl.verify.assigned import Assigned
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.assumptions import Assumptions, Digits, Undecided
from tensat_dl.verify.symbolic.canonical import forget
from tensat_dl.verify.symbolic.context import Context, Tensor, leaf
from tensat_dl.verify.symbolic.elements import NotReal, TooLarge
from tensat_dl.verify.symbolic.lists import Chosen, From, about_members, joined
from tensat_dl.verify.symbolic.meanings import MEANINGS, POINTWISE, meaning
from tensat_dl.verify.symbolic.members import RANKS, SHAPELESS, check_members
from tensat_dl.verify.symbolic.partial import check_needs
from tensat_dl.verify.symbolic.settle import Remainder, settle
from tensat_dl.verify.symbolic.slices import Reductions
from tensat_dl.verify.symbolic.solver import TooHard, Z3Terms, new_terms
from tensat_dl.verify.symbolic.unproved import Inexpressible
from tensat_dl.verify.symbolic.unproved import Unproved as Unproved

#: Attributes that say what tensor a number fills.
FILLED = frozenset((("fill", "shape"), ("fill", "dtype")))
#: Unknown permutations of axes are tried one after the other, if there are no more than this.
MOST_PERMUTATIONS = 24
#: The most cases of a proof at one assignment.
MOST_CASES = 64
#: The place of an index in the result: the output, the axis, and the digits of the index.
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProvedFor:
    """The lowest and the highest rank of a tensor variable at which a rule applies and is proved, or whether that is
    any rank; and whether the rule is about any number of tensors."""

    lowest: int
    highest: int
    any_rank: bool = False
    any_number: bool = False

    def __str__(self) -> str:
        if self.any_rank:
            return "all sizes, any rank"
        ranks = f"rank {self.lowest}"
        if self.lowest != self.highest:
            ranks = f"ranks {self.lowest} to {self.highest}"
        return f"all sizes, {ranks}{', any number of tensors' if self.any_number else ''}"


def prove_sizes(rule: RewriteRule, infer: Inference) -> ProvedFor:
    """Proves a rule for all sizes, at all ranks. Raises `Unproved`."""
    try:
        if _is_pointwise(rule, infer):
            anywhere = replace(rule, conditions=tuple(c for c in rule.conditions if not _is_about_shapes(c)))
            if (variant := _at_one_rank(anywhere, infer)) is not None:
                try:
                    _prove_variant(anywhere, variant, infer, new_terms())
                    return ProvedFor(0, MAX_RANK, any_rank=True)
                except Unproved:
                    if anywhere == rule:
                        raise
        if rule.index is not None:
            check_members(rule, infer)
        rule = lists_apart(rule)
        ranks: set[int] = set()
        terms = new_terms()
        found = Assignments(rule, infer, met=True, any_length=rule.index is not None).variants(RANKS)
        # High ranks first: a proof that fails does so soonest there.
        variants = sorted(
            (v for v in found if not v.ill_typed), key=lambda v: -sum(len(t.shape) for t in v.types.values())
        )
        if rule.index is not None:  # most of what is beyond this method for lists is so at the lowest ranks
            variants = [*variants[-1:], *variants[:-1]]
        reductions = Reductions(rule, variants, infer)
        proved: set[int] = set()

        def prove(variant: Variant) -> None:
            """Directly, if it does not follow from an assignment of lower ranks."""
            if id(variant) in proved:
                return
            lower = reductions.lower(variant)
            if lower is None or not is_proved(lower):
                _prove_variant(rule, variant, infer, terms)
            proved.add(id(variant))

        def is_proved(variant: Variant) -> bool:
            with suppress(Unproved):
                prove(variant)
            return id(variant) in proved

        for k, variant in enumerate(variants):
            ranks.update(_ranks(rule, variant))
            try:
                prove(variant)
            except Unproved as e:
                places = [Assigned.by(v, rule) for v in variants[k:]]
                reason = f"{e}, for {places[0]}" if rule.tensor_variables() else str(e)
                raise Unproved(reason, places if rule.index is None else ()) from None
    except (AnyLength, NotKnown) as e:
        raise Unproved(str(e)) from None
    except TsrError as e:
        raise Unproved(e.diagnostics[0].message) from None
    if not ranks:
        raise Unproved("it never applies")
    return ProvedFor(min(ranks), max(ranks), any_number=rule.index is not None)


def _ranks(rule: RewriteRule, variant: Variant) -> set[int]:
    """The ranks of the tensor variables; without any, those of the source's shapes, or else of its results."""
    variables = rule.tensor_variables()
    if not variables and (shapes := [attrs["shape"] for attrs in variant.source_attrs if "shape" in attrs]):
        return set(map(len, shapes))
    return {len(variant.types[name].shape) for name in variables or rule.source.outputs}


def _is_pointwise(rule: RewriteRule, infer: Inference) -> bool:
    """Whether both sides compute element by element, from numbers that do not depend on shapes. Then each element of
    both sides depends on the same elements of the variables, at whatever ranks the sides have one shape."""
    decls = [infer.table[op] for op in infer.table.closure(n.op for n in rule.nodes)]
    ops = {d.name for d in decls if d.composition is None}
    numbers = all(
        (n.op, a.name) in FILLED or not list(calls_of(a.value)) for n in rule.nodes for a in n.attrs
    ) and not any(_is_about_shapes(e) for _, e in rule.target.lets)
    # Lists and axes are others at other ranks.
    numbers = numbers and all(
        (d.name, a.name) in FILLED or a.type not in ("ints", "axes", "axis") for d in decls for a in d.attrs
    )
    scalars = all(
        a.value == ex.ListExpr((), span=a.value.span)
        for n in rule.nodes
        for a in n.attrs
        if n.op == "fill" and a.name == "shape"
    )
    defined = (part for d in decls if d.composition is not None for part in (d.composition, d.lets))
    fixed = not any(_computes_with_shapes(part, infer.table) for part in defined)
    return rule.index is None and numbers and fixed and scalars and ops <= {*POINTWISE, "fill"}


def _computes_with_shapes(definition: Any, ops: OpTable) -> bool:
    """Whether the numbers in a part of a composition's definition may be others for tensors of other shapes."""
    match definition:
        case ex.Call(fn) if fn not in ops and fn not in SHAPELESS:
            return True
        case ex.Call("fill", args, attrs):
            kept = (args, tuple(k for k in attrs if ("fill", k.name) not in FILLED))
            return any(_computes_with_shapes(part, ops) for part in kept)
    return any(_computes_with_shapes(part, ops) for part in ex.children(definition))


def _is_about_shapes(e: ex.Expr) -> bool:
    """Whether an expression may have another value for tensors of other shapes."""
    return any(call.fn not in SHAPELESS for call in calls_of(e))


def _at_one_rank(rule: RewriteRule, infer: Inference) -> Variant | None:
    """An assignment under which a rule applies, all tensors having one rank, if there is one."""
    for rank in RANKS.ranks:
        for variant in Assignments(rule, infer, met=True).variants(Forms((rank,))):
            if not variant.ill_typed:
                return variant
    return None


def _prove_variant(rule: RewriteRule, variant: Variant, infer: Inference, terms: Z3Terms | None) -> None:
    """Proves a rule at one assignment of ranks and axes. Raises `Unproved`."""
    if terms is None:
        _prove_patiently(rule, variant, infer, terms)
        return
    reason: Unproved | None = None
    for stage in terms.stages():
        terms.begin(stage)
        try:
            _prove_patiently(rule, variant, infer, terms)
        except Unproved as e:
            if reason is None or not isinstance(e, TooHard):  # which says less
                reason = e
            if terms.last:
                break
        else:
            terms.succeeded()
            return
    if reason is not None:
        raise reason


def _prove_patiently(rule: RewriteRule, variant: Variant, infer: Inference, terms: Z3Terms | None) -> None:
    *others, last = _permutations(rule, variant)
    for orders in others:
        try:
            for known in orders:
                _Proof(rule, variant, known, infer, terms).run()
        except TooHard:
            raise
        except Unproved:
            continue
        return
    for known in last:
        _Proof(rule, variant, known, infer, terms).run()


def _permutations(rule: RewriteRule, variant: Variant) -> list[list[Mapping[Atom, Int]]]:
    """Ways to go through the permutations that the rule leaves open: every choice; if these are many, without
    knowing them, or by what stands at one place, or by the place of one axis."""
    lengths = {
        name: variant.chosen[name]
        for node in rule.source.nodes
        for attribute in node.attrs
        if node.op == "transpose"  # whose axes are a permutation
        for name in attribute.variables()
        if name in variant.chosen
    }
    if prod(map(factorial, lengths.values())) <= MOST_PERMUTATIONS:
        return [
            [
                {
                    ("elem", name, i, n): axis
                    for (name, n), order in zip(lengths.items(), orders, strict=True)
                    for i, axis in enumerate(order)
                }
                for orders in product(*(permutations(range(n)) for n in lengths.values()))
            ]
        ]
    ways: list[list[Mapping[Atom, Int]]] = [[{}]]
    for name, n in lengths.items():
        ways += [[{("elem", name, i, n): axis} for axis in range(n)] for i in range(n)]
        ways += [[{("elem", name, i, n): axis} for i in range(n)] for axis in range(n)]
    return ways


@dataclass(frozen=True, slots=True)
class Case:
    """What a case assumes, of members of lists too; how it writes indices of the result; and whether it has `Chosen`
    the member in sight."""

    conditions: Sequence[Bool]
    members: Sequence[Condition]
    written: Mapping[Place, tuple[Int, Int] | From] = field(default_factory=dict)
    chosen: bool = False

    def where(self, condition: Bool) -> Case:
        return replace(self, conditions=(condition, *self.conditions))

    def writing(self, place: Place, index: tuple[Int, Int] | From) -> Case:
        return replace(self, written={**self.written, place: index})


class _Proof:
    """The proof at one assignment of ranks, axes and permutations."""

    def __init__(
        self,
        rule: RewriteRule,
        variant: Variant,
        known: Mapping[Atom, Int],
        infer: Inference,
        terms: Z3Terms | None,
    ) -> None:
        self.rule = rule
        self.variant = variant
        self.known = known
        self.infer = infer
        self.terms = terms
        facts = (*variant.facts, *variant.guards)
        #: Tensors of which conditions know the value.
        self.constants = {name for c in facts for name in values_in(c)}
        #: Where each index of the result stands, in the case at hand.
        self._places: dict[Atom, Place] = {}
        #: Tensors by operator, operands and attributes; beside each are the operands, whose identities its key has.
        self._made: dict[Any, tuple[Tensor, Sequence[Tensor]]] = {}

    def run(self) -> None:
        """Proves all cases. Raises `Unproved`."""
        given = (*self.variant.premises, *self.variant.guards, *self.variant.facts)
        conditions = [sym.substitute(c, self.known) for c in given]
        if False in conditions:
            return
        el.name_anew()
        forget()
        members: Sequence[Condition] = ()
        if self.rule.index is not None:
            conditions, members = about_members(conditions)
        waiting = [Case(conditions, members)]
        for _ in range(MOST_CASES):
            if not waiting:
                return
            case = waiting.pop()
            try:
                context = Context(Assumptions(case.conditions, self.terms, case.members))
                self._case(context, case)
            except Undecided as u:
                waiting += [case.where(c) for c in (u.condition, sym.negate(u.condition))]
            except Digits as d:
                if d.index not in self._places:
                    raise Unproved("an index can't be taken apart") from None
                waiting.append(case.writing(self._places[d.index], d.radices))
            except Chosen as c:
                if case.chosen or not self.rule.takes_lists:
                    raise Unproved("an element of a list is not seen to be of one member") from None
                a = sym.only_atom(c.index)
                chosen = replace(case, chosen=True)
                if a in self._places:
                    waiting.append(chosen.writing(self._places[a], c.place))
                else:
                    waiting.append(chosen.where(c.condition))
            except (IllTyped, Remainder) as e:
                # A case that the first question did not see to be impossible may contradict what is known by now.
                if context.known.possible():
                    either = context.known.alternative()
                    if either is None:
                        raise Unproved(str(e)) from e
                    waiting += [case.where(c) for c in (either, sym.negate(either))]
            except RecursionError:  # each operator of a side takes several calls inside of each other
                raise Unproved("it has too many operators that take one another's results") from None
            except (Inexpressible, NotReal, TooLarge) as e:
                raise Unproved(str(e)) from None
        raise Unproved(f"there are more than {MOST_CASES} cases")

    def _case(self, context: Context, case: Case) -> None:
        self._made, self._places = {}, {}
        tensors = {name: self._variable(name, context) for name in self.rule.tensor_variables()}
        before = self._side(self.rule.source, self.variant.source_attrs, tensors, context)
        after = self._side(self.rule.target, self.variant.target_attrs, before, context)
        for k, (s, t) in enumerate(zip(self.rule.source.outputs, self.rule.target.outputs, strict=True)):
            if before[s] is not after[t]:
                shape = context.simple(before[s].shape)
                index = tuple(self._index(context, (k, axis), n, case) for axis, n in enumerate(shape))
                with context.needs.apart() as own:
                    left = before[s].at(index)
                with context.needs.apart() as new:
                    right = after[t].at(index)
                check_needs(new, own, context)
                if left != right:
                    settle(el.subtract(left, right), context)

    def _index(self, context: Context, place: Place, extent: Int, case: Case) -> Int:
        """An index of the result, written as the case at hand needs it."""
        match case.written.get(place):
            case From(start, own):
                return sym.add(start, self._index(context, (*place, 0), own, case))
            case (outer, inner):
                high = self._index(context, (*place, 0), outer, case)
                low = self._index(context, (*place, 1), inner, case)
                return sym.add(sym.mul(high, inner), low)
        if context.known.plainly(extent, 1):
            return 0
        i = context.index(extent, free=True)
        a = sym.only_atom(i)
        assert a is not None
        self._places[a] = place
        return i

    def _variable(self, name: str, context: Context) -> Tensor:
        t = self.variant.types[name]
        shape = sym.substitute(t.shape, self.known)
        if name in self.constants:
            value = context.real(Opaque(("value", name)))
            return Tensor(shape, t.dtype, lambda index: value, lambda offset: value)
        return leaf(name, shape, t.dtype, context)

    def _side(
        self,
        side: Side,
        attrs: Sequence[Mapping[str, Any]],
        tensors: Mapping[str, Tensor],
        context: Context,
    ) -> dict[str, Tensor]:
        made = dict(tensors)
        for node, given in zip(side.nodes, attrs, strict=True):
            values = {name: sym.substitute(v, self.known) for name, v in given.items()}
            if any(map(is_every, node.args)):
                member = base_of(node.args[0])
                shapes = Many.like(sym.substitute(self.variant.types[member].shape, self.known))
                made[node.result] = self._joined(node.op, made[member], shapes, values, context)
            else:
                made[node.result] = self._applied(node.op, [made[a] for a in node.args], values, context)
        return made

    def _joined(self, op: str, x: Tensor, shapes: Many, attrs: Mapping[str, Any], context: Context) -> Tensor:
        """The concatenation of a list, given the member in sight and the shapes of all."""
        if op != "concat":
            raise Inexpressible(f"`{op}` of a list of any length has no meaning by indices")
        key = ("a list", id(x), attrs["axis"])
        if key not in self._made:
            sizes = Many(shapes.item[attrs["axis"]])
            self._made[key] = (joined(x, sizes, attrs["axis"], context), (x,))
        return self._made[key][0]

    def _applied(self, op: str, xs: Sequence[Tensor], attrs: Mapping[str, Any], context: Context) -> Tensor:
        """One tensor for equal applications: so equal parts of the two sides cancel."""
        known = {name: context.settled(v) for name, v in attrs.items()}
        key = (op, tuple(map(id, xs)), repr(sorted(known.items())))
        if key not in self._made:
            self._made[key] = (self._computed(op, xs, known, context), xs)
        return self._made[key][0]

    def _computed(self, op: str, xs: Sequence[Tensor], attrs: Mapping[str, Any], context: Context) -> Tensor:
        decl = self.infer.table[op]
        if decl.composition is not None and op not in MEANINGS:
            return compose(
                decl,
                self.infer.table,
                xs,
                attrs,
                lambda x: SymType(x.dtype, x.shape),
                lambda value, like: self._applied(
                    "fill", [], {"value": value, "dtype": like.dtype, "shape": ()}, context
                ),
                lambda inner, ys, values: self._applied(inner, ys, values, context),
            )
        return meaning(op, context, xs, attrs, self.infer)
