"""Rules around operators of which only types are known: what such a rule says that no law of the operators excuses.

``relu(f(x)) => f(x)`` may be true, if f is never negative, and ``f(f(x)) => f(x)`` too: both are laws of f, and
assumed. ``relu(f(x) + y) => relu(f(x)) + relu(y)`` is false, whatever f computes: it applies f to the same tensors on
both sides, and for no kind of results does it hold for all y.
"""

from __future__ import annotations

from tensat_dl.core.graph import Graph
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.draws import WHOLE, exact_values, leaves
from tensat_dl.verify.exact.evaluate import evaluate
from tensat_dl.verify.exact.rational import RANGE, Rational
from tensat_dl.verify.rules.instance import Instance

#: What results of an opaque operator may be all, in ranges of whole numbers: anything, positive, negative, 0 or 1.
RESULTS = ((-RANGE, RANGE), (1, RANGE), (-RANGE, 0), (0, 2))
#: On how many sets of values the sides are compared for each of these.
DRAWS = 3


def false_whatever(instance: Instance, ops: OpTable, seed: int) -> bool:
    """Whether the sides of an instance differ, and no law of an opaque operator can make up for that: in an output
    that none goes into; or for all kinds of their results, where both sides apply them to the same tensors and some
    input goes into none of them."""
    graphs = instance.before, instance.after
    apart = [_apart(g, ops) for g in graphs]
    try:
        found = [_different(graphs, ops, (seed, k), results) for k, results in enumerate(RESULTS)]
    except (OutOfReach, ValueError):
        return False
    same = all(alike for _, alike in found)
    free = set(leaves(graphs)) - apart[0][1] - apart[1][1]
    clear = apart[0][0] & apart[1][0]
    if any(outputs & clear for outputs, _ in found):
        return True
    return same and bool(free) and all(outputs for outputs, _ in found)


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


def _apart(graph: Graph, ops: OpTable) -> tuple[set[str], set[str]]:
    """The outputs that no opaque operator goes into, and the inputs and weights that go into one."""
    opaque = [n.op in ops and ops[n.op].opaque for n in graph.nodes]
    reached: list[bool] = []
    for n, own in zip(graph.nodes, opaque, strict=True):
        reached.append(own or any(reached[j] for j in n.inputs))
    needed = [False] * len(graph.nodes)
    for i in range(len(graph.nodes) - 1, -1, -1):
        for j in graph.nodes[i].inputs:
            needed[j] |= opaque[i] or needed[i]
    names = {str(graph.nodes[i].attr("name")) for i in (*graph.inputs, *graph.weights) if needed[i]}
    return {name for name, i in graph.outputs if not reached[i]}, names
