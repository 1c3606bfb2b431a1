"""A rule at chosen ranks and axes: what its types and attributes are there, and under which conditions it applies."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import children
from tensat_dl.core.rule import RewriteRule, Variable
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import Bool, EvaluationError, Int
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import SymType
from tensat_dl.rewrite.facts import Facts
from tensat_dl.rewrite.forms import Forms
from tensat_dl.rewrite.source import Choice, Prefix, Variant, choices
from tensat_dl.rewrite.target import type_target

#: Ranks of tensor variables and lengths of list variables. The last come up where an operator asks for them, or where
#: a search looks at them first.
RANKS = (0, 1, 2, 3, 4, 5, 6)
HIGH = 5
#: How many ways of continuing a search for ranks looks at, and how many targets that do not type-check, before it
#: gives up; and how often it starts again.
EFFORT = 400
TARGETS = 12
TRIES = 12


#: Which ranks a search tries first: those below `HIGH`, the others, or the lowest there are.
First = Literal["low", "high", "lowest"]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """A rule whose ranks, axes and list lengths are chosen; dimensions and other attributes are unknown.

    ``types`` are those of all tensors of the source, ``env`` is what expressions may name besides, and
    ``conditions`` what the operators of both sides, the conditions of the rule and its outputs ask for. ``shapes``
    has every tensor's.
    """

    types: Mapping[str, SymType]
    env: Mapping[str, Any]
    conditions: tuple[Bool, ...]
    shapes: tuple[tuple[Int, ...], ...]


@dataclass
class _RankSearch:
    """One search for ranks. With ``alike`` the members of a group are preferred to have equal ones."""

    rng: random.Random
    alike: bool
    first: First
    effort: int = EFFORT
    targets: int = TARGETS

    def order(self, options: Iterable[Choice], variant: Variant) -> list[Choice]:
        """The options in a random order."""
        weighed = [(self.rng.random() + self._last(c, variant), c) for c in options]
        return [c for _, c in sorted(weighed, key=lambda w: w[0])]

    def _last(self, choice: Choice, variant: Variant) -> int:
        """How much an option is to be tried after others."""
        late = 0
        for name, (kind, value) in choice.items():
            if kind != "axis":
                late += value if self.first == "lowest" else (value >= HIGH) != (self.first == "high")
            first = f"{name.partition('[')[0]}[0]"
            late += self.alike and variant.chosen.get(first, choice.get(first, ("", value))[1]) != value
        return late


class Skeletons:
    """Draws skeletons of a rule, which has no group. ``rejected`` are conditions of which at least one must be
    false, in place of true ones."""

    def __init__(
        self,
        rule: RewriteRule,
        infer: Inference,
        rejected: Collection[ex.Expr] = (),
    ) -> None:
        self._forms = Forms(RANKS)
        self.rule = rule
        self.infer = infer
        self.rejected = tuple(rejected)
        self._start = Prefix(rule, infer, Variant({}, {}, {}))
        self._met: dict[Prefix, tuple[Bool, ...] | None] = {}
        self._complete: dict[Prefix, Skeleton | None] = {}
        self._choices: dict[tuple[int, ...], Sequence[Choice]] = {}
        self._members = _members(rule, infer.table)
        asked = [(c, True) for c in rule.conditions]
        if rejected:
            asked.append((_all(self.rejected), False))
        self._asked = [(c, truth, _needs(c, self._members)) for c, truth in asked]

    def draw(self, rng: random.Random, first: First) -> Skeleton | None:
        """A random one with ranks of which some are tried ``first``, or None if none was found among as many as were
        looked at."""
        for _ in range(TRIES):
            search = _RankSearch(rng, rng.random() < 0.6, first)
            found = next(self._visit(self._start, (), search), None)
            if found is not None:
                return found
        return None

    def _visit(self, prefix: Prefix, conditions: tuple[Bool, ...], search: _RankSearch) -> Iterator[Skeleton]:
        """The skeletons whose sources begin like this, under the ``conditions`` of what they begin with. Whatever
        does not depend on the search is worked out once."""
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
            self._choices[key] = tuple(choices(node, self.infer, self._forms, variant))
        return self._choices[key]

    def _conditions(self, now: Prefix, shorter: Prefix) -> tuple[Bool, ...] | None:
        """What the last node asks for, and the conditions that can be evaluated now and could not before; None if one
        can't be met."""
        variant, before = now.variant, shorter.variant
        out: list[Bool] = [*now.conditions[len(shorter.conditions) :]]
        for expr, truth, needs in self._asked:
            if not _bound(needs, variant) or (before.types and _bound(needs, before)):
                continue
            try:
                found: Bool = evaluate(expr, variant.env)
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
        return Skeleton(types, env, (*conditions, *variant.guards), shapes)


def _all(conditions: Sequence[ex.Expr]) -> ex.Expr:
    """The conjunction of conditions."""
    whole = conditions[0]
    for c in conditions[1:]:
        whole = ex.Binary("and", whole, c, span=c.span)
    return whole


def _needs(c: ex.Expr, members: Mapping[str, int]) -> dict[str, int]:
    """The names of the source that an expression mentions, and how many members of each have to be there."""
    found: dict[str, int] = {}

    def visit(tree: Any) -> None:
        if isinstance(tree, ex.Index) and isinstance(tree.base, ex.Name) and isinstance(tree.index, ex.Const):
            if tree.base.id in members:
                found[tree.base.id] = max(found.get(tree.base.id, 0), int(tree.index.value) + 1)
        elif isinstance(tree, ex.Name):
            if tree.id in members:
                found[tree.id] = max(found.get(tree.id, 0), members[tree.id])
        else:
            for part in children(tree):
                visit(part)

    visit(c)
    return found


def _bound(needs: Mapping[str, int], variant: Variant) -> bool:
    """Whether a variant has all of these names."""
    for name, members in needs.items():
        value = variant.env.get(name)
        if name not in variant.env or (isinstance(value, tuple) and len(value) < members):
            return False
    return True


def _members(rule: RewriteRule, ops: OpTable) -> dict[str, int]:
    """The names that a rule's source binds, without the member's number, and how many members each has."""
    found = dict.fromkeys(attribute_variables(rule, ops), 0)
    for node in rule.source.nodes:
        for name in (*node.args, node.result):
            base, _, index = name.partition("[")
            found[base] = max(found.get(base, 1), int(index[:-1]) + 1 if index else 1)
    return found


def attribute_variables(rule: RewriteRule, ops: OpTable) -> dict[str, AttrDecl]:
    """The names that stand for an attribute's whole value or for an element of it, with that attribute."""
    found: dict[str, AttrDecl] = {}
    for node in rule.source.nodes:
        decl = ops[node.op]
        for attribute in node.attrs:
            a = decl.attr(attribute.name)
            assert a is not None
            for name in attribute.variables():
                found.setdefault(name, a)
    for node in rule.target.nodes:
        for attribute in node.attrs:
            a = ops[node.op].attr(attribute.name)
            match attribute.pattern:
                case Variable(name) if (
                    a is not None and a.words and name in found and found[name].type == "string"
                ):
                    found[name] = a  # a string that is a word there
    return found
