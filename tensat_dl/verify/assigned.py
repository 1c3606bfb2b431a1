"""Assignments of ranks and axes to a rule's variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensat_dl.core.rule import RewriteRule
from tensat_dl.rewrite.source import Variant


@dataclass(frozen=True, slots=True)
class Assigned:
    """The ranks of tensor variables and the values of axes, by name."""

    ranks: tuple[tuple[str, int], ...]
    axes: tuple[tuple[str, int], ...]

    @staticmethod
    def of(ranks: Mapping[str, int], axes: Mapping[str, int]) -> Assigned:
        return Assigned(tuple(ranks.items()), tuple(sorted(axes.items())))

    @staticmethod
    def by(variant: Variant, rule: RewriteRule) -> Assigned:
        """The assignment that a variant of a rule is about."""
        ranks = {x: len(variant.types[x].shape) for x in rule.tensor_variables()}
        axes = {k: n for k, n in variant.chosen.items() if k not in ranks and variant.env.get(k) == n}
        return Assigned.of(ranks, axes)

    def __str__(self) -> str:
        """As in ``x of rank 6, k = 5``; "" of no variables."""
        return ", ".join(
            [*(f"{x} of rank {n}" for x, n in self.ranks), *(f"{k} = {n}" for k, n in self.axes)]
        )
