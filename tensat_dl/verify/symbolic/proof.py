"""Proves that a rule's two sides are equal for all sizes: both as functions of an index, in one normal form.

A proof is for one assignment of ranks and axes at a time, and may go on in cases. It is a proof over the real
numbers; a divisor is taken not to be 0. The method is that of TensorRight (Arora et al., POPL 2025): tensors are
functions of indices, operators are functions of such functions. Here a normal form decides most equations, and an
SMT solver decides about integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod
from typing import Any

from tensat_dl.core.rule import RewriteRule, Side
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Atom, Bool, Int, Opaque
from tensat_dl.ops.typing import IllTyped, Inference, compose
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.conditions import values_in
from tensat_dl.rewrite.source import MAX_RANK, Forms, Variant
from tensat_dl.rewrite.variants import Assignments
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.assumptions import Assumptions, Digits, TooHard, Undecided, replaced
from tensat_dl.verify.symbolic.context import Context, Inexpressible, Tensor, leaf
from tensat_dl.verify.symbolic.elements import TooLarge
from tensat_dl.verify.symbolic.meanings import MEANINGS, meaning
from tensat_dl.verify.symbolic.settle import Remainder, settle

#: Ranks at which rules are proved.
RANKS = Forms(tuple(range(MAX_RANK + 1)))
#: Unknown permutations of axes are tried one after the other, if there are no more than this.
MOST_PERMUTATIONS = 24
#: The most cases of a proof at one assignment.
MOST_CASES = 64
#: The place of an index in the result: the output, the axis, and the digits of the index.
Place = tuple[int, ...]


class Unproved(Exception):
    """There is no proof; the message says why."""


@dataclass(frozen=True, slots=True)
class ProvedFor:
    """The lowest and the highest rank of a tensor variable at which a rule applies, and how many assignments of ranks
    and axes were proved."""

    lowest: int
    highest: int
    assignments: int

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"all sizes, rank {self.lowest}"
        return f"all sizes, ranks {self.lowest} to {self.highest}"


def prove_sizes(rule: RewriteRule, infer: Inference) -> ProvedFor:
    """Proves a rule for all sizes, at all ranks. Raises `Unproved`."""
    if rule.index is not None:
        raise Unproved("it is about any number of tensors")
    ranks: set[int] = set()
    assignments = 0
    for variant in Assignments(rule, infer).variants(RANKS):
        if variant.ill_typed:
            continue
        assignments += 1
        ranks.update(len(variant.types[name].shape) for name in rule.tensor_variables())
        for known in _permutations(rule, variant, infer):
            _Proof(rule, variant, known, infer).run()
    if not assignments:
        raise Unproved("it never applies")
    return ProvedFor(min(ranks, default=0), max(ranks, default=0), assignments)


def _permutations(rule: RewriteRule, variant: Variant, infer: Inference) -> Iterator[Mapping[Atom, Int]]:
    """Every choice of the permutations that the rule leaves open; if these are many, none: they stay unknown."""
    lengths = {
        name: variant.chosen[name]
        for node in rule.source.nodes
        for attribute in node.attrs
        if infer.table[node.op][attribute.name].type == "axes"
        for name in attribute.variables()
        if name in variant.chosen
    }
    if prod(map(factorial, lengths.values())) > MOST_PERMUTATIONS:
        yield {}
        return
    for orders in product(*(permutations(range(n)) for n in lengths.values())):
        yield {
            ("elem", name, i, n): axis
            for (name, n), order in zip(lengths.items(), orders, strict=True)
            for i, axis in enumerate(order)
        }


class _Proof:
    """The proof at one assignment of ranks, axes and permutations."""

    def __init__(
        self, rule: RewriteRule, variant: Variant, known: Mapping[Atom, Int], infer: Inference
    ) -> None:
        self.rule = rule
        self.variant = variant
        self.known = known
        self.infer = infer
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
        conditions = [replaced(c, self.known) for c in given]
        if False in conditions:
            return
        el.name_anew()
        asked = itertools.count()
        waiting: list[tuple[list[Bool], dict[Place, tuple[Int, Int]]]] = [(conditions, {})]
        for count in range(MOST_CASES):
            if not waiting:
                return
            conditions, digits = waiting.pop()
            context = Context(Assumptions(conditions, asked))
            if count and not context.known.possible():
                continue
            try:
                self._case(context, digits)
            except Undecided as u:
                waiting += [([*conditions, c], digits) for c in (u.condition, sym.negate(u.condition))]
            except Digits as d:
                if d.index not in self._places:
                    raise Unproved("an index can't be taken apart") from None
                waiting.append((conditions, {**digits, self._places[d.index]: d.radices}))
            except (IllTyped, Remainder) as e:
                # A case that the first question did not see to be impossible may contradict what is known by now.
                if context.known.possible():
                    raise Unproved(str(e)) from e
            except (Inexpressible, TooLarge, TooHard) as e:
                raise Unproved(str(e)) from None
        raise Unproved(f"there are more than {MOST_CASES} cases")

    def _case(self, context: Context, digits: Mapping[Place, tuple[Int, Int]]) -> None:
        self._made, self._places = {}, {}
        tensors = {name: self._variable(name, context) for name in self.rule.tensor_variables()}
        before = self._side(self.rule.source, self.variant.source_attrs, tensors, context)
        after = self._side(self.rule.target, self.variant.target_attrs, before, context)
        for k, (s, t) in enumerate(zip(self.rule.source.outputs, self.rule.target.outputs, strict=True)):
            if before[s] is not after[t]:
                shape = context.simple(before[s].shape)
                index = tuple(self._index(context, (k, axis), n, digits) for axis, n in enumerate(shape))
                settle(el.subtract(before[s].at(index), after[t].at(index)), context)

    def _index(
        self, context: Context, place: Place, extent: Int, digits: Mapping[Place, tuple[Int, Int]]
    ) -> Int:
        """An index of the result, written with its digits if it is known to need them."""
        if place in digits:
            outer, inner = digits[place]
            high = self._index(context, (*place, 0), outer, digits)
            low = self._index(context, (*place, 1), inner, digits)
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
            made[node.result] = self._applied(node.op, [made[a] for a in node.args], values, context)
        return made

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
