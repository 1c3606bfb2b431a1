"""`Machine` for this machine's GPU: times operators, and chooses the fastest of several graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

import torch

from tensat_dl.core.graph import Graph
from tensat_dl.core.words import first_line
from tensat_dl.cost import CostModel, load_device
from tensat_dl.cost.application import application
from tensat_dl.cost.device import Environment
from tensat_dl.cost.model import PricedGraph
from tensat_dl.cost.profile import profile_path
from tensat_dl.cost.signature import Signature
from tensat_dl.gpu.executor import Executor, NotExecutable, in_double, input_tensors
from tensat_dl.gpu.profiling import number_of_checkers, profile, work_on_gpus
from tensat_dl.gpu.this_gpu import TF32_ALLOWED, GpuError, this_gpu, with_profile
from tensat_dl.gpu.torch_device import clock_of, once, prepare, running
from tensat_dl.gpu.trial import relative_error
from tensat_dl.jobs.run import Where
from tensat_dl.measure.contest import TimedRow, Unfit, contest, side_by_side
from tensat_dl.measure.machine import Count, Outcome, TimedGraph
from tensat_dl.measure.timing import calls_per_sample, interleaved
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import Agreement
from tensat_dl.verify.weights import draw_values

#: How far an output may be from that in f64, in units of its largest element; or four times as far as the original's.
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 5e-2, "f64": 1e-9}
TF32_TOLERANCE = 1e-2
SLACK = 4.0
#: A sample of whole graphs is at least so long, and so many rounds make a start.
SAMPLE_SECONDS, ROUNDS = 0.004, 15


@dataclass
class GpuMachine:
    """Graphs run with weights and inputs ``values``, by name, and with the kernels that ``model`` finds fastest."""

    model: CostModel
    environment: Environment
    values: Mapping[str, Array]
    target: torch.device
    tf32: bool = False
    inputs: str = "random inputs"  #: a description of the inputs among ``values``

    #: An unchanged graph runs by the same kernels, so it need not be timed against itself.
    rewrites = False
    #: Processes that measure start slowly, and compile kernels side by side.
    all_at_once = True

    def measure(self, model: CostModel, signatures: Sequence[Signature], progress: Count) -> CostModel:
        """The cost model with measurements of these signatures, of each that can run by itself.

        Ctrl-C ends it; measurements until then are in the profile. Raises `ProfileError`, `GpuError`, OSError.
        """
        device = model.device.name
        wanted = [application(model.table, s) for s in signatures]
        if wanted:
            work = work_on_gpus(self.tf32, min(len(wanted), number_of_checkers()))
            profile(wanted, profile_path(device), Where(1), work, progress)
            model = CostModel.of(model.table, device)
        self.model = model
        return model

    def contest(self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count) -> Outcome:
        """Times whole graphs and chooses the answer."""
        return contest(self.environment, original, candidates, GpuArena(self), progress)

    def contender(self, graph: Graph) -> Contender:
        """A graph with its kernels. Raises `NotExecutable`, and torch's errors."""
        executor = Executor(graph, self.model, self.values, self.target, self.tf32)
        return Contender(executor, input_tensors(graph, self.values, self.target))

    def reference(self, graph: Graph) -> list[torch.Tensor]:
        """The outputs of a graph in f64. Raises `NotExecutable`, and torch's errors."""
        with once():
            return in_double(graph, self.model.table, self.values, self.target)

    def compare(
        self, contender: Contender, want: Sequence[torch.Tensor], original: Sequence[float]
    ) -> Agreement:
        """Compares a graph's outputs with ``want``; ``original`` has the errors of the original's outputs."""
        graph = contender.executor.graph
        errors = contender.errors(want)
        limits = [
            max(TOLERANCE.get(graph.nodes[i].type.dtype, 0.0), TF32_TOLERANCE * self.tf32, SLACK * off)
            for (_, i), off in zip(graph.outputs, original, strict=True)
        ]
        for (name, _), error, limit in zip(graph.outputs, errors, limits, strict=True):
            if not error <= limit:
                message = f"output {name} is off by {error:.1e} (tolerance {limit:.0e})"
                return Agreement("differs", error, message, self.inputs, limit)
        return Agreement("agrees", max(errors), "", self.inputs, max(limits))

    def times(self, contenders: Sequence[Runs]) -> list[list[float]]:
        """The seconds of each contender, by round; all are recorded afresh."""
        ready = [running(self.target, contender.run) for contender in contenders]
        clock = clock_of(self.target)
        calls = [calls_per_sample(r.replay, SAMPLE_SECONDS, clock) for r in ready]
        return interleaved([r.replay for r in ready], calls, ROUNDS, clock)


class GpuArena:
    """Graphs on a GPU, compared with the original's outputs in f64."""

    def __init__(self, machine: GpuMachine) -> None:
        self.machine = machine
        self._want: list[torch.Tensor] = []
        self._errors: list[float] = []
        self._found: dict[Contender, Agreement] = {}

    def original(self, graph: Graph) -> Contender:
        try:
            first = self.machine.contender(graph)
            self._want = self.machine.reference(graph)
            self._errors = first.errors(self._want)
        except FAILURES as e:
            raise Unfit(f"the original can't be run: {said(e)}") from None
        if not all(map(isfinite, self._errors)):
            raise Unfit("the original's own outputs are not finite, although they are in f64")
        return first

    def candidate(self, graph: Graph) -> Contender:
        try:
            contender = self.machine.contender(graph)
            found = self.machine.compare(contender, self._want, self._errors)
        except FAILURES as e:
            raise Unfit(said(e)) from None
        if found.status != "agrees":
            raise Unfit(found.message, differs=True)
        self._found[contender] = found
        return contender

    def check(self, contender: Contender) -> Agreement:
        return self._found[contender]

    def other_sizes(self) -> str:
        return ""

    def mix(self) -> Sequence[str]:
        return ()

    def times(self, contenders: Sequence[Contender], _: bool, sizes: str = "") -> list[list[float]]:
        assert not sizes
        self._want.clear()  # all are compared, and the GPU's memory is needed
        try:
            return self.machine.times(contenders)
        except FAILURES as e:
            raise Unfit(said(e)) from None


class Runs(Protocol):
    """A computation that can be repeated."""

    def run(self) -> list[torch.Tensor]: ...


@dataclass(frozen=True, eq=False)
class Contender:
    """A graph that can be run."""

    executor: Executor
    inputs: Sequence[torch.Tensor]

    def run(self) -> list[torch.Tensor]:
        return self.executor(self.inputs)

    def errors(self, want: Sequence[torch.Tensor]) -> list[float]:
        """How far each output is off, in units of its largest element; infinite if it is no number."""
        return relative_errors(running(self.executor.device, self.run).outputs, want)


def relative_errors(outputs: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> list[float]:
    return [relative_error(got, wanted) for got, wanted in zip(outputs, want, strict=True)]


def said(e: Exception) -> str:
    return "out of memory" if isinstance(e, torch.OutOfMemoryError) else first_line(e)


#: Reasons why a graph can't run: a kernel is missing, or fails.
FAILURES = (NotExecutable, RuntimeError)


def this_machine(
    ops: OpTable, values: Mapping[str, Array], inputs: str = "random inputs", tf32: bool = True
) -> GpuMachine:
    """The GPU at hand, with weights and inputs ``values``; ``inputs`` describes the inputs. Products of f32 are
    rounded to TF32 if its profile says that they may be, and ``tf32``. Raises `GpuError`, `ProfileError`."""
    gpu, profile = with_profile()
    if not tf32 and profile is not None:
        gpu, profile = this_gpu(), profile.without_tf32()
    model = CostModel(ops, load_device(gpu.device))
    if profile is not None:
        model = model.measured_by(profile)
    target = torch.device("cuda")
    prepare(target)
    rounded = gpu.environment.hardware["f32"] == TF32_ALLOWED
    return GpuMachine(model, gpu.environment, values, target, rounded, inputs)


# ---- side by side --------------------------------------------------------------------------------------------


def compare(entries: Sequence[TimedGraph], seed: int, progress: Count) -> list[TimedRow]:
    """Times graphs side by side; inputs and drawn weights of one name are the same in all. Raises `GpuError`, also
    where their outputs can't be compared, and `ProfileError`."""
    for i, entry in enumerate(entries[1:], 2):
        _same_outputs(entries[0].graph, entry.graph, i)
    machines = [this_machine(e.ops, _values(entries[0], e, seed)) for e in entries]
    rows: list[TimedRow] = []
    ready: dict[int, Contender] = {}
    want: list[torch.Tensor] | None = None
    for i, (machine, entry) in enumerate(zip(machines, entries, strict=True)):
        graph = entry.graph
        predicted = machine.model.price_graph(graph).total
        try:
            want = machine.reference(graph) if want is None else want
            contender = machine.contender(graph)
            error = max(contender.errors(want))
            peak = peak_bytes(contender)
        except (*FAILURES, ValueError) as e:
            rows.append(TimedRow(predicted, reason=said(e)))
            continue
        ready[i] = contender
        rows.append(TimedRow(predicted, error=error, kernels=contender.executor.chosen(), peak_bytes=peak))
    return side_by_side(rows, ready, lambda contenders, _: machines[0].times(contenders), progress)


def _same_outputs(first: Graph, graph: Graph, number: int) -> None:
    """Raises `GpuError` if a graph's outputs can't be compared, one by one, with the first graph's."""
    if len(graph.outputs) != len(first.outputs):
        names = [", ".join(name for name, _ in g.outputs) for g in (first, graph)]
        raise GpuError(
            f"the outputs differ: the first graph has {names[0]}, and graph {number} has {names[1]}"
        )
    for (_, j), (name, i) in zip(first.outputs, graph.outputs, strict=True):
        wanted, found = first.nodes[j].type, graph.nodes[i].type
        if found.shape != wanted.shape:
            raise GpuError(
                f"the graphs can't be compared: output {name} of graph {number} is {found}, the first graph's is "
                f"{wanted}"
            )


def _values(first: TimedGraph, entry: TimedGraph, seed: int) -> dict[str, Array]:
    """The values of a graph: its own weights, and the values drawn for the first graph. Raises `GpuError`."""
    try:
        return draw_values([first.graph, entry.graph], seed, {**first.weights, **entry.weights})
    except ValueError as e:
        raise GpuError(f"the graphs can't run with the same values: {e}") from None


def peak_bytes(contender: Contender) -> int:
    """The most memory that running a graph takes, its weights included; 0 on a CPU."""
    executor = contender.executor
    if executor.device.type != "cuda":
        return 0
    weights = sum(x.nbytes for x in executor.constants.values())
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    contender.run()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before + weights)
