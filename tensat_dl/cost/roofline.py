"""Estimated costs: the roofline of a device (Williams, Waterman and Patterson, CACM 52(4), 2009).

A kernel takes the longer of computing and moving its data, after it was started:

    time = launch + max(operations / peak, bytes / bandwidth)

Bytes are the inputs read once and the outputs written once. The operations are those of the operator's
declaration, at the peak of the first input's element type; a composition counts the operations of its parts
and only the bytes at its ends, since it is one kernel. An operator that declares no operations (concat,
opaque ones) is priced by bytes. Merging siblings is never costlier than running them apart: operations add
up, bytes at most add up because a shared input is read once, and only one launch is paid.
"""

from __future__ import annotations

from tensat_dl.cost.device import Device
from tensat_dl.cost.signature import Signature
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import flops


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
        operations = flops(table, signature.op, signature.inputs, dict(signature.attrs))
        reads = sum(t.nbytes for t in signature.inputs)
    dtype = (signature.inputs or signature.outputs)[0].dtype
    return 1e3 * operations / device.flops[dtype], 1e3 * (reads + writes) / device.bandwidth
