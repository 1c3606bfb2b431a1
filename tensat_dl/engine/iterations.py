"""What happened in each iteration of an exploration, and why it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stop = Literal["saturated", "nodes", "iterations", "time", "memory", "interrupted"]


@dataclass(frozen=True, slots=True)
class RuleStats:
    """One rule in one iteration. ``note`` says what held it back, if anything did."""

    rule: str
    matches: int
    applied: int
    new_nodes: int
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Sizes of the e-graph after an iteration, and what each rule did in it."""

    nodes: int
    classes: int
    seconds: float
    rules: tuple[RuleStats, ...]
    skipped: int = 0  #: matches that were not applied because they would close a cycle
    filtered: int = 0  #: e-nodes on the filter list after the iteration
