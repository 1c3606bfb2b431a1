"""This machine's GPU: what operators take on it, and which of several graphs is the fastest there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Protocol

import torch

from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import Graph
from tensat_dl.cost import CostModel, load_device
from tensat_dl.cost.environment import Environment
from tensat_dl.cost.priced import PricedGraph
from tensat_dl.cost.profile import profile_path
from tensat_dl.cost.signature_file import job
from tensat_dl.gpu.environment import TF32_ALLOWED, this_gpu, with_profile
from tensat_dl.gpu.executor import Executor, NotExecutable, in_double, input_tensors
from tensat_dl.gpu.profiling import number_of_checkers, profile
from tensat_dl.gpu.torch_device import clock_of, once, prepare, running
from tensat_dl.gpu.trial import relative_error
from tensat_dl.gpu.workers import Worker
from tensat_dl.measure import winner
from tensat_dl.measure.outcome import Candidate, Outcome
from tensat_dl.measure.statistics import Samples
from tensat_dl.measure.timing import calls_per_sample, interleaved
from tensat_dl.ops.semantics.types import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.agreement import Agreement

Count = Callable[[int, int], None]

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
    inputs: str = "random inputs"  #: what the inputs among ``values`` are

    #: An unchanged graph runs by the same kernels, so it need not be timed against itself.
    rewrites = False

    def complete(self, model: CostModel, egraph: EGraph, progress: Count) -> CostModel:
        """The cost model with a measurement of all that the e-graph has and that can be run by itself.

        Ctrl-C ends it; what was measured by then is in the profile. Raises `ProfileError`, `WorkerError`, OSError.
        """
        device, where = model.device.name, self.target.type
        wanted = [job(model.table, s) for s in model.unknown(egraph)]
        if wanted:
            count = min(len(wanted), number_of_checkers())
            checkers = [Worker("check", where, self.tf32) for _ in range(count)]
            timer = Worker("time", where, self.tf32)
            profile(wanted, profile_path(device), device, self.environment, checkers, timer, progress)
            model = CostModel.of(model.table, device)
        self.model = model
        return model

    def contest(self, original: PricedGraph, candidates: Sequence[PricedGraph], progress: Count) -> Outcome:
        """Which of the graphs is the answer, by timing them as a whole."""
        entrants = [Candidate(c.total) for c in candidates]
        outcome = Outcome(self.environment, original.total, tuple(entrants))
        if not candidates:
            return replace(outcome, reason="no other graph was found")
        try:
            first = self.contender(original.graph)
            want = self.reference(original.graph)
            errors = first.errors(want)
        except FAILURES as e:
            return replace(outcome, reason=f"the original can't be run: {said(e)}")
        if not all(map(isfinite, errors)):
            reason = "the original's own outputs are not finite numbers, where they are in f64"
            return replace(outcome, reason=reason)
        contenders: dict[int, Contender] = {}
        found: dict[Contender, Agreement] = {}
        for i, candidate in enumerate(candidates):
            try:
                contender = self.contender(candidate.graph)
                agreement = self.compare(contender, want, errors)
            except FAILURES as e:
                entrants[i] = replace(entrants[i], reason=said(e))
                continue
            if agreement.status == "agrees":
                contenders[i], found[contender] = contender, agreement
            else:
                entrants[i] = replace(entrants[i], reason=agreement.message, differs=True)
        del want
        done = 0

        def timer(running: Sequence[Contender], starts: int, /) -> Samples:
            nonlocal done
            samples = []
            for _ in range(starts):
                progress(done, winner.expected(len(contenders), done))
                samples.append(self.times(running))
                done += 1
            return samples

        try:
            return winner.decide(outcome, entrants, first, contenders, found.__getitem__, timer)
        except FAILURES as e:
            return replace(outcome, candidates=tuple(entrants), reason=f"timing failed: {said(e)}")

    def contender(self, graph: Graph) -> Contender:
        """A graph with its kernels. Raises `NotExecutable`, and what torch raises."""
        executor = Executor(graph, self.model, self.values, self.target, self.tf32)
        return Contender(executor, input_tensors(graph, self.values, self.target))

    def reference(self, graph: Graph) -> list[torch.Tensor]:
        """What a graph computes, in f64. Raises `NotExecutable`, and what torch raises."""
        with once():
            return in_double(graph, self.model.table, self.values, self.target)

    def compare(
        self, contender: Contender, want: Sequence[torch.Tensor], original: Sequence[float]
    ) -> Agreement:
        """Whether a graph computes what it should, where the original's outputs are off by ``original``."""
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
        """By round, the seconds of each, recorded afresh."""
        ready = [running(self.target, contender.run) for contender in contenders]
        clock = clock_of(self.target)
        calls = [calls_per_sample(r.replay, SAMPLE_SECONDS, clock) for r in ready]
        return interleaved([r.replay for r in ready], calls, ROUNDS, clock)


class Runs(Protocol):
    """What can be run again and again."""

    def run(self) -> list[torch.Tensor]: ...


@dataclass(frozen=True, eq=False)
class Contender:
    """A graph that can be run."""

    executor: Executor
    inputs: Sequence[torch.Tensor]

    def run(self) -> list[torch.Tensor]:
        return self.executor(self.inputs)

    def errors(self, want: Sequence[torch.Tensor]) -> list[float]:
        """How far each output is off, in units of its largest element; infinite for what is no number."""
        return relative_errors(running(self.executor.device, self.run).outputs, want)


def relative_errors(outputs: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> list[float]:
    return [relative_error(got, wanted) for got, wanted in zip(outputs, want, strict=True)]


def said(e: Exception) -> str:
    return "out of memory" if isinstance(e, torch.OutOfMemoryError) else f"{e}\n".splitlines()[0][:300]


#: What keeps a graph from being run: no kernel for it, or one that fails.
FAILURES = (NotExecutable, RuntimeError)


def this_machine(
    ops: OpTable, values: Mapping[str, Array], inputs: str = "random inputs", tf32: bool = True
) -> GpuMachine:
    """The GPU at hand, with weights and inputs ``values``; ``inputs`` says what the latter are. Products of f32 are
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
