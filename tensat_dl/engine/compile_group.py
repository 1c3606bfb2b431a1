"""Group rules to egglog: a query with a row for each possible member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tensat_dl.core.rule import Attribute, Elements, RewriteRule, Side
from tensat_dl.core.types import DTYPES
from tensat_dl.engine import render
from tensat_dl.engine.compiled import CompiledRule, member_relation, ruleset
from tensat_dl.engine.render import variable
from tensat_dl.engine.schema import Schema
from tensat_dl.engine.terms import EgglogRule, Var, app, equal, relation
from tensat_dl.engine.writer import Writer
from tensat_dl.ops.table import AttrDecl, OpTable
from tensat_dl.rewrite.forms import Forms


def compile_group(rule: RewriteRule, schema: Schema, forms: Forms, closed: bool) -> CompiledRule | None:
    """The member query of a group rule. Columns: shared variables, then what varies by member, outputs last."""
    source_only = replace(rule, source=Side(rule.source.nodes, ()), target=Side((), ()), conditions=())
    found = schema.variants(source_only, forms)
    if not found:
        return None
    writer = Writer(source_only, schema, found, closed)
    results = [n.result for n in rule.source.nodes]
    names = [*rule.tensor_variables(), *results]
    shared = [n for n in names if n not in rule.members]
    varying = [n for n in names if n in rule.members]
    tensors = tuple(dict.fromkeys([*shared, *varying]))
    columns = attribute_columns(rule, schema.ops)
    g, find = member_relation(rule.name), ruleset("find", rule.name)
    sorts = ["T"] * len(tensors) + [s for s, _ in columns]
    lines = [relation(g, *sorts), f"(ruleset {find})"]
    variables = [v for _, v in columns]
    row = app(g, *map(variable, tensors), *variables)
    for i, variant in enumerate(writer.usable):
        checks = writer.checks(variant)
        fixed = [
            equal(variable(name), render.value(x))
            for name, x in variant.env.items()
            if not writer.generic and isinstance(x, int) and variable(name) in variables
        ]
        atoms = writer.source_atoms(variant)
        body = (*atoms, *writer.premises(variant, [*atoms, *checks]), *checks, *fixed)
        lines.append(EgglogRule(f"{rule.name}{writer.suffix(i)}", find, body, (row,)).text())
    return CompiledRule(rule, "\n".join(lines), tensors, tuple(columns), len(rule.target.nodes))


def attribute_columns(rule: RewriteRule, ops: OpTable) -> list[tuple[str, Var]]:
    """(sort, egglog variable) of a rule's attribute variables, in order of first use."""
    out: dict[Var, str] = {}
    sorts = {"float": "f64", "string": "String", "choice": "String", "ints": "Ints"}
    for a, attribute in _attributes(rule, ops):
        for name in attribute.variables():
            if a.length is None:
                out.setdefault(variable(name), sorts.get(a.type, "i64"))
            elif isinstance(attribute.pattern, Elements):
                out.setdefault(variable(name), "i64")
            else:
                out |= {variable(name, str(i)): "i64" for i in range(a.length)}
    return [(sort, name) for name, sort in out.items()]


def attribute_values(rule: RewriteRule, columns: Mapping[Var, Any], ops: OpTable) -> dict[str, Any]:
    """Values of attribute variables from the columns of the member relation."""
    out: dict[str, Any] = {}
    for a, attribute in _attributes(rule, ops):
        for name in attribute.variables():
            column = variable(name)
            if a.length is not None and not isinstance(attribute.pattern, Elements):
                out[name] = tuple(columns[variable(name, str(i))] for i in range(a.length))
            elif a.type == "dtype":
                out[name] = DTYPES[columns[column]]
            else:
                out[name] = bool(columns[column]) if a.type == "bool" else columns[column]
    return out


def _attributes(rule: RewriteRule, ops: OpTable) -> Iterator[tuple[AttrDecl, Attribute]]:
    """The attributes of a rule's source, with their declarations."""
    for node in rule.source.nodes:
        for attribute in node.attrs:
            a = ops[node.op].attr(attribute.name)
            assert a is not None
            yield a, attribute
