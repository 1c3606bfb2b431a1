"""How a search begins: its setup, its first graph, its rules, and a worker that explores.

The worker takes a while for its first iteration. Most of the pipeline is imported meanwhile, so this module needs
little of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tensat_dl.core.egraph import BoolArray, EGraph, NodeKey, find
from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.cost import CostModel
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.explore import Exploring, exploring
from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.fuse.fuse import fused_operators, taken_apart
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.reachable import reachable
from tensat_dl.run.options import Options
from tensat_dl.run.stages import Stages
from tensat_dl.sizes.resized import Resized

if TYPE_CHECKING:
    from tensat_dl.measure.machine import Machine

#: Tells which e-nodes [N] of what was explored from a graph can be no part of an answer, for reasons that no price
#: knows.
Unfit = Callable[[EGraph, Graph], BoolArray]


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a search: limits of growth, the method of extraction, and the cost model.

    With a ``machine`` at hand, operators are measured on it before they are priced, and the exact method looks for
    runners-up as well. With ``fusing``, chains of elementwise operators are e-nodes, too. E-nodes that are ``unfit``
    are left out.
    """

    model: CostModel
    limits: Limits = field(default_factory=Limits)
    method: str = "exact"
    extract_limits: ExtractLimits = field(default_factory=ExtractLimits)
    machine: Machine | None = None
    fusing: bool = False
    unfit: Unfit | None = None

    @classmethod
    def of(
        cls,
        options: Options,
        graph: Graph,
        rules: Iterable[RewriteRule],
        ops: OpTable,
        machine: Machine | None = None,
        unfit: Unfit | None = None,
        sizes: tuple[Resized | None, ...] = (),
    ) -> Setup:
        """The setup of a search for other graphs than this one by these rules; costs are means over ``sizes`` of open
        dimensions. Raises `UnknownDeviceError`, `ProfileError`."""
        model = replace(CostModel.of(ops, options.target, options.threads), sizes=sizes)
        limits = options.limits(graph, rules)
        return cls(model, limits, options.extract, options.extract_limits, machine, options.fuse, unfit)

    def fused(self, graph: Graph, ops: OpTable) -> frozenset[str]:
        """The operators of a graph that fusion finds again: those that it declared, in this run or in an earlier
        one."""
        return fused_operators(graph, ops) if self.fusing else frozenset()

    def known(self, graph: Graph, ops: OpTable, origins: tuple[str, ...]) -> EqualGraph:
        """A graph that computes the same as the input, given the rules that built its nodes."""
        return EqualGraph(graph, *taken_apart(graph, ops, self.fused(graph, ops)), origins)


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be optimized: a graph, the rules that it was ``given`` and those that are used, and notes on
    others."""

    graph: Graph
    ops: OpTable
    given: tuple[RewriteRule, ...]
    rules: Sequence[RewriteRule]
    notes: tuple[str, ...]
    options: Options
    setup: Setup


@dataclass(frozen=True, slots=True)
class EqualGraph:
    """A graph that computes the same as the input: the input itself, or the answer of a round.

    ``apart`` is what rules see: the graph without fused operators. ``at`` has its node for each node of the graph,
    and ``origins`` the rule that first built the node, "" for the input's nodes and for fused ones.
    """

    graph: Graph
    apart: Graph
    at: Sequence[int]
    origins: tuple[str, ...]

    @property
    def origins_apart(self) -> list[str]:
        """The rule that first built each node of ``apart``."""
        found = [""] * len(self.apart.nodes)
        for i, rule in zip(self.at, self.origins, strict=True):
            found[i] = found[i] or rule
        return found

    def fused(self, egraph: EGraph) -> list[tuple[int, NodeKey]]:
        """Its fused operators as e-nodes of an e-graph, each with its e-class, if that has what they are made of."""
        if self.apart is self.graph:
            return []
        classes = find(self.apart, egraph)
        found: list[tuple[int, NodeKey]] = []
        for node, k in zip(self.graph.nodes, self.at, strict=True):
            if node.op == self.apart.nodes[k].op or (c := classes[k]) is None:
                continue
            leaves = tuple(d for j in node.inputs if (d := classes[self.at[j]]) is not None)
            if len(leaves) == len(node.inputs):
                found.append((c, (node.op, node.attrs, leaves)))
        return found


@dataclass(frozen=True, slots=True)
class Beginning:
    """A search that has begun: its worker explores ``start`` by the first of the ``stages``."""

    start: EqualGraph
    stages: Stages
    worker: Exploring


@contextmanager
def beginning(
    graph: Graph, rules: Sequence[RewriteRule], setup: Setup, progress: Progress, single: bool = False
) -> Iterator[Beginning]:
    """Begins a search, or a ``single`` round with all settings. The worker is gone when the context ends.

    With fusion, the operators that an earlier run fused are taken apart, and fusion, not rules, finds them again. Of
    the other rules, those are left out that can never match: stages that differ in them alone are the same. Group
    rules stay, as part of the node limit is kept for them.
    """
    progress.phase("explore")
    table, limits = setup.model.table, setup.limits
    start = setup.known(graph, table, ("",) * len(graph.nodes))
    theirs = {f"{way}-{op}" for op in setup.fused(graph, table) for way in ("fuse", "unfuse")}
    allowed = [r for r in rules if r.name not in theirs]
    needed = {r.name for r in reachable(allowed, {n.op for n in start.apart.nodes})}
    allowed = [r for r in allowed if r.kind == "group" or r.name in needed]
    stages = Stages(allowed, limits, setup.fusing)
    first = stages.whole if single or setup.method != "exact" else stages.first
    asked = first.start(start.apart, limits)
    estimate = setup.model.estimate
    with exploring(start.apart, table, allowed, limits, progress.exploring, estimate, asked) as worker:
        yield Beginning(start, stages, worker)
