"""The rank-specialised variants of a rule: facts, guards, and the target's attributes.

egglog has no loops over lists, so a rule about tensors of any rank is compiled once for each assignment of ranks
(and of axes) under which both sides type-check. The operators' own declarations decide: the source's constraints
become facts, the target's constraints become guards unless they follow from the facts. A match of concrete types is
the case in which nothing is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.expression import base_of, every, index_of, member, names_of, replaced, with_lists
from tensat_dl.core.graph import TensorType
from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.attributes import attributes
from tensat_dl.ops.evaluate import evaluate, knowing
from tensat_dl.ops.lists import INDEX, Many
from tensat_dl.ops.symbolic import Condition, EvaluationError, NotKnown
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import Absent, SymType
from tensat_dl.rewrite.classes import Known, fact, kind
from tensat_dl.rewrite.conditions import (
    UNMET,
    Facts,
    conjuncts,
    factors_in,
    is_about_ranks,
    values_in,
)
from tensat_dl.rewrite.groups import Group, instantiate
from tensat_dl.rewrite.source import Form, Forms, Prefix, Variant, axes_in_lists, choices, form_of


class Assignments:
    """The variants of one rule. Every assignment is looked at once, however often more forms are known."""

    def __init__(
        self, rule: RewriteRule, infer: Inference, *, met: bool = False, any_length: bool = False
    ) -> None:
        """Assignments under which a condition of the rule can't hold are left out with ``met``, and `NotKnown` is
        raised where that is not known. A group or list rule is for lists of unknown length with ``any_length``, else
        for one member."""
        self._rule = rule
        self._ops = infer.table
        self._places = axes_in_lists(rule, infer.table)
        self._met = met
        self._ranks_only = [c for c in rule.conditions if is_about_ranks(c)]
        needed = _Needed(rule)
        self._early = [(c, needed(c)) for c in rule.conditions if met or needed.compares_ranks(c)]
        # The source of a group rule is matched for one member at a time: lists of one element, index 0.
        index = {rule.index: INDEX if any_length else 0} if rule.index else {}
        self._start = Prefix(rule, infer, Variant({}, index, {}, any_length=any_length), strict=met)
        self._done: set[Prefix] = set()
        #: How each prefix goes on, with the forms of the next node for which that was asked.
        self._continued: dict[Prefix, tuple[object, tuple[Prefix, ...]]] = {}

    def variants(self, forms: Forms) -> list[Variant]:
        """Every assignment under which e-nodes of these forms may be a source that type-checks; marked are those for
        which the rule's conditions or the target's types can't hold: the difference between them and the others has
        to be checked."""
        out = []
        for source in self._sources(self._start, forms):
            if source not in self._done:
                self._done.add(source)
                self._type_target(source)
            out.append(source.variant)
        return out

    def _sources(self, prefix: Prefix, forms: Forms) -> Iterator[Prefix]:
        """The sources that begin like this."""
        if prefix.complete:
            yield prefix
            return
        version = forms.version(prefix.next.op)
        known, found = self._continued.get(prefix, (None, ()))
        if known != version:
            found = tuple(self._longer(prefix, forms))
            self._continued[prefix] = version, found
        for longer in found:
            yield from self._sources(longer, forms)

    def _longer(self, prefix: Prefix, forms: Forms) -> Iterator[Prefix]:
        """The prefixes with the next node."""
        for choice in choices(prefix.next, prefix.infer, forms, prefix.variant, self._places):
            longer = prefix.longer(choice)
            if longer is None or self._form(prefix.next, longer.variant) not in forms:
                continue
            if len(differing(longer.variant)) <= 1 and not self._unmet(longer.variant):
                yield longer

    def _unmet(self, variant: Variant) -> bool:
        """Whether a condition can't hold of which all names are known."""
        known = variant.env.keys() | variant.types.keys()
        try:
            return any(names <= known and evaluate(c, variant.env) is False for c, names in self._early)
        except EvaluationError as e:
            self._check_known(e)
            return True

    def _check_known(self, error: EvaluationError) -> None:
        if self._met and isinstance(error, NotKnown):
            raise error

    def _form(self, node: PatternNode, variant: Variant) -> Form:
        ranks = [len(t.shape) for t in variant.operands(node, variant.env)]
        result = len(variant.types[node.result].shape)
        return form_of(self._ops[node.op], ranks, result, variant.source_attrs[-1])

    def _type_target(self, source: Prefix) -> None:
        """Types the target, and adds the guards."""
        variant, facts = source.variant, Facts()
        variant.premises = source.conditions
        try:
            # sooner known than what follows
            if any(evaluate(c, variant.env) is False for c in self._ranks_only):
                raise IllTyped(UNMET)
            facts.add(source.conditions)
            _meet(self._rule, variant, facts)
            type_target(self._rule, source.infer, variant, facts)
        except IllTyped as e:
            if self._met and e.unknown:
                raise NotKnown(e.message) from None
            variant.ill_typed = e.message
        except EvaluationError as e:
            self._check_known(e)
            variant.ill_typed = str(e)


class _Needed:
    """The names that a condition can be evaluated with: of a list that a rule has member by member, ``x[0]`` and
    ``x[1]``, those that it mentions. A condition on such a list as a whole is not known before the source is."""

    def __init__(self, rule: RewriteRule) -> None:
        names = (n for node in rule.source.nodes for n in (node.result, *node.args, *_variables(node)))
        self._lists = {base_of(n) for n in names if index_of(n)} if rule.index is None else set()

    def __call__(self, condition: ex.Expr) -> set[str]:
        named = names_of(self._by_member(condition))
        return {every(n.id) if n.id in self._lists else n.id for n in named}

    def compares_ranks(self, condition: ex.Expr) -> bool:
        """Whether it says that two members have one rank. A list rule says so of all members of a list, and would
        have assignments for each member that differs, though it never applies under them."""
        return is_about_ranks(condition) and sum(map(bool, map(index_of, self(condition)))) == 2

    def _by_member(self, condition: ex.Expr) -> ex.Expr:
        def change(part: Any) -> Any:
            match part:
                case ex.Index(ex.Name(name), ex.Const(int(k))) if name in self._lists:
                    return ex.Name(member(name, k), span=part.span)
            return None

        found: ex.Expr = replaced(condition, change)
        return found


def _variables(node: PatternNode) -> Iterator[str]:
    return (name for attribute in node.attrs for name in attribute.variables())


def differing(variant: Variant) -> set[str]:
    """The indices of members with other ranks than the first one. More than one need not be looked at: if one makes
    the variant another, rules check the ranks of every member."""
    ranks = {name: len(t.shape) for name, t in variant.types.items()}
    return {index_of(n) for n in ranks if index_of(n) and ranks[n] != ranks[member(base_of(n), 0)]}


def _meet(rule: RewriteRule, variant: Variant, facts: Facts) -> None:
    """Adds the rule's own conditions to the guards. Raises `IllTyped` if they can't hold."""
    for expr in rule.conditions:
        condition = evaluate(expr, variant.env)
        if condition is False:
            raise IllTyped(UNMET)
        for c in conjuncts(condition):
            plain = c.args[0] if c.kind == "not" else c
            if plain.kind in ("weight", "start") or values_in(c) or factors_in(c):
                variant.facts.append(c)
                continue
            rest = facts.unproven(c)
            if rest is False:
                raise IllTyped(UNMET)
            if rest is not True:
                variant.guards.append(c)
                facts.add([c])


def type_target(rule: RewriteRule, infer: Inference, variant: Variant, facts: Facts | None = None) -> None:
    """Types the target; conditions that do not follow from the facts become guards. Raises `IllTyped`."""
    facts = facts or Facts()
    scope = dict(variant.env)
    matched = [variant.types[o] for o in rule.source.outputs]
    pending = list(rule.target.lets)
    unbuilt = [base_of(n.result) for n in rule.target.nodes]  # a list, until its last member is built

    def need(c: sym.Bool, message: str) -> None:
        rest = facts.unproven(c)
        if rest is False:
            raise IllTyped(message)
        if isinstance(rest, Condition):
            parts = rest.args if rest.kind == "and" else (rest,)
            variant.guards.extend(parts)
            facts.add(parts)

    for node in rule.target.nodes:
        pending = _bind_lets(pending, scope, {n for n in unbuilt if n not in variant.env})
        unbuilt.pop(0)
        decl = infer.table[node.op]
        inputs = variant.operands(node, scope)
        attrs = attributes(decl, node.attrs, scope, inputs)
        typing = infer(node.op, inputs, attrs)
        for condition in typing.conditions:
            need(condition, f"{node.op}: a constraint of the target fails")
        variant.target_attrs.append(attrs)
        variant.types[node.result] = typing.types[0]
        base = base_of(node.result)
        if node.each is not None:
            scope[base] = Many.like(typing.types[0])
        elif base != node.result and not isinstance(variant.env.get(base), tuple):
            scope[base] = (*scope.get(base, ()), typing.types[0])
        scope.setdefault(node.result, typing.types[0])
    for source, a, target in zip(rule.source.outputs, matched, rule.target.outputs, strict=True):
        b = variant.types[target]
        need(sym.equal(a.dtype, b.dtype), "an output changes its element type")
        need(sym.equal(a.shape, b.shape), f"output `{source}` changes its shape")


def _bind_lets(
    pending: list[tuple[str, ex.Expr]], scope: dict[str, Any], unbuilt: set[str]
) -> list[tuple[str, ex.Expr]]:
    """Evaluates the lets whose names are all known by now; the others wait for the nodes that they measure."""
    later = []
    waiting = {*unbuilt, *(name for name, _ in pending)}
    for name, expr in pending:
        if waiting.isdisjoint(n.id for n in names_of(expr)):
            scope[name] = evaluate(expr, scope)
            waiting.discard(name)
        else:
            later.append((name, expr))
    return later


def matched(types: Mapping[str, TensorType], attrs: Mapping[str, Any]) -> Variant:
    """A match of tensors of known types and of attribute variables."""
    tensors = {name: SymType(t.dtype, t.shape) for name, t in types.items()}
    return Variant(tensors, with_lists({**tensors, **attrs}), {})


def concrete(
    rule: RewriteRule,
    infer: Inference,
    types: Mapping[str, TensorType],
    attrs: Mapping[str, Any],
    known: Callable[[str, str], Any],
) -> Variant | None:
    """A concrete match checked: the target's attributes and types, or None if the rule does not apply to it.

    ``types`` are those of the source's tensors, ``attrs`` the values of attribute variables, ``known`` answers
    ``weight(x)`` and the like. Used for groups, whose matches are put together outside of the engine.
    """
    variant = matched(types, attrs)
    try:
        for expr in rule.conditions:
            if evaluate(expr, knowing(variant.env, known)) is not True:
                return None
        type_target(rule, infer, variant)
    except (IllTyped, EvaluationError, Absent):  # absent is the value of what is no constant
        return None
    return variant


class Checks:
    """The typed targets of rules at matches. Repeated blocks have many matches of equal types. They share one result,
    in every iteration of an exploration."""

    def __init__(self, ops: OpTable) -> None:
        self.ops = ops
        self._infer = Inference(ops)
        self._instances: dict[tuple[str, int], RewriteRule] = {}
        self._targets: dict[tuple[Any, ...], Variant | None] = {}
        self._fits: dict[tuple[Any, ...], dict[tuple[int, ...], bool]] = {}
        self._kinds: dict[tuple[object, ...], int] = {}

    def kind(self, known: Known, tensor: int) -> int:
        """A number for all facts about a tensor that conditions of rules can ask for: the same for equal facts."""
        return self._kinds.setdefault(kind(known, tensor), len(self._kinds))

    def fits(
        self, rule: RewriteRule, attrs: Mapping[str, Any], shared: Sequence[int]
    ) -> dict[tuple[int, ...], bool]:
        """Whether two members fit together in a group of these attributes and kinds of shared tensors: by the kinds
        of their tensors, as far as that was asked."""
        return self._fits.setdefault((rule.name, repr(sorted(attrs.items())), *shared), {})

    def instance(self, rule: RewriteRule, n: int) -> RewriteRule:
        """A group rule for that many members; another rule as it is."""
        if rule.index is None:
            return rule
        key = (rule.name, n)
        if key not in self._instances:
            self._instances[key] = instantiate(rule, n)
        return self._instances[key]

    def target(self, rule: RewriteRule, group: Group, known: Known) -> Variant | None:
        """The typed target for a group's members; None if the rule does not apply to the whole group."""
        return self.at(self.instance(rule, len(group.members)), group.names, group.attrs, known)

    def at(
        self, rule: RewriteRule, names: Mapping[str, int], attrs: Mapping[str, Any], known: Known
    ) -> Variant | None:
        """The typed target where the rule's source matches the tensors ``names``; None if the rule does not apply.
        The tensors of a rule for some members are called ``w[0]``, ``w[1]`` and so on."""
        kinds = ((n, kind(known, h)) for n, h in names.items())
        key = (rule.name, repr(sorted(attrs.items())), *kinds)
        if key not in self._targets:
            types = {n: known.types[h] for n, h in names.items()}
            self._targets[key] = concrete(
                rule, self._infer, types, attrs, lambda function, name: fact(known, function, names[name])
            )
        return self._targets[key]
