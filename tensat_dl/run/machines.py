"""What is optimized for, and what measures here: this machine's CPU or its GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensat_dl.core.graph import Graph
    from tensat_dl.measure.machine import Machine
    from tensat_dl.onnx.importer import Imported
    from tensat_dl.ops.semantics.types import Array
    from tensat_dl.ops.table import OpTable
    from tensat_dl.run.options import Options

#: What .tsr graphs and ONNX models are optimized for where nobody says something else.
DEVICE, ONNX_DEVICE = "h100", "cpu"


def aimed(options: Options, of_onnx: bool) -> Options:
    """The same with the name of the device, and whether graphs are measured on it, where either was left open;
    ``cuda`` is this machine's GPU. Raises `UnknownDeviceError`, and `GpuError` where there is no such GPU."""
    device, measure = device_of(options.device, of_onnx), options.measure
    if measure is None:
        measure = of_onnx and device == "cpu"
    if device == "cuda" or (measure and device != "cpu"):
        from tensat_dl.cost import load_device
        from tensat_dl.gpu.environment import HERE, at_hand

        if device != HERE:
            load_device(device)  # which knows what is no device at all
        device = at_hand(device).device
    return replace(options, device=device, measure=measure)


def device_of(device: str | None, of_onnx: bool) -> str:
    """The name of a device that may be left open."""
    return device if device is not None else ONNX_DEVICE if of_onnx else DEVICE


def machine_of(
    device: str, graph: Graph, ops: OpTable, imported: Imported | None, threads: int, seed: int
) -> Machine:
    """What measures on a device: this machine's CPU with so many threads, or its GPU. Graphs run with the weights of
    the model and on its given inputs, or on random ones. Raises `GpuError`, `ProfileError`."""
    if device == "cpu":
        from tensat_dl.measure.cpu import this_cpu

        return this_cpu(graph, ops, imported, threads, seed)
    from tensat_dl.gpu.machine import this_machine
    from tensat_dl.verify.weights import draw_values

    given = None if imported is None else imported.given
    values = draw_values([graph], seed, {**weights_of(imported), **(given or {})})
    return this_machine(ops, values, "random inputs" if given is None else "the given inputs")


def weights_of(imported: Imported | None) -> Mapping[str, Array]:
    """By name, the weights of a model; a graph of the language has none."""
    return {} if imported is None else {name: t.numpy() for name, t in imported.constants.items()}
