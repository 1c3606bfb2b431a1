"""Rewrite rules to egglog rules.

A single-pattern rule becomes one egglog rule for each variant; several e-nodes fill a relation first, once for all
variants. A multi-pattern rule becomes a join that fills a match relation ``m:R`` (find), a relation ``ok:R`` of the
matches that were selected, and a rule that builds the targets for those (apply). A group rule becomes a query ``g:R``
with a row for each possible member; its matches are put together outside of the engine. An e-graph may have nodes of
other forms than those that variants are about, so every egglog rule checks the ranks of what it matches, and variants
can be added later.

Where every match is to be filtered, single-pattern rules have the stages of multi-pattern rules too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
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
from tensat_dl.engine.members import (
    MemberTables,
    first_of_pair,
    is_safe,
    matched_once,
    member_rules,
    symmetric,
)
from tensat_dl.engine.render import NotCompilable, variable
from tensat_dl.engine.schema import Schema, decode_attribute, sort_of
from tensat_dl.engine.syntax import (
    App,
    Command,
    EgglogRule,
    Lit,
    Term,
    Var,
    app,
    by_id,
    equal,
    names,
    new_ruleset,
    relation,
)
from tensat_dl.engine.writer import Query, Writer
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.rewrite.source import Form, Forms, Variant, form_of
from tensat_dl.rewrite.symmetry import automorphism, mirror


def variants_of(rule: RewriteRule, schema: Schema, forms: Forms) -> list[Variant]:
    """The variants of a rule that egglog rules are made of; of a group rule those of its source."""
    return schema.variants(_source_only(rule) if rule.kind == "group" else rule, forms)


def compile_rule(
    rule: RewriteRule,
    schema: Schema,
    found: Sequence[Variant],
    tables: MemberTables,
    *,
    first: int = 0,
    filtered: bool = False,
) -> CompiledRule | None:
    """The egglog form of variants of a rule, or None if it never applies under them.

    ``tables`` are declared, and get those that are new. ``first`` is the number of variants that were compiled
    before: then the rule's relations are declared. If matches are ``filtered``, each has a row with every tensor of
    the source until it is applied. Raises `TsrError` if a condition can't be compiled.
    """
    try:
        writer = Writer(_source_only(rule) if rule.kind == "group" else rule, schema, found)
        if not writer.usable:
            return None
        if rule.kind == "group":
            return _group(rule, writer, first)
        staged = filtered or rule.kind == "multi"
        return _Stages(writer, tables, filtered).compiled(first) if staged else _single(writer, tables, first)
    except NotCompilable as e:
        raise error(rule.span, f"rule `{rule.name}` can't be compiled: {e}") from None


def _source_only(rule: RewriteRule) -> RewriteRule:
    return replace(rule, source=Side(rule.source.nodes, ()), target=Side((), ()), conditions=())


def egglog_name(rule: RewriteRule, variant: int) -> str:
    """The name of the egglog rule of a variant, by its number."""
    return f"{rule.key} #{variant}" if variant else rule.key


def built_forms(
    rule: RewriteRule, ops: OpTable, found: Iterable[Variant], of_many: bool = False
) -> Iterator[Form]:
    """The forms of the nodes that a rule builds under these variants, under which it may apply; those of a group rule
    ``of_many`` members, if the rule is that for one."""
    for variant in found:
        ranks = {name: len(t.shape) for name, t in variant.types.items()}
        for node, attrs in zip(rule.target.nodes, variant.target_attrs, strict=True):
            operands = [ranks[a] for a in node.args]
            form = form_of(ops[node.op], operands, ranks[node.result], attrs)
            if of_many and form.count:
                form = replace(form, count=None)
            # An axis that a match computes may be any.
            axes = (range(max(form.result, *operands, 0)) if a is None else (a,) for a in form.axes)
            yield from (replace(form, axes=chosen) for chosen in product(*axes))


def _single(writer: Writer, tables: MemberTables, first: int) -> CompiledRule:
    name = writer.rule.key
    own = ruleset("rule", name)
    commands: list[Command] = [] if first else [new_ruleset(own)]
    for i, variant in enumerate(writer.usable, first):
        rows, columns, computed = writer.target_rows(variant, (Lit, Var))  # other terms can fail
        query = writer.query(variant, computed)
        tensors = map(variable, _tensors(writer.rule, filtered=False))
        needed = [*tensors, *names(*(term for row in rows for term in row))]
        declared, join, rest = _joined(writer, query, columns, needed, f"{name}#{i}", tables)
        commands += declared
        body = (*join, *rest)
        actions = tuple(writer.actions(rows))
        commands.append(EgglogRule(egglog_name(writer.rule, i), own, body, actions, "facts"))
    built = len(writer.rule.target.nodes)
    return CompiledRule(writer.rule, tuple(commands), (), (), built, members=_members_of(writer, tables))


def _joined(
    writer: Writer,
    query: Query,
    columns: Sequence[tuple[str, Var]],
    needed: Sequence[Var],
    tag: str,
    tables: MemberTables,
) -> tuple[list[Command], list[App], list[App]]:
    """The member rules of a single-pattern rule, the join over members, if it has any, and the rest of the body; one
    e-node is matched as it is."""
    if not writer.parts:
        several = len(writer.rule.source.nodes) > 1
        commands, body = matched_once(writer, query, needed, tag, tables) if several else ([], query.body)
        return commands, [], [*body]
    items = [*query.checked, *query.computed]
    sorts = {v: sort for sort, v in columns}
    return member_rules(writer, query.variant, items, sorts, needed, tag, tables)


def _members_of(writer: Writer, tables: MemberTables) -> str:
    """The ruleset that fills the relations of members, if there are any."""
    own = ruleset("members", writer.rule.name)
    return own if own in tables else ""


def _group(rule: RewriteRule, writer: Writer, first: int) -> CompiledRule:
    """The member query of a group rule. Columns: shared variables, then what varies by member, outputs last."""
    names = [*rule.tensor_variables(), *(n.result for n in rule.source.nodes)]
    tensors = tuple(dict.fromkeys(sorted(names, key=lambda n: n in rule.members)))
    columns = attribute_columns(rule, writer.schema.ops)
    g, find = member_relation(rule.name), ruleset("find", rule.name)
    variables = [v for _, v in columns]
    row = app(g, *map(variable, tensors), *variables)
    declared: list[Command] = [
        relation(g, *["T"] * len(tensors), *(s for s, _ in columns)),
        new_ruleset(find),
    ]
    commands = [] if first else declared
    for i, variant in enumerate(writer.usable, first):
        fixed = [
            equal(variable(name), render.value(x))
            for name, x in variant.env.items()
            if isinstance(x, int) and variable(name) in variables
        ]
        query = writer.query(variant, [])
        commands.append(EgglogRule(egglog_name(rule, i), find, (*query.body, *fixed), (row,)))
    return CompiledRule(rule, tuple(commands), tensors, tuple(columns), len(rule.target.nodes))


class _Stages:
    """A rule whose matches have rows: one ruleset finds them, another applies the rows that were selected in
    between."""

    def __init__(self, writer: Writer, tables: MemberTables, filtered: bool) -> None:
        self.writer = writer
        self.tables = tables
        self.rule = writer.rule
        self.name = writer.rule.key
        self.filtered = filtered
        self.tensors = _tensors(writer.rule, filtered)
        self.several = self.rule.kind == "multi"
        # Where a row has what the target needs, all variants have the same columns.
        targets = [writer.target_rows(v, (Lit,) if self.several else ()) for v in writer.usable]
        self.rows = [rows for rows, _, _ in targets]
        self.columns = [columns for _, columns, _ in targets]
        self.queries = [writer.query(v, own) for v, (_, _, own) in zip(writer.usable, targets, strict=True)]
        self.mirror = mirror(self.rule, self.tensors)
        self.pruned = self._pruned()
        # Matches of several patterns can be very many and few are applied: then columns are computed again.
        self.kept = [] if self.several else self.columns[0]
        variables = [*map(variable, self.tensors)]
        self.match = app(match_relation(self.name), *variables, *(v for _, v in self.kept))
        handles = [Var(f"i{k}") for k in range(len(variables))]
        self.selected = app(ok_relation(self.name), *handles)
        classes = (equal(v, by_id(h)) for v, h in zip(variables, handles, strict=True))
        self.chosen = (self.selected, *classes, self.match)

    def _actions(self, rows: Sequence[Sequence[Term]]) -> list[App]:
        actions = self.writer.actions(rows)
        if self.filtered:
            actions.append(app("delete", self.selected))
            # A match that is applied need not be looked at again, unless it tells that another one is its mirror
            # image.
            if not self.mirror or self.pruned:
                actions.append(app("delete", self.match))
        return actions

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

    def compiled(self, first: int) -> CompiledRule:
        commands = [] if first else self._declared()
        joins: list[tuple[App, ...]] = []
        for i, (query, rows, columns) in enumerate(
            zip(self.queries, self.rows, self.columns, strict=True), first
        ):
            name = egglog_name(self.rule, i)
            if self.several:
                applied = (*self.chosen, *query.body)
                commands.append(self._stage("apply", f"apply {name}", applied, *self._actions(rows)))
                members, join, rest = self._members(i, query, columns)
            else:
                needed = [*map(variable, self.tensors), *(v for _, v in self.kept)]
                tag = f"{match_relation(self.name)}#{i}"
                members, join, rest = _joined(self.writer, query, columns, needed, tag, self.tables)
            commands += members
            joins += [tuple(join)] if join else []
            body = (*join, *rest)
            if self.several:
                few = (app(old_relation(self.name), variable(o)) for o in self.rule.source.outputs)
                old = f"old {match_relation(name)}"
                commands.append(self._stage("find-old", old, (*few, *body), self.match))
            commands.append(self._stage("find", name, body, self.match))
        selecting: tuple[Command, ...] = ()
        if not self.several and not first:
            actions = (*self.writer.actions(self.rows[0]), app("delete", self.match))
            commands.append(self._stage("apply-all", f"apply all {self.name}", (self.match,), *actions))
            chosen = self._actions(self.rows[0])
            selecting = (self._stage("apply", f"apply {self.name}", self.chosen, *chosen),)
        return CompiledRule(
            self.rule,
            tuple(commands),
            self.tensors,
            tuple(self.kept),
            len(self.rule.target.nodes),
            mirror=self.mirror,
            joins=tuple(joins),
            members=_members_of(self.writer, self.tables),
            selecting=selecting,
        )

    def _declared(self) -> list[Command]:
        """The relations and rulesets."""
        return [
            relation(self.match.function, *("T" for _ in self.tensors), *(s for s, _ in self.kept)),
            relation(ok_relation(self.name), *("i64" for _ in self.tensors)),
            *(new_ruleset(ruleset(phase, self.name)) for phase in ("find", "apply")),
            *(self._old() if self.several else (new_ruleset(ruleset("apply-all", self.name)),)),
        ]

    def _stage(self, phase: str, name: str, body: tuple[App, ...], *actions: App) -> EgglogRule:
        return EgglogRule(name, ruleset(phase, self.name), body, actions)

    def _members(
        self, i: int, query: Query, columns: Sequence[tuple[str, Var]]
    ) -> tuple[list[Command], list[App], list[App]]:
        """The member rules and the join of a variant; see `member_rules`."""
        failing = [c for c in query.computed if not is_safe(c)]
        return member_rules(
            self.writer,
            query.variant,
            [*query.checked, *failing, *self.pruned],
            {v: sort for sort, v in columns},
            [*map(variable, self.tensors)],
            f"{match_relation(self.name)}#{i}",
            self.tables,
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
