"""`CompiledRules`: what all explorations of a search share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tensat_dl.core.graph import Graph
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.egglog import Engine
from tensat_dl.engine.exploration import Estimate, Limits
from tensat_dl.engine.naming import Store
from tensat_dl.engine.program import EgglogProgram
from tensat_dl.engine.subsets import Prices
from tensat_dl.ops.table import OpTable
from tensat_dl.rewrite.variants import Checks


class CompiledRules:
    """Rules for a graph and for all graphs that they make of it: in an engine, and with what is known of their types
    and costs."""

    def __init__(
        self,
        graph: Graph,
        ops: OpTable,
        rules: Sequence[RewriteRule],
        limits: Limits,
        estimate: Estimate | None,
    ) -> None:
        self.store = Store(Engine(), EgglogProgram(ops, rules, graph, limits.cycles != "none"))
        self.checks = Checks(ops)
        self.prices = Prices(None if estimate is None else cache(estimate))
