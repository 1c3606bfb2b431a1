"""tensat-dl: a superoptimizer for tensor graphs.

>>> import tensat_dl
>>> model = tensat_dl.load("examples/tiny_share_input.tsr")
>>> result = tensat_dl.optimize(model)
>>> result.after.total <= result.before.total
True

Everything heavy is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# The function `extract` below has the name of a package. Loading a package binds its name here, but only the first
# time, so that happens before the function is defined.
import tensat_dl.extract  # noqa: F401

if TYPE_CHECKING:
    from tensat_dl.explore.types import Cycles
    from tensat_dl.extract.types import Extraction
    from tensat_dl.extract.types import Limits as ExtractLimits
    from tensat_dl.ir.egraph import EGraph
    from tensat_dl.ir.graph import Graph
    from tensat_dl.ir.rule import RewriteRule
    from tensat_dl.ops.table import OpTable
    from tensat_dl.result import Result
    from tensat_dl.verify.rules import Verdict

__all__ = ["Model", "extract", "load", "optimize", "verify_rules"]


@dataclass(frozen=True)
class Model:
    """A typed graph, the operators it may use and the rewrite rules that may be applied to it."""

    graph: Graph
    ops: OpTable
    rules: tuple[RewriteRule, ...]


def load(path: str, graph: str | None = None, rules: Sequence[str] = ()) -> Model:
    """The graph of a .tsr file (``graph`` names it if there are several) with the rules that it imports, and
    those of further packs or files ``rules``. Raises `tensat_dl.lang.diagnostics.TsrError`."""
    from tensat_dl.lang.diagnostics import Diagnostic, TsrError
    from tensat_dl.lang.elaborate import elaborate
    from tensat_dl.lang.program import load_program

    program = load_program(path, tuple(rules))
    name = graph if graph is not None else next(iter(program.graphs), None)
    if name not in program.graphs or (graph is None and len(program.graphs) > 1):
        known = ", ".join(program.graphs) or "none"
        message = f"no graph `{graph}`" if graph is not None else "name one graph of this file"
        raise TsrError([Diagnostic(message, None, f"its graphs: {known}", path=path)])
    typed = elaborate(program.graphs[name], program.ops, program.blocks)
    return Model(typed, program.ops, program.rules)


def optimize(
    graph: Model,
    rules: Sequence[RewriteRule] | None = None,
    *,
    device: str = "h100",
    k_multi: int | None = 1,
    max_nodes: int = 50_000,
    max_iters: int = 15,
    time_limit: float | None = None,
    max_memory: int | None = None,
    cycles: Cycles = "none",
    extract: str = "exact",
    extract_time_limit: float | None = None,
    verify: bool = True,
    seed: int = 0,
) -> Result:
    """The cheapest equivalent graph found (``result.after.graph``) and how it was found.

    ``rules`` replace those that the model came with. The other options are those of ``tensat-dl run``: limits in
    seconds and MiB. Compare ``result.equivalence.status`` with "equivalent" before you use the graph.
    """
    from tensat_dl.explore.types import CYCLES, Limits
    from tensat_dl.extract.types import Limits as ExtractLimits
    from tensat_dl.pipeline import Options
    from tensat_dl.pipeline import optimize as run

    if not isinstance(graph, Model):
        raise TypeError(f"optimize() takes what load() returned, not {type(graph).__name__}")
    if any(isinstance(r, str) for r in rules or ()):
        raise TypeError(
            "rules are RewriteRules; packs are named when a graph is loaded: load(path, rules=[..])"
        )
    if cycles not in CYCLES:
        raise ValueError(f"unknown cycle filtering {cycles!r}: use one of {', '.join(CYCLES)}")
    memory = None if max_memory is None else max_memory * 1024 * 1024
    options = Options(
        device,
        Limits(max_nodes, max_iters, k_multi, time_limit, memory, cycles),
        extract,
        ExtractLimits(seconds=extract_time_limit),
        verify,
        seed,
    )
    chosen = graph.rules if rules is None else rules
    return run(graph.graph, graph.ops, chosen, options)[0]


def extract(egraph: EGraph, method: str = "exact", limits: ExtractLimits | None = None) -> Extraction:
    """The cheapest acyclic choice of e-nodes of a priced e-graph. Raises `ExtractionError`."""
    from tensat_dl.extract.api import extract as run

    return run(egraph, method, limits)


def verify_rules(model: Model, rules: Sequence[RewriteRule] | None = None) -> tuple[Verdict, ...]:
    """What is known of the truth of a model's rules, or of some of them, in order; see docs/verification.md."""
    from tensat_dl.verify.rules import verify_rules as run

    return run(model.rules if rules is None else rules, model.ops)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tensat-dl")
    raise AttributeError(f"module 'tensat_dl' has no attribute {name!r}")
