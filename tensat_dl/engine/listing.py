"""The whole program of a run as one text that a person can read and egglog can run: ``show --egglog``."""

from __future__ import annotations

import json

from tensat_dl.core.graph import Graph
from tensat_dl.engine.compiled import CompiledRule, match_relation, ok_relation, ruleset
from tensat_dl.engine.program import EgglogProgram, list_table, type_vector, wide_node
from tensat_dl.engine.render import variable
from tensat_dl.engine.schema import encode
from tensat_dl.engine.terms import EgglogRule, Var, app, equal
from tensat_dl.rewrite.classes import starts

#: The rule that built a node of the input program: none.
EMPTY = '""'


def listing(program: EgglogProgram, graph: Graph) -> str:
    """Header, operators, rules, the graph as facts, and a schedule with one round of multi-pattern rules.

    What the explorer does between find and apply (limits, budgets) is here a rule that selects every match whose
    tensors have handles. Group rules only list their members: the explorer puts groups together.
    """
    lists: dict[tuple[int, ...], str] = {}
    facts = []
    wide = []
    constant = graph.weights_only()
    for i, node in enumerate(graph.nodes):
        constructor = program.schema.constructor(node.op, len(node.inputs))
        values = dict(node.attrs)
        columns: list[str] = []
        for column in constructor.columns:
            value = encode(column, values[column.attr.name])
            if isinstance(value, tuple):
                key = lists.setdefault(value, "_".join(map(str, value)) or "-")
                columns.append(_string(key))
            else:
                columns.append(_string(value) if isinstance(value, str) else repr(value))
        if program.is_wide(constructor):
            terms = [
                f"(ints_of {c})" if k.sort == "Ints" else c
                for k, c in zip(constructor.columns, columns, strict=True)
            ]
            wide.append(wide_node(constructor, i, terms, node.inputs, program.relation(constant[i])))
            wide.append(f"(set (type_of (by_id {i})) {type_vector(node.type)})")
            wide.append("(run-schedule (saturate load))")
            continue
        children = [str(j) for j in node.inputs]
        facts.append(f"({' '.join([constructor.table, EMPTY, str(i), *columns, *children])})")
    loaders = [program.new_list_length(n) for n in sorted({len(v) for v in lists})]
    keys = [
        f"({list_table(len(v))} {' '.join([_string(key), *map(str, v)])})" for v, key in sorted(lists.items())
    ]
    singles = [r for r in program.rules if r.rule.kind == "single"]
    multis = [r for r in program.rules if r.rule.kind == "multi"]
    parts = [
        program.text(),
        program.new_constructors(),
        "; ---- lists of integers: element types, shapes, permutations",
        *loaders,
        *keys,
        f"; ---- the graph {graph.name}: rule that built it (none), handle, attributes, inputs",
        *facts,
        *(["(run-schedule (saturate load))", *wide] if wide else []),
        *([f"(in_start {i})" for i in starts(graph)] if program.counts_factors else []),
        "; ---- selection: here every match",
        *(_select(r) for r in multis),
        "; ---- schedule",
        "(run-schedule (saturate load) (saturate types))",
        _round(singles),
        *(f"(run-schedule {_step(r)})" for r in multis),
        "(run-schedule (saturate types))",
        _round(singles),
        "(print-size)",
    ]
    return "\n".join(p for p in parts if p) + "\n"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _round(rules: list[CompiledRule]) -> str:
    runs = " ".join(f"(run {ruleset('rule', r.name)})" for r in rules)
    return f"(run-schedule (repeat 3 (seq {runs} (saturate types))))" if rules else ""


def _step(rule: CompiledRule) -> str:
    phases = (*(("members",) if rule.rule.kind == "multi" else ()), "find", "select", "apply")
    names = [ruleset(phase, rule.name) for phase in phases]
    return f"(seq {' '.join(f'(run {n})' for n in names)})"


def _select(rule: CompiledRule) -> str:
    tensors = [variable(t) for t in rule.tensors]
    handles = [Var(f"i{k}") for k in range(len(tensors))]
    body = [app(match_relation(rule.name), *tensors, *(column for _, column in rule.attrs))]
    body += [equal(h, app("id_of", t)) for h, t in zip(handles, tensors, strict=True)]
    if rule.mirror is not None and rule.pointless_alone:  # a match that is its own mirror image is left out
        k = next(k for k, image in enumerate(rule.mirror) if k != image)
        body.append(app("!=", handles[k], handles[rule.mirror[k]]))
    name = ruleset("select", rule.name)
    selected = app(ok_relation(rule.name), *handles)
    return f"(ruleset {name})\n{EgglogRule(f'select {rule.name}', name, tuple(body), (selected,)).line()}"
