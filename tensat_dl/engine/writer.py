"""The parts that egglog rules are put together from: patterns, checks, type look-ups, actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensat_dl.core import expression as ex
from tensat_dl.core.rule import Attribute, Computed, Elements, Fixed, PatternNode, RewriteRule, Variable
from tensat_dl.engine import render
from tensat_dl.engine.comparisons import apart
from tensat_dl.engine.render import factors_variable, type_variable, value_variable, variable
from tensat_dl.engine.schema import Column, Schema
from tensat_dl.engine.terms import App, EgglogRule, Lit, Term, Var, app, equal, names
from tensat_dl.rewrite.conditions import factors_in, values_in
from tensat_dl.rewrite.source import Variant


class Writer:
    """Writes the variants of one rule. ``closed`` says that the e-graph has tensors of no other ranks than those
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

    def columns(self, node: PatternNode, attrs: dict[str, Any], variant: Variant) -> list[Term]:
        """The attribute columns of a node."""
        given = {k.name: k.pattern for k in node.attrs}
        constructor = self.schema.constructor(node.op, len(node.args))
        out: list[Term] = []
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

    def source_atoms(self, variant: Variant) -> list[App]:
        """The e-nodes of the source. In a single-pattern rule, scalars that several of them share are compared. (The
        patterns of other rules are joined by what they share.)"""
        atoms: list[tuple[Var, list[Term]]] = []
        heads = []
        for node, attrs in zip(self.rule.source.nodes, variant.source_attrs, strict=True):
            heads.append(self.schema.constructor(node.op, len(node.args)).name)
            atoms.append(
                (variable(node.result), [*self.columns(node, attrs, variant), *map(variable, node.args)])
            )
        compared: list[tuple[Var, Var]] = []
        if self.rule.kind == "single":
            scalars = {
                variable(name)
                for name in self.rule.tensor_variables()
                if all(v.types[name].shape == () for v in self.usable)
            }
            atoms, compared = apart(atoms, scalars)
        out = [equal(result, app(head, *args)) for head, (result, args) in zip(heads, atoms, strict=True)]
        return [*out, *(app("value-eq", a, b) for a, b in compared)]

    def checks(self, variant: Variant) -> list[App]:
        """Guards, and facts that only the e-graph knows."""
        out: list[App] = []
        for condition in variant.facts:
            for name in values_in(condition):
                out.append(equal(value_variable(name), app("value_of", variable(name))))
            for name in factors_in(condition):
                out.append(equal(factors_variable(name), app("factors_of", variable(name))))
        return list(dict.fromkeys(out)) + [render.guard(c) for c in (*variant.facts, *variant.guards)]

    def premises(self, variant: Variant, rest: Sequence[Term]) -> list[App]:
        """Type look-ups for the tensors that ``rest`` mentions, and rank checks where ranks vary."""
        used = set(names(*rest))
        out = []
        for name in variant.types:
            type_ = type_variable(name)
            varies = name in self.varying and not self.generic and name in variant.chosen
            if type_ in used or varies:
                out.append(equal(type_, app("type_of", variable(name))))
                if varies:
                    out.append(_length(type_, len(variant.types[name].shape) + 1))
        for name, length in variant.chosen.items():
            value = variant.env[name]
            if not self.generic and isinstance(value, tuple) and name not in variant.types:
                out.append(_length(variable(name), length))
        return out

    def suffix(self, variant: int) -> str:
        """What the name of a variant's egglog rule ends with."""
        return f" #{variant}" if len(self.usable) > 1 else ""

    def rules(self, ruleset: str) -> list[EgglogRule]:
        """The egglog rules of a single-pattern rule, one for each variant."""
        out = []
        for i, variant in enumerate(self.usable):
            checks = self.checks(variant)
            computed: list[App] = []
            rows = []
            for j, (node, attrs) in enumerate(zip(self.rule.target.nodes, variant.target_attrs, strict=True)):
                row = self.columns(node, attrs, variant)
                for k, term in enumerate(row):
                    if isinstance(term, App):  # whatever can fail is computed in the body
                        row[k] = computed_variable(j, k)
                        computed.append(equal(row[k], term))
                rows.append(row)
            atoms = self.source_atoms(variant)
            premises = self.premises(variant, [*atoms, *checks, *computed])
            body = (*atoms, *premises, *checks, *computed)
            out.append(
                EgglogRule(f"{self.rule.name}{self.suffix(i)}", ruleset, body, tuple(self.actions(rows)))
            )
        return out

    def actions(self, rows: Sequence[Sequence[Term]]) -> list[App]:
        """Builds the target with these attribute columns and unites each output with its counterpart.

        Intermediate results of a multi-pattern rule are tagged as merged: group rules don't take them as
        members again.
        """
        rule = self.rule
        out = []
        # Targets of matched outputs carry the outputs' own names; from where they are built on they need others.
        new: dict[str, Var] = {}
        for node, row in zip(rule.target.nodes, rows, strict=True):
            constructor = self.schema.constructor(node.op, len(node.args))
            args = [*row, *(new.get(a, variable(a)) for a in node.args)]
            result = variable(node.result)
            if node.result in rule.source.outputs:
                result = new[node.result] = Var("new", node.result)
            out.append(app("let", result, app(constructor.name, *args)))
            out.append(app("set", app(constructor.origin, *args), Lit(rule.name)))
            if rule.kind == "multi" and node.result not in rule.target.outputs:
                out.append(app("merged", result))
        for s, t in zip(rule.source.outputs, rule.target.outputs, strict=True):
            out.append(app("union", variable(s), new.get(t, variable(t))))
        return out


def computed_variable(node: int, column: int) -> Var:
    """The egglog variable that holds a computed attribute of a target's node."""
    return Var(f"c{node}", str(column))


def _length(vector: Var, length: int) -> App:
    return equal(app("vec-length", vector), Lit(length))


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


def _column_value(column: Column, value: Any) -> Term:
    if column.sort == "String" and isinstance(value, str):
        return Lit(value)
    if column.sort == "f64" and isinstance(value, int):
        return Lit(float(value))
    return render.value(value)
