"""What ``tensat-dl bench paper`` measures: each measurement, the most important first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from tensat_dl.bench.common import ABLATION, Row

#: The seven models of the paper, and the one that it leaves out as nothing makes it faster.
PAPER = ("bert", "nasrnn", "resnext50", "nasnet_a", "inception_v3", "squeezenet", "vgg19", "resnet50")
#: The models of the quick form: the paper's largest speed-ups.
QUICK = ("nasrnn", "squeezenet")
#: The rules of all comparisons of searches: ours for single outputs, with the paper's multi-pattern rules.
RULES = "pairs"
#: Seconds that a process may take beyond its limits, to start, load and price.
BEYOND = 240.0
#: The same for profiling and timing on the CPU.
MEASURING = 900.0


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement: the function that makes it, and its arguments."""

    part: str
    function: str
    limit: float
    arguments: Row = field(default_factory=dict)

    @property
    def key(self) -> str:
        return json.dumps([self.part, self.arguments], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    models: tuple[str, ...]
    iterations: int
    runs: int
    time_limit: float
    device: str
    cpu: bool

    def cells(self) -> Iterator[Part]:
        """All measurements, the most important first."""
        for model in self.models:
            yield from self._searches(model)
        if self.cpu:
            for model in self.models:
                arguments = {"model": model, "pack": RULES, "iterations": self.iterations}
                yield self._cell("cpu", "paper_cell:on_cpu", arguments, limit=self.time_limit)
        for model in self.models:
            yield from self._ablation(model)

    def _cell(self, part: str, function: str, arguments: Row, **more: object) -> Part:
        beyond = MEASURING if part == "cpu" else BEYOND
        return Part(part, f"tensat_dl.bench.{function}", beyond + 12 * self.time_limit, {**arguments, **more})

    def _searches(self, model: str) -> Iterator[Part]:
        common = {"model": model, "device": self.device, "limit": self.time_limit}
        walks = {**common, "pack": RULES, "iterations": self.iterations}
        yield self._cell("ours", "paper_cell:ours", common, pack=RULES, k_multi=1)
        yield self._cell("ours", "paper_cell:ours", common, pack="groups", k_multi=1)
        for alpha in (1.0, 1.05):
            yield self._cell("baseline", "paper_cell:baseline", walks, search="backtracking", alpha=alpha)
        for seed in range(self.runs):
            yield self._cell("baseline", "paper_cell:baseline", walks, search="sampling", seed=seed)
        groups = {**walks, "pack": "groups"}
        yield self._cell("baseline", "paper_cell:baseline", groups, search="backtracking", alpha=1.0)

    def _ablation(self, model: str) -> Iterator[Part]:
        common = {
            "model": model,
            "device": self.device,
            "max_nodes": 50_000,
            "explore_seconds": self.time_limit,
            "extract_seconds": self.time_limit,
        }
        ours = {"model": model, "device": self.device, "limit": self.time_limit, "pack": RULES}
        yield self._cell("ours", "paper_cell:ours", ours, k_multi=2)
        for k in range(4):
            yield self._cell("k_multi", "cells:run", common, pack=RULES, k_multi=k)
        if model not in (*ABLATION, *QUICK):
            return
        for method in ("greedy", "ilp-none"):
            yield self._cell(
                "method", "cells:run", common, pack=RULES, k_multi=1, method=method, cycles="efficient"
            )
        for k in (1, 2):
            for method, cycles in (("ilp-real", "none"), ("ilp-int", "none"), ("ilp-none", "efficient")):
                yield self._cell(
                    "cycles", "cells:run", common, pack=RULES, k_multi=k, method=method, cycles=cycles
                )
            for cycles in ("vanilla", "efficient"):
                yield self._cell(
                    "filter", "cells:run", common, pack=RULES, k_multi=k, method="greedy", cycles=cycles
                )
