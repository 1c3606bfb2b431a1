"""The whole program of a run, which a person can read and egglog can run: ``show --egglog``."""

from __future__ import annotations

from collections.abc import Sequence

from tensat_dl.core.graph import Graph
from tensat_dl.engine.compiled import CompiledRule, match_relation, ok_relation, ruleset
from tensat_dl.engine.declarations import Row, list_key, list_table, node_row, type_vector
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.render import variable
from tensat_dl.engine.syntax import (
    App,
    Command,
    EgglogRule,
    Lit,
    Var,
    app,
    by_id,
    comment,
    equal,
    new_ruleset,
    saturate,
)
from tensat_dl.rewrite.classes import starts


def listing(program: EgglogProgram, graph: Graph) -> list[Command]:
    """Header, operators, rules, the graph as facts, and a schedule with one round of multi-pattern rules.

    Here a rule selects every match whose tensors have handles, in place of the explorer's limits and budgets. Group
    rules only list their members: the explorer puts groups together.
    """
    rules = program.everything()
    lists: set[tuple[int, ...]] = set()
    facts: list[Command] = []
    constant = graph.weights_only()
    for i, node in enumerate(graph.nodes):
        constructor = program.schema.constructor(node.op, len(node.inputs))
        if program.is_wide(constructor):
            facts += program.wide_node(constructor, i, node.attrs, node.inputs, constant[i])
            facts.append(app("set", app("type_of", by_id(Lit(i))), type_vector(node.type)))
            continue
        row, own = node_row(constructor, i, node.attrs, node.inputs, "")
        facts.append(_fact(constructor.table, row))
        lists.update(own)
    compiled = program.current()
    singles = [r for r in compiled if r.rule.kind == "single"]
    multis = [r for r in compiled if r.rule.kind == "multi"]
    return [
        *program.header(),
        *program.new_constructors(),
        *rules,
        comment("---- lists of integers: element types, shapes, permutations"),
        *(command for n in sorted(set(map(len, lists))) for command in program.new_list_length(n)),
        *(_fact(list_table(len(v)), (list_key(v), *v)) for v in sorted(lists)),
        comment(f"---- the graph {graph.name}: rule that built it (none), handle, attributes, inputs"),
        *facts,
        *([_fact("in_start", (i,)) for i in starts(graph)] if program.counts_factors else []),
        *(
            _fact("in_varying", (i,))
            for i, known in enumerate(constant)
            if program.tells_varying and not known
        ),
        comment("---- selection: here every match"),
        *(command for r in multis for command in _select(r)),
        comment("---- schedule"),
        saturate("load", "types"),
        *_round(singles),
        *(app("run-schedule", _step(r)) for r in multis),
        saturate("types"),
        *_round(singles),
        app("print-size"),
    ]


def _fact(table: str, row: Row) -> App:
    return App(table, tuple(map(Lit, row)))


def _run(rulesets: Sequence[str]) -> list[App]:
    return [app("run", Var(name)) for name in rulesets]


def _round(rules: list[CompiledRule]) -> list[Command]:
    if not rules:
        return []
    runs = _run([name for r in rules for name in (*_members(r), ruleset("rule", r.name))])
    return [app("run-schedule", app("repeat", Lit(3), app("seq", *runs, app("saturate", Var("types")))))]


def _step(rule: CompiledRule) -> App:
    phases = [ruleset(phase, rule.name) for phase in ("find", "select", "apply")]
    return app("seq", *_run([*_members(rule), *phases]))


def _members(rule: CompiledRule) -> Sequence[str]:
    return (rule.members,) if rule.members else ()


def _select(rule: CompiledRule) -> list[Command]:
    tensors = [variable(t) for t in rule.tensors]
    handles = [Var(f"i{k}") for k in range(len(tensors))]
    body = [app(match_relation(rule.name), *tensors, *(column for _, column in rule.attrs))]
    body += [equal(h, app("id_of", t)) for h, t in zip(handles, tensors, strict=True)]
    if rule.mirror is not None and rule.pointless_alone:  # a match that is its own mirror image is left out
        k = next(k for k, image in enumerate(rule.mirror) if k != image)
        body.append(app("!=", handles[k], handles[rule.mirror[k]]))
    name = ruleset("select", rule.name)
    selected = app(ok_relation(rule.name), *handles)
    return [
        new_ruleset(name),
        EgglogRule(f"select {rule.name}", name, tuple(body), (selected,), "one line"),
    ]
