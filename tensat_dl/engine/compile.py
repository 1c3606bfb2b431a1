"""Rewrite rules to egglog rules.

A single-pattern rule becomes one egglog rule for each variant that needs guards of its own, or a single one if
no variant needs any. A multi-pattern rule becomes a join that fills a match relation ``m_R`` (find), a relation
``ok_R`` of the matches that were selected, and a rule that builds the targets for those (apply). A group rule
becomes a query ``g_R`` with a row for each possible member; its matches are put together outside of the engine.

Where every match is to be filtered, single-pattern rules have the stages of multi-pattern rules too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensat_dl.core.diagnostics import error
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile_group import compile_group
from tensat_dl.engine.compiled import CompiledRule, Join, match_relation, ok_relation, old_relation, ruleset
from tensat_dl.engine.members import first_of_pair, is_safe, member_rules, symmetric
from tensat_dl.engine.render import NotCompilable, variable
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.terms import App, EgglogRule, Lit, Term, Var, app, equal, relation
from tensat_dl.engine.writer import Writer, computed_variable
from tensat_dl.rewrite.forms import Form, Forms, form_of
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.symmetry import automorphism, mirror


def compile_rule(
    rule: RewriteRule, schema: Schema, forms: Forms, closed: bool = True, filtered: bool = False
) -> CompiledRule | None:
    """The egglog form of a rule, or None if it can't apply to e-nodes of these forms.

    Unless the forms are ``closed``, the e-graph may hold others of other ranks, to which the rule does not apply.
    If matches are ``filtered``, each has a row with every tensor of the source until it is applied.
    Raises `TsrError` if a condition can't be compiled.
    """
    try:
        if rule.kind == "group":
            return compile_group(rule, schema, forms, closed)
        found = schema.variants(rule, forms)
        if all(v.ill_typed for v in found):
            return None
        writer = Writer(rule, schema, found, closed)
        staged = filtered or rule.kind == "multi"
        return _Stages(writer, filtered).compiled() if staged else _single(writer)
    except NotCompilable as e:
        raise error(rule.span, f"rule `{rule.name}` can't be compiled: {e}") from None


def built_forms(rule: RewriteRule, schema: Schema, forms: Forms) -> Iterator[Form]:
    """The forms of the nodes that a rule builds from nodes of these forms."""
    for variant in schema.variants(rule, forms):
        if not variant.ill_typed:
            ranks = {name: len(t.shape) for name, t in variant.types.items()}
            for node in rule.target.nodes:
                operands = [ranks[a] for a in node.args]
                yield form_of(schema.ops[node.op], operands, ranks[node.result])


def _single(writer: Writer) -> CompiledRule:
    ruled = ruleset("rule", writer.rule.name)
    text = "\n".join([f"(ruleset {ruled})", *(rule.text(" ") for rule in writer.rules(ruled))])
    return CompiledRule(writer.rule, text, (), (), len(writer.rule.target.nodes))


@dataclass(frozen=True, slots=True)
class _Query:
    """How a variant is matched: e-nodes, what is checked of them, and the target's attributes."""

    variant: Variant
    atoms: list[App]
    checked: list[App]  #: with the type look-ups before
    computed: list[App]

    @property
    def body(self) -> tuple[App, ...]:
        return (*self.atoms, *self.checked, *self.computed)


class _Stages:
    """A rule whose matches have rows: they are found, selected elsewhere, and those that were selected applied."""

    def __init__(self, writer: Writer, filtered: bool) -> None:
        self.writer = writer
        self.rule = writer.rule
        self.name = writer.rule.name
        self.tensors = _tensors(writer.rule, filtered)
        #: Sorts and variables of the target's attributes that differ by match or variant.
        self.columns: list[tuple[str, Var]] = []
        rows, values = self._target()
        self.queries = [self._query(v, x) for v, x in zip(writer.usable, values, strict=True)]
        self.mirror = mirror(self.rule, self.tensors)
        self.several = self.rule.kind == "multi"
        self.pruned = self._pruned()
        # Matches of several patterns can be very many and few are applied: then columns are computed again.
        self.kept = [] if self.several else self.columns
        variables = [*map(variable, self.tensors)]
        self.match = app(match_relation(self.name), *variables, *(v for _, v in self.kept))
        handles = [Var(f"i{k}") for k in range(len(variables))]
        selected = app(ok_relation(self.name), *handles)
        named = (equal(v, app("by_id", h)) for v, h in zip(variables, handles, strict=True))
        self.chosen = (selected, *named, self.match)
        self.actions = writer.actions(rows)
        if filtered:
            self.actions.append(app("delete", selected))
            # A match that is applied need not be looked at again, unless it tells that another one is its mirror
            # image.
            if not self.mirror or self.pruned:
                self.actions.append(app("delete", self.match))

    def _target(self) -> tuple[list[list[Term]], list[list[Term]]]:
        """The attribute columns of the target's nodes, and for each variant the values of `columns`."""
        rows: list[list[Term]] = []
        values: list[list[Term]] = [[] for _ in self.writer.usable]
        for j, node in enumerate(self.rule.target.nodes):
            constructor = self.writer.schema.constructor(node.op, len(node.args))
            written = [self.writer.columns(node, v.target_attrs[j], v) for v in self.writer.usable]
            row: list[Term] = []
            for k, column in enumerate(constructor.columns):
                first = written[0][k]
                if isinstance(first, Lit) and all(w[k] == first for w in written):
                    row.append(first)
                    continue
                name = computed_variable(j, k)
                self.columns.append((column.sort, name))
                row.append(name)
                for value, w in zip(values, written, strict=True):
                    value.append(w[k])
            rows.append(row)
        return rows, values

    def _query(self, variant: Variant, values: list[Term]) -> _Query:
        atoms, checks = self.writer.source_atoms(variant), self.writer.checks(variant)
        computed = [equal(name, v) for (_, name), v in zip(self.columns, values, strict=True)]
        premises = self.writer.premises(variant, [*atoms, *checks, *computed])
        return _Query(variant, atoms, [*premises, *checks], computed)

    def _pruned(self) -> list[App]:
        """What keeps one match of two that are each other's mirror image: nothing unless the image of every match is
        a match."""
        renaming = automorphism(self.rule)
        if not self.several or self.mirror is None or renaming is None:
            return []
        safe = all(is_safe(c) for q in self.queries for c in q.computed)
        if not safe or not symmetric([q.checked for q in self.queries], renaming):
            return []
        return list(first_of_pair(self.tensors, self.mirror))

    def compiled(self) -> CompiledRule:
        phases = ("find", "apply", "members") if self.several else ("find", "apply")
        lines = [
            relation(self.match.function, *("T" for _ in self.tensors), *(s for s, _ in self.kept)),
            relation(ok_relation(self.name), *("i64" for _ in self.tensors)),
            *(f"(ruleset {ruleset(phase, self.name)})" for phase in phases),
        ]
        joins: list[Join] = []
        restricted = self._old() if self.several else []
        for i, query in enumerate(self.queries):
            body = query.body
            name = f"{self.name}{self.writer.suffix(i)}"
            if self.several:
                lines.append(self._stage("apply", f"apply {name}", (*self.chosen, *body), *self.actions))
                members, rows, rest = self._members(i, query)
                lines += members
                joins.append(tuple((row.function, tuple(map(str, row.args))) for row in rows))
                body = (*rows, *rest)
                few = (app(old_relation(self.name), variable(o)) for o in self.rule.source.outputs)
                restricted.append(
                    self._stage("find-old", f"old {match_relation(name)}", (*few, *body), self.match)
                )
            lines.append(self._stage("find", name, body, self.match))
        if not self.several:
            lines.append(self._stage("apply", f"apply {self.name}", self.chosen, *self.actions))
        return CompiledRule(
            self.rule,
            "\n".join(lines),
            self.tensors,
            tuple(self.kept),
            len(self.rule.target.nodes),
            mirror=self.mirror,
            joins=tuple(joins),
            restricted="\n".join(restricted),
        )

    def _stage(self, phase: str, name: str, body: tuple[App, ...], *actions: App) -> str:
        return EgglogRule(name, ruleset(phase, self.name), body, actions).text()

    def _members(self, i: int, query: _Query) -> tuple[list[str], list[App], list[App]]:
        """What `member_rules` makes of a variant."""
        failing = [c for c in query.computed if not is_safe(c)]
        return member_rules(
            self.writer,
            query.variant,
            [*query.checked, *failing, *self.pruned],
            {v: sort for sort, v in self.columns},
            [*map(variable, self.tensors)],
            f"{match_relation(self.name)}#{i}",
        )

    def _old(self) -> list[str]:
        """Declares the outputs that the join can be restricted to, and that ruleset."""
        old = old_relation(self.name)
        i, x = Var("i"), Var("x")
        load = EgglogRule(
            f"load {old}", "load", (app(f"in_{old}", i), equal(x, app("by_id", i))), (app(old, x),)
        )
        return [
            relation(old, "T"),
            relation(f"in_{old}", "i64"),
            load.text(),
            f"(ruleset {ruleset('find-old', self.name)})",
        ]


def _tensors(rule: RewriteRule, filtered: bool) -> tuple[str, ...]:
    """The tensors of a source that the target and the outputs need; if matches are filtered, all."""
    results = [n.result for n in rule.source.nodes]
    matched = {*results, *rule.tensor_variables()}
    built = {n.result for n in rule.target.nodes} - {*rule.source.outputs}
    needed = [*rule.source.outputs, *(a for n in rule.target.nodes for a in n.args), *rule.target.outputs]
    if filtered:
        needed += [*results, *rule.tensor_variables()]
    return tuple(dict.fromkeys(a for a in needed if a in matched and a not in built))
