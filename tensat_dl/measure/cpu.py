"""`Machine` for this machine's CPU: times operators in ONNX Runtime, and chooses the fastest of several graphs.

Whole graphs are written as models, compared, and then timed in fresh processes. They have the weights of their model,
or random ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx_ir as ir

from tensat_dl.core.diagnostics import Diagnostic, TsrError
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel
from tensat_dl.cost.device import this_machine
from tensat_dl.cost.model import PricedGraph, weight_bytes
from tensat_dl.cost.profile import Measurer, empty, measure_missing, profile_path
from tensat_dl.cost.signature import Signature
from tensat_dl.measure.contest import TimedRow, Unfit, contest, side_by_side, starts
from tensat_dl.measure.kept_starts import KeptStarts, key_of
from tensat_dl.measure.machine import Count, Outcome, TimedGraph
from tensat_dl.measure.statistics import rough_ratio
from tensat_dl.onnx.agreement import Incomparable, Reference
from tensat_dl.onnx.digests import digest_of_comparison, digest_of_feeds, digest_of_model
from tensat_dl.onnx.exporter import build, export, random_weights
from tensat_dl.onnx.model_files import save
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.processes import Failed, apart
from tensat_dl.sizes.named import in_words
from tensat_dl.verify.equivalence import Agreement
from tensat_dl.verify.execute import available_memory
from tensat_dl.verify.weights import draw_values

#: Seconds for which a run measures operators at most. The cheapest alternatives are left then.
SECONDS = 300.0
#: Seconds after which a process that times is ended.
PATIENCE = 900.0
#: Bytes that a loaded model takes for each byte of its weights; models of which all fit.
LOADED, MANY = 3, 1000
#: Starts of graphs that are timed at many sizes.
FEW = 4
#: The file in a folder with the inputs of its models.
FEEDS = "feeds.npz"

#: Makes the model of a graph.
Maker = Callable[[Graph], ir.Model]


class Cpu:
    """This machine's CPU for one graph, with the weights of its model, or with random ones if it has no model."""

    all_at_once = False

    def __init__(self, entry: TimedGraph, threads: int, seed: int) -> None:
        environment = this_machine("cpu", threads)
        assert environment is not None, "ONNX Runtime is installed"
        self.environment = environment
        #: A model is written without nodes that do nothing.
        self.rewrites = entry.model is not None and bool(entry.model.aliases)
        self._entry, self._threads, self._seed = entry, threads, seed
        self._timer: Measurer | None = None
        self._spent = 0.0

    @property
    def cut_short(self) -> bool:
        """Whether the time limit of measuring was reached: the next run measures the rest."""
        return self._spent >= SECONDS

    def measure(self, model: CostModel, signatures: Sequence[Signature], progress: Count) -> CostModel:
        """The cost model with measurements of these signatures, of each that can run by itself.

        Ctrl-C ends it, and so does its time limit; measurements until then are in the profile, and the next run
        continues there. Raises `ProfileError`, OSError.
        """
        if not signatures:  # as in a second run
            return model
        from tensat_dl.measure.operators import REFERENCE, OperatorTimer

        device, started = model.device.name, time.monotonic()
        profile = model.profile or empty(device, self.environment)
        if self._timer is None:
            known = profile.lookup(REFERENCE)
            usual = None if known is None else known.median_ms / 1e3
            self._timer = OperatorTimer(model.table, self._threads, usual)
        profile = measure_missing(
            [REFERENCE, *signatures],
            profile,
            profile_path(device, self.environment),
            self._timer,
            progress,
            SECONDS - self._spent,
        )
        self._spent += time.monotonic() - started
        return model.measured_by(profile)

    def contest(self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count) -> Outcome:
        """Times whole graphs and chooses the answer."""
        with TemporaryDirectory(prefix="tensat-dl-") as folder:
            kept = KeptStarts.on(self.environment)
            weights = original.weight_bytes
            arena = ModelArena(self._entry, weights, self._threads, self._seed, Path(folder), kept)
            found = contest(self.environment, original, candidates, arena, progress)
            return replace(found, earlier=kept.used)


# ---- whole graphs --------------------------------------------------------------------------------------------


def _maker(entry: TimedGraph, seed: int) -> Maker:
    """Makes models with the weights of the entry's model, or of a graph of the language with random ones."""
    if (imported := entry.model) is not None:
        return lambda graph: export(imported, graph)
    weights = random_weights(entry.graph, seed)
    return lambda graph: build(graph, entry.ops, weights)


def _reference(entry: TimedGraph, make: Maker, seed: int, path: Path) -> Reference:
    """The model with which others are compared, on random inputs and on inputs that came with it. The model of a
    graph of the language is written to the path. Raises `Incomparable`, `TsrError`, OSError."""
    if entry.model is not None:
        return Reference.of(entry.model, seed)
    model = make(entry.graph)
    return Reference(model, str(save(model, path)), {}, seed)


class ModelArena:
    """Models of a graph with so many bytes of weights, and of others that are made of it, in files of a folder."""

    def __init__(
        self,
        entry: TimedGraph,
        weight_bytes: int,
        threads: int,
        seed: int,
        folder: Path,
        earlier: KeptStarts | None = None,
    ) -> None:
        self.threads, self.folder = threads, folder
        self._earlier = earlier or KeptStarts(None)
        self._digests: dict[Path, str] = {}  #: of models, and of inputs by their files
        # While models are timed, the original is loaded to compare with, and again to be timed.
        self._left = room(weight_bytes) - 2
        self._entry, self._seed = entry, seed
        self._feeds: dict[str, Path] = {}  #: files with inputs, by their sizes in words
        self._make: Maker
        self._reference: Reference

    def original(self, _: Graph) -> Path:
        if self._left < 1:
            raise Unfit("there is not enough memory to time graphs of this size")
        try:
            self._make = _maker(self._entry, self._seed)
            path = self.folder / "original.onnx"
            self._reference = _reference(self._entry, self._make, self._seed, path)
            self._named("", self._reference.feeds)
        except (TsrError, Incomparable, OSError) as e:
            raise Unfit(f"the original can't be timed: {_said(e)}") from None
        return Path(self._reference.path)

    def candidate(self, graph: Graph) -> Path:
        if not self._left:
            raise Unfit("there is no memory left to time it")
        try:
            path = save(self._make(graph), self.folder / f"candidate-{self._left}.onnx")
        except (TsrError, OSError) as e:
            raise Unfit(_said(e)) from None
        found = self._reference.check(str(path), sizes=False)
        if found.status != "agrees":
            raise Unfit(found.message, differs=found.status == "differs")
        self._left -= 1
        return path

    def check(self, model: Path) -> Agreement:
        found = self._reference.check(str(model))
        imported = self._entry.model
        of = "" if imported is None else digest_of_comparison(imported, self._seed, model)
        return replace(found, of=of)

    def other_sizes(self) -> str:
        found = self._reference.feeds_elsewhere
        return "" if found is None else self._named(*found)

    def mix(self) -> Sequence[str]:
        return [self._named(*found) for found in self._reference.feeds_of_mix]

    def at(self, sizes: Mapping[str, int]) -> str:
        """These sizes of open dimensions, at which graphs can be timed then. Raises `Unfit`."""
        name = in_words(sizes)
        try:
            return self._named(name, self._reference.feeds_at(sizes))
        except Incomparable as e:
            raise Unfit(str(e)) from None

    def _named(self, sizes: str, feeds: Mapping[str, Array]) -> str:
        """Writes inputs of these sizes to a file, unless there is one."""
        if sizes not in self._feeds:
            self._feeds[sizes] = self.folder / f"feeds-{len(self._feeds)}.npz"
            np.savez(self._feeds[sizes], allow_pickle=False, **feeds)
            self._digests[self._feeds[sizes]] = digest_of_feeds(feeds)
        return sizes

    def times(self, models: Sequence[Path], backwards: bool, sizes: str = "") -> Sequence[Sequence[float]]:
        feeds = self._feeds[sizes]
        for path in models:
            if path not in self._digests:
                self._digests[path] = digest_of_model(path)
        key = key_of([self._digests[path] for path in models], self._digests[feeds])
        try:
            return self._earlier.times(
                key,
                len(models),
                lambda: time_in_fresh_process(models, feeds, self.threads, backwards, until_clear=True),
            )
        except Failed as e:
            raise Unfit(str(e)) from None


@contextmanager
def in_turn_at(
    entry: TimedGraph, graphs: Sequence[Graph], threads: int, seed: int, progress: Count
) -> Iterator[Callable[[Mapping[str, int]], Sequence[float] | None]]:
    """Times a model and the models of other graphs in turn, at sizes of open dimensions: the latency of each over the
    first one's. None where they can't be timed."""
    with TemporaryDirectory(prefix="tensat-dl-") as folder:
        arena = ModelArena(entry, weight_bytes(entry.graph), threads, seed, Path(folder))
        paths: list[Path] | None = None

        def timed(sizes: Mapping[str, int]) -> Sequence[float] | None:
            nonlocal paths
            try:
                if paths is None:
                    paths = [arena.original(entry.graph), *map(arena.candidate, graphs)]
                at = arena.at(sizes)
                samples = starts(
                    lambda models, backwards: arena.times(models, backwards, at),
                    paths,
                    range(FEW),
                    lambda k: progress(k, FEW),
                )
            except Unfit:
                return None
            return [1.0, *(rough_ratio(samples, k) for k in range(1, len(paths)))]

        yield timed


def room(weight_bytes: int) -> int:
    """The number of models with so many bytes of weights that can be loaded at a time. Packed weights are held beside
    the weights of the file."""
    left = available_memory()
    return MANY if left is None or not weight_bytes else min(MANY, left // (LOADED * weight_bytes))


def _said(e: Exception) -> str:
    """An error in a few words."""
    if isinstance(e, OSError):
        return e.strerror or str(e)
    return e.diagnostics[0].message if isinstance(e, TsrError) else str(e)


def time_in_fresh_process(
    models: Sequence[Path], feeds: Path, threads: int, backwards: bool = False, until_clear: bool = False
) -> Sequence[Sequence[float]]:
    """By round, the seconds of models in a fresh process, which takes them in their order, or backwards; of two
    perhaps only ``until_clear``. Raises `Failed`."""
    step = -1 if backwards else 1
    paths = [str(p) for p in models][::step]
    samples = apart(
        "tensat_dl.measure.timing:time_models",
        PATIENCE,
        models=paths,
        feeds=str(feeds),
        threads=threads,
        until_clear=until_clear,
    )
    if isinstance(samples, str):
        raise Failed(samples)
    return [seconds[::step] for seconds in samples]


# ---- side by side --------------------------------------------------------------------------------------------


def compare(entries: Sequence[TimedGraph], threads: int, seed: int, progress: Count) -> list[TimedRow]:
    """A row for each graph. Graphs share weights of the same name. A graph whose outputs differ from the first one's
    is not timed. Raises `TsrError` if the first one can't be run, `ProfileError`."""
    rows = [TimedRow(CostModel.of(e.ops, "cpu", threads).price_graph(e.graph).total) for e in entries]
    with TemporaryDirectory(prefix="tensat-dl-") as name:
        folder = Path(name)
        try:
            first = _reference(entries[0], _maker(entries[0], seed), seed, folder / "0.onnx")
        except Incomparable as e:
            raise _error(entries[0], str(e)) from None
        np.savez(folder / FEEDS, allow_pickle=False, **first.feeds)
        paths = {0: Path(first.path)}
        for i, entry in enumerate(entries[1:], 1):
            try:
                path = _path(entry, entries[0], folder / f"{i}.onnx", seed)
            except (TsrError, ValueError) as e:
                rows[i] = replace(rows[i], reason=_said(e))
                continue
            if len(entry.graph.outputs) != len(entries[0].graph.outputs):
                rows[i] = replace(rows[i], reason="its number of outputs differs from the first graph's")
                continue
            found = first.check(str(path), sizes=False)
            reason = found.message.replace("the optimized model", "it")
            rows[i] = replace(rows[i], error=found.max_rel, reason=reason)
            if found.status == "agrees":
                paths[i] = path

        def times(models: Sequence[Path], backwards: bool) -> Sequence[Sequence[float]]:
            return time_in_fresh_process(models, folder / FEEDS, threads, backwards)

        try:
            return side_by_side(rows, paths, times, progress)
        except Failed as e:
            raise _error(entries[0], f"it can't be timed: {e}") from None


def _path(entry: TimedGraph, first: TimedGraph, path: Path, seed: int) -> Path:
    """The model to run. Raises `TsrError` for a graph that ONNX has no operators for, ``ValueError`` if it has a
    weight of another type than the first graph."""
    if entry.model is not None:
        return Path(entry.model.path)
    values = draw_values([e.graph for e in (first, entry) if e.model is None], seed, {})
    return save(build(entry.graph, entry.ops, values.__getitem__), path)


def _error(entry: TimedGraph, message: str) -> TsrError:
    return TsrError([Diagnostic(message, None, path=entry.path)])
