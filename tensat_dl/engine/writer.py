"""The parts that egglog rules are put together from: patterns, checks, type look-ups, actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.engine import render
from tensat_dl.engine.comparisons import apart
from tensat_dl.engine.render import factors_variable, type_variable, value_variable, variable
from tensat_dl.engine.schema import Column, Schema
from tensat_dl.rewrite.conditions import factors_in, values_in
from tensat_dl.rewrite.source import Variant


class Writer:
    """Renders the variants of one rule. ``closed`` says that the e-graph has tensors of no other ranks than those
    which the variants were made for."""

    def __init__(self, rule: RewriteRule, schema: Schema, found: list[Variant], closed: bool) -> None:
        self.rule = rule
        self.schema = schema
        self.usable = [v for v in found if not v.ill_typed]
        #: Tensor variables whose ranks have to be checked.
        self.varying = _varying(found) if closed else set(found[0].types)
        #: Whether one egglog rule says what all variants do.
        self.generic = closed and self.usable == found and not any(v.guards for v in found) and self._direct()
        if len({tuple(self.source_atoms(v)) for v in found}) > 1:
            self.generic = False
        if self.generic:
            self.usable = self.usable[:1]

    # ---- attributes --------------------------------------------------------------------------------------

    def _direct(self) -> bool:
        """Whether the target's attributes are constants and attribute variables, the same for every rank."""
        chosen = {name for v in self.usable for name in v.chosen}

        def direct(attribute: Attribute) -> bool:
            match attribute.pattern:
                case Elements(items):
                    return all(
                        isinstance(i, Fixed) or (isinstance(i, Variable) and i.name not in chosen)
                        for i in items
                    )
                case Computed():
                    return isinstance(attribute.value, ex.Call) and attribute.value.fn == "dtype"
            return True

        return all(direct(attribute) for n in self.rule.target.nodes for attribute in n.attrs)

    def columns(self, node: PatternNode, attrs: dict[str, Any], variant: Variant) -> list[str]:
        """The attribute columns of a node as egglog terms."""
        given = {k.name: k.pattern for k in node.attrs}
        constructor = self.schema.constructor(node.op, len(node.args))
        out = []
        for column in constructor.columns:
            pattern = given.get(column.attr.name)
            open_ = self.generic or column.sort == "Ints"
            if open_ and isinstance(pattern, Variable) and pattern.name in variant.chosen:
                out.append(variable(pattern.name))
                continue
            value = attrs[column.attr.name]
            if column.element is not None:
                value = value[column.element]
            out.append(_column_value(column, value))
        return out

    # ---- bodies ------------------------------------------------------------------------------------------

    def source_atoms(self, variant: Variant) -> list[str]:
        """The e-nodes of the source. In a single-pattern rule, scalars that several of them share are compared. (The
        patterns of other rules are joined by what they share.)"""
        atoms: list[tuple[str, list[str]]] = []
        heads = []
        for node, attrs in zip(self.rule.source.nodes, variant.source_attrs, strict=True):
            constructor = self.schema.constructor(node.op, len(node.args))
            args = [*self.columns(node, attrs, variant), *(variable(a) for a in node.args)]
            heads.append(constructor.name)
            atoms.append((variable(node.result), args))
        equal: list[tuple[str, str]] = []
        if self.rule.kind == "single":
            scalars = [
                name
                for name in self.rule.tensor_variables()
                if all(v.types[name].shape == () for v in self.usable)
            ]
            atoms, equal = apart(atoms, {variable(name) for name in scalars})
        out = [
            f"(= {result} ({' '.join([head, *args])}))"
            for head, (result, args) in zip(heads, atoms, strict=True)
        ]
        return [*out, *(f"(value-eq {a} {b})" for a, b in equal)]

    def checks(self, variant: Variant) -> list[str]:
        """Guards, and facts that only the e-graph knows."""
        out = []
        for condition in variant.facts:
            for name in values_in(condition):
                out.append(f"(= {value_variable(name)} (value_of {variable(name)}))")
            for name in factors_in(condition):
                out.append(f"(= {factors_variable(name)} (factors_of {variable(name)}))")
        return list(dict.fromkeys(out)) + [render.guard(c) for c in (*variant.facts, *variant.guards)]

    def premises(self, variant: Variant, rest: Sequence[str]) -> list[str]:
        """Type look-ups for the tensors that ``rest`` mentions, and rank checks where ranks vary."""
        used = set(re.split(r"[\s()]+", " ".join(rest)))
        out = []
        for name in variant.types:
            varies = name in self.varying and not self.generic
            varies = varies and name in variant.chosen
            if type_variable(name) in used or varies:
                out.append(f"(= {type_variable(name)} (type_of {variable(name)}))")
                if varies:
                    rank = len(variant.types[name].shape)
                    out.append(f"(= (vec-length {type_variable(name)}) {rank + 1})")
        for name, length in variant.chosen.items():
            value = variant.env[name]
            if not self.generic and isinstance(value, tuple) and name not in variant.types:
                out.append(f"(= (vec-length {variable(name)}) {length})")
        return out

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
            atoms = self.source_atoms(variant)
            body = [
                *atoms,
                *self.premises(variant, atoms + checks + computed),
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
        out = []
        # Targets of matched outputs carry the outputs' own names; from where they are built on they need others.
        new: dict[str, str] = {}
        for node, row in zip(rule.target.nodes, rows, strict=True):
            constructor = self.schema.constructor(node.op, len(node.args))
            args = [*row, *(new.get(a, variable(a)) for a in node.args)]
            result = variable(node.result)
            if node.result in rule.source.outputs:
                result = new[node.result] = f"new.{node.result}"
            out.append(f"(let {result} ({' '.join([constructor.name, *args])}))")
            out.append(f'(set ({" ".join([constructor.origin, *args])}) "{rule.name}")')
            if rule.kind == "multi" and node.result not in rule.target.outputs:
                out.append(f"(merged {result})")
        for s, t in zip(rule.source.outputs, rule.target.outputs, strict=True):
            out.append(f"(union {variable(s)} {new.get(t, variable(t))})")
        return out


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
