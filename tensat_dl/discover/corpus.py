"""What rules save on models: at each place where a rule applies, the estimated cost of what it replaces, less that of
what it builds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tensat_dl import resources
from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.core.rule import RewriteRule, Side
from tensat_dl.cost.model import CostModel
from tensat_dl.lang.named_sizes import graph_of
from tensat_dl.lang.program import load_program
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.classes import EGraphTerms, fact, graph_terms
from tensat_dl.rewrite.matcher import Match, Pattern
from tensat_dl.rewrite.variants import concrete

#: The bundled models that are looked at: one of each kind, none of them slow to read.
MODELS = ("bert", "nasrnn", "squeezenet", "resnext50", "mobilenet_v2", "bert_encoder", "gpt_block")


def corpus() -> list[Graph]:
    """The graphs of these models."""
    programs = [load_program(str(resources.examples() / f"{name}.tsr")) for name in MODELS]
    return [graph_of(item, p.ops, p.blocks) for p in programs for item in p.graphs.values()]


class Corpus:
    """Graphs in which rules are looked for."""

    def __init__(self, graphs: Sequence[Graph], costs: CostModel) -> None:
        self._costs = costs
        self._infer = Inference(costs.table)
        self._terms = [graph_terms(g, costs.table) for g in graphs]

    def saving(self, rule: RewriteRule) -> float:
        """Milliseconds that a rule saves, each place by itself; places where it would lose do not count."""
        pattern = Pattern(rule, self._costs.table)
        return sum(
            max(0.0, self._saved(rule, terms, match))
            for terms in self._terms
            for match in pattern.matches(terms)
        )

    def _saved(self, rule: RewriteRule, terms: EGraphTerms, match: Match) -> float:
        types = {name: t for name, c in match.tensors.items() if (t := terms.type_of(c)) is not None}
        known = partial(_known, terms, match)
        built = concrete(rule, self._infer, types, match.attrs, known)
        if built is None or built.guards:
            return 0.0
        made = {name: TensorType(str(t.dtype), tuple(t.shape)) for name, t in built.types.items()}  # type: ignore[arg-type]
        source = [dict(terms.attrs[match.nodes[n.result]]) for n in rule.source.nodes]
        weights = {name for name, c in match.tensors.items() if c in terms.weights}
        kept = {name for name, c in match.tensors.items() if len([*terms.users_of(c)]) > 1} - set(
            rule.source.outputs
        )
        before = _cost(rule.source, source, types, weights | kept, self._costs)
        return before - _cost(rule.target, built.target_attrs, made, weights, self._costs)


def _known(terms: EGraphTerms, match: Match, function: str, tensor: str) -> object:
    return fact(terms, function, match.tensors[tensor])


def _cost(
    side: Side, attrs: Sequence[object], types: dict[str, TensorType], free: set[str], costs: CostModel
) -> float:
    """The cost of a side's operators, without those that are computed from weights or stay for other uses."""
    free = set(free)
    total = 0.0
    for node, given in zip(side.nodes, attrs, strict=True):
        if node.args and free.issuperset(node.args):
            free.add(node.result)
        if node.result not in free:
            ordered = costs.table[node.op].ordered(dict(given))  # type: ignore[call-overload]
            total += costs.estimate(node.op, ordered, tuple(types[a] for a in node.args), types[node.result])
    return total
