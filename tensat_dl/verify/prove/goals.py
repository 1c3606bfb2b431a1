"""What there is to prove: rules at assignments of shapes and attributes that differ as much as can be."""

from __future__ import annotations

from itertools import combinations

from tensat_dl.ir.rule import RewriteRule
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.prove.types import Goal, Pair
from tensat_dl.verify.rules.sampling import MEMBERS, Sampler

#: How many assignments are drawn to choose from, for each number of members of a group; and how many draws in a row
#: may find no new one.
DRAWS = 24
PATIENCE = 60


def goal(rule: RewriteRule, infer: Inference, assignments: int, seed: int = 0) -> Goal:
    """A rule at up to so many assignments.

    Of groups all sizes are chosen, and otherwise what brings most of what the chosen ones do not show yet: a case
    that the rule is false for, or the axioms do not cover (grouped convolutions, batches), comes up if it was drawn.
    """
    draws = DRAWS * (len(MEMBERS) if rule.index is not None else 1)
    drawn = Sampler(rule, infer, seed).several(max(draws, assignments), PATIENCE)
    pairs = [(instance.before, instance.after) for _, _, instance in drawn]
    left = {i: _features(pair) for i, pair in enumerate(pairs)}
    chosen: list[int] = []
    shown: set[object] = set()
    while left and len(chosen) < assignments:
        best = max(left, key=lambda i: (_size(pairs[i]) not in shown, len(left[i] - shown), -i))
        shown |= {_size(pairs[best]), *left.pop(best)}
        chosen.append(best)
    return Goal(rule.name, tuple(pairs[i] for i in chosen))


def _size(pair: Pair) -> int:
    """How many tensors there are, which differs between groups only."""
    return sum(len(graph.nodes) for graph in pair)


def _features(pair: Pair) -> frozenset[object]:
    """What sets an assignment apart: ranks and element types, which dimensions are 1, which are equal and which are
    not, and how attributes compare with zero and one."""
    found: set[object] = set()
    leaves = {n.name: n.type for graph in pair for n in graph.nodes if n.op in ("input", "weight")}
    dims: list[tuple[str, int, int]] = []
    for name, t in leaves.items():
        found |= {(name, "rank", t.rank), (name, t.dtype)}
        dims += [(name, axis, size) for axis, size in enumerate(t.shape)]
    found |= {(name, axis, size == 1) for name, axis, size in dims}
    found |= {(a, i, b, j, m == n) for (a, i, m), (b, j, n) in combinations(dims, 2)}
    for k, node in enumerate(pair[0].nodes):
        if node.op not in ("input", "weight"):
            found |= {(k, name, _kind(value)) for name, value in node.attrs}
    return frozenset(found)


def _kind(value: object) -> object:
    """A value of an attribute, as far as it matters."""
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return min(value, 2) if isinstance(value, int) else value
