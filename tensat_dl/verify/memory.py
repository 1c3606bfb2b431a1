"""How much memory running a graph takes, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path

from tensat_dl.core.graph import Graph


def needed(graph: Graph) -> int:
    """The least number of bytes that running a graph in float64 takes: inputs and weights are held all the time,
    other values from when they are computed until their last use. Operators' own temporary values come on top."""
    last = {j: i for i, node in enumerate(graph.nodes) for j in node.inputs}
    last |= {i: len(graph.nodes) for _, i in graph.outputs}
    live = peak = sum(_bytes(graph, i) for i in (*graph.inputs, *graph.weights))
    dying: dict[int, list[int]] = {}
    for i, user in last.items():
        dying.setdefault(user, []).append(i)
    for i, node in enumerate(graph.nodes):
        if node.op in ("input", "weight"):
            continue
        live += _bytes(graph, i)
        peak = max(peak, live)
        live -= sum(
            _bytes(graph, j) for j in dying.get(i, ()) if graph.nodes[j].op not in ("input", "weight")
        )
    return peak


def _bytes(graph: Graph, i: int) -> int:
    return 8 * sum(t.size for t in graph.nodes[i].types)


def available() -> int | None:
    """Bytes that this process can still take, or None where the system does not say."""
    found = [b for b in (_system(), _control_group()) if b is not None]
    return min(found, default=None)


def _system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return None
    except OSError:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return None


def _control_group() -> int | None:
    """What a container's limit leaves."""
    folder = Path("/sys/fs/cgroup")
    try:
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # no such limit
        return None
