"""Rewrite rules to egglog rules.

A single-pattern rule becomes one egglog rule for each variant that needs guards of its own, or a single one if
no variant needs any. A multi-pattern rule becomes a join that fills a match relation ``m_R`` (find), a relation
``ok_R`` of the matches that were selected, and a rule that builds the targets for those (apply). A group rule
becomes a query ``g_R`` with a row for each possible member; its matches are put together outside of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from tensat_dl.datalog import render
from tensat_dl.datalog.render import type_variable, value_variable, variable
from tensat_dl.datalog.schema import Column, Constructor, Schema
from tensat_dl.datalog.variants import Variant, variants
from tensat_dl.ir.rule import PatternNode, RewriteRule, Side
from tensat_dl.lang import ast
from tensat_dl.lang.diagnostics import error
from tensat_dl.ops.table import OpTable


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """``text`` declares relations and rules. The rules are in the rulesets ``find R`` (or ``rule R`` for a
    single-pattern rule) and ``apply R``. ``tensors`` are the T columns of the match relation, in order."""

    rule: RewriteRule
    text: str
    tensors: tuple[str, ...]
    attrs: tuple[tuple[str, str], ...]  #: further columns of the match relation: (sort, name)
    new_nodes: int  #: e-nodes that one application adds at most
    ranks: frozenset[int] = (
        frozenset()
    )  #: of the tensors that it builds (a group rule's come with their types)

    @property
    def name(self) -> str:
        return self.rule.name


def compile_rule(rule: RewriteRule, schema: Schema, ranks: Sequence[int]) -> CompiledRule | None:
    """The egglog form of a rule, or None if it can't apply to tensors of these ranks.

    Raises `TsrError` if a condition can't be compiled.
    """
    try:
        if rule.kind == "group":
            return _group(rule, schema, ranks)
        found = variants(rule, schema.ops, ranks)
        if all(v.ill_typed for v in found):
            return None
        writer = _Writer(rule, schema, found)
        compiled = writer.single() if rule.kind == "single" else writer.multi()
        built = [v.types[n.result] for v in found if not v.ill_typed for n in rule.target.nodes]
        return replace(compiled, ranks=frozenset(len(t.shape) for t in built))
    except render.NotCompilable as e:
        raise error(rule.span, f"rule `{rule.name}` can't be compiled: {e}") from None


def ruleset(phase: str, rule: str) -> str:
    """The ruleset of a rule's phase: rule, find or apply."""
    return f"{phase}:{rule}"


def match_relation(rule: str) -> str:
    return f"m:{rule}"


def ok_relation(rule: str) -> str:
    return f"ok:{rule}"


def member_relation(rule: str) -> str:
    return f"g:{rule}"


class _Writer:
    """Renders the variants of one rule."""

    def __init__(self, rule: RewriteRule, schema: Schema, found: list[Variant]) -> None:
        self.rule = rule
        self.schema = schema
        self.usable = [v for v in found if not v.ill_typed]
        self.varying = _varying(found)
        #: Whether one egglog rule says what all variants do.
        self.generic = len(self.usable) == len(found) and not any(v.guards for v in found) and self._direct()
        if self.generic and len({tuple(self.source_atoms(v)) for v in found}) > 1:
            self.generic = False
        if self.generic:
            self.usable = self.usable[:1]

    # ---- attributes --------------------------------------------------------------------------------------

    def _direct(self) -> bool:
        """Whether the target's attributes are constants and attribute variables, the same for every rank."""
        lets = {name for name, _ in self.rule.target.lets}

        def direct(expr: Any) -> bool:
            match expr:
                case ast.Const() | ast.Unary("-", ast.Const()):
                    return True
                case ast.Name(id):
                    return id not in lets
                case ast.ListExpr(items):
                    return isinstance(items, tuple) and all(direct(i) for i in items)
                case ast.Call("dtype", _):
                    return True
            return False

        ops = self.schema.ops
        return all(
            direct(k.value)
            and not (isinstance(k.value, ast.Name) and ops[n.op].preset(k.name, k.value.id) is not None)
            for n in self.rule.target.nodes
            for k in n.attrs
        )

    def columns(self, node: PatternNode, attrs: dict[str, Any], variant: Variant) -> list[str]:
        """The attribute columns of a node as egglog terms."""
        given = {k.name: k.value for k in node.attrs}
        constructor = self.schema.constructor(node.op, len(node.args))
        out = []
        for column in constructor.columns:
            expr = given.get(column.attr.name)
            open_ = self.generic or column.sort == "Ints"
            if open_ and isinstance(expr, ast.Name) and expr.id in variant.chosen:
                out.append(variable(expr.id))
                continue
            value = attrs[column.attr.name]
            if column.element is not None:
                value = value[column.element]
            out.append(_column_value(column, value))
        return out

    # ---- bodies ------------------------------------------------------------------------------------------

    def source_atoms(self, variant: Variant) -> list[str]:
        out = []
        for node, attrs in zip(self.rule.source.nodes, variant.source_attrs, strict=True):
            constructor = self.schema.constructor(node.op, len(node.args))
            args = [*self.columns(node, attrs, variant), *(variable(a) for a in node.args)]
            out.append(f"(= {variable(node.result)} ({' '.join([constructor.name, *args])}))")
        return out

    def checks(self, variant: Variant) -> list[str]:
        """Guards, and facts that only the e-graph knows."""
        out = []
        for condition in variant.facts:
            for x in condition.args:
                atom = getattr(x, "atom", ())
                if atom and atom[0] == "value":
                    out.append(f"(= {value_variable(atom[1])} (value_of {variable(atom[1])}))")
        return out + [render.guard(c) for c in (*variant.facts, *variant.guards)]

    def premises(self, variant: Variant, rest: Sequence[str]) -> list[str]:
        """Type look-ups for the tensors that ``rest`` mentions, and rank checks where ranks vary."""
        used = set(re.findall(r"[\w\[\]]+\.type\b", " ".join(rest)))
        out = []
        for name in variant.types:
            varies = name in self.varying and not self.generic
            if type_variable(name) in used or (varies and name in variant.chosen):
                out.append(f"(= {type_variable(name)} (type_of {variable(name)}))")
                if varies:
                    rank = len(variant.types[name].shape)
                    out.append(f"(= (vec-length {type_variable(name)}) {rank + 1})")
        for name, length in variant.chosen.items():
            value = variant.env[name]
            if not self.generic and isinstance(value, tuple) and name not in variant.types:
                out.append(f"(= (vec-length {variable(name)}) {length})")
        return out

    def single(self) -> CompiledRule:
        name = self.rule.name
        rules = [
            f"(rule ({body})\n      ({' '.join(action)})\n"
            f'      :ruleset {ruleset("rule", name)} :name "{name}{suffix}")'
            for suffix, body, action in self.bodies()
        ]
        text = "\n".join([f"(ruleset {ruleset('rule', name)})", *rules])
        return CompiledRule(self.rule, text, (), (), len(self.rule.target.nodes))

    def bodies(self) -> list[tuple[str, str, list[str]]]:
        """(suffix of the rule's name, body, actions) of a single-pattern rule, one for each variant."""
        out = []
        for i, variant in enumerate(self.usable):
            checks = self.checks(variant)
            computed: list[str] = []
            rows = []
            for j, (node, attrs) in enumerate(zip(self.rule.target.nodes, variant.target_attrs, strict=True)):
                terms = []
                for k, term in enumerate(self.columns(node, attrs, variant)):
                    if term.startswith("("):  # whatever can fail is computed in the body
                        name = f"c{j}.{k}"
                        computed.append(f"(= {name} {term})")
                        term = name
                    terms.append(term)
                rows.append(terms)
            body = [
                *self.source_atoms(variant),
                *self.premises(variant, checks + computed),
                *checks,
                *computed,
            ]
            suffix = f" #{i}" if len(self.usable) > 1 else ""
            out.append((suffix, "\n       ".join(body), self.actions(rows)))
        return out

    def actions(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Builds the target with these attribute columns and unites each output with its counterpart.

        Intermediate results of a multi-pattern rule are tagged as merged: group rules don't take them as
        members again.
        """
        rule = self.rule
        built = {n.result for n in rule.target.nodes}
        # Targets of matched outputs carry the outputs' own names; here they need others.
        new = {o: f"new.{o}" for o in rule.target.outputs if o in rule.source.outputs and o in built}
        out = []
        for node, row in zip(rule.target.nodes, rows, strict=True):
            result = variable(node.result) if node.result not in new else new[node.result]
            constructor = self.schema.constructor(node.op, len(node.args))
            args = [*row, *(new.get(a, variable(a)) for a in node.args)]
            out.append(f"(let {result} ({' '.join([constructor.name, *args])}))")
            out.append(f'(set ({" ".join([constructor.origin, *args])}) "{rule.name}")')
            if rule.kind == "multi" and node.result not in rule.target.outputs:
                out.append(f"(merged {result})")
        for s, t in zip(rule.source.outputs, rule.target.outputs, strict=True):
            out.append(f"(union {variable(s)} {new.get(t, variable(t))})")
        return out

    # ---- multi-pattern rules -----------------------------------------------------------------------------

    def multi(self) -> CompiledRule:
        rule = self.rule
        needed = [*rule.source.outputs, *(a for n in rule.target.nodes for a in n.args), *rule.target.outputs]
        local = {n.result for n in rule.source.nodes} | set(rule.tensor_variables())
        built = {n.result for n in rule.target.nodes}
        tensors = tuple(
            dict.fromkeys(a for a in needed if a in local and (a not in built or a in rule.source.outputs))
        )
        # A target attribute that differs by match or variant travels in a column of the match relation.
        columns: list[tuple[str, str]] = []
        terms: list[list[str]] = []
        per_variant: list[list[str]] = [[] for _ in self.usable]
        for j, node in enumerate(rule.target.nodes):
            constructor = self.schema.constructor(node.op, len(node.args))
            rendered = [self.columns(node, v.target_attrs[j], v) for v in self.usable]
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
        m, ok = match_relation(rule.name), ok_relation(rule.name)
        find, apply = ruleset("find", rule.name), ruleset("apply", rule.name)
        sorts = ["T"] * len(tensors) + [s for s, _ in columns]
        lines = [
            f"(relation {m} ({' '.join(sorts)}))",
            f"(relation {ok} ({' '.join(['i64'] * len(tensors))}))",
            f"(ruleset {find})",
            f"(ruleset {apply})",
        ]
        order = self.order()
        for i, (variant, values) in enumerate(zip(self.usable, per_variant, strict=True)):
            checks = self.checks(variant)
            computed = [f"(= {name} {v})" for (_, name), v in zip(columns, values, strict=True)]
            body = [
                *self.source_atoms(variant),
                *order,
                *self.premises(variant, checks + computed),
                *checks,
                *computed,
            ]
            row_text = " ".join([m, *(variable(t) for t in tensors), *(n for _, n in columns)])
            suffix = f" #{i}" if len(self.usable) > 1 else ""
            lines.append(
                f"(rule ({chr(10).join(body)})\n      (({row_text}))\n"
                f'      :ruleset {find} :name "{rule.name}{suffix}")'.replace("\n(", "\n       (")
            )
        handles = [f"i{k}" for k in range(len(tensors))]
        body = [f"({' '.join([ok, *handles])})"]
        body += [f"(= {variable(t)} (by_id {h}))" for t, h in zip(tensors, handles, strict=True)]
        body.append(f"({' '.join([m, *(variable(t) for t in tensors), *(n for _, n in columns)])})")
        action = self.actions(terms)
        lines.append(
            f"(rule ({(chr(10) + '       ').join(body)})\n      ({(chr(10) + '       ').join(action)})\n"
            f'      :ruleset {apply} :name "apply {rule.name}")'
        )
        return CompiledRule(rule, "\n".join(lines), tensors, tuple(columns), len(rule.target.nodes))

    def order(self) -> list[str]:
        """Breaks symmetry: of a match and its mirror image only the one in handle order is taken."""
        mirror = automorphism(self.rule)
        if mirror is None:
            return []
        first, second = mirror
        return [f"(< (id_of {variable(first)}) (id_of {variable(second)}))"]


def automorphism(rule: RewriteRule) -> tuple[str, str] | None:
    """Two variables that a renaming exchanges while it maps the source pattern onto itself, or None.

    Only renamings that exchange matched outputs count: those are what makes every match appear twice.
    """
    if len(rule.source.outputs) < 2 or rule.conditions:
        return None
    nodes = {n.result: n for n in rule.source.nodes}

    def match(a: str, b: str, renaming: dict[str, str]) -> bool:
        if a in renaming or b in renaming.values():
            return renaming.get(a) == b
        renaming[a] = b
        x, y = nodes.get(a), nodes.get(b)
        if x is None or y is None:
            return x is y
        if (
            x.op != y.op
            or len(x.args) != len(y.args)
            or {k.name for k in x.attrs} != {k.name for k in y.attrs}
        ):
            return False
        other = {k.name: k.value for k in y.attrs}
        return all(_same_attr(k.value, other[k.name], renaming) for k in x.attrs) and all(
            match(p, q, renaming) for p, q in zip(x.args, y.args, strict=True)
        )

    outputs = rule.source.outputs
    for order in permutations(outputs):
        if order == outputs:
            continue
        renaming: dict[str, str] = {}
        if all(match(a, b, renaming) for a, b in zip(outputs, order, strict=True)):
            for v in rule.tensor_variables():
                if renaming.get(v, v) != v:
                    return v, renaming[v]
    return None


def _same_attr(a: ast.Expr, b: ast.Expr, renaming: dict[str, str]) -> bool:
    if isinstance(a, ast.Name) and isinstance(b, ast.Name):
        return renaming.setdefault(a.id, b.id) == b.id
    if isinstance(a, ast.ListExpr) and isinstance(b, ast.ListExpr):
        if not isinstance(a.items, tuple) or not isinstance(b.items, tuple) or len(a.items) != len(b.items):
            return False
        return all(_same_attr(x, y, renaming) for x, y in zip(a.items, b.items, strict=True))
    return a == b


def _varying(found: list[Variant]) -> set[str]:
    """Tensor variables whose ranks tell the variants apart; the ranks of others follow from theirs."""
    names = [n for n in found[0].chosen if n in found[0].types]
    ranks = [{n: len(v.types[n].shape) for n in names} for v in found]
    distinct = len({tuple(r.values()) for r in ranks})
    chosen: list[str] = []
    for name in names:
        if len({tuple(r[n] for n in chosen) for r in ranks}) == distinct:
            break
        if len({r[name] for r in ranks}) > 1:
            chosen.append(name)
    return set(chosen)


def _column_value(column: Column, value: Any) -> str:
    if column.sort == "String" and isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if column.sort == "f64" and isinstance(value, int):
        return repr(float(value))
    return render.value(value)


def _is_literal(text: str) -> bool:
    return bool(re.fullmatch(r'-?\d+(\.\d+)?(e[+-]?\d+)?|"[^"]*"', text))


# ---- group rules ----------------------------------------------------------------------------------------


def _group(rule: RewriteRule, schema: Schema, ranks: Sequence[int]) -> CompiledRule | None:
    """The member query of a group rule. Columns: shared variables, then what varies by member, outputs last."""
    source_only = replace(rule, source=Side(rule.source.nodes, ()), target=Side((), ()), conditions=())
    found = variants(source_only, schema.ops, ranks)
    if not found:
        return None
    writer = _Writer(source_only, schema, found)
    results = [n.result for n in rule.source.nodes]
    names = [*rule.tensor_variables(), *results]
    shared = [n for n in names if n not in rule.members]
    varying = [n for n in names if n in rule.members]
    tensors = tuple(dict.fromkeys([*shared, *varying]))
    columns = attribute_columns(rule, schema.ops)
    g, find = member_relation(rule.name), ruleset("find", rule.name)
    sorts = ["T"] * len(tensors) + [s for s, _ in columns]
    lines = [f"(relation {g} ({' '.join(sorts)}))", f"(ruleset {find})"]
    for i, variant in enumerate(writer.usable):
        checks = writer.checks(variant)
        fixed = [
            f"(= {n} {render.value(variant.env[n])})"
            for _, n in columns
            if not writer.generic and isinstance(variant.env.get(n), int)
        ]
        body = [*writer.source_atoms(variant), *writer.premises(variant, checks), *checks, *fixed]
        row = " ".join([g, *(variable(t) for t in tensors), *(n for _, n in columns)])
        suffix = f" #{i}" if len(writer.usable) > 1 else ""
        text = "\n       ".join(body)
        lines.append(f'(rule ({text})\n      (({row}))\n      :ruleset {find} :name "{rule.name}{suffix}")')
    return CompiledRule(rule, "\n".join(lines), tensors, tuple(columns), len(rule.target.nodes))


def attribute_columns(rule: RewriteRule, ops: OpTable) -> list[tuple[str, str]]:
    """(sort, egglog variable) of a rule's attribute variables, in order of first use."""
    out: dict[str, str] = {}
    sorts = {"float": "f64", "string": "String", "choice": "String", "ints": "Ints"}
    for node in rule.source.nodes:
        decl = ops[node.op]
        for keyword in node.attrs:
            a = decl.attr(keyword.name)
            assert a is not None
            expr = keyword.value
            if (
                isinstance(expr, ast.Name)
                and expr.id not in a.choices
                and decl.preset(a.name, expr.id) is None
            ):
                if a.length is None:
                    out.setdefault(variable(expr.id), sorts.get(a.type, "i64"))
                else:
                    for i in range(a.length):
                        out.setdefault(f"{variable(expr.id)}.{i}", "i64")
            elif isinstance(expr, ast.ListExpr) and isinstance(expr.items, tuple):
                for item in expr.items:
                    if isinstance(item, ast.Name):
                        out.setdefault(variable(item.id), "i64")
    return [(sort, name) for name, sort in out.items()]


__all__ = ["CompiledRule", "Constructor", "compile_rule"]
