"""A graph and what its nodes cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

from tensat_dl.core.graph import Graph


@dataclass(frozen=True, slots=True)
class PricedGraph:
    """A graph with the cost of each node in milliseconds; ``measured`` tells which costs were measured.

    Nodes that are computed from weights alone cost nothing at run time; their results occupy ``weight_bytes``.
    """

    graph: Graph
    cost: tuple[float, ...]
    measured: tuple[bool, ...]
    weight_bytes: int

    @property
    def total(self) -> float:
        return fsum(self.cost)
