"""tensat-dl: a superoptimizer for tensor graphs. docs/api.md describes this interface.

>>> import tensat_dl
>>> model = tensat_dl.load("examples/tiny_share_input.tsr")
>>> result = tensat_dl.optimize(model)
>>> result.after.total <= result.before.total
True

Large packages are imported at first use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike, fspath
from reprlib import repr as short
from types import UnionType
from typing import IO, TYPE_CHECKING, Any

# The function `extract` below has the name of a package. Loading a package binds its name here, but only the first
# time, so that happens before the function is defined.
import tensat_dl.extract  # noqa: F401

if TYPE_CHECKING:
    from tensat_dl.core.diagnostics import TsrError
    from tensat_dl.core.egraph import EGraph
    from tensat_dl.core.graph import Graph
    from tensat_dl.core.progress import Progress
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.engine.exploration import Cycles
    from tensat_dl.extract.budget import ExtractLimits
    from tensat_dl.extract.extraction import Extraction
    from tensat_dl.run.model import Model
    from tensat_dl.run.options import Search, Trust
    from tensat_dl.run.refused import Mismatch, RefutedRule, Verdicts
    from tensat_dl.run.result import Result
    from tensat_dl.verify.rules.verdict import Verdict
    from tensat_dl.why.steps import Explanation

#: The modules of the public types, which are imported at first use.
_TYPES = {
    "EGraph": "core.egraph",
    "Explanation": "why.steps",
    "Extraction": "extract.extraction",
    "ExtractLimits": "extract.budget",
    "Graph": "core.graph",
    "Mismatch": "run.refused",
    "Model": "run.model",
    "RefutedRule": "run.refused",
    "Result": "run.result",
    "RewriteRule": "core.rule",
    "TsrError": "core.diagnostics",
    "Verdict": "verify.rules.verdict",
    "Verdicts": "run.refused",
}

__all__ = [
    "EGraph",
    "Explanation",
    "ExtractLimits",
    "Extraction",
    "Graph",
    "Mismatch",
    "Model",
    "RefutedRule",
    "Result",
    "RewriteRule",
    "TsrError",
    "Verdict",
    "Verdicts",
    "__version__",
    "explain",
    "extract",
    "load",
    "optimize",
    "save",
    "verify_rules",
]


def load(
    source: str | PathLike[str] | IO[str] | IO[bytes] | None = None,
    graph: str | None = None,
    rules: Sequence[str | PathLike[str]] = (),
    *,
    text: str | None = None,
    dims: Mapping[str, int | range | Sequence[int] | str] | None = None,
    inputs: str | PathLike[str] | None = None,
) -> Model:
    """Reads a .tsr or .onnx file, or a text in the language.

    Args:
        source: A path, or a file that is open: in text mode for .tsr, in binary mode for ONNX.
        graph: Chooses one of several graphs.
        rules: Packs or .tsr files of rules, beside those that a .tsr file imports. Default for .onnx: the pack
            `inference`.
        text: In place of a source, the contents of a .tsr file. Imports are relative to the working directory.
        dims: Sizes of open dimensions of an ONNX model; others get typical sizes, with which the model runs. A size;
            a range, in which alone the answer has to hold; a list of sizes to optimize for; or a text, as `--dim` of
            the command line takes it. For a .tsr file, sizes of names in place of their defaults.
        inputs: An .npz file of arrays on which an ONNX model is compared and timed.

    Raises:
        TypeError: both or neither of ``source`` and ``text`` are given, or an argument has another type.
        ValueError: an argument does not apply to the kind of file, or ``dims`` are no sizes.
        TsrError: the file cannot be read or has mistakes, or the package `onnx` is needed and not installed.
    """
    if (source is None) == (text is None):
        raise TypeError("load() takes a path or an open file, or else a text: load(text=..)")
    if isinstance(rules, str | PathLike):
        raise TypeError(f"rules is a list of packs: rules=[{fspath(rules)!r}]")
    _check_type("rules", rules, _all_are(rules, str | PathLike), "a list of packs")
    _check_type("text", text, text is None or isinstance(text, str), "a string")
    _check_type("graph", graph, graph is None or isinstance(graph, str), "a name")
    _check_type("inputs", inputs, inputs is None or isinstance(inputs, str | PathLike), "a path")
    by_name = dims is None or (isinstance(dims, Mapping) and _all_are(dims, str))
    _check_type("dims", dims, by_name, "sizes by name")
    from tensat_dl.lang.program import file_of_pack
    from tensat_dl.onnx import PACK, is_onnx
    from tensat_dl.run.reading import contents, read_onnx, read_tsr

    packs = tuple(fspath(rule) for rule in rules)
    for pack in packs:
        file_of_pack(pack, "rules=")  # raises the error about one that is unknown
    name, content = contents(source) if source is not None else ("<text>", text)
    if isinstance(content, bytes) or (content is None and is_onnx(name)):
        if graph is not None:
            raise ValueError("graph chooses among the graphs of a .tsr file; an ONNX model has one")
        given = None if inputs is None else fspath(inputs)
        return read_onnx(name, packs or (PACK,), dims or {}, given, content)
    if inputs is not None:
        raise ValueError("inputs are for ONNX models: a .tsr file has no weights to run with")
    return read_tsr(name, graph, packs, content, dims=dims, option="graph=NAME")


def optimize(
    model: Model,
    rules: Sequence[RewriteRule] | None = None,
    *,
    device: str | None = None,
    measure: bool | None = None,
    threads: int = 1,
    buckets: bool = False,
    search: Search = "saturation",
    iterations: int = 100,
    alpha: float = 1.0,
    split: int | None = None,
    k_multi: int | None = 1,
    max_nodes: int | None = None,
    max_iters: int = 15,
    time_limit: float | None = None,
    max_memory: int | None = 4096,
    cycles: Cycles = "none",
    reassociate: bool = True,
    trust: Trust = "tested",
    fuse: bool = False,
    extract: str = "exact",
    extract_time_limit: float | None = None,
    verify: bool = True,
    seed: int = 0,
    progress: bool = False,
) -> Result:
    """The cheapest equivalent graph found (``result.after.graph``) and how it was found.

    A false rule or a wrong answer raises. An answer that could not be compared does not: its
    ``result.equivalence.status`` is "inconclusive". ``result.measured`` has the timings of whole graphs, if any, and
    ``result.buckets`` the answers for ranges of sizes; `save` writes the graph or graphs, and `explain` has the steps
    that led to it.

    Ctrl-C ends the search, and the best graph found until then is the answer: ``result.interrupted``. Before there is
    any, KeyboardInterrupt is raised.

    Args:
        model: What `load` returned.
        rules: These replace the rules that the model came with. Default: the model's.
        device: Minimise latency on this device; cuda: this machine's GPU. Default: None, h100; cpu for .onnx.
        measure: Measure operators and candidates on this machine (device cpu or cuda); keep a graph only if it
            is faster. Default: None, for .onnx.
        threads: Threads of the device cpu. At least 1. Default: 1.
        buckets: Where several sizes of a dimension want different graphs, each range of sizes gets its own model.
            Default: False.
        search: How to search: with an e-graph, or from graph to graph as TASO does, or at random. One of saturation,
            backtracking, sampling. Default: 'saturation'.
        iterations: Graphs whose substitutions the searches backtracking and sampling try. At least 0. Default: 100.
        alpha: Backtracking keeps graphs that cost less than so many times the best. At least 1. Default: 1.0.
        split: Backtracking takes graphs of more than so many operators apart. At least 2; None: never.
            Default: None, never.
        k_multi: Iterations in which multi-pattern rules are applied. At least 0; None: unlimited. Default: 1.
        max_nodes: Stop growing the e-graph at this many e-nodes; by-size: 60 for each operator of the graph, from
            10000 to 50000, and 50000 with multi-pattern rules. At least 1; None: by-size. Default: None, by-size.
        max_iters: Stop exploring after this many iterations. At least 0. Default: 15.
        time_limit: Stop exploring after so many seconds. At least 0. Default: None.
        max_memory: Stop exploring at this resident memory. In MiB. At least 1; None: unlimited. Default: 4096.
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
        progress: Show on standard error, in a notebook or a terminal, how far the run has come.

    Raises:
        TypeError: ``model`` is no `Model`, ``rules`` are names, or an option has a value of another type.
        RefutedRule: a rule that was applied is false. ``result`` of the error is the answer that must not be used.
        Mismatch: the answer computes something else than the graph. ``result`` of the error is this answer.
        ValueError: an argument is out of range, two rules have the same name, the device is unknown, ``fuse`` is set
            for the CPU, ``buckets`` is set and no dimension has several sizes, ``trust`` is "proved" and z3 is not
            installed, or ``extract`` is "ilp-none" and the e-graph has cycles (`CyclicEGraphError`).
        TsrError: the package `onnx` is needed to measure on the CPU, and is not installed.
        GpuError: ``device`` is cuda, or ``measure`` is set for a GPU, and this machine has no such GPU.
        ProfileError: the file of the device's measured prices cannot be read.
        RuleAlarm: the rules make two tensors of different types equal.
        ExplorationError: the process that explores has ended early.
    """
    from tensat_dl.run.machines import aimed
    from tensat_dl.run.of_model import optimize_model
    from tensat_dl.run.options import Options
    from tensat_dl.run.refused import refusal

    _check_model(model, "optimize")
    chosen = _rules_for(model, rules)
    options = Options(
        device=device,
        measure=measure,
        threads=threads,
        buckets=buckets,
        search=search,
        iterations=iterations,
        alpha=alpha,
        split=split,
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
    )
    options = aimed(options, model.onnx is not None)
    with _progress(progress) as told:
        result, _ = optimize_model(model, options, told, rules=chosen)
    wrong = refusal(result, model.program.own_rules)
    if wrong is not None:
        raise wrong
    return result


def _all_are(values: object, kind: type | UnionType) -> bool:
    """Whether this is a collection of values of a kind."""
    return isinstance(values, Collection) and all(isinstance(v, kind) for v in values)


def _check_type(name: str, value: object, fits: bool, expected: str) -> None:
    if not fits:
        raise TypeError(f"{name} is {short(value)}: expected {expected}")


def _check_model(model: Model, function: str) -> None:
    from tensat_dl.run.model import Model

    if not isinstance(model, Model):
        raise TypeError(f"{function}() takes what load() returned, not {type(model).__name__}")


def _check_result(model: Model, result: Result, function: str) -> None:
    """Raises TypeError for what is no result, ValueError for that of another model."""
    from tensat_dl.run.result import Result

    _check_model(model, function)
    if not isinstance(result, Result):
        raise TypeError(f"{function}() takes what optimize() returned, not {type(result).__name__}")
    if result.before.graph != model.graph:
        raise ValueError(f"the result is of another graph than the model's, {model.graph.name}")


def _rules_for(model: Model, rules: Sequence[RewriteRule] | None) -> tuple[RewriteRule, ...]:
    """These rules, or the model's. Raises TypeError, ValueError."""
    from tensat_dl.core.rule import RewriteRule

    _check_type("rules", rules, rules is None or isinstance(rules, Collection), "RewriteRules")
    if any(not isinstance(r, RewriteRule) for r in rules or ()):
        raise TypeError(
            "rules are RewriteRules; packs are named when a graph is loaded: load(path, rules=[..])"
        )
    chosen = tuple(model.rules if rules is None else rules)
    names = [r.name for r in chosen]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two rules have one name: {', '.join(twice)}")
    return chosen


def _progress(shown: bool) -> AbstractContextManager[Progress]:
    """The progress of a run, which is shown or silent."""
    if shown:
        from tensat_dl.report.terminal import shown_progress

        return shown_progress()
    from tensat_dl.core.progress import Progress

    return nullcontext(Progress())


def explain(model: Model, result: Result, *, progress: bool = False) -> Explanation:
    """The steps by which rules lead from the graph of a model to the answer of `optimize`, each of them evaluated.

    The search is repeated, with the rules and options of the result. Ctrl-C ends it, and the steps found until then
    are returned. ``progress`` is that of `optimize`. Raises the errors of `optimize`; ValueError, too, for the result
    of another model.
    """
    from tensat_dl.fuse.fuse import extended, unfused
    from tensat_dl.run.options import sizes_of
    from tensat_dl.run.pipeline import explain as run

    _check_result(model, result, "explain")
    ops, declared = model.ops, result.declared
    after = unfused(result.after.graph, extended(ops, declared), declared)
    with _progress(progress) as told:
        sizes = sizes_of(model.onnx, result.options)
        return run(model.graph, after, ops, result.rules, result.options, told, model.unfit, sizes)


def save(model: Model, result: Result, path: str | PathLike[str], *, seed: int = 0) -> None:
    """Writes the graph of a result, as text to a path .tsr, as an ONNX model to a path .onnx.

    A text has the declarations of the operators that are not the library's, and a comment with the command that makes
    the same file; `tensat-dl why` reads it. An ONNX model that a graph was read from is compared with the new one in
    ONNX Runtime first. A graph of a .tsr file gets random weights with this ``seed``. Of buckets each is written: to
    ``faster.1-48.onnx`` beside ``faster.onnx``, and so on.

    Raises:
        Mismatch: the result is wrong or its verification was interrupted, or the models differ. Nothing is written.
        TypeError: an argument has another type.
        ValueError: the path has another ending, or .tsr for buckets, the seed is negative, or the result is that of
            another model.
        TsrError: the package `onnx` is needed and not installed, or ONNX has no operators for the graph.
        OSError: the file can't be written.
    """
    from tensat_dl.onnx import is_onnx, need_onnx
    from tensat_dl.run.options import check_option
    from tensat_dl.run.refused import check_usable

    _check_result(model, result, "save")
    _check_type("path", path, isinstance(path, str | PathLike), "a path")
    path = fspath(path)
    check_option("seed", seed)
    if not path.lower().endswith((".tsr", ".onnx")):
        raise ValueError(f"{path} ends in neither .tsr nor .onnx, the formats that graphs are written in")
    if is_onnx(path):
        need_onnx(path)
    elif result.options.buckets:
        raise ValueError(f"buckets are written as ONNX models, and {path} ends in .tsr")
    check_usable(result, model.program.own_rules)
    for output, of, answer in model.answers(result, path):
        of.write_answer(answer, output, seed)


def extract(egraph: EGraph, method: str = "exact", limits: ExtractLimits | None = None) -> Extraction:
    """The cheapest acyclic choice of e-nodes of a priced e-graph. Raises TypeError, `ExtractionError`."""
    from tensat_dl.core.egraph import EGraph
    from tensat_dl.extract.api import extract as run

    if not isinstance(egraph, EGraph):
        raise TypeError(f"extract() takes an EGraph, not {type(egraph).__name__}")

    return run(egraph, method, limits)


def verify_rules(
    model: Model, rules: Sequence[RewriteRule] | None = None, *, progress: bool = False
) -> Verdicts:
    """The verdicts on a model's rules, or on some of them, in order; see docs/verification.md.

    ``raise_for_refuted()`` of the verdicts raises `RefutedRule` if one is false. Raises TypeError and ValueError for
    ``rules`` as `optimize` does.
    """
    from tensat_dl.run.refused import Verdicts
    from tensat_dl.verify.rules.verify import verify_rules as run

    _check_model(model, "verify_rules")
    chosen = _rules_for(model, rules)
    with _progress(progress) as told:
        told.phase("verify")
        return Verdicts(chosen, run(chosen, model.ops, proofs=True, progress=told.checking))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tensat-dl")
    if name in _TYPES:
        from importlib import import_module

        return getattr(import_module(f"tensat_dl.{_TYPES[name]}"), name)
    raise AttributeError(f"module 'tensat_dl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
