"""Rewrite rules to egglog rules.

A single-pattern rule becomes one egglog rule for each variant that needs guards of its own, or a single one if
no variant needs any. A multi-pattern rule becomes a join that fills a match relation ``m:R`` (find), a relation
``ok:R`` of the matches that were selected, and a rule that builds the targets for those (apply). A group rule
becomes a query ``g:R`` with a row for each possible member; its matches are put together outside of the engine.

Where every match is to be filtered, single-pattern rules have the stages of multi-pattern rules too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tensat_dl.core.diagnostics import error
from tensat_dl.core.rule import Elements, RewriteRule, Side
from tensat_dl.engine import render
from tensat_dl.engine.compiled import (
    CompiledRule,
    match_relation,
    member_relation,
    ok_relation,
    old_relation,
    ruleset,
)
from tensat_dl.engine.members import first_of_pair, is_safe, member_rules, symmetric
from tensat_dl.engine.render import NotCompilable, variable
from tensat_dl.engine.schema import Schema, decode_attribute, sort_of
from tensat_dl.engine.syntax import (
    App,
    Command,
    EgglogRule,
    Lit,
    Var,
    app,
    by_id,
    equal,
    new_ruleset,
    relation,
)
from tensat_dl.engine.writer import Query, Writer
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.rewrite.source import Form, Forms, form_of
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
            return _group(rule, schema, forms, closed)
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
    ruled = ruleset("rule", writer.rule.key)
    commands: list[Command] = [new_ruleset(ruled)]
    for i, variant in enumerate(writer.usable):
        rows, _, (computed,) = writer.target_rows([variant], (Lit, Var))  # other terms can fail
        body, actions = writer.query(variant, computed).body, tuple(writer.actions(rows))
        name = f"{writer.rule.key}{writer.suffix(i)}"
        commands.append(EgglogRule(name, ruled, body, actions, "facts"))
    return CompiledRule(writer.rule, tuple(commands), (), (), len(writer.rule.target.nodes), writer.either)


def _group(rule: RewriteRule, schema: Schema, forms: Forms, closed: bool) -> CompiledRule | None:
    """The member query of a group rule. Columns: shared variables, then what varies by member, outputs last."""
    source_only = replace(rule, source=Side(rule.source.nodes, ()), target=Side((), ()), conditions=())
    found = schema.variants(source_only, forms)
    if not found:
        return None
    writer = Writer(source_only, schema, found, closed)
    names = [*rule.tensor_variables(), *(n.result for n in rule.source.nodes)]
    tensors = tuple(dict.fromkeys(sorted(names, key=lambda n: n in rule.members)))
    columns = attribute_columns(rule, schema.ops)
    g, find = member_relation(rule.name), ruleset("find", rule.name)
    variables = [v for _, v in columns]
    row = app(g, *map(variable, tensors), *variables)
    commands: list[Command] = [
        relation(g, *["T"] * len(tensors), *(s for s, _ in columns)),
        new_ruleset(find),
    ]
    for i, variant in enumerate(writer.usable):
        fixed = [
            equal(variable(name), render.value(x))
            for name, x in variant.env.items()
            if not writer.generic and isinstance(x, int) and variable(name) in variables
        ]
        query = writer.query(variant, [])
        commands.append(EgglogRule(f"{rule.name}{writer.suffix(i)}", find, (*query.body, *fixed), (row,)))
    return CompiledRule(rule, tuple(commands), tensors, tuple(columns), len(rule.target.nodes))


class _Stages:
    """A rule whose matches have rows: one ruleset finds them, another applies the rows that were selected in
    between."""

    def __init__(self, writer: Writer, filtered: bool) -> None:
        self.writer = writer
        self.rule = writer.rule
        self.name = writer.rule.key
        self.tensors = _tensors(writer.rule, filtered)
        # Other terms than literals can fail, or differ by match or variant.
        rows, self.columns, computed = writer.target_rows(writer.usable, (Lit,))
        self.queries = [writer.query(v, own) for v, own in zip(writer.usable, computed, strict=True)]
        self.mirror = mirror(self.rule, self.tensors)
        self.several = self.rule.kind == "multi"
        self.pruned = self._pruned()
        # Matches of several patterns can be very many and few are applied: then columns are computed again.
        self.kept = [] if self.several else self.columns
        variables = [*map(variable, self.tensors)]
        self.match = app(match_relation(self.name), *variables, *(v for _, v in self.kept))
        handles = [Var(f"i{k}") for k in range(len(variables))]
        selected = app(ok_relation(self.name), *handles)
        classes = (equal(v, by_id(h)) for v, h in zip(variables, handles, strict=True))
        self.chosen = (selected, *classes, self.match)
        self.actions = writer.actions(rows)
        if filtered:
            self.actions.append(app("delete", selected))
            # A match that is applied need not be looked at again, unless it tells that another one is its mirror
            # image.
            if not self.mirror or self.pruned:
                self.actions.append(app("delete", self.match))

    def _pruned(self) -> list[App]:
        """The items that keep one match of each pair of mirror images; none unless the image of every match is a
        match."""
        renaming = automorphism(self.rule)
        if not self.several or self.mirror is None or renaming is None:
            return []
        safe = all(is_safe(c) for q in self.queries for c in q.computed)
        if not safe or not symmetric([q.checked for q in self.queries], renaming):
            return []
        return list(first_of_pair(self.tensors, self.mirror))

    def compiled(self) -> CompiledRule:
        phases = ("find", "apply", "members") if self.several else ("find", "apply")
        commands: list[Command] = [
            relation(self.match.function, *("T" for _ in self.tensors), *(s for s, _ in self.kept)),
            relation(ok_relation(self.name), *("i64" for _ in self.tensors)),
            *(new_ruleset(ruleset(phase, self.name)) for phase in phases),
        ]
        joins: list[tuple[App, ...]] = []
        restricted = self._old() if self.several else []
        for i, query in enumerate(self.queries):
            body = query.body
            name = f"{self.name}{self.writer.suffix(i)}"
            if self.several:
                commands.append(self._stage("apply", f"apply {name}", (*self.chosen, *body), *self.actions))
                members, rows, rest = self._members(i, query)
                commands += members
                joins.append(tuple(rows))
                body = (*rows, *rest)
                few = (app(old_relation(self.name), variable(o)) for o in self.rule.source.outputs)
                restricted.append(
                    self._stage("find-old", f"old {match_relation(name)}", (*few, *body), self.match)
                )
            commands.append(self._stage("find", name, body, self.match))
        if not self.several:
            commands.append(self._stage("apply", f"apply {self.name}", self.chosen, *self.actions))
        return CompiledRule(
            self.rule,
            tuple(commands),
            self.tensors,
            tuple(self.kept),
            len(self.rule.target.nodes),
            self.writer.either,
            mirror=self.mirror,
            joins=tuple(joins),
            restricted=tuple(restricted),
        )

    def _stage(self, phase: str, name: str, body: tuple[App, ...], *actions: App) -> EgglogRule:
        return EgglogRule(name, ruleset(phase, self.name), body, actions)

    def _members(self, i: int, query: Query) -> tuple[list[Command], list[App], list[App]]:
        """The member rules and the join of a variant; see `member_rules`."""
        failing = [c for c in query.computed if not is_safe(c)]
        return member_rules(
            self.writer,
            query.variant,
            [*query.checked, *failing, *self.pruned],
            {v: sort for sort, v in self.columns},
            [*map(variable, self.tensors)],
            f"{match_relation(self.name)}#{i}",
        )

    def _old(self) -> list[Command]:
        """Declares the outputs that the join can be restricted to, and that ruleset."""
        old = old_relation(self.name)
        i, x = Var("i"), Var("x")
        found = (app(f"in_{old}", i), equal(x, by_id(i)))
        return [
            relation(old, "T"),
            relation(f"in_{old}", "i64"),
            EgglogRule(f"load {old}", "load", found, (app(old, x),)),
            new_ruleset(ruleset("find-old", self.name)),
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


# ---- attributes of the members of groups ----------------------------------------------------------------------


def attribute_columns(rule: RewriteRule, ops: OpTable) -> list[tuple[str, Var]]:
    """(sort, egglog variable) of a rule's attribute variables, in order of first use."""
    out: dict[Var, str] = {}
    for _, attr, variables in _attributes(rule, ops):
        for v in variables:
            out.setdefault(v, "i64" if attr is None else sort_of(attr))
    return [(sort, name) for name, sort in out.items()]


def attribute_values(rule: RewriteRule, columns: Mapping[Var, Any], ops: OpTable) -> dict[str, Any]:
    """Values of attribute variables from the columns of the member relation."""
    out: dict[str, Any] = {}
    for name, attr, variables in _attributes(rule, ops):
        values = [columns[v] for v in variables]
        out[name] = values[0] if attr is None else decode_attribute(attr, values)
    return out


def _attributes(rule: RewriteRule, ops: OpTable) -> Iterator[tuple[str, AttrDecl | None, list[Var]]]:
    """The attribute variables of a rule's source: the attribute that each stands for, None if it stands for an
    element of a list, and the egglog variables that hold its value."""
    for node in rule.source.nodes:
        for attribute in node.attrs:
            attr = ops[node.op][attribute.name]
            for name in attribute.variables():
                if attr.length is None:
                    yield name, attr, [variable(name)]
                elif isinstance(attribute.pattern, Elements):
                    yield name, None, [variable(name)]
                else:
                    yield name, attr, [variable(name, str(i)) for i in range(attr.length)]
