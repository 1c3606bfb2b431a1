"""`explain`: the chain of rules from a graph to an optimized graph, every step evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tensat_dl.cost import CostModel
from tensat_dl.explore.explore import exploring
from tensat_dl.explore.types import Applied, Exploration, Limits
from tensat_dl.extract.api import extract
from tensat_dl.extract.types import Limits as ExtractLimits
from tensat_dl.ir.graph import Graph
from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.compose import semantics_of
from tensat_dl.report.progress import Progress
from tensat_dl.search import Found, feedback
from tensat_dl.verify.equivalence import Equivalence, compare
from tensat_dl.verify.rule_tests import find
from tensat_dl.verify.trust import assumed
from tensat_dl.why.graphs import Step, chain
from tensat_dl.why.replay import Replay

#: What evaluating a step showed: "assumed" for rules about operators of which only the types are known.
Verdict = Literal["equal", "assumed", "inconclusive", "different"]


class NoWay(Exception):
    """No way from one graph to the other was found. ``missing`` says what of the second graph was not."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Explained:
    """A step, what the whole graph costs before and after it in milliseconds, and whether both sides of the rule
    compute the same on the tensors of this step. Costs are None where the step has no graphs."""

    step: Step
    cost: tuple[float, float] | None
    verdict: Verdict
    message: str


def explain(
    before: Graph,
    after: Graph,
    rules: Sequence[RewriteRule],
    model: CostModel,
    limits: Limits,
    method: str,
    extract_limits: ExtractLimits,
    progress: Progress,
    seed: int = 0,
) -> list[Explained]:
    """The steps from ``before`` to ``after``, which a run with these rules, limits and methods found.

    Explores again what the run explored. Raises `NoWay` if that does not lead to the second graph.
    """
    after = _aligned(after, before)
    if not _missing(after, before):
        return []
    progress.phase("explore")
    with exploring(before, model.table, rules, limits, progress.exploring, model.estimate) as worker:
        exploration = worker.run()
        while None in find(after, exploration.egraph):
            # As in a run, groups are merged that an answer uses. Extraction is quick where it was quick there.
            progress.phase("extract")
            egraph = model.price(exploration.egraph)[0]
            answer = extract(egraph, method, extract_limits, progress.extracting, exploration.early)
            progress.phase("explore")
            refined = worker.refine(feedback(Found(exploration, egraph, answer, model), model.table))
            if refined is None:
                raise NoWay(_lost(after, exploration))
            exploration = refined
        history = worker.history()
    if None in find(before, exploration.egraph):
        raise NoWay("cycle filtering left a part of the original out of the e-graph, where steps would begin")
    progress.phase("replay")
    replay = Replay(
        exploration.egraph, before, after, rules, model.table, _by_class(history, exploration.handles)
    )
    if not replay.run():
        raise NoWay("the rules, applied again one by one, did not make the outputs equal")
    steps = chain(replay, {r.name: r for r in rules}, model.table)
    progress.phase("evaluate")
    return _evaluated(steps, rules, model, seed, progress.counting)


def _evaluated(
    steps: Sequence[Step],
    rules: Sequence[RewriteRule],
    model: CostModel,
    seed: int,
    count: Callable[[int, int], None],
) -> list[Explained]:
    """Each step with its cost and verdict. Steps that say the same of tensors of equal types are evaluated once."""
    semantics = semantics_of(model.table)
    on_trust = assumed(rules, model.table)
    verdicts: dict[tuple[Graph, Graph], tuple[Verdict, str]] = {}
    costs: dict[int, float] = {}

    def cost(graph: Graph) -> float:
        if id(graph) not in costs:
            costs[id(graph)] = model.price_graph(graph).total
        return costs[id(graph)]

    out = []
    for number, s in enumerate(steps, start=1):
        count(number, len(steps))
        if s.sides not in verdicts:
            verdicts[s.sides] = _verdict(compare(*s.sides, semantics, seed), on_trust.get(s.rule.name, ()))
        both = None if s.before is None or s.after is None else (cost(s.before), cost(s.after))
        out.append(Explained(s, both, *verdicts[s.sides]))
    return out


def _verdict(found: Equivalence, opaque: Sequence[str]) -> tuple[Verdict, str]:
    if opaque:
        return "assumed", f"nothing is known of what {', '.join(opaque)} computes"
    return ("equal" if found.status == "equivalent" else found.status), found.message


def _aligned(after: Graph, before: Graph) -> Graph:
    """The second graph with the names that inputs have in the first: written as .tsr, names may have changed."""
    if len(after.inputs) != len(before.inputs) or len(after.outputs) != len(before.outputs):
        counts = (len(g.inputs) for g in (before, after)), (len(g.outputs) for g in (before, after))
        (i, j), (k, m) = counts
        raise NoWay(f"the original has {i} inputs and {k} outputs, the optimized graph {j} and {m}")
    nodes = list(after.nodes)
    for i, j in zip(after.inputs, before.inputs, strict=True):
        if nodes[i].types != before.nodes[j].types:
            raise NoWay(f"input {before.nodes[j].attr('name')} has another type in the optimized graph")
        nodes[i] = before.nodes[j]
    outputs = zip(before.outputs, after.outputs, strict=True)
    return replace(after, nodes=tuple(nodes), outputs=tuple((name, j) for (name, _), (_, j) in outputs))


def _missing(after: Graph, before: Graph) -> bool:
    """Whether the second graph has an output that is not the first graph's already."""
    numbers: dict[tuple[object, ...], int] = {}
    found = []
    for graph in (before, after):
        own: list[int] = []
        for node in graph.nodes:
            key = node.op, node.attrs, tuple(own[j] for j in node.inputs)
            own.append(numbers.setdefault(key, len(numbers)))
        found.append([own[i] for _, i in graph.outputs])
    return found[0] != found[1]


def _lost(after: Graph, exploration: Exploration) -> str:
    classes = find(after, exploration.egraph)
    node = after.nodes[classes.index(None)]
    if node.op in ("input", "weight"):
        return f"the original has no {node.op} {node.attr('name')} of type {node.type}"
    what = f"{node.op} ({node.name})" if node.name else node.op
    return f"exploring the original again did not lead to its {what}"


def _by_class(history: Sequence[Applied], handles: Sequence[int]) -> list[Applied]:
    """Applications by e-class instead of by handle; of e-classes that the e-graph has."""
    number = {h: c for c, h in enumerate(handles)}
    out = []
    for a in history:
        tensors = (a.shared, *a.members)
        if all(h in number for part in tensors for _, h in part):
            shared, *members = (tuple((n, number[h]) for n, h in part) for part in tensors)
            out.append(Applied(a.rule, shared, tuple(members)))
    return out
