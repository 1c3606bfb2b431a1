"""What there is to prove: rules at assignments of shapes and attributes that differ as much as can be."""

from __future__ import annotations

from itertools import combinations

from tensat_dl.core.rule import RewriteRule
from tensat_dl.core.types import TensorType
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.prove.types import Goal, Pair
from tensat_dl.verify.rules.sampling import MEMBERS, instances

#: How many assignments are drawn to choose from, for each number of members of a group; and how many draws in a row
#: may find no new one.
DRAWS = 24
PATIENCE = 60


def goal(rule: RewriteRule, infer: Inference, assignments: int) -> Goal:
    """A rule at up to so many assignments.

    Of groups all sizes are chosen, and otherwise what brings most of what the chosen ones do not show yet: a case
    that the rule is false for, or the axioms do not cover (grouped convolutions, batches), comes up if it was drawn.
    """
    draws = DRAWS * (len(MEMBERS) if rule.index is not None else 1)
    drawn = instances(rule, infer, max(draws, assignments), PATIENCE, high=0)
    pairs = [(instance.before, instance.after) for _, _, instance in drawn]
    left = {i: (_size(pair), _main_features(pair), _features(pair)) for i, pair in enumerate(pairs)}
    chosen: list[int] = []
    shown: set[object] = set()
    while left and len(chosen) < assignments:
        best = max(left, key=lambda i: (*(len(features - shown) for features in left[i]), -i))
        shown |= frozenset().union(*left.pop(best))
        chosen.append(best)
    return Goal(rule.name, rule.declared, tuple(pairs[i] for i in chosen))


def _size(pair: Pair) -> frozenset[object]:
    """How many tensors there are, which differs between groups only."""
    return frozenset({sum(len(graph.nodes) for graph in pair)})


def _main_features(pair: Pair) -> frozenset[object]:
    """What most often tells cases of a rule apart: ranks and element types, on which axes tensors are equally long
    (of a convolution in groups the channels of the kernel are not the input's), and how attributes compare with zero
    and one."""
    leaves = _leaves(pair)
    found: set[object] = {(name, what) for name, t in leaves.items() for what in (t.rank, t.dtype)}
    for (a, s), (b, t) in combinations(leaves.items(), 2):
        found |= {(a, b, axis, m == n) for axis, (m, n) in enumerate(zip(s.shape, t.shape, strict=False))}
    for k, node in enumerate(pair[0].nodes):
        if node.op not in ("input", "weight"):
            found |= {(k, name, _kind(value)) for name, value in node.attrs}
    return frozenset(found)


def _features(pair: Pair) -> frozenset[object]:
    """What else sets an assignment apart: which dimensions are 1, and which are equal to which."""
    dims = [(name, axis, size) for name, t in _leaves(pair).items() for axis, size in enumerate(t.shape)]
    found: set[object] = {(name, axis, size == 1) for name, axis, size in dims}
    return frozenset(found | {(a, i, b, j, m == n) for (a, i, m), (b, j, n) in combinations(dims, 2)})


def _leaves(pair: Pair) -> dict[str, TensorType]:
    return {n.name: n.type for graph in pair for n in graph.nodes if n.op in ("input", "weight")}


def _kind(value: object) -> object:
    """A value of an attribute, as far as it matters."""
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return min(value, 2) if isinstance(value, int) else value
