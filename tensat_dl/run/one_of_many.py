"""One model of a batch: what a worker is asked, and what it answers."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.cost import ProfileError, UnknownDeviceError
from tensat_dl.engine.exploration import RuleAlarm
from tensat_dl.engine.explore import ExplorationError
from tensat_dl.extract.extraction import ExtractionError
from tensat_dl.files import write_bytes
from tensat_dl.gpu.this_gpu import GpuError
from tensat_dl.kept import folder
from tensat_dl.onnx import PACK, is_onnx
from tensat_dl.run.early import worker_ahead
from tensat_dl.run.machines import aimed
from tensat_dl.run.model import Model
from tensat_dl.run.of_model import optimize_model
from tensat_dl.run.options import Options
from tensat_dl.run.reading import read_onnx, read_tsr
from tensat_dl.run.refused import check_usable
from tensat_dl.run.result import Result
from tensat_dl.sizes.dim_sizes import DimSizes
from tensat_dl.why.origin import is_path

#: Errors that say what is wrong with a model or with what is asked for it.
_KNOWN = (
    TsrError, UnknownDeviceError, ProfileError, GpuError, RuleAlarm, ExplorationError, ExtractionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToOptimize:
    """A model: its path, links resolved; what the answer calls it; the path of the answer; and sizes of its open
    dimensions, in text. Paths are absolute."""

    file: str
    called: str
    output: str
    dims: tuple[tuple[str, str], ...] = ()

    def narrowed(self, options: Options) -> Options:
        """The options of a batch as they concern this model: buckets are for those with several sizes."""
        mixed = any(DimSizes.of(text).mixed for _, text in self.dims)
        return replace(options, buckets=options.buckets and mixed and is_onnx(self.file))


@dataclass(frozen=True, slots=True)
class Answered:
    """Facts for the manifest, and the contents of the files of the answer by their names, if there is one."""

    facts: Mapping[str, Any]
    files: Mapping[str, bytes]


def optimizer(
    options: Options, packs: tuple[str, ...], profiles: Mapping[str, str] | None
) -> Callable[[ToOptimize, str], Answered]:
    """Optimizes models of a batch, with packs by their names and with rules from files by their absolute paths.
    ``profiles`` are the user's, by the names of their files; if they are None, those of this machine count."""
    if profiles is not None:
        _use(profiles)

    def answer(asked: ToOptimize, root: str = "") -> Answered:
        def refused(e: Exception) -> Answered:
            said = e.render() if isinstance(e, TsrError) else str(e)
            return Answered({"status": "refused", "message": said.replace(root, "") if root else said}, {})

        with worker_ahead(options.search):
            try:
                model = _read(asked, packs, root)
                chosen = aimed(asked.narrowed(options), model.onnx is not None)
            except (*_KNOWN, ValueError) as e:  # sizes or options that are not this model's
                return refused(e)
            try:
                result, _ = optimize_model(model, chosen)
                check_usable(result, model.program.own_rules)
                files = _files(model, result, asked.output)
            except _KNOWN as e:
                return refused(e)
            return Answered(_facts(result), files)

    return answer


def _use(profiles: Mapping[str, str]) -> None:
    """Has operators priced by these profiles alone, in a folder that workers of one work share."""
    name = hashlib.sha256(repr(sorted(profiles.items())).encode()).hexdigest()
    place = folder("profiles") / name
    place.mkdir(parents=True, exist_ok=True)
    for file, text in profiles.items():
        write_bytes(place / file, text.encode())
    os.environ["TENSAT_DL_PROFILES"] = str(place)


def _read(asked: ToOptimize, packs: tuple[str, ...], root: str) -> Model:
    """The model, whose files may lie below a root, and which knows them by the paths that they have elsewhere."""
    found = tuple(root + pack if is_path(pack) else pack for pack in packs)
    if is_onnx(asked.file):
        model = read_onnx(root + asked.file, found or (PACK,), dict(asked.dims))
        return replace(model, file=asked.called, packs=packs or (PACK,))
    return replace(
        read_tsr(root + asked.file, None, found, dims=dict(asked.dims)), file=asked.called, packs=packs
    )


def _files(model: Model, result: Result, output: str) -> dict[str, bytes]:
    name = Path(output).name
    if not is_onnx(output):
        return {name: model.answer_text(result, output).encode()}
    with tempfile.TemporaryDirectory(prefix="tensat-dl-") as place:
        for path, of, answer in model.answers(result, str(Path(place) / name)):
            of.write_answer(answer, path, result.options.seed)
        return {p.name: p.read_bytes() for p in sorted(Path(place).iterdir())}


def _facts(result: Result) -> dict[str, Any]:
    before, after, timed = result.before, result.after, result.measured
    facts: dict[str, Any] = {
        "status": "faster" if after.total < before.total else "unchanged",
        "nodes": [sum(node.op not in ("input", "weight") for node in p.graph.nodes) for p in (before, after)],
        "cost_ms": [before.total, after.total],
        "device": result.device,
        "verified": None if result.equivalence is None else result.equivalence.status,
        "stop": result.stop,
    }
    if timed is not None:
        facts["status"] = "unchanged" if timed.winner is None else "faster"
        if timed.before is not None and timed.after is not None:
            facts["measured_ms"] = [timed.before.median_ms, timed.after.median_ms]
    if result.parts:
        assert result.buckets is not None
        facts |= {"status": "faster", "buckets": result.buckets.to_json()}
    return {k: v for k, v in facts.items() if not isinstance(v, float) or isfinite(v)}
