"""The parts that egglog rules are put together from: patterns, checks, type look-ups, actions."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.rule import PatternNode, RewriteRule, Variable
from tensat_dl.engine import render
from tensat_dl.engine.render import variable
from tensat_dl.engine.schema import Column, Schema
from tensat_dl.engine.syntax import App, Lit, Term, Var, app, equal, names
from tensat_dl.rewrite.conditions import factors_in, values_in
from tensat_dl.rewrite.source import Variant

#: From so many patterns as operands of one e-node on, each is matched by itself.
MANY = 4


@dataclass(frozen=True, slots=True)
class Query:
    """The body of a variant's rule: e-nodes, checks, and the target's attributes."""

    variant: Variant
    atoms: list[App]
    checked: list[App]  #: with the type look-ups before
    computed: list[App]

    @property
    def body(self) -> tuple[App, ...]:
        return (*self.atoms, *self.checked, *self.computed)


class Writer:
    """Writes variants of one rule."""

    def __init__(self, rule: RewriteRule, schema: Schema, found: Sequence[Variant]) -> None:
        self.rule = rule
        self.schema = schema
        self.usable = [v for v in found if not v.ill_typed]
        self.either = schema.in_either_order(rule)
        #: The pattern nodes that are matched together before the rest, in parts, see `members`. Empty: all at once.
        self.parts = _parts(rule)

    # ---- attributes --------------------------------------------------------------------------------------

    def columns(self, node: PatternNode, attrs: dict[str, Any], variant: Variant) -> list[Term]:
        """The attribute columns of a node."""
        given = {k.name: k.pattern for k in node.attrs}
        constructor = self.schema.constructor(node.op, len(node.args))
        out: list[Term] = []
        for column in constructor.columns:
            pattern = given.get(column.attr.name)
            if column.sort == "Ints" and isinstance(pattern, Variable) and pattern.name in variant.chosen:
                out.append(variable(pattern.name))
                continue
            value = attrs[column.attr.name]
            if column.element is not None:
                value = value[column.element]
            out.append(_column_value(column, value))
        return out

    # ---- bodies ------------------------------------------------------------------------------------------

    def source_atoms(self, variant: Variant) -> list[App]:
        """The e-nodes of the source. In a single-pattern rule, scalars and attributes that several of them share are
        compared. (The patterns of other rules are joined by what they share.)"""
        atoms: list[tuple[Var, list[Term]]] = []
        heads = []
        for node, attrs in zip(self.rule.source.nodes, variant.source_attrs, strict=True):
            constructor = self.schema.constructor(node.op, len(node.args))
            heads.append(constructor.either if node.result in self.either else constructor.name)
            atoms.append(
                (variable(node.result), [*self.columns(node, attrs, variant), *map(variable, node.args)])
            )
        compared: list[tuple[Var, Var]] = []
        if self.rule.kind == "single" and not self.parts:
            common = {
                variable(name) for name in self.rule.tensor_variables() if variant.types[name].shape == ()
            }
            for (_, terms), node in zip(atoms, self.rule.source.nodes, strict=True):
                common.update(t for t in terms[: len(terms) - len(node.args)] if isinstance(t, Var))
            atoms, compared = apart(atoms, common)
        out = [equal(result, app(head, *args)) for head, (result, args) in zip(heads, atoms, strict=True)]
        return [*out, *(app("value-eq", a, b) for a, b in compared)]

    def checks(self, variant: Variant) -> list[App]:
        """Guards, and facts that only the e-graph knows."""
        out: list[App] = []
        for condition in variant.facts:
            for name in values_in(condition):
                out.append(equal(variable(name, "value"), app("value_of", variable(name))))
            for name in factors_in(condition):
                out.append(equal(variable(name, "factors"), app("factors_of", variable(name))))
        return list(dict.fromkeys(out)) + [render.guard(c) for c in (*variant.facts, *variant.guards)]

    def premises(self, variant: Variant, rest: Sequence[Term]) -> list[App]:
        """Type look-ups for the tensors that ``rest`` mentions, and checks of ranks and lengths: an e-graph may have
        nodes of other forms."""
        used = set(names(*rest))
        out = []
        for name in variant.types:
            type_ = variable(name, "type")
            if type_ in used or name in variant.chosen:
                out.append(equal(type_, app("type_of", variable(name))))
                if name in variant.chosen:
                    out.append(_length(type_, len(variant.types[name].shape) + 1))
        for name, length in variant.chosen.items():
            if name not in variant.types and isinstance(variant.env[name], tuple):
                out.append(_length(variable(name), length))
        return out

    def query(self, variant: Variant, computed: list[App]) -> Query:
        """The query of a variant; ``computed`` are further items that its body computes."""
        atoms, checks = self.source_atoms(variant), self.checks(variant)
        premises = self.premises(variant, [*atoms, *checks, *computed])
        return Query(variant, atoms, [*premises, *checks], computed)

    def target_rows(
        self, variant: Variant, direct: tuple[type, ...]
    ) -> tuple[list[list[Term]], list[tuple[str, Var]], list[App]]:
        """The attribute columns of the target's nodes: terms of a ``direct`` class, else variables. The sorts and
        names of these, and the equations that compute them in a body."""
        rows: list[list[Term]] = []
        columns: list[tuple[str, Var]] = []
        computed: list[App] = []
        for j, node in enumerate(self.rule.target.nodes):
            constructor = self.schema.constructor(node.op, len(node.args))
            rows.append([])
            written = self.columns(node, variant.target_attrs[j], variant)
            for k, (column, term) in enumerate(zip(constructor.columns, written, strict=True)):
                if isinstance(term, direct):
                    rows[-1].append(term)
                    continue
                name = Var(f"c{j}", str(k))
                rows[-1].append(name)
                columns.append((column.sort, name))
                computed.append(equal(name, term))
        return rows, columns, computed

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


def _parts(rule: RewriteRule) -> list[set[str]]:
    """The parts of a source that are matched by themselves: the patterns of a multi-pattern rule; the operands of an
    e-node with `MANY` patterns as operands, and the rest with that e-node."""
    nodes = {n.result: n for n in rule.source.nodes}
    if rule.kind == "multi":
        return [_tree(nodes, output) for output in rule.source.outputs]
    wide = next((n for n in nodes.values() if sum(a in nodes for a in n.args) >= MANY), None)
    if wide is None or rule.kind != "single":
        return []
    operands = [_tree(nodes, a) for a in dict.fromkeys(wide.args) if a in nodes]
    return [set(nodes).difference(*operands), *operands]


def _tree(nodes: Mapping[str, PatternNode], output: str) -> set[str]:
    """The results of the e-nodes that an output's pattern consists of."""
    found: set[str] = set()
    waiting = [output]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in found:
            found.add(name)
            waiting += nodes[name].args
    return found


def _length(vector: Var, length: int) -> App:
    return equal(app("vec-length", vector), Lit(length))


def _column_value(column: Column, value: Any) -> Term:
    if column.sort == "String" and isinstance(value, str):
        return Lit(value)
    if column.sort == "f64" and isinstance(value, int):
        return Lit(float(value))
    return render.value(value)


def apart(
    atoms: Sequence[tuple[Var, Sequence[Term]]], compared: Container[Term]
) -> tuple[list[tuple[Var, list[Term]]], list[tuple[Var, Var]]]:
    """E-node patterns, each a result and its terms, operands before what uses them; with a second name for some of
    those that are to be ``compared`` instead of joined, and the pairs of names that have to be equal.

    A pattern is a tree of operators, but a variable that it names in two places closes a cycle in the join of
    e-nodes: for ``ewadd(smul(x, s), smul(y, s))`` the engine may start from the two products and relate every pair of
    them by the same scale. One scale can be all that a whole graph is scaled by, which makes that quadratic in the
    number of layers; and one stride is that of most convolutions. Where the places are not next to each other in the
    tree, the second one gets a name of its own, and both are compared once both are found by way of what is between
    them. Joins that are left have the running intersection property: what shares a name is connected (Beeri, Fagin,
    Maier and Yannakakis, 1983).

    Larger tensors stay joined: there are few places with the same two tensors, and a comparison comes after all
    alternatives of one place have been combined with those of the other.
    """
    local: list[dict[Term, Var]] = [{} for _ in atoms]
    places: dict[Var, int] = {}
    pairs: list[tuple[Var, Var]] = []
    for k in reversed(range(len(atoms))):
        result, terms = atoms[k]
        parent = next((j for j in range(len(atoms)) if result in atoms[j][1]), None)
        above = {} if parent is None else local[parent]
        for name in dict.fromkeys(t for t in terms if isinstance(t, Var) and t in compared):
            if name in above:
                local[k][name] = above[name]
                continue
            places[name] = places.get(name, 0) + 1
            local[k][name] = name
            if places[name] > 1:
                part = f"{name.part}.again{places[name]}" if name.part else f"again{places[name]}"
                local[k][name] = Var(name.name, part)
                pairs.append((name, local[k][name]))
    renamed = [(r, [local[k].get(t, t) for t in terms]) for k, (r, terms) in enumerate(atoms)]
    return renamed, pairs
