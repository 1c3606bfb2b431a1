"""Rules that no execution can check: rules about operators known by their types alone, and rules of which sampling
finds no instance.

``relu(f(x)) => f(x)`` may be true, if f is never negative, and ``f(f(x)) => f(x)`` too: both are laws of f, and
assumed. ``relu(f(x) + y) => relu(f(x)) + relu(y)`` is false, whatever f computes: it applies f to the same tensors on
both sides, and for no kind of results does it hold for all y.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensat_dl.core.expression import facts_of, names_of
from tensat_dl.core.graph import Graph, Node, needed
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Iteration
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Equivalence
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.draws import WHOLE, exact_values, leaves
from tensat_dl.verify.exact.operators import evaluate
from tensat_dl.verify.exact.rational import RANGE, Rational
from tensat_dl.verify.execute import outputs
from tensat_dl.verify.keyed import digest, generator
from tensat_dl.verify.rules.verdict import Verdict

#: The reason in a verdict on a rule that was applied, and so has an instance.
UNSAMPLED = (
    "sampling found no instance of it; where it was applied, the comparison of the two graphs is the evidence"
)
#: Kinds of results of an opaque operator, as ranges of whole numbers: anything, positive, negative, 0 or 1.
RESULTS = ((-RANGE, RANGE), (1, RANGE), (-RANGE, 0), (0, 2))
#: In float64 they are no larger than this; results that differ by less than this, or by this share, are equal.
MODERATE = 4
TOLERANCE = 1e-9
#: On how many sets of values the sides are compared for each of these.
DRAWS = 3


def opaque_operators(rule: RewriteRule, ops: OpTable) -> tuple[str, ...]:
    """The operators of a rule of which only the types are known."""
    return tuple(dict.fromkeys(n.op for n in rule.nodes if ops[n.op].opaque))


def with_results_given(rule: RewriteRule, ops: OpTable) -> RewriteRule | None:
    """A rule with variables in place of the results of opaque operators whose ``value`` its conditions ask for: any
    number may be such a result. None if there are none, or if the rule needs their operators elsewhere."""
    asked = {
        n.id
        for c in rule.conditions
        for f in facts_of(c)
        if f.function == "value"
        for n in names_of(f.tensor)
    }
    given = [n for n in rule.source.nodes if n.result in asked and ops[n.op].opaque and not n.attrs]
    left = [n for n in rule.source.nodes if n not in given]
    if not given or not left or rule.index is not None:
        return None
    bound = {name for n in left for name in (n.result, *n.args)}
    lost = {a for n in given for a in n.args} - bound
    expressions = [*rule.conditions, *(e for _, e in rule.target.lets)]
    expressions += [a.value for n in (*left, *rule.target.nodes) for a in n.attrs]
    used = {n.id for e in expressions for n in names_of(e)} | {a for n in rule.target.nodes for a in n.args}
    elsewhere = {n.op for n in given} & {n.op for n in (*left, *rule.target.nodes)}
    if lost & used or elsewhere or not {n.result for n in given}.isdisjoint(rule.source.outputs):
        return None
    return replace(rule, source=replace(rule.source, nodes=tuple(left)))


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
    except (OutOfReach, ValueError):  # functions such as exp have no exact values
        try:
            found = [_different_floats(graphs, ops, (seed, k), results) for k, results in enumerate(RESULTS)]
        except ValueError:
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


def _different_floats(
    graphs: tuple[Graph, Graph], ops: OpTable, key: object, results: tuple[int, int]
) -> tuple[set[str], bool]:
    """As `_different`, in float64. What is not finite in either graph is no difference. Raises ValueError if a graph
    can't be computed."""
    semantics = semantics_of(ops)
    least, most = (
        max(results[0], -MODERATE),
        min(results[1], MODERATE + 1),
    )  # exp has values of the others, too
    different: set[str] = set()
    alike = True
    types = leaves(graphs)
    for k, numbers in enumerate(WHOLE[:DRAWS]):
        drawn = exact_values(types, numbers, key, k)
        values = {name: x.astype(float) if x.dtype == object else x for name, x in drawn.items()}
        sides = [_in_floats(graph, values, semantics, (key, k), (least, most)) for graph in graphs]
        alike = alike and sides[0][1] == sides[1][1]
        for (name, _), x, y in zip(graphs[0].outputs, sides[0][0], sides[1][0], strict=True):
            p, q = (np.asarray(side, np.float64) for side in (x, y))
            finite = np.isfinite(p) & np.isfinite(q)
            if not np.allclose(p[finite], q[finite], TOLERANCE, TOLERANCE):
                different.add(name)
    return different, alike


def _in_floats(
    graph: Graph,
    values: Mapping[str, Array],
    semantics: Mapping[str, Semantics],
    key: object,
    results: tuple[int, int],
) -> tuple[list[Array], set[object]]:
    """The outputs of a graph, and its applications of opaque operators, whose results are random."""
    calls: set[object] = set()

    def apply(node: Node, operands: Sequence[Array]) -> tuple[Array, ...]:
        function = semantics.get(node.op)
        if function is not None:
            return (function(*operands, **dict(node.attrs)),)
        call = node.op, tuple(sorted(node.attrs)), tuple(map(digest, operands))
        calls.add(call)
        drawn = (generator(key, *call, i).integers(*results, t.shape) for i, t in enumerate(node.types))
        return tuple(
            np.asarray(x).astype(computed_in(t.dtype)) for x, t in zip(drawn, node.types, strict=True)
        )

    with np.errstate(all="ignore"):
        return outputs(graph, values, apply), calls


def _taken(graph: Graph) -> set[str]:
    """The inputs and weights that go into an opaque operator."""
    operands = (j for n in graph.nodes if n.op in graph.opaque for j in n.inputs)
    return {str(graph.nodes[i].name) for i in needed(graph.nodes, operands)}
