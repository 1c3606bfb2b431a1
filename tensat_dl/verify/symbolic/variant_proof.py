"""The proof at one assignment of ranks, axes and permutations, which may go on in cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensat_dl.core.expression import base_of, is_every
from tensat_dl.core.rule import RewriteRule, Side
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.compositions import compose
from tensat_dl.ops.lists import Many
from tensat_dl.ops.symbolic import Atom, Bool, Condition, Int, Opaque
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.conditions import values_in
from tensat_dl.rewrite.source import Variant
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.assumptions import Assumptions, Digits, Undecided
from tensat_dl.verify.symbolic.canonical import forget
from tensat_dl.verify.symbolic.context import Context, Tensor, leaf
from tensat_dl.verify.symbolic.elements import NotReal, TooLarge
from tensat_dl.verify.symbolic.lists import Chosen, From, about_members, joined
from tensat_dl.verify.symbolic.meanings import MEANINGS, meaning
from tensat_dl.verify.symbolic.partial import check_needs
from tensat_dl.verify.symbolic.settle import Remainder, settle
from tensat_dl.verify.symbolic.solver import Z3Terms
from tensat_dl.verify.symbolic.unproved import Inexpressible, Unproved

#: The most cases of a proof at one assignment.
MOST_CASES = 64
#: The place of an index in the result: the output, the axis, and the digits of the index.
Place = tuple[int, ...]


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


class VariantProof:
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
