"""Rules that no execution can check: those about operators of which only the types are known, and those of which
sampling finds no instance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.iterations import Iteration
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Equivalence
from tensat_dl.verify.rules.verdict import Verdict

#: What stands for the verdict on a rule that was applied, and so has an instance.
UNSAMPLED = (
    "sampling found no instance of it; where it was applied, the comparison of the two graphs is the evidence"
)


def assumed(rules: Iterable[RewriteRule], ops: OpTable) -> dict[str, tuple[str, ...]]:
    """The rules that say something about opaque operators, each with these operators.

    A rule in which the same applications stand on both sides is one of them too: what is applied to what is
    decided by its other nodes.
    """
    found = {}
    for rule in rules:
        nodes = (*rule.source.nodes, *rule.target.nodes)
        opaque = tuple(dict.fromkeys(n.op for n in nodes if ops[n.op].opaque))
        if opaque:
            found[rule.name] = opaque
    return found


def rules_applied(rules: Iterable[RewriteRule], iterations: Sequence[Iteration]) -> list[RewriteRule]:
    """The rules on which an answer can rest: those that were applied to anything, in order.

    It may have none of their nodes and rest on them nevertheless, as they make e-classes equal.
    """
    names = _applied(iterations)
    return [rule for rule in rules if rule.name in names]


def unsampled(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on rules that were applied. Where sampling found no instance a rule is not vacuous: the place that
    it was applied to is one, and what rests on it is compared as a part of the whole graph."""
    return tuple(
        Verdict(v.rule, "assumed", reason=UNSAMPLED) if v.status == "vacuous" else v for v in verdicts
    )


def _applied(iterations: Sequence[Iteration]) -> set[str]:
    return {s.rule for step in iterations for s in step.rules if s.applied}


def on_trust(
    found: Equivalence,
    graphs: Sequence[Graph],
    iterations: Sequence[Iteration],
    rules_assumed: Mapping[str, Sequence[str]],
) -> Equivalence:
    """``found``, with "inconclusive" in place of "different" for outputs that rules about opaque operators reach.

    The surrogate of an opaque operator obeys none of the laws that such a rule states, so where the operator is
    computed from in either of the ``graphs``, a difference is to be expected. Other outputs keep their verdict.
    """
    trusted = {name: rules_assumed[name] for name in sorted(_applied(iterations) & rules_assumed.keys())}
    if found.status != "different" or not trusted or not found.outputs:
        return found
    operators = {op for opaque in trusted.values() for op in opaque}
    reached = {name for graph in graphs for name in _outputs_of(graph, operators)}
    outputs = tuple(
        replace(o, status="inconclusive") if o.status == "different" and o.name in reached else o
        for o in found.outputs
    )
    if any(o.status == "different" for o in outputs):
        return replace(found, outputs=outputs)
    names = ", ".join(f"{name} ({', '.join(opaque)})" for name, opaque in trusted.items())
    message = f"the result may rest on rules about operators whose values are not known: {names}"
    return replace(found, status="inconclusive", outputs=outputs, message=message)


def _outputs_of(graph: Graph, operators: Collection[str]) -> list[str]:
    """The outputs that one of these operators goes into."""
    reached: list[bool] = []
    for node in graph.nodes:
        reached.append(node.op in operators or any(reached[j] for j in node.inputs))
    return [name for name, i in graph.outputs if reached[i]]
