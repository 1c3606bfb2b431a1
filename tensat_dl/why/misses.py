"""Finds the places where a rule applies in a graph, where only its conditions fail, and where its source comes
nearest to matching."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import attr_text
from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.ops.evaluate import evaluate, knowing
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.typing import IllTyped, Inference
from tensat_dl.ops.values import Absent
from tensat_dl.rewrite.classes import EGraphTerms, Known, fact
from tensat_dl.rewrite.matcher import Match, Pattern, merged
from tensat_dl.rewrite.orders import other_orders
from tensat_dl.rewrite.source import Forms
from tensat_dl.rewrite.variants import Assignments, Checks, matched, type_target

#: Structural matches of which conditions are looked at.
MAX_MATCHES = 2_000
#: Pairs of members that are compared.
MAX_PAIRS = 20_000

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Failure:
    """The part of a rule that fails, as it is written, and the values for which it does. ``passed`` counts the
    conditions before it that hold."""

    what: str
    values: str
    passed: int


@dataclass(frozen=True, slots=True)
class FailedMatch:
    """A match of the whole pattern for which the rule does not hold."""

    match: Match
    failure: Failure


@dataclass
class NearMisses:
    """The result of looking for a pattern: where the rule applies, where only its conditions fail, the nearest
    part."""

    fires: list[Match] = field(default_factory=list)
    failed: list[FailedMatch] = field(default_factory=list)
    near: Match | None = None
    #: A source node that stands there with two operands exchanged, and the match of the pattern with these.
    exchanged: tuple[PatternNode, Match] | None = None


@dataclass(frozen=True, slots=True)
class Apart:
    """Two members, and their differences in values that members must share: (name, value of the first, of the
    second). Values of tensors are classes in braces."""

    first: Match
    second: Match
    differences: tuple[tuple[str, str, str], ...]


@dataclass
class FoundMembers:
    """Groups that the rule merges, or the reason why there is none. Of the reasons the first that is set counts."""

    groups: list[list[Match]]
    dependent: tuple[Match, Match] | None = None  #: the second needs the first
    failed: tuple[Match, Match, Failure] | None = None
    apart: Apart | None = None
    single: Match | None = None  #: the only member
    constant: int = 0  #: members that are left out because they are computed ahead of time
    near: Match | None = None


def look(patterns: Sequence[Pattern], terms: EGraphTerms, nearly: bool = True) -> NearMisses:
    """Looks for a rule, by the patterns that it has for lists of several lengths, or by its only one; and, if
    ``nearly``, for the nearest part if it does not match anywhere. Each list has the best first."""
    found = NearMisses()
    checks = Checks(patterns[0].ops)
    infer = Inference(patterns[0].ops)
    compiled = {pattern: Assignments(pattern.rule, infer) for pattern in patterns}
    matches = ((pattern, match) for pattern in patterns for match in pattern.matches(terms))
    for pattern, match in islice(matches, MAX_MATCHES):
        if len({match.nodes[r] for r in pattern.roots}) < len(pattern.roots):
            continue  # merging a thing with itself is nothing that anyone asks for
        wrong = _failure(pattern.rule, match, terms, checks)
        wrong = wrong or _not_compiled(pattern.rule, match, terms, compiled[pattern])
        if wrong is None:
            found.fires.append(match)
        else:
            found.failed.append(FailedMatch(match, wrong))
    found.failed.sort(key=lambda f: -f.failure.passed)
    if nearly and not found.fires and not found.failed:
        near = (pattern.nearest(terms) for pattern in patterns)
        found.near = max(filter(None, near), key=lambda m: m.closeness, default=None)
        found.exchanged = next((e for p in patterns for e in _exchanged(p, terms)), None)
    return found


def _exchanged(pattern: Pattern, terms: EGraphTerms) -> Iterator[tuple[PatternNode, Match]]:
    for node, other in other_orders(pattern.rule, pattern.ops):
        yield from ((node, match) for match in Pattern(other, pattern.ops).matches(terms))


def _failure(rule: RewriteRule, match: Match, known: Known, checks: Checks) -> Failure | None:
    """Why a rule does not apply to tensors that its source matches; None if it does. Members of groups are called
    ``w[0]``, ``w[1]``, and the rule is the one for that many."""
    names = match.tensors
    if checks.at(rule, names, match.attrs, known) is not None:
        return None
    variant = matched({n: known.types[c] for n, c in names.items()}, match.attrs)
    scope = knowing(variant.env, lambda function, name: fact(known, function, names[name]))
    for passed, condition in enumerate(rule.conditions):
        if not _holds(condition, scope):
            return Failure(f"`{condition.span.line}`", _values(condition, scope), passed)
    try:
        type_target(rule, Inference(checks.ops), variant)
    except (IllTyped, EvaluationError, Absent) as e:
        done = len(variant.target_attrs)
        message = e.message if isinstance(e, IllTyped) else str(e)
        if done == len(rule.target.nodes):
            return Failure("the type of the replaced tensor", message, len(rule.conditions) + 1)
        node = rule.target.nodes[done]
        operands = ", ".join(f"{a}: {variant.types[a]}" for a in dict.fromkeys(node.args))
        what = f"the target's `{node.span.line}`"
        requires = f"{node.op} requires that {message}" if isinstance(e, IllTyped) else message
        return Failure(what, f"{requires} ({operands})" if operands else requires, len(rule.conditions))
    raise AssertionError(f"{rule.name} applies")


def _not_compiled(
    rule: RewriteRule, match: Match, terms: EGraphTerms, compiled: Assignments
) -> Failure | None:
    """Why a rule that applies to a match is not compiled for it: ranks and axes alone have to give the target a type.
    None if it is compiled."""
    ranks = {name: len(terms.types[c].shape) for name, c in match.tensors.items()}
    lists = {name: len(value) for name, value in match.attrs.items() if isinstance(value, tuple)}
    found = {**match.attrs, **ranks, **lists}
    forms = Forms(tuple(sorted({*ranks.values(), *lists.values()})))
    fit = [v for v in compiled.variants(forms) if all(found.get(n, k) == k for n, k in v.chosen.items())]
    if not fit or not all(v.ill_typed for v in fit):
        return None
    variant = fit[0]
    done = len(variant.target_attrs)
    at = rule.target.nodes[done].span if done < len(rule.target.nodes) else rule.span
    return Failure(f"the target's `{at.line}`", variant.ill_typed, len(rule.conditions))


def _holds(expr: ex.Expr, scope: dict[str, Any]) -> bool:
    try:
        return evaluate(expr, scope) is True
    except (EvaluationError, Absent, TsrError):
        return False


def _values(expr: ex.Expr, scope: dict[str, Any]) -> str:
    """Why an expression does not hold."""
    match expr:
        case ex.Binary("and", left, right):
            return _values(right if _holds(left, scope) else left, scope)
        case ex.Binary("or", left, right):
            return f"{_values(left, scope)}, and {_values(right, scope)}"
        case ex.Binary(op, left, right) if op in _OPPOSITE:
            try:
                a, b = (attr_text(evaluate(side, scope)) for side in (left, right))
            except Absent as e:
                return f"{e.name} is no constant with one value"
            except (EvaluationError, TsrError) as e:
                return str(e)
            return f"{a} {_OPPOSITE[op]} {b}"
        case ex.Unary("not", operand):
            return f"`{operand.span.line}` holds"
        case ex.Fact("varying", tensor):
            return f"`weight({tensor.span.line})` holds"
        case ex.Fact("weight", tensor):
            return f"{tensor.span.line} is computed from an input"
        case ex.Fact(_, tensor):
            return f"{tensor.span.line} is not where a chain of products starts"
        case ex.Call("all", ex.EachIn(body, var, over)):
            return f"`{body.span.line}` does not hold for every {var} in {over.span.line}"
    return "it is false"


# ---- members of group rules ----------------------------------------------------------------------------------


def look_for_members(pattern: Pattern, terms: EGraphTerms) -> FoundMembers:
    """Looks for groups in a graph."""
    found = FoundMembers([])
    members: list[Match] = []
    for match in islice(pattern.matches(terms), MAX_MATCHES):
        if all(match.tensors[o] in terms.weights for o in pattern.rule.source.outputs):
            found.constant += 1
        else:
            members.append(match)
    if len(members) > 1:
        _Groups(pattern, terms, found).collect(members)
    elif members:
        found.single = members[0]
    elif not found.constant:
        found.near = pattern.nearest(terms)
    return found


class _Groups:
    """Puts members of a graph together, and notes why some do not go together."""

    def __init__(self, pattern: Pattern, terms: EGraphTerms, found: FoundMembers) -> None:
        self.rule = pattern.rule
        self.terms = terms
        self.found = found
        self.checks = Checks(pattern.ops)
        self.above: list[int] = []  #: by node what it is computed from, one bit for each node
        for i, node in enumerate(terms.graph.nodes):
            bits = 1 << i
            for j in node.inputs:
                bits |= self.above[j]
            self.above.append(bits)

    def collect(self, members: Sequence[Match]) -> None:
        found = self.found
        alike: dict[tuple[tuple[str, str], ...], list[Match]] = {}
        for m in members:
            alike.setdefault(tuple(sorted(self._shared(m).items())), []).append(m)
        for group in alike.values():
            for bucket in self._buckets(group):
                apart = self._independent(bucket)
                if len(apart) > 1 and self._fit(apart):
                    found.groups.append(apart)
        if not found.groups and not found.failed and not found.dependent:
            pairs = islice(combinations(members, 2), MAX_PAIRS)
            found.apart = min((self._apart(a, b) for a, b in pairs), key=lambda p: len(p.differences))

    def _shared(self, m: Match) -> dict[str, str]:
        """The tensors and attributes that members of a group have in common, in words."""
        tensors = {n: f"{{{c}}}" for n, c in m.tensors.items() if n not in self.rule.members}
        return tensors | {a: attr_text(value) for a, value in m.attrs.items()}

    def _apart(self, a: Match, b: Match) -> Apart:
        of_a, of_b = self._shared(a), self._shared(b)
        return Apart(a, b, tuple((n, x, of_b[n]) for n, x in of_a.items() if x != of_b[n]))

    def _buckets(self, group: Sequence[Match]) -> list[list[Match]]:
        """Members that fit the first one of theirs, as exploration collects them."""
        buckets: list[list[Match]] = []
        compared = 0
        for m in group:
            for bucket in buckets:
                compared += 1
                if compared > MAX_PAIRS:
                    return buckets
                if self._fit([bucket[0], m]):
                    bucket.append(m)
                    break
            else:
                buckets.append([m])
        return buckets

    def _fit(self, members: Sequence[Match]) -> bool:
        """Whether members can be merged; notes why not."""
        rule = self.checks.instance(self.rule, len(members))
        wrong = _failure(rule, merged(self.rule, members), self.terms, self.checks)
        if wrong is not None:
            self.found.failed = self.found.failed or (members[0], members[1], wrong)
        return wrong is None

    def _independent(self, bucket: Sequence[Match]) -> list[Match]:
        """The members that need none before them; notes a pair of which one needs the other."""
        kept: list[Match] = []
        for m in bucket:
            pairs = (pair for k in kept for pair in ((k, m), (m, k)) if self._needs(*pair))
            pair = next(pairs, None)
            if pair is None:
                kept.append(m)
            self.found.dependent = self.found.dependent or pair
        return kept

    def _needs(self, first: Match, second: Match) -> bool:
        """Whether the second member is computed from the first."""
        outputs = self.rule.source.outputs
        made = [c for n, c in first.tensors.items() if n in outputs]
        needed = [c for n, c in second.tensors.items() if n not in outputs]
        return any(self.above[c] >> m & 1 for c in needed for m in made)


def names_in(text: str, names: Mapping[int, str]) -> str:
    """A text in which classes stand in braces, with their names."""
    for c, name in names.items():
        text = text.replace(f"{{{c}}}", f"`{name}`")
    return text
