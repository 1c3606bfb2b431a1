"""Proves that a rule's two sides are equal for all sizes: both as functions of an index, in one normal form.

A proof is for one assignment of ranks and axes at a time, and may go on in cases. It is a proof over the real
numbers; a divisor is taken not to be 0. The method is that of TensorRight (Arora et al., POPL 2025): tensors are
functions of indices, operators are functions of such functions. Here a normal form decides most equations, and an
SMT solver decides about integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import factorial, prod
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.expression import calls_of
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.lists import AnyLength
from tensat_dl.ops.symbolic import Atom, Int, NotKnown
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.groups import lists_apart
from tensat_dl.rewrite.source import MAX_RANK, Forms, Variant
from tensat_dl.rewrite.variants import Assignments
from tensat_dl.verify.assigned import Assigned
from tensat_dl.verify.symbolic.meanings import POINTWISE
from tensat_dl.verify.symbolic.members import RANKS, SHAPELESS, check_members
from tensat_dl.verify.symbolic.slices import Reductions
from tensat_dl.verify.symbolic.solver import TooHard, Z3Terms, new_terms
from tensat_dl.verify.symbolic.unproved import Unproved as Unproved
from tensat_dl.verify.symbolic.variant_proof import VariantProof

#: Attributes that say what tensor a number fills.
FILLED = frozenset((("fill", "shape"), ("fill", "dtype")))
#: Unknown permutations of axes are tried one after the other, if there are no more than this.
MOST_PERMUTATIONS = 24


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
                VariantProof(rule, variant, known, infer, terms).run()
        except TooHard:
            raise
        except Unproved:
            continue
        return
    for known in last:
        VariantProof(rule, variant, known, infer, terms).run()


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
