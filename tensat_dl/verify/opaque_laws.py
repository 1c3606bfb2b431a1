"""Rules that no execution can check: rules about operators known by their types alone, and rules of which sampling
finds no instance.

``relu(f(x)) => f(x)`` may be true, if f is never negative, and ``f(f(x)) => f(x)`` too: both are laws of f, and
assumed. ``relu(f(x) + y) => relu(f(x)) + relu(y)`` is false, whatever f computes: it applies f to the same tensors on
both sides, and for no kind of results does it hold for all y.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tensat_dl.core.graph import Graph, needed
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Iteration
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Equivalence
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.draws import WHOLE, exact_values, leaves
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.exact.rational import RANGE, Rational
from tensat_dl.verify.rules.verdict import Verdict

#: The reason in a verdict on a rule that was applied, and so has an instance.
UNSAMPLED = (
    "sampling found no instance of it; where it was applied, the comparison of the two graphs is the evidence"
)
#: Kinds of results of an opaque operator, as ranges of whole numbers: anything, positive, negative, 0 or 1.
RESULTS = ((-RANGE, RANGE), (1, RANGE), (-RANGE, 0), (0, 2))
#: On how many sets of values the sides are compared for each of these.
DRAWS = 3


def opaque_operators(rule: RewriteRule, ops: OpTable) -> tuple[str, ...]:
    """The operators of a rule of which only the types are known."""
    return tuple(dict.fromkeys(n.op for n in rule.nodes if ops[n.op].opaque))


def assumed(rules: Iterable[RewriteRule], ops: OpTable) -> dict[str, tuple[str, ...]]:
    """The rules that say something about opaque operators, each with these operators.

    A rule with the same applications on both sides says something, too: its other nodes decide the operands of the
    applications.
    """
    found = {rule.name: opaque_operators(rule, ops) for rule in rules}
    return {name: opaque for name, opaque in found.items() if opaque}


def rules_applied(rules: Iterable[RewriteRule], iterations: Sequence[Iteration]) -> list[RewriteRule]:
    """The rules on which an answer can rest: those that were applied to anything, in order.

    It may have none of their nodes and rest on them nevertheless, as they make e-classes equal.
    """
    names = _applied(iterations)
    return [rule for rule in rules if rule.name in names]


def unsampled(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts on rules that were applied. A rule without a sampled instance is not vacuous then: the place where
    it was applied is an instance, and is compared as a part of the whole graph."""
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


def false_whatever(before: Graph, after: Graph, ops: OpTable, seed: int) -> bool:
    """Whether two graphs differ for every possible opaque operator: in an output that depends on none of them; or for
    all kinds of their results, where both graphs apply them to the same tensors and some input goes into none of
    them."""
    graphs = before, after
    try:
        found = [_different(graphs, ops, (seed, k), results) for k, results in enumerate(RESULTS)]
    except (OutOfReach, ValueError):
        return False
    clear = {name for name, _ in before.outputs}.difference(*(_outputs_of(g, g.opaque) for g in graphs))
    if any(outputs & clear for outputs, _ in found):
        return True
    free = set(leaves(graphs)).difference(*map(_taken, graphs))
    return bool(free) and all(alike and outputs for outputs, alike in found)


def _different(
    graphs: tuple[Graph, Graph], ops: OpTable, key: object, results: tuple[int, int]
) -> tuple[set[str], bool]:
    """The outputs that differ for some values, and whether opaque operators are applied to the same tensors in both
    graphs. Raises `OutOfReach` where other functions have stand-ins."""
    outputs: set[str] = set()
    alike = True
    types = leaves(graphs)
    for k, numbers in enumerate(WHOLE[:DRAWS]):
        values = exact_values(types, numbers, key, k)
        sides = [Rational((key, k), results) for _ in graphs]
        try:
            x, y = (evaluate(g, values, a, ops) for g, a in zip(graphs, sides, strict=True))
        except ArithmeticError:  # a divisor is zero, or a number is not one of i64
            continue
        if any(a.stand_ins - {op for op, *_ in a.calls} or a.rounded for a in sides):
            raise OutOfReach("functions have stand-ins")
        alike = alike and sides[0].calls == sides[1].calls
        outputs |= {
            name for (name, _), p, q in zip(graphs[0].outputs, x, y, strict=True) if bool((p != q).any())
        }
    return outputs, alike


def _taken(graph: Graph) -> set[str]:
    """The inputs and weights that go into an opaque operator."""
    operands = (j for n in graph.nodes if n.op in graph.opaque for j in n.inputs)
    return {str(graph.nodes[i].name) for i in needed(graph.nodes, operands)}
