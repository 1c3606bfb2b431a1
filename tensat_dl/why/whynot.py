"""`why_not`: the reason why a rule does not fire on a graph, or the places where it fires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensat_dl.core.expression import base_of, is_every
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.words import counted
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Limits, Stop
from tensat_dl.engine.explore import exploring
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.classes import EGraphTerms, graph_terms
from tensat_dl.rewrite.groups import instances, listed
from tensat_dl.rewrite.matcher import Pattern
from tensat_dl.why.misses import FailedMatch, FoundMembers, NearMisses, look, look_for_members


@dataclass(frozen=True, slots=True)
class Explored:
    """The rule among the others. ``first`` is the first iteration in which it was applied, 0 for none.

    ``at`` names, of one match, the tensors that the rule replaces, and ``built_by`` the rules that built what it
    matched; tensors that only rules made have no name. ``failed`` is a match in the e-graph whose conditions fail,
    with the names of its e-classes in ``names``. ``passed_over`` says that the rule matches in the e-graph, but was
    not applied.
    """

    matches: int
    applied: int
    first: int
    iterations: int
    nodes: int
    stop: Stop
    notes: tuple[str, ...]
    at: tuple[str, ...]
    built_by: tuple[str, ...]
    failed: FailedMatch | None
    passed_over: bool
    names: dict[int, str]


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The findings in the graph itself, and, unless the rule applies there, in the e-graph that all rules make.
    ``prevented`` says how limits keep a run from applying the rule there, if they do."""

    rule: RewriteRule
    found: NearMisses | FoundMembers
    explored: Explored | None
    prevented: str = ""

    @property
    def fires(self) -> bool:
        """Whether the rule applies to the graph itself."""
        return bool(self.found.fires if isinstance(self.found, NearMisses) else self.found.groups)


def why_not(
    rule: RewriteRule,
    graph: Graph,
    names: Sequence[str],
    rules: Sequence[RewriteRule],
    model: CostModel,
    limits: Limits,
    progress: Progress,
) -> WhyNot:
    """Looks for a rule in a graph and, with the other rules, in its e-graph. ``names`` are those of the nodes. Raises
    `TsrError`."""
    terms = graph_terms(graph, model.table)
    if rule.kind == "group":
        found: NearMisses | FoundMembers = look_for_members(Pattern(rule, model.table), terms)
    else:
        found = look(patterns(rule, terms, model.table), terms)
    answer = WhyNot(rule, found, None)
    if answer.fires:
        # Raises if the rule can't be compiled, and so never fires.
        EgglogProgram(model.table, (rule,), graph).everything()
        return replace(answer, prevented=_prevented(rule, graph, limits))
    return WhyNot(rule, found, _explored(rule, graph, names, rules, model, limits, progress))


def _prevented(rule: RewriteRule, graph: Graph, limits: Limits) -> str:
    """Why no run with these limits applies a rule to the graph itself; empty if one may."""
    if limits.iterations == 0:
        return "it has no iteration (--max-iters)"
    if rule.kind == "multi" and limits.k_multi == 0:
        return "rules with several results are applied in none of its iterations (--k-multi)"
    if len(graph.nodes) >= limits.nodes:
        return f"the graph alone has {counted(len(graph.nodes), 'e-node')}, the most that are allowed (--max-nodes)"
    return ""


def patterns(rule: RewriteRule, terms: EGraphTerms, ops: OpTable) -> list[Pattern]:
    """The patterns of a rule: of a list rule for the lengths that lists have there, or for two if there are none."""
    arities = {(op, len(terms.children_of(n))) for n, op in enumerate(terms.op)}
    arities |= {
        (n.op, len(n.args)) for n in rule.source.nodes if not any(map(is_every, n.args))
    }  # there or not
    return [Pattern(one, ops) for one in instances(rule, arities) or [listed(rule, 2)]]


def _explored(
    rule: RewriteRule,
    graph: Graph,
    names: Sequence[str],
    rules: Sequence[RewriteRule],
    model: CostModel,
    limits: Limits,
    progress: Progress,
) -> Explored:
    progress.phase("explore")
    with exploring(graph, model.table, rules, limits, progress.exploring, model.estimate) as worker:
        exploration = worker.run()
        history = (
            [a for a in worker.history().applied if base_of(a.rule) == rule.name]
            if rule.kind != "single"
            else []
        )
    stats = [
        (k, s) for k, it in enumerate(exploration.iterations, 1) for s in it.rules if s.rule == rule.name
    ]
    egraph = exploration.egraph
    terms = EGraphTerms(egraph, graph, model.table)
    called = {
        int(egraph.node_class[n]): name
        for n, name in zip(egraph.source.tolist(), names, strict=True)
        if n >= 0
    }
    at: tuple[int, ...] = ()
    matched: tuple[int, ...] = ()
    failed = None
    applied = sum(s.applied for _, s in stats)
    passed_over = False
    if history:
        number = {h: c for c, h in enumerate(exploration.handles)}
        tensors = [*history[0].shared, *(t for m in history[0].members for t in m)]
        at = tuple(number[h] for n, h in tensors if n in rule.source.outputs and h in number)
    elif rule.kind != "group":
        progress.phase("match")
        inside = look(patterns(rule, terms, model.table), terms, nearly=False)
        failed = inside.failed[0] if inside.failed else None
        passed_over = bool(inside.fires) and not applied
        if inside.fires and applied:
            match = inside.fires[0]
            at = tuple(match.tensors[o] for o in rule.source.outputs)
            matched = tuple(match.nodes.values())
    return Explored(
        sum(s.matches for _, s in stats),
        applied,
        next((k for k, s in stats if s.applied), 0),
        len(exploration.iterations),
        egraph.num_nodes,
        exploration.stop,
        (
            *dict.fromkeys(s.note for _, s in stats if s.note),
            *(
                n
                for n in exploration.notes
                if n.startswith(f"rule {rule.name} ") or f"rule {rule.name}:" in n
            ),
        ),
        tuple(called[c] for c in at if c in called),
        tuple(dict.fromkeys(egraph.origin[n] for n in matched if egraph.origin[n])),
        failed,
        passed_over,
        called,
    )
