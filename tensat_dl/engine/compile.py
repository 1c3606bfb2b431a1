"""Rewrite rules to egglog rules.

A single-pattern rule becomes one egglog rule for each variant that needs guards of its own, or a single one if
no variant needs any. A multi-pattern rule becomes a join that fills a match relation ``m_R`` (find), a relation
``ok_R`` of the matches that were selected, and a rule that builds the targets for those (apply). A group rule
becomes a query ``g_R`` with a row for each possible member; its matches are put together outside of the engine.

Where every match is to be filtered, single-pattern rules have the stages of multi-pattern rules too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tensat_dl.core.diagnostics import error
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.compile_group import compile_group
from tensat_dl.engine.compiled import CompiledRule, match_relation, ok_relation, old_relation, ruleset
from tensat_dl.engine.members import first_of_pair, is_safe, member_rules, symmetric
from tensat_dl.engine.render import NotCompilable, variable
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.writer import Writer
from tensat_dl.rewrite.forms import Form, Forms, form_of
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
        return _staged(writer, filtered) if staged else _single(writer)
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
    name = writer.rule.name
    rules = [
        f"(rule ({body})\n      ({' '.join(action)})\n"
        f'      :ruleset {ruleset("rule", name)} :name "{name}{suffix}")'
        for suffix, body, action in writer.bodies()
    ]
    text = "\n".join([f"(ruleset {ruleset('rule', name)})", *rules])
    return CompiledRule(writer.rule, text, (), (), len(writer.rule.target.nodes))


def _staged(writer: Writer, filtered: bool) -> CompiledRule:
    rule, schema = writer.rule, writer.schema
    needed = [*rule.source.outputs, *(a for n in rule.target.nodes for a in n.args), *rule.target.outputs]
    local = {n.result for n in rule.source.nodes} | set(rule.tensor_variables())
    if filtered:
        needed += [n.result for n in rule.source.nodes] + [*rule.tensor_variables()]
    built = {n.result for n in rule.target.nodes}
    tensors = tuple(
        dict.fromkeys(a for a in needed if a in local and (a not in built or a in rule.source.outputs))
    )
    # A target attribute that differs by match or variant travels in a column of the match relation.
    columns: list[tuple[str, str]] = []
    terms: list[list[str]] = []
    per_variant: list[list[str]] = [[] for _ in writer.usable]
    for j, node in enumerate(rule.target.nodes):
        constructor = schema.constructor(node.op, len(node.args))
        rendered = [writer.columns(node, v.target_attrs[j], v) for v in writer.usable]
        row = []
        for k, column in enumerate(constructor.columns):
            options = {r[k] for r in rendered}
            if len(options) == 1 and _is_literal(text := next(iter(options))):
                row.append(text)
                continue
            name = f"c{j}.{k}"
            columns.append((column.sort, name))
            row.append(name)
            for v, r in zip(per_variant, rendered, strict=True):
                v.append(r[k])
        terms.append(row)
    bodies = []
    for variant, values in zip(writer.usable, per_variant, strict=True):
        checks = writer.checks(variant)
        computed = [f"(= {name} {v})" for (_, name), v in zip(columns, values, strict=True)]
        mentioned = [*writer.source_atoms(variant), *checks, *computed]
        bodies.append((variant, [*writer.premises(variant, mentioned), *checks], computed))
    several = rule.kind == "multi"
    # Matches of several patterns can be very many and few are applied: then columns are computed again.
    kept = [] if several else columns
    m, ok = match_relation(rule.name), ok_relation(rule.name)
    find, apply = ruleset("find", rule.name), ruleset("apply", rule.name)
    match = f"({' '.join([m, *map(variable, tensors), *(n for _, n in kept)])})"
    handles = [f"i{k}" for k in range(len(tensors))]
    selected = f"({' '.join([ok, *handles])})"
    chosen = [
        selected,
        *(f"(= {variable(t)} (by_id {h}))" for t, h in zip(tensors, handles, strict=True)),
        match,
    ]
    action = writer.actions(terms)
    lines = [
        f"(relation {m} ({' '.join(['T'] * len(tensors) + [s for s, _ in kept])}))",
        f"(relation {ok} ({' '.join(['i64'] * len(tensors))}))",
        *(f"(ruleset {name})" for name in (find, apply)),
    ]
    reordering = mirror(rule, tensors)
    pruned: list[str] = []
    if several:
        lines.append(f"(ruleset {ruleset('members', rule.name)})")
        renaming = automorphism(rule)
        safe = all(is_safe(c) for *_, computed in bodies for c in computed)
        if safe and reordering and renaming and symmetric([checked for _, checked, _ in bodies], renaming):
            pruned = list(first_of_pair(tensors, reordering))
    joins: list[tuple[tuple[str, tuple[str, ...]], ...]] = []
    old = old_relation(rule.name)
    restricted = [
        f"(relation {old} (T))",
        f"(relation in_{old} (i64))",
        _rule([f"(in_{old} i)", "(= x (by_id i))"], [f"({old} x)"], "load", f"load {old}"),
        f"(ruleset {ruleset('find-old', rule.name)})",
    ]
    if filtered:
        action.append(f"(delete {selected})")
        # A match that is applied need not be looked at again, unless it tells that another one is its mirror image.
        if not reordering or pruned:
            action.append(f"(delete {match})")
    for i, (variant, checked, computed) in enumerate(bodies):
        suffix = f" #{i}" if len(bodies) > 1 else ""
        body = [*writer.source_atoms(variant), *checked, *computed]
        if several:
            lines.append(_rule([*chosen, *body], action, apply, f"apply {rule.name}{suffix}"))
            failing = [c for c in computed if not is_safe(c)]
            made, body = member_rules(
                writer,
                variant,
                [*checked, *failing, *pruned],
                {n: s for s, n in columns},
                [variable(t) for t in tensors],
                f"{m}#{i}",
            )
            lines += made
            parts = (row.strip("()").split() for row in body[: len(rule.source.outputs)])
            joins.append(tuple((name, tuple(names)) for name, *names in parts))
            few = [f"({old} {variable(o)})" for o in rule.source.outputs]
            restricted.append(
                _rule([*few, *body], [match], ruleset("find-old", rule.name), f"old {m}{suffix}")
            )
        lines.append(_rule(body, [match], find, f"{rule.name}{suffix}"))
    if not several:
        lines.append(_rule(chosen, action, apply, f"apply {rule.name}"))
    return CompiledRule(
        rule,
        "\n".join(lines),
        tensors,
        tuple(kept),
        len(rule.target.nodes),
        mirror=reordering,
        joins=tuple(joins),
        restricted="\n".join(restricted) if several else "",
    )


def _rule(body: Sequence[str], action: Sequence[str], rules: str, name: str) -> str:
    space = "\n       "
    return f'(rule ({space.join(body)})\n      ({space.join(action)})\n      :ruleset {rules} :name "{name}")'


def _is_literal(text: str) -> bool:
    return bool(re.fullmatch(r'-?\d+(\.\d+)?(e[+-]?\d+)?|"[^"]*"', text))
