"""tensat-dl: a superoptimizer for tensor graphs.

>>> import tensat_dl
>>> model = tensat_dl.load("examples/tiny_share_input.tsr")
>>> result = tensat_dl.optimize(model)
>>> result.after.total <= result.before.total
True

Large packages are imported at first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

# The function `extract` below has the name of a package. Loading a package binds its name here, but only the first
# time, so that happens before the function is defined.
import tensat_dl.extract  # noqa: F401

if TYPE_CHECKING:
    from tensat_dl.core.egraph import EGraph
    from tensat_dl.core.graph import Graph
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.engine.exploration import Cycles
    from tensat_dl.extract.budget import ExtractLimits
    from tensat_dl.extract.extraction import Extraction
    from tensat_dl.onnx.importer import Imported
    from tensat_dl.ops.table import OpTable
    from tensat_dl.run.options import Trust
    from tensat_dl.run.result import Result
    from tensat_dl.verify.rules.verdict import Verdict

__all__ = ["Mismatch", "Model", "extract", "load", "optimize", "save", "verify_rules"]


class Mismatch(Exception):
    """The outputs of an optimized model differ from the original's."""


@dataclass(frozen=True)
class Model:
    """A typed graph, its operators and its rewrite rules; and the ONNX model that it was read from, if any."""

    graph: Graph
    ops: OpTable
    rules: tuple[RewriteRule, ...]
    onnx: Imported | None = None


def load(
    path: str | PathLike[str],
    graph: str | None = None,
    rules: Sequence[str | PathLike[str]] = (),
    *,
    dims: Mapping[str, int] | None = None,
    inputs: str | PathLike[str] | None = None,
) -> Model:
    """Reads a .tsr or .onnx file. Raises `tensat_dl.core.diagnostics.TsrError`, and ValueError for an argument that
    does not apply to the kind of file.

    A .tsr file has the rules that it imports, and those of the packs or files ``rules``; ``graph`` names one of
    several graphs. An .onnx file has the rules of ``rules``, by default of the pack `inference`. ``dims`` has the
    sizes of its open dimensions. ``inputs`` is an .npz file of arrays on which models are compared and timed.
    """
    if isinstance(rules, str):
        raise TypeError(f"rules is a list of packs: rules=[{rules!r}]")
    path, packs = fspath(path), tuple(fspath(rule) for rule in rules)
    if path.lower().endswith(".onnx"):
        if graph is not None:
            raise ValueError("graph chooses among the graphs of a .tsr file; an ONNX model has one")
        from tensat_dl.onnx import PACK, need_onnx

        need_onnx(path)
        from tensat_dl.onnx.importer import import_model

        given = None if inputs is None else fspath(inputs)
        model = import_model(path, dims or {}, packs or (PACK,), given)
        return Model(model.graph, model.program.ops, model.program.rules, model)
    if dims or inputs is not None:
        raise ValueError(
            "dims and inputs are for ONNX models: in .tsr files all sizes are known, and no weights"
        )
    from tensat_dl.core.diagnostics import Diagnostic, TsrError
    from tensat_dl.lang.elaborate import elaborate
    from tensat_dl.lang.program import load_program

    program = load_program(path, packs)
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
    device: str | None = None,
    measure: bool | None = None,
    threads: int = 1,
    k_multi: int | None = 1,
    max_nodes: int = 50_000,
    max_iters: int = 15,
    time_limit: float | None = None,
    max_memory: int | None = None,
    cycles: Cycles = "none",
    reassociate: bool = True,
    trust: Trust = "tested",
    fuse: bool = False,
    extract: str = "exact",
    extract_time_limit: float | None = None,
    verify: bool = True,
    seed: int = 0,
) -> Result:
    """The cheapest equivalent graph found (``result.after.graph``) and how it was found.

    Compare ``result.equivalence.status`` with "equivalent" before you use the graph. ``result.measured`` has the
    timings of whole graphs, if any; `save` writes the graph.

    Args:
        graph: What `load` returned.
        rules: These replace the rules that the model came with. Default: the model's.
        device: Minimise latency on this device; cuda: this machine's GPU. Default: None, h100; cpu for .onnx.
        measure: Measure operators and candidates on this machine (device cpu or cuda); keep a graph only if it
            is faster. Default: None, for .onnx.
        threads: Threads of the device cpu. At least 1. Default: 1.
        k_multi: Iterations in which multi-pattern rules are applied. At least 0; None: unlimited. Default: 1.
        max_nodes: Stop growing the e-graph at this many e-nodes. At least 1. Default: 50000.
        max_iters: Stop exploring after this many iterations. At least 0. Default: 15.
        time_limit: Stop exploring after so many seconds. At least 0. Default: None.
        max_memory: Stop exploring at this resident memory. In MiB. At least 1. Default: None.
        cycles: Filter cycles out of the e-graph, as ilp-none requires, with one of three checks of matches. One of
            none, vanilla, efficient, incremental. Default: 'none'.
        reassociate: If False: Leave out rules that change how results are rounded, as far as their tests show.
            Default: True.
        trust: Use the rules alone that are proved for all sizes. One of tested, proved. Default: 'tested'.
        fuse: Chains of elementwise operators may become operators with one kernel. Default: False.
        extract: Extraction method. One of exact, ilp-real, ilp-int, ilp-none, greedy, greedy-dag. Default: 'exact'.
        extract_time_limit: Stop extracting after so many seconds. At least 0. Default: None.
        verify: If False: Do not verify the applied rules and the optimized graph. Default: True.
        seed: Seed of verification. At least 0. Default: 0.

    Raises:
        TypeError: ``graph`` is no `Model`, or ``rules`` are names.
        ValueError: an argument is out of range, two rules have the same name, the device is unknown, ``fuse`` is set
            for the CPU, ``trust`` is "proved" and z3 is not installed, or ``extract`` is "ilp-none" and the e-graph
            has cycles (`CyclicEGraphError`).
        TsrError: the package `onnx` is needed to measure on the CPU, and is not installed.
        GpuError: ``device`` is cuda, or ``measure`` is set for a GPU, and this machine has no such GPU.
        ProfileError: the file of the device's measured prices cannot be read.
        RuleAlarm: the rules make two tensors of different types equal.
        ExplorationError: the process that explores has ended early.
    """
    from tensat_dl.run.options import Options, unfit_of
    from tensat_dl.run.pipeline import optimize as run

    chosen = _rules_for(graph, rules)
    options = Options(
        device=device,
        measure=measure,
        threads=threads,
        k_multi=k_multi,
        max_nodes=max_nodes,
        max_iters=max_iters,
        time_limit=time_limit,
        max_memory=max_memory,
        cycles=cycles,
        reassociate=reassociate,
        trust=trust,
        fuse=fuse,
        extract=extract,
        extract_time_limit=extract_time_limit,
        verify=verify,
        seed=seed,
    ).aimed(graph.onnx is not None)
    machine = options.machine(graph.graph, graph.ops, graph.onnx)
    return run(graph.graph, graph.ops, chosen, options, machine=machine, unfit=unfit_of(graph.onnx))[0]


def _rules_for(graph: Model, rules: Sequence[RewriteRule] | None) -> tuple[RewriteRule, ...]:
    """The rules that `optimize` applies. Raises TypeError, ValueError."""
    if not isinstance(graph, Model):
        raise TypeError(f"optimize() takes what load() returned, not {type(graph).__name__}")
    if any(isinstance(r, str) for r in rules or ()):
        raise TypeError(
            "rules are RewriteRules; packs are named when a graph is loaded: load(path, rules=[..])"
        )
    chosen = tuple(graph.rules if rules is None else rules)
    names = [r.name for r in chosen]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two rules have one name: {', '.join(twice)}")
    return chosen


def save(model: Model, result: Result, path: str | PathLike[str], *, seed: int = 0) -> None:
    """Writes the graph of a result as an ONNX model.

    If the graph was read from a model, both models are compared in ONNX Runtime first; `Mismatch` is raised if they
    differ. A graph of a .tsr file gets random weights. Raises `tensat_dl.core.diagnostics.TsrError`, OSError.
    """
    from tensat_dl.onnx import need_onnx

    path = fspath(path)
    need_onnx(path)
    from tensat_dl.fuse.fuse import extended, unfused
    from tensat_dl.onnx.write import write_back, write_fresh

    ops = extended(model.ops, result.declared)
    graph = unfused(result.after.graph, ops, result.declared)
    if model.onnx is None:
        write_fresh(graph, ops, path, seed)
        return
    wrong = result.measured.mismatch if result.measured is not None else ""
    found = wrong or write_back(model.onnx, graph, path, seed).wrong
    if found:
        raise Mismatch(f"{path} is not written: {found}")


def extract(egraph: EGraph, method: str = "exact", limits: ExtractLimits | None = None) -> Extraction:
    """The cheapest acyclic choice of e-nodes of a priced e-graph. Raises `ExtractionError`."""
    from tensat_dl.extract.api import extract as run

    return run(egraph, method, limits)


def verify_rules(model: Model, rules: Sequence[RewriteRule] | None = None) -> tuple[Verdict, ...]:
    """The verdicts on a model's rules, or on some of them, in order; see docs/verification.md."""
    from tensat_dl.verify.rules.verify import verify_rules as run

    return run(model.rules if rules is None else rules, model.ops, proofs=True)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tensat-dl")
    raise AttributeError(f"module 'tensat_dl' has no attribute {name!r}")
