"""A rule at chosen ranks and axes: its types, its attributes, and the conditions under which it applies."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import base_of, children, member
from tensat_dl.core.rule import RewriteRule, Variable
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import Bool, EvaluationError, Int
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.conditions import Facts
from tensat_dl.rewrite.source import Choice, Forms, Prefix, Variant, axes_in_lists, choices
from tensat_dl.rewrite.variants import type_target
from tensat_dl.verify.assigned import Assigned

#: Ranks of tensor variables and lengths of list variables. The last come up where an operator asks for them, or where
#: a search looks at them first.
RANKS = (0, 1, 2, 3, 4, 5, 6)
HIGH = 5
#: How many ways of continuing a search for ranks looks at, and how many targets that do not type-check, before it
#: gives up; and how often it starts again.
EFFORT = 400
TARGETS = 12
TRIES = 12


#: The ranks that a search tries first: below `HIGH`, the others, or the lowest there are.
First = Literal["low", "high", "lowest"]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """A rule whose ranks, axes and list lengths are chosen; dimensions and other attributes are unknown.

    ``types`` has the types of all tensors of the source, ``env`` the other names of expressions. ``conditions`` are
    those of the operators of both sides, of the rule and of its outputs. ``shapes`` has the shapes of all tensors,
    ``attrs`` the attributes of all operators.
    """

    types: Mapping[str, SymType]
    env: Mapping[str, Any]
    conditions: tuple[Bool, ...]
    shapes: tuple[tuple[Int, ...], ...]
    attrs: tuple[Any, ...]


@dataclass
class _RankSearch:
    """One search for ranks. With ``alike`` the members of a group are preferred to have equal ones."""

    rng: random.Random
    alike: bool
    first: First
    effort: int = EFFORT
    targets: int = TARGETS
    wanted: Mapping[str, int] = field(default_factory=dict)  #: ranks and axes that it keeps to

    def order(self, options: Iterable[Choice], variant: Variant) -> list[Choice]:
        """The options in a random order."""
        if self.wanted:
            options = [c for c in options if all(self.wanted.get(n, v) == v for n, (_, v) in c.items())]
        weighed = [(self.rng.random() + self._last(c, variant), c) for c in options]
        return [c for _, c in sorted(weighed, key=lambda w: w[0])]

    def _last(self, choice: Choice, variant: Variant) -> int:
        """The penalty of an option: the higher, the later it is tried."""
        late = 0
        for name, (kind, value) in choice.items():
            if kind in ("tensor", "ints"):
                late += value if self.first == "lowest" else (value >= HIGH) != (self.first == "high")
            first = member(base_of(name), 0)
            late += self.alike and variant.chosen.get(first, choice.get(first, ("", value))[1]) != value
        return late


class Skeletons:
    """Draws skeletons of a rule, which has no group. ``rejected`` are conditions of which at least one must be
    false, in place of true ones."""

    def __init__(
        self,
        rule: RewriteRule,
        infer: Inference,
        rejected: Sequence[ex.Expr] = (),
    ) -> None:
        self._forms = Forms(RANKS)
        self._places = axes_in_lists(rule, infer.table)
        self.rule = rule
        self.infer = infer
        self._start = Prefix(rule, infer, Variant({}, {}, {}))
        self._met: dict[Prefix, tuple[Bool, ...] | None] = {}
        self._complete: dict[Prefix, Skeleton | None] = {}
        self._choices: dict[tuple[int, ...], Sequence[Choice]] = {}
        asked = [(c, True) for c in rule.conditions]
        if rejected:
            asked.append((reduce(_both, rejected), False))
        bound = _bound_by(rule)
        #: Conditions, and whether they must be true, by how many nodes of the source they can be evaluated after.
        self._asked: dict[int, list[tuple[ex.Expr, bool]]] = {}
        for c, truth in asked:
            self._asked.setdefault(_position(c, bound), []).append((c, truth))

    def draw(self, rng: random.Random, first: First) -> Skeleton | None:
        """A random one with ranks of which some are tried ``first``, or None if none was found among as many as were
        looked at."""
        for _ in range(TRIES):
            search = _RankSearch(rng, rng.random() < 0.6, first)
            found = next(self._visit(self._start, (), search), None)
            if found is not None:
                return found
        return None

    def at(self, assigned: Assigned, rng: random.Random) -> Skeleton | None:
        """A random one at these ranks and axes, or None if there is none."""
        wanted = {**dict(assigned.ranks), **dict(assigned.axes)}
        return next(self._visit(self._start, (), _RankSearch(rng, False, "low", wanted=wanted)), None)

    def _visit(self, prefix: Prefix, conditions: tuple[Bool, ...], search: _RankSearch) -> Iterator[Skeleton]:
        """The skeletons whose sources begin like this, under the ``conditions`` of what they begin with. Results that
        do not depend on the search are computed once."""
        if prefix.complete:
            if prefix not in self._complete:
                self._complete[prefix] = self._skeleton(prefix, conditions)
            found = self._complete[prefix]
            if found is not None:
                yield found
            search.targets -= 1
            return
        for choice in search.order(self._options(prefix), prefix.variant):
            search.effort -= 1
            if search.effort < 0 or search.targets < 0:
                return
            longer = prefix.longer(choice)
            if longer is None:
                continue
            if longer not in self._met:
                self._met[longer] = self._conditions(longer, prefix)
            met = self._met[longer]
            if met is not None:
                yield from self._visit(longer, (*conditions, *met), search)

    def _options(self, prefix: Prefix) -> Sequence[Choice]:
        """The choices at a node, which depend on the ranks of its operands alone; found once."""
        node, variant = prefix.next, prefix.variant
        key = (prefix.length, *(len(variant.types[a].shape) for a in node.args if a in variant.types))
        if key not in self._choices:
            self._choices[key] = tuple(choices(node, self.infer, self._forms, variant, self._places))
        return self._choices[key]

    def _conditions(self, now: Prefix, shorter: Prefix) -> tuple[Bool, ...] | None:
        """The conditions of the last node, and those of the rule that it is the first to let evaluate; None if one
        can't be met."""
        out: list[Bool] = [*now.conditions[len(shorter.conditions) :]]
        for expr, truth in self._asked.get(now.length, ()):
            try:
                found: Bool = evaluate(expr, now.variant.env)
            except EvaluationError:
                found = False
            if not truth:
                found = sym.negate(found)
            if found is False:
                return None
            out.append(found)
        return tuple(out)

    def _skeleton(self, source: Prefix, conditions: tuple[Bool, ...]) -> Skeleton | None:
        """None if the target does not type-check."""
        variant = source.variant
        types, env = dict(variant.types), dict(variant.env)
        variant.guards = []
        try:
            type_target(self.rule, self.infer, variant, Facts())
        except (IllTyped, EvaluationError):
            return None
        shapes = tuple(t.shape for t in (*types.values(), *variant.types.values()))
        attrs = tuple(v for a in (*variant.source_attrs, *variant.target_attrs) for v in a.values())
        return Skeleton(types, env, (*conditions, *variant.guards), shapes, attrs)


def _both(a: ex.Expr, b: ex.Expr) -> ex.Expr:
    return ex.Binary("and", a, b, span=b.span)


def _bound_by(rule: RewriteRule) -> dict[str, int]:
    """By name the number of nodes of the source that bind it. A list of members is bound by its last one."""
    found: dict[str, int] = {}
    for k, node in enumerate(rule.source.nodes, start=1):
        for name in (*node.args, node.result, *(v for a in node.attrs for v in a.variables())):
            if name not in found:
                found[name] = found[base_of(name)] = k
    return found


def _position(tree: object, bound: Mapping[str, int]) -> int:
    """The number of nodes of the source that bind all names in an expression."""
    match tree:
        case ex.Index(ex.Name(base), ex.Const(int(k))) if member(base, k) in bound:
            return bound[member(base, k)]
        case ex.Name(name):
            return bound.get(name, 1)
    return max((_position(part, bound) for part in children(tree)), default=1)


def attribute_variables(rule: RewriteRule, ops: OpTable) -> dict[str, AttrDecl]:
    """The names that stand for an attribute's whole value or for an element of it, with that attribute."""
    found: dict[str, AttrDecl] = {}
    for node in rule.source.nodes:
        decl = ops[node.op]
        for attribute in node.attrs:
            a = decl[attribute.name]
            for name in attribute.variables():
                found.setdefault(name, a)
    for node in rule.target.nodes:
        for attribute in node.attrs:
            a = ops[node.op][attribute.name]
            match attribute.pattern:
                case Variable(name) if a.words and name in found and found[name].type == "string":
                    found[name] = a  # a string that is a word there
    return found
