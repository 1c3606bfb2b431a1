"""The effect of a match on e-classes, and whether it would close a cycle of them.

E-classes are given by their handles. An e-class reaches another if one of its e-nodes has it as a child, directly
or through others. A match unites each matched output s with what the target computes for it. If that is an
operator, s comes to depend on the target's leaves: the e-classes that the target takes from the source. The match
closes a cycle if a leaf reaches s, or, with several outputs, if leaves and outputs reach one another in a ring.

If the target for s is another e-class t of the source, the match is skipped if t reaches s. The opposite, s
reaches t, is how every simplification looks, such as transpose(transpose(x)) to x. These are let through, although
the longer form makes an e-class depend on itself: the post-filter drops that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.targets import Additions

Tensor = TypeVar("Tensor", str, int)
Vertex = TypeVar("Vertex", int, frozenset[int])

#: E-classes and those that their e-nodes have as children.
ClassGraph = Mapping[int, Iterable[int]]


@dataclass(frozen=True, slots=True)
class OutputEffect:
    """The effect of a match on one matched output. With ``same`` it is united with that e-class of the source, else
    it gets an e-node that depends on ``leaves``."""

    source: int
    leaves: frozenset[int] = frozenset()
    same: int | None = None


#: From an e-class to the goals that it reaches or is, as bits.
Reached = Callable[[int], int]


class Checker(Protocol):
    """The knowledge of a mode about the e-graph while an iteration's matches are filtered."""

    def find(self, c: int) -> int:
        """The e-class that ``c`` has become part of."""
        ...

    def reach(self, goals: tuple[int, ...]) -> Reached:
        """A look-up of which ``goals`` (bit k for goal k) an e-class reaches."""
        ...

    def accept(self, outputs: Iterable[OutputEffect]) -> None:
        """A match is going to be applied."""
        ...


def closes_cycle(outputs: tuple[OutputEffect, ...], checker: Checker) -> bool:
    """Whether a match would close a cycle, as far as the checker knows the e-graph."""
    if len(outputs) == 1:
        (only,) = outputs
        reached = checker.reach((only.source,))
        if only.same is not None:
            return checker.find(only.same) != checker.find(only.source) and bool(reached(only.same))
        return any(map(reached, only.leaves))
    find = checker.find
    outputs = tuple(
        OutputEffect(find(o.source), o.leaves, None if o.same is None else find(o.same)) for o in outputs
    )
    united = _united(outputs)
    goals = tuple(dict.fromkeys(c for o in outputs for c in united[o.source]))
    reached = checker.reach(goals)
    bit = {c: 1 << k for k, c in enumerate(goals)}
    # Each set of e-classes that become one is a vertex. It is left through a target's leaf or, if it has several
    # members, through any member, and entered at any member.
    entry = {united[o.source]: sum(bit[c] for c in united[o.source]) for o in outputs}
    exits = dict.fromkeys(entry, 0)
    for o in outputs:
        own = united[o.source]
        through_leaves = 0
        for leaf in o.leaves:
            through_leaves |= reached(leaf)
        if through_leaves & entry[own]:
            return True
        if o.same is not None and o.same != o.source and reached(o.same) & bit[o.source]:
            return True
        exits[own] |= through_leaves
        if len(own) > 1:
            for c in own:
                exits[own] |= reached(c)
    return has_cycle({v: [w for w in entry if w != v and exits[v] & entry[w]] for v in entry})


def _united(outputs: Iterable[OutputEffect]) -> dict[int, frozenset[int]]:
    """For each e-class that is an output or equal to one: the e-classes that a match unites with it."""
    sets: dict[int, frozenset[int]] = {}
    for o in outputs:
        pair = (o.source,) if o.same is None else (o.source, o.same)
        merged = frozenset(pair).union(*(sets.get(c, frozenset()) for c in pair))
        for c in merged:
            sets[c] = merged
    return sets


def children_first(graph: Mapping[Vertex, Iterable[Vertex]]) -> list[Vertex]:
    """Every vertex after those that it depends on. Raises ValueError if there is a cycle."""
    out: list[Vertex] = []
    state: dict[Vertex, bool] = {}  # False: begun, True: done
    for start in graph:
        if start in state:
            continue
        state[start] = False
        stack = [(start, iter(graph[start]))]
        while stack:
            c, rest = stack[-1]
            for d in rest:
                known = state.get(d)
                if known is None:
                    state[d] = False
                    stack.append((d, iter(graph.get(d, ()))))
                    break
                if not known:
                    raise ValueError("the e-graph has a cycle")
            else:
                stack.pop()
                state[c] = True
                out.append(c)
    return out


def has_cycle(graph: Mapping[Vertex, Iterable[Vertex]]) -> bool:
    try:
        children_first(graph)
    except ValueError:
        return True
    return False


# ---- effects of matches -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a rule, by positions in its matches: for each matched output, the output itself, the leaves of
    its target, and the tensor of the source with which it is united, if any."""

    outputs: tuple[tuple[int, tuple[int, ...], int | None], ...]

    def on(self, match: Sequence[int]) -> tuple[OutputEffect, ...]:
        """The effect on these e-classes."""
        return tuple(
            OutputEffect(
                match[own], frozenset([match[i] for i in leaves]), None if same is None else match[same]
            )
            for own, leaves, same in self.outputs
        )


def effect(rule: RewriteRule, tensors: Sequence[str]) -> Effect:
    """The effect of a rule whose matches list ``tensors``."""
    steps = [(n.result, n.args) for n in rule.target.nodes]
    found = _effects(steps, list(zip(rule.source.outputs, rule.target.outputs, strict=True)))
    at = tensors.index
    return Effect(
        tuple(
            (at(s), tuple(map(at, sorted(leaves))), None if same is None else at(same))
            for s, leaves, same in found
        )
    )


def effect_of_facts(facts: Additions) -> tuple[OutputEffect, ...]:
    """The effect of loading the target of a group."""
    steps = [(handle, children) for handle, _, _, children, _ in facts.nodes]
    return tuple(OutputEffect(*o) for o in _effects(steps, facts.equal))


def _effects(
    steps: Iterable[tuple[Tensor, Sequence[Tensor]]], pairs: Sequence[tuple[Tensor, Tensor]]
) -> list[tuple[Tensor, frozenset[Tensor], Tensor | None]]:
    """For each output its leaves, or the tensor with which it is united. ``steps`` compute the target's tensors from
    others; ``pairs`` are the outputs of the source and of the target.

    A tensor that uses what is computed for another output depends on that output's e-class, whatever it is computed
    from. Two outputs for which one thing is computed become one e-class.
    """
    output_of = {t: s for s, t in pairs}
    built: dict[Tensor, frozenset[Tensor]] = {}
    for result, args in steps:
        leaves: set[Tensor] = set()
        for a in args:
            if a not in built:
                leaves.add(a)
            elif a in output_of:
                leaves.add(output_of[a])
            else:
                leaves |= built[a]
        built[result] = frozenset(leaves)
    out: list[tuple[Tensor, frozenset[Tensor], Tensor | None]] = []
    first: dict[Tensor, Tensor] = {}
    for s, t in pairs:
        if t in built and t not in first:
            first[t] = s
            out.append((s, built[t], None))
        else:
            out.append((s, frozenset(), first.get(t, t)))
    return out
