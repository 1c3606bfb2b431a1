"""Estimated costs: the roofline of a device (Williams, Waterman and Patterson, CACM 52(4), 2009).

A kernel takes the longer of computing and moving its data, after it was started:

    time = launch + max(operations / peak, bytes / bandwidth)

Bytes are the inputs read once and the outputs written once. The operations are those of the operator's
declaration, at the peak of the first input's element type; a composition counts the operations of its parts
and only the bytes at its ends, since it is one kernel. An operator that declares no operations (concat,
opaque ones) is priced by bytes. Merging siblings is never costlier than running them apart: operations add
up, bytes at most add up because a shared input is read once, and only one launch is paid.

A roofline is calibrated on a profile by fitting three numbers: the launch, and the parts of the peak rate and of the
bandwidth that operators reach. They make the mean of |log(estimate / measured)| small: being off by a factor counts
the same for small operators and large ones. Every fifth signature, by its hash, is left out of the fit, and gives the
error on unseen signatures.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.egraph import FloatArray
from tensat_dl.cost.device import Device
from tensat_dl.cost.profile import Measurement, Profile
from tensat_dl.cost.signature import Signature, parse
from tensat_dl.ops.flops import flops
from tensat_dl.ops.symbolic import EvaluationError
from tensat_dl.ops.table import OpTable, coerce
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.ops.values import Absent

#: The least number of signatures for a calibration.
LEAST = 20
#: Every how many-th signature is held out.
HOLD_OUT = 5
#: Steps of the search: each number is multiplied and divided by these, as long as that helps.
STEPS = (2.0, 1.25, 1.05, 1.01)
#: Bounds: a launch in milliseconds, and a part of a peak, which data sheets may state somewhat too low.
LEAST_LAUNCH, MOST_SHARE = 1e-5, 1.5


def roofline(table: OpTable, device: Device, signature: Signature) -> float:
    """Estimated milliseconds of one application that runs as a kernel; of a view, of its copy."""
    return device.launch_ms + max(work(table, device, signature))


def work(table: OpTable, device: Device, signature: Signature) -> tuple[float, float]:
    """Milliseconds to compute one application at the peak rate, and to move its data at full bandwidth."""
    writes = sum(t.nbytes for t in signature.outputs)
    if table[signature.op].view:
        # A copy reads the elements it keeps, not the tensor that they are a part of.
        operations, reads = 0.0, writes
    else:
        attrs, output = dict(signature.attrs), signature.outputs[0]
        operations = flops(table, signature.op, signature.inputs, attrs, output)
        reads = sum(t.nbytes for t in signature.inputs)
    dtype = (signature.inputs or signature.outputs)[0].dtype
    return 1e3 * operations / device.flops[dtype], 1e3 * (reads + writes) / device.bandwidth


@dataclass(frozen=True, slots=True)
class Error:
    """The errors of the estimates of ``count`` signatures: the factor within which half of them are, and nine of
    ten."""

    median: float
    ninth_decile: float
    count: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """A device with fitted figures, and the errors on held-out signatures before and after the fit."""

    device: Device
    compute_share: float
    bandwidth_share: float
    before: Error
    after: Error


def calibrate(ops: OpTable, device: Device, profile: Profile) -> Calibration | None:
    """The roofline that fits a profile; None if the profile has too few operators that the table knows."""
    rows: list[tuple[float, float, float]] = []
    held: list[bool] = []
    for text, signature, measured in _known(ops, profile):
        rows.append((*work(ops, device, signature), measured.median_ms))
        held.append(zlib.crc32(text.encode()) % HOLD_OUT == 0)
    if len(rows) < LEAST or all(held) or not any(held):
        return None
    table, out = np.array(rows), np.array(held)
    sheet = np.array([device.launch_ms, 1.0, 1.0])
    fitted = _fit(table[~out], sheet)
    launch, compute, bandwidth = (float(x) for x in fitted)
    flops = {dtype: peak * compute for dtype, peak in device.flops.items()}
    better = replace(device, launch_ms=launch, flops=flops, bandwidth=device.bandwidth * bandwidth)
    return Calibration(better, compute, bandwidth, _error(table[out], sheet), _error(table[out], fitted))


def _known(ops: OpTable, profile: Profile) -> Iterator[tuple[str, Signature, Measurement]]:
    """The measured signatures of operators that the table has, with the same definition, and that type-check: anyone
    may have made the profile."""
    for text, measured in sorted(profile.entries.items()):
        signature = parse(text)
        there = signature.op in ops and ops.content(signature.op) == signature.content
        if there and _type_checks(ops, signature) and measured.median_ms > 0:
            yield text, signature, measured


def _type_checks(ops: OpTable, signature: Signature) -> bool:
    decl, attrs = ops[signature.op], dict(signature.attrs)
    declared = {a.name: a for a in decl.attrs}
    if any(name not in declared or coerce(declared[name], value) is None for name, value in attrs.items()):
        return False
    if len(signature.inputs) > len(decl.inputs) and not any(p.kind == "many" for p in decl.inputs):
        return False
    try:
        found = infer(ops, signature.op, signature.inputs, attrs).types
    except (IllTyped, Absent, EvaluationError, TsrError):
        return False
    return [(t.dtype, t.shape) for t in found] == [(t.dtype, t.shape) for t in signature.outputs]


def _fit(table: FloatArray, start: FloatArray) -> FloatArray:
    """[launch, shares] by going downhill one number at a time. ``table`` has a row for each signature: the
    milliseconds that computing and moving take at the peaks, and the measured milliseconds."""
    best, loss = start, _loss(table, start)
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for k in range(len(best)):
                for factor in (step, 1 / step):
                    trial = best.copy()
                    trial[k] = max(LEAST_LAUNCH, trial[k] * factor)
                    if k:
                        trial[k] = min(MOST_SHARE, trial[k])
                    found = _loss(table, trial)
                    if found < loss - 1e-9:
                        best, loss, improved = trial, found, True
    return best


def _off(table: FloatArray, numbers: FloatArray) -> FloatArray:
    estimate = numbers[0] + np.maximum(table[:, 0] / numbers[1], table[:, 1] / numbers[2])
    return np.asarray(np.abs(np.log(estimate / table[:, 2])))


def _loss(table: FloatArray, numbers: FloatArray) -> float:
    return float(np.mean(_off(table, numbers)))


def _error(table: FloatArray, numbers: FloatArray) -> Error:
    off = _off(table, numbers)
    return Error(exp(float(np.median(off))), exp(float(np.quantile(off, 0.9))), len(off))


#: An operator: how many signatures, the median of estimate / measured by the data sheet's roofline and by a better
#: one, and how often each family of implementations was the fastest.
OfOperator = tuple[str, int, float, float | None, Counter[str]]


def by_operator(
    ops: OpTable, device: Device, better: Device | None, profile: Profile
) -> Sequence[OfOperator]:
    """The operators of a profile, those with most signatures first."""
    groups: dict[str, list[tuple[float, float | None, str]]] = defaultdict(list)
    for _, signature, measured in _known(ops, profile):
        ratio = roofline(ops, device, signature) / measured.median_ms
        after = None if better is None else roofline(ops, better, signature) / measured.median_ms
        groups[signature.op].append((ratio, after, measured.implementation.split(" ")[0]))
    rows = []
    for op, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        afters = [after for _, after, _ in found if after is not None]
        after_median = float(np.median(afters)) if afters else None
        winners = Counter(name for _, _, name in found)
        rows.append((op, len(found), float(np.median([r for r, _, _ in found])), after_median, winners))
    return rows
