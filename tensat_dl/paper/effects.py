"""What applying a match does to e-classes, for the checks of cycle filtering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.targets import Additions
from tensat_dl.paper.cycles import OutputEffect
from tensat_dl.paper.postfilter import ENode

Tensor = TypeVar("Tensor", str, int)

#: E-nodes that rules may match, by operator, child e-classes and own e-class.
Live = frozenset[tuple[str, tuple[int, ...], int]]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a rule does, by positions in its matches: for each matched output itself, the leaves of what the target
    computes for it, and the tensor of the source that it becomes the same as, if it does."""

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
    """For each output its leaves, or what it becomes the same as. ``steps`` compute the target's tensors from
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


def live(enodes: Iterable[ENode]) -> Live:
    return frozenset((n.row.constructor.op, n.children, n.own) for n in enodes)


def is_live(rule: RewriteRule, tensors: Mapping[str, int], nodes: Live) -> bool:
    """Whether none of the e-nodes that a match is about went on the filter list since it was found.

    Attributes are not looked at: e-nodes of one e-class with the same children are on the same cycles.
    """
    return all(
        (n.op, tuple([tensors[a] for a in n.args]), tensors[n.result]) in nodes for n in rule.source.nodes
    )
