"""Makes what can be called in place of a module: exports it, searches, compares, times, and chooses the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.engine.explore import ExplorationError
from tensat_dl.fuse.fuse import extended, unfused
from tensat_dl.measure.statistics import Latency
from tensat_dl.onnx import PACK
from tensat_dl.onnx.exporter import export
from tensat_dl.onnx.importer import imported
from tensat_dl.onnx.inputs import open_dims, sizes
from tensat_dl.onnx.model_files import save
from tensat_dl.run.options import Options
from tensat_dl.sizes.dim_sizes import DimSizes, dim_sizes
from tensat_dl.torch.answers import KeptAnswer, answer
from tensat_dl.torch.bound import BoundModel, BySize, array_of, round_outputs
from tensat_dl.torch.calls import CallInputs, CallOutputs, Extent
from tensat_dl.torch.capture import Declined, Untranslated, captured, functional, to_onnx
from tensat_dl.torch.cut import CutModel, LeftToPyTorch, has_custom_operators
from tensat_dl.torch.trials import Arguments, ExpectedOfModule, times
from tensat_dl.torch.weights import HeldTensor, WeightsAsTheyWere, held_tensors, still_held

if TYPE_CHECKING:
    import onnx_ir as ir

#: `torch.export` and the exporter keep state that all threads see. Parts of a module are prepared within it, too.
_ONE_AT_A_TIME = RLock()
#: What may be called: the module itself, or its model in ONNX Runtime, as torch exports it or optimized.
Contestant = Literal["module", "exported", "optimized"]
#: Names in summaries.
LABELS: Mapping[Contestant, str] = {
    "module": "the module",
    "exported": "ONNX Runtime as exported",
    "optimized": "the optimized graph",
}


@dataclass(frozen=True)
class Asked:
    """What is to be made faster. A ``program`` is given where the module comes from one."""

    module: torch.nn.Module
    example: Arguments  #: as `CallInputs` takes it
    rules: tuple[str, ...]
    options: Options
    frozen: bool = False  #: weights do not change: calls do not look
    explained: bool = False  #: the answer has the steps that lead to it
    dynamic_shapes: Any = None
    translations: Mapping[Callable[..., Any], Callable[..., Any]] | None = None
    program: torch.export.ExportedProgram | None = None
    #: Several sizes to optimize for, of one open dimension of an input: by input, by dimension.
    sizes: Mapping[str, Mapping[int, object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """What is called, and what is known of it. ``declined`` says why nothing but the module was tried."""

    weights: WeightsAsTheyWere
    declined: str = ""
    called: Contestant = "module"
    run: BoundModel | BySize | CutModel | None = None  #: None: the module
    #: Those that compute the same, and for buckets one for each range in text.
    models: Mapping[Contestant, Mapping[str, ir.Model]] = field(default_factory=dict)
    latencies: Mapping[Contestant, Latency] = field(default_factory=dict)
    errors: Mapping[Contestant, float] = field(default_factory=dict)  #: relative differences
    inputs: str = ""  #: on which outputs were compared, in words
    answer: KeptAnswer | None = None
    notes: tuple[str, ...] = ()


def prepare(asked: Asked, known: KeptAnswer | None = None) -> Prepared:
    """The fastest of a module and its models; an answer that is ``known`` is used again if the graph is the same.
    Raises `TsrError` for rules that can't be read, and what `tensat_dl.optimize` raises."""
    with _ONE_AT_A_TIME, torch.no_grad(), torch.autocast("cpu", enabled=False):
        try:
            return _prepared(asked, known)
        except Declined as e:
            return Prepared(WeightsAsTheyWere(asked.module), str(e))


def _prepared(asked: Asked, known: KeptAnswer | None) -> Prepared:
    args, kwargs = asked.example
    if name := next((n for n, p in asked.module.named_parameters() if is_lazy(p)), ""):
        raise Declined(f"{name} is not initialized: call the module once, and then refresh()")
    held = list(held_tensors(asked.module))
    if asked.program is None:
        program = captured(asked.module, args, kwargs, asked.dynamic_shapes)
    else:
        program = functional(asked.program)
    inputs = CallInputs(asked.module.forward, asked.example, program)
    outputs = CallOutputs(program, inputs)
    if any(leaf.dtype.is_complex for leaf in (*inputs.of_tensors, *outputs.computed)):
        raise Declined("ONNX Runtime has no complex numbers")
    mix = _mix(asked, inputs)
    wanted = {symbol: said.sizes for _, _, symbol, said in mix}
    in_rows = has_custom_operators(program)  # these may trust what they are given
    expected = ExpectedOfModule(
        asked.module,
        asked.example,
        inputs,
        outputs,
        asked.options.seed,
        wanted,
        in_rows,
        program.constants.values(),
    )
    # After its first call, which may add hooks.
    weights = WeightsAsTheyWere(asked.module, program.constants.values())
    asked.module(*args, **kwargs)  # once more: what is another thing now, calls put there
    if state := weights.leave_out_results() or _replaced(held, program):
        raise Declined(f"each call changes {state}, on which later calls may depend")
    try:
        model = to_onnx(program, outputs.asked, asked.translations)
    except Declined as e:
        left = LeftToPyTorch(asked.translations or (), e.operator if isinstance(e, Untranslated) else None)
        if inputs.open or not left.names(program):
            raise
        return _cut(asked, left, weights, program, inputs, outputs, expected)
    round_outputs(model, outputs)
    contest = _Contest(asked, weights, expected)
    notes: list[str] = []
    found: KeptAnswer | None = None
    with TemporaryDirectory(prefix="tensat-dl-") as folder:

        def loaded(name: str, model: ir.Model) -> BoundModel:
            path = save(model, Path(folder) / f"{name}.onnx")
            return BoundModel(model, path, asked.options.threads, inputs, outputs)

        def enter(name: Contestant, model: BoundModel | BySize) -> None:
            try:
                contest.enter(name, model, model.models)
            except Declined as e:
                notes.append(f"{LABELS[name]} is not used: {e}")

        enter("exported", loaded("exported", model))
        try:
            found, optimized = _searched(asked, model, inputs, mix, Path(folder) / "exported.onnx", known)
            if found.refused:
                notes.append(f"no graph was found that may be used: {found.refused}")
            elif not optimized:
                notes.append("no graph was found that is faster")
            elif not found.result.parts:
                enter("optimized", loaded("optimized", optimized[0]))
            else:
                ranges = [(b.range, b.high) for b in found.result.parts]
                parts = [(*r, loaded(r[0], m)) for r, m in zip(ranges, optimized, strict=True)]
                enter("optimized", BySize(inputs, parts, mix[0][:2]))
            if found.result.buckets is not None:
                notes.append(found.result.buckets.summary())
        except (TsrError, ExplorationError, Declined) as e:
            notes.append(f"there is no optimized graph: {e}")
    if not contest.models:
        raise Declined("; ".join(notes))
    if inputs.not_one:
        names = ", ".join(map(str, inputs.not_one))
        notes.append(
            f"calls where {names} is 1 go to the module: there it does what torch.export does not see"
        )
    return contest.won(notes, found)


def _cut(
    asked: Asked,
    left: LeftToPyTorch,
    weights: WeightsAsTheyWere,
    program: torch.export.ExportedProgram,
    inputs: CallInputs,
    outputs: CallOutputs,
    expected: ExpectedOfModule,
) -> Prepared:
    """The faster of a module with operators that are left to PyTorch and its program whose parts between them have
    models. Raises `Declined` if no part has one."""

    def replaced(part: torch.nn.Module, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        return prepare(Asked(part, (args, {}), asked.rules, asked.options, frozen=True)).run

    cut = CutModel(program, left, pytree.tree_leaves(asked.example), inputs, outputs, replaced)
    names = ", ".join(left.names(program))
    if not cut.replaced:
        raise Declined(f"PyTorch is the fastest between the operators that are left to it, {names}")
    contest = _Contest(asked, weights, expected)
    contest.enter("optimized", cut, {})
    between = f"ONNX Runtime runs {cut.replaced} of the {cut.parts} parts between them"
    return contest.won([f"PyTorch runs {names}; {between}"])


class _Contest:
    """A module and what may be called in its place, of which the fastest is."""

    def __init__(self, asked: Asked, weights: WeightsAsTheyWere, expected: ExpectedOfModule) -> None:
        self.asked, self.weights, self.expected = asked, weights, expected
        self.models: dict[Contestant, BoundModel | BySize | CutModel] = {}
        self._as_onnx: dict[Contestant, Mapping[str, ir.Model]] = {}
        self._errors: dict[Contestant, float] = {}

    def enter(
        self, name: Contestant, model: BoundModel | BySize | CutModel, as_onnx: Mapping[str, ir.Model]
    ) -> None:
        """Has a model take part. Raises `Declined` if it does not compute the same as the module."""
        self._errors[name] = self.expected.error(model)
        self.models[name] = model
        if as_onnx:
            self._as_onnx[name] = as_onnx

    def won(self, notes: Sequence[str], found: KeptAnswer | None = None) -> Prepared:
        """The fastest, each timed with all that a call of it does."""
        args, kwargs = self.asked.example

        def run(model: BoundModel | BySize | CutModel) -> object:
            return (not self.asked.frozen and self.weights.changed()) or model(args, kwargs)

        runs: dict[Contestant, Callable[[], object]] = {"module": lambda: self.asked.module(*args, **kwargs)}
        runs |= {name: partial(run, model) for name, model in self.models.items()}
        latencies = times(runs, self.asked.options.threads)
        called = min(runs, key=lambda name: latencies[name].median_ms)
        return Prepared(
            self.weights,
            called=called,
            run=self.models.get(called),
            models=self._as_onnx,
            latencies=latencies,
            errors=self._errors,
            inputs=self.expected.inputs,
            answer=found,
            notes=tuple(notes),
        )


def _replaced(held: Sequence[HeldTensor], program: torch.export.ExportedProgram) -> str:
    """The path of a tensor that a module's program reads, and that calls put another one in the place of; or
    nothing."""
    kept = {id(x.tensor) for x in still_held(held)}
    read = {id(x) for x in program.constants.values()}
    return next((x.path for x in held if id(x.tensor) in read - kept), "")


def _mix(asked: Asked, inputs: CallInputs) -> list[tuple[int, int, Extent, DimSizes]]:
    """The dimension with several sizes, if there is one: the leaf, the dimension there, its symbol, and the sizes.
    Raises TypeError, ValueError."""
    found = []
    for name, axes in asked.sizes.items():
        if not isinstance(axes, Mapping):
            raise TypeError(
                f"sizes of {name} are {axes!r}: expected them by dimension, such as {{1: (32, 128)}}"
            )
        for axis, value in axes.items():
            leaf, symbol = inputs.place(name, axis)
            said = dim_sizes({f"{name}.{axis}": value})[f"{name}.{axis}"]
            low, high = inputs.ranges.get(symbol, (1, None))
            if not said.mixed or said.high is not None:
                raise ValueError(
                    f"sizes of {name}.{axis} are several, such as (32, 128): dynamic_shapes has ranges"
                )
            if outside := [n for n in said.sizes if n not in DimSizes((), low, high)]:
                raise ValueError(
                    f"sizes of {name}.{axis}: {outside[0]} is not in the range of dynamic_shapes"
                )
            found.append((leaf, axis, symbol, DimSizes(said.sizes, low, high)))
    if len(found) > 1:
        raise ValueError("sizes: one dimension at most has several sizes")
    if asked.options.buckets and not found:
        raise ValueError("buckets need sizes, such as sizes={'x': {1: (32, 128)}}")
    return found


def _searched(
    asked: Asked,
    model: ir.Model,
    inputs: CallInputs,
    mix: Sequence[tuple[int, int, Extent, DimSizes]],
    path: Path,
    known: KeptAnswer | None,
) -> tuple[KeptAnswer, list[ir.Model]]:
    """The answer for a model, which is at the path as well, and the optimized model, if there is a better one that
    may be used; for buckets one for each of them."""
    leaves = pytree.tree_leaves(asked.example)
    given = {
        str(value.name): array_of(leaves[i])
        for value, i in zip(model.graph.inputs, inputs.tensors, strict=True)
    }
    ranges = {str(symbol): DimSizes((), low, high) for symbol, (low, high) in inputs.ranges.items()}
    names = open_dims(model)
    dims = sizes(str(path), model, given, {name: said for name, said in ranges.items() if name in names})
    dims |= {str(symbol): said for _, _, symbol, said in mix if str(symbol) in names}
    read = imported(model, str(path), dims, asked.rules or (PACK,), given)
    found = answer(read, asked.options, asked.explained, known)
    if found.refused or not found.gained:
        return found, []
    made = [(b.of(read), b.result) for b in found.result.parts] or [(read, found.result)]
    ops = extended(read.program.ops, found.result.declared)
    return found, [export(of, unfused(r.after.graph, ops, r.declared)) for of, r in made]
