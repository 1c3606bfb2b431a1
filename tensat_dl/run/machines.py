"""The device that graphs are optimized for, and the machine that measures them there.

What a machine needs is imported when it is asked for: most runs measure nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tensat_dl.run.options import Options, device_of

if TYPE_CHECKING:
    from tensat_dl.core.graph import Graph
    from tensat_dl.gpu.this_gpu import Gpu
    from tensat_dl.measure.machine import Machine
    from tensat_dl.onnx.importer import Imported
    from tensat_dl.ops.table import OpTable


def aimed(options: Options, of_onnx: bool) -> Options:
    """The options with the name of the device, and whether graphs are measured on it, where either was left open;
    ``cuda`` is this machine's GPU. Raises `UnknownDeviceError`; `GpuError` where there is no such GPU; ValueError
    for threads of another device than the CPU, and for proofs without z3."""
    from tensat_dl.cost import load_device
    from tensat_dl.verify.rules.prover import prover

    if options.trust == "proved" and not prover():
        raise ValueError("proofs need z3: pip install 'tensat-dl[prove]'")

    device, measure = device_of(options.device, of_onnx), options.measure
    if options.threads != 1 and device != "cpu":
        raise ValueError(f"threads are for the device cpu: costs on {device} do not depend on them")
    if measure is None:
        measure = of_onnx and device == "cpu"
    if device == "cuda" or (measure and device != "cpu"):
        device = gpu_of(device).device
    else:
        load_device(device)  # raises the error about a name that no device has
    return replace(options, device=device, measure=measure)


def gpu_of(device: str) -> Gpu:
    """This machine's GPU, which is to be of the kind of the ``device``; ``cuda`` is any. Raises
    `UnknownDeviceError`, `GpuError`."""
    from tensat_dl.cost import load_device
    from tensat_dl.gpu.this_gpu import HERE, at_hand

    if device != HERE:
        load_device(device)  # raises the error about a name that no device has
    return at_hand(device)


def machine_of(options: Options, graph: Graph, ops: OpTable, imported: Imported | None) -> Machine | None:
    """The machine that measures, this machine's CPU or its GPU; None if nothing is measured. Graphs run with the
    weights and given inputs of the model, or with random ones. Raises `TsrError` if ONNX Runtime is needed and
    not installed, `GpuError`, `ProfileError`."""
    if not options.measure:
        return None
    from tensat_dl.measure.machine import TimedGraph

    entry = TimedGraph(graph, ops, imported)
    if options.target == "cpu":
        from tensat_dl.onnx import need_onnx

        need_onnx()
        from tensat_dl.measure.cpu import Cpu

        return Cpu(entry, options.threads, options.seed)
    from tensat_dl.gpu.gpu_machine import this_machine
    from tensat_dl.verify.weights import draw_values

    given = None if imported is None else imported.given
    values = draw_values([graph], options.seed, {**entry.weights, **(given or {})})
    return this_machine(ops, values, "random inputs" if given is None else "the given inputs")
