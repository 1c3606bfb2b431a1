"""The reason why a rule does not fire, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensat_dl.core.expression import base_of
from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import PatternNode, RewriteRule
from tensat_dl.core.words import counted
from tensat_dl.report.facts import STOPS
from tensat_dl.report.steps import MAX_PLACES
from tensat_dl.rewrite.matcher import Match
from tensat_dl.why.misses import Failure, FoundMembers, NearMisses, names_in
from tensat_dl.why.whynot import Explored, WhyNot

#: Characters of a pattern that are shown.
LONGEST = 60


def answer_lines(answer: WhyNot, graph: Graph, names: Sequence[str]) -> Iterator[str]:
    """The answer, line by line. ``names`` are the names of the graph's nodes."""
    rule = answer.rule
    yield f"{rule.name}: {' '.join(rule.doc.split())}" if rule.doc else rule.name
    called = dict(enumerate(names))
    if answer.fires:
        yield from _fires(answer, called)
        return
    explored = answer.explored
    assert explored is not None
    if explored.applied:
        yield f"does not fire on graph {graph.name} itself; it fires after other rules"
        yield from _among_others(explored)
        yield "on the graph itself:"
    else:
        yield f"does not fire on graph {graph.name}, nor on any graph that the rules make of it"
        after = counted(explored.iterations, "iteration")
        yield f"  {counted(explored.nodes, 'e-node')} after {after}; {STOPS[explored.stop]}"
        yield from (f"  {note}" for note in explored.notes)
        if explored.passed_over:
            yield "  it would match there, but was not applied" + (
                ": rules with several results are applied in `--k-multi` iterations only"
                if rule.kind == "multi"
                else ""
            )
    structural = isinstance(answer.found, NearMisses) and answer.found.failed
    if explored.failed is not None and not explored.applied and not structural:
        yield "after other rules its source matches:"
        yield from _failed(explored.failed.match, explored.failed.failure, explored.names)
        yield "on the graph itself:"
    if isinstance(answer.found, NearMisses):
        yield from _nearest(answer.found, rule, graph, called)
    else:
        yield from _members(answer.found, rule, graph, called)


def _fires(answer: WhyNot, called: Mapping[int, str]) -> Iterator[str]:
    found, outputs = answer.found, answer.rule.source.outputs
    if isinstance(found, NearMisses):
        places = [", ".join(called[m.tensors[o]] for o in outputs) for m in found.fires]
        what = "place"
    else:
        places = [", ".join(called[m.tensors[o]] for m in g for o in outputs) for g in found.groups]
        what = "group"
    yield f"fires on the graph itself, at {counted(len(places), what)}:"
    yield from (f"  {place}" for place in places[:MAX_PLACES])
    if len(places) > MAX_PLACES:
        yield f"  and {len(places) - MAX_PLACES} more"
    if answer.prevented:
        yield f"but a run with these limits does not apply it: {answer.prevented}"
        return
    yield "(the cheapest graph need not use a rule that fires: `tensat-dl why` shows the rules that it uses)"


def _among_others(explored: Explored) -> Iterator[str]:
    yield (
        f"  {counted(explored.applied, 'time')}, first in iteration {explored.first} of {explored.iterations}"
        + (
            f"; {counted(explored.matches - explored.applied, 'match', 'es')} left"
            if explored.matches > explored.applied
            else ""
        )
    )
    if explored.at:
        more = f", .. ({len(explored.at)} in all)" if len(explored.at) > MAX_PLACES else ""
        yield f"  such as at {', '.join(explored.at[:MAX_PLACES])}{more}"
    if explored.built_by:
        yield f"  on operators that {', '.join(explored.built_by)} built"
    yield from (f"  {note}" for note in explored.notes)


def _nearest(found: NearMisses, rule: RewriteRule, graph: Graph, called: Mapping[int, str]) -> Iterator[str]:
    if found.failed:
        yield from _failed(found.failed[0].match, found.failed[0].failure, called)
        more = len(found.failed) - 1
        if more:
            yield f"  ({counted(more, 'other match', 'es')} fail{'s' if more == 1 else ''} too)"
    elif found.exchanged is not None:
        node, match = found.exchanged
        yield f"  matches {_tensors(match, called)}"
        yield f"  but the operands of `{_source(node)}` stand in the other order, which matters for {node.op}"
    else:
        yield from _near(found.near, rule, graph, called)


def _failed(match: Match, failure: Failure, called: Mapping[int, str]) -> Iterator[str]:
    yield f"  matches {_tensors(match, called)}"
    yield f"  fails {failure.what}: {failure.values}"


def _near(near: Match | None, rule: RewriteRule, graph: Graph, called: Mapping[int, str]) -> Iterator[str]:
    ops = list(dict.fromkeys(n.op for n in rule.source.nodes))
    if near is None:
        yield f"  there is no {' and no '.join(ops)} in the graph"
        return
    name = next(iter(near.nodes))
    root, at = next(n for n in rule.source.nodes if n.result == base_of(name)), near.tensors[name]
    there = {n.op for n in graph.nodes}
    absent = [op for op in ops if op not in there]
    if absent:
        yield f"  there is no {' and no '.join(absent)} in the graph"
    yield f"  nearest is `{_source(root)}` at {called[at]} ({_type(graph, at)})"
    for d in near.differences[:MAX_PLACES]:
        where = "" if d.at == at or d.what.startswith("{") else f"at {called[d.at]}: "
        pattern = "" if d.node.result == name else f" (for `{_source(d.node)}`)"
        yield f"  but {where}{names_in(d.what, called)}{pattern}"
    if not near.differences:  # a part of the pattern that matches as it is
        users = [called[i] + f" ({n.op})" for i, n in enumerate(graph.nodes) if at in n.inputs]
        yield f"  which goes into {', '.join(users[:MAX_PLACES]) or 'an output only'}"


def _members(
    found: FoundMembers, rule: RewriteRule, graph: Graph, called: Mapping[int, str]
) -> Iterator[str]:
    outputs = rule.source.outputs

    def of(m: Match) -> str:
        return ", ".join(called[m.tensors[o]] for o in outputs)

    if found.failed is not None:
        a, b, failure = found.failed
        yield f"  members {of(a)} and {of(b)} agree in all that members share"
        yield f"  fails {failure.what}: {failure.values}"
    elif found.dependent is not None:
        a, b = found.dependent
        yield f"  members {of(a)} and {of(b)} agree in all that members share"
        yield f"  but {of(b)} is computed from {of(a)}: members must not need one another"
    elif found.apart is not None:
        pair = found.apart
        yield f"  no two members agree in all that members share; nearest are {of(pair.first)} and {of(pair.second)}"
        for name, x, y in pair.differences[:MAX_PLACES]:
            yield names_in(f"  but `{name}` is {x} for the first and {y} for the second", called)
    elif found.single is not None:
        yield f"  there is one member only: {of(found.single)}; a group has two or more"
    elif found.constant:
        matches = counted(found.constant, "match", "es")
        yield f"  {matches}, computed from weights alone, ahead of time: merging saves nothing"
    else:
        yield from _near(found.near, rule, graph, called)


def _source(node: PatternNode) -> str:
    """A part of a pattern as it is written, cut off where it gets long."""
    text = node.span.line
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}.."


def _tensors(match: Match, called: Mapping[int, str]) -> str:
    shown = [f"{n} = {called.get(c, '(made by a rule)')}" for n, c in match.tensors.items() if "." not in n]
    return ", ".join(shown)


def _type(graph: Graph, i: int) -> str:
    return ", ".join(map(str, graph.nodes[i].types))
