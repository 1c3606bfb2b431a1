"""Goals of proofs: rules at assignments of shapes and attributes that differ as much as can be; and proofs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Stop
from tensat_dl.ops.typing import Inference
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.rules.numbers import sizes
from tensat_dl.verify.rules.sampling import instances

#: How many assignments are drawn to choose from, for each size of a group or list; and how many draws in a row may
#: find no new one.
DRAWS = 24
PATIENCE = 60
#: Both sides of a rule at concrete types and attributes: graphs of the same inputs, with as many outputs.
Pair = tuple[Graph, Graph]


@dataclass(frozen=True, slots=True)
class Goal:
    """A rule to be proved, at some assignments of shapes and attributes; none where no assignment meets its
    conditions. ``lengths`` are those of the lists of a list rule there."""

    rule: str
    declared: str  #: the name of the rule that this is a direction of
    pairs: tuple[Pair, ...]
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """The derivation of a rule: ``equal`` are the assignments, by position, at which both sides were found equal.

    If these are all, ``axioms`` are names of rules that do it, each of them needed at some assignment; empty if the
    search for them was cut short. Else ``stop`` says why the search for the first of the others ended.
    """

    goal: Goal
    equal: frozenset[int]
    axioms: tuple[str, ...]
    stop: Stop | None

    @property
    def derived(self) -> bool:
        return 0 < len(self.goal.pairs) == len(self.equal)

    @property
    def missed(self) -> Pair | None:
        """The first assignment at which the sides were not found equal."""
        return next((pair for i, pair in enumerate(self.goal.pairs) if i not in self.equal), None)


def goal(rule: RewriteRule, infer: Inference, assignments: int) -> Goal:
    """A rule at up to so many assignments.

    All sizes of groups and lists are chosen. The other assignments are chosen for features that the earlier ones
    lack, so that a drawn case for which the rule is false, or which the axioms do not cover (grouped convolutions,
    batches), is among them.
    """
    draws = DRAWS * max(1, len(sizes(rule)))
    drawn = [i for _, _, i in instances(rule, infer, max(draws, assignments), PATIENCE, high=0)]
    pairs = [(instance.before, instance.after) for instance in drawn]
    left = {i: (_size(pair), _main_features(pair), _features(pair)) for i, pair in enumerate(pairs)}
    chosen: list[int] = []
    shown: set[object] = set()
    while left and len(chosen) < assignments:
        best = max(left, key=lambda i: (*(len(features - shown) for features in left[i]), -i))
        shown |= frozenset().union(*left.pop(best))
        chosen.append(best)
    lengths = sorted({drawn[i].members for i in chosen}) if rule.takes_lists else ()
    return Goal(rule.name, rule.declared, tuple(pairs[i] for i in chosen), tuple(lengths))


def _size(pair: Pair) -> frozenset[object]:
    """The number of tensors, which differs between groups, and between lists, only."""
    return frozenset({sum(len(graph.nodes) for graph in pair)})


def _main_features(pair: Pair) -> frozenset[object]:
    """The features that most often tell cases of a rule apart: ranks and element types, the axes of equal length
    (of a convolution in groups the channels of the kernel are not the input's), and how attributes compare with zero
    and one."""
    types = leaves(pair)
    found: set[object] = {(name, what) for name, t in types.items() for what in (t.rank, t.dtype)}
    for (a, s), (b, t) in combinations(types.items(), 2):
        found |= {(a, b, axis, m == n) for axis, (m, n) in enumerate(zip(s.shape, t.shape, strict=False))}
    for k, node in enumerate(pair[0].nodes):
        if node.op not in ("input", "weight"):
            found |= {(k, name, _kind(value)) for name, value in node.attrs}
    return frozenset(found)


def _features(pair: Pair) -> frozenset[object]:
    """The features of dimensions that are 1, and of pairs of dimensions that are equal."""
    dims = [(name, axis, size) for name, t in leaves(pair).items() for axis, size in enumerate(t.shape)]
    found: set[object] = {(name, axis, size == 1) for name, axis, size in dims}
    return frozenset(found | {(a, i, b, j, m == n) for (a, i, m), (b, j, n) in combinations(dims, 2)})


def _kind(value: object) -> object:
    """The relevant part of an attribute's value."""
    if isinstance(value, tuple):
        return tuple(map(_kind, value))
    return min(value, 2) if isinstance(value, int) else value
