"""Graphs and e-graphs for the cost tests, typed by the operator table."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import HealthCheck, settings

from tensat_dl import resources
from tensat_dl.core.egraph import EGraph
from tensat_dl.core.graph import DTYPES, Attrs, AttrValue, Graph, Node, TensorType
from tensat_dl.cost.device import Device
from tensat_dl.lang.program import load_program
from tensat_dl.ops.attributes import defaults
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import infer

#: For generated cases: a slow machine is not a failure.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def table() -> OpTable:
    """The operator table, and operators such as users and importers declare: ``blackbox`` is opaque, ``pair``
    has two outputs, ``mystery`` is a view of which nothing is known."""
    ops = load_program(str(resources.rules() / "ops.tsr")).ops
    relu = ops["relu"]
    return OpTable(
        [
            *ops.values(),
            replace(relu, name="blackbox", opaque=True, flops=None),
            replace(relu, name="mystery", view=True, flops=None),
            replace(
                relu,
                name="pair",
                outputs=("a", "b"),
                shapes=relu.shapes * 2,
                dtypes=relu.dtypes * 2,
                flops=None,
            ),
        ]
    )


def toy(strided: bool = True, packs: bool = False) -> Device:
    """A device whose costs can be computed by hand: 1 ms to launch, and 1 ms for each operation or byte."""
    return Device("toy", "toy", (), dict.fromkeys(DTYPES, 1e3), 1e3, 1.0, strided, packs)


class Builder:
    """Adds nodes, one class each, and alternatives to classes; every type is inferred."""

    def __init__(self) -> None:
        self.classes: list[list[tuple[str, Attrs, tuple[int, ...]]]] = []
        self.types: list[tuple[TensorType, ...]] = []

    def input(self, *shape: int, dtype: str = "f32") -> int:
        return self.leaf("input", TensorType(dtype, shape))

    def weight(self, *shape: int, dtype: str = "f32") -> int:
        return self.leaf("weight", TensorType(dtype, shape))

    def leaf(self, op: str, type: TensorType) -> int:
        attrs: Attrs = (("name", f"{op}{len(self.types)}"), ("dtype", type.dtype), ("shape", type.shape))
        self.classes.append([(op, attrs, ())])
        self.types.append((type,))
        return len(self.types) - 1

    def op(self, op: str, *inputs: int, **attrs: AttrValue) -> int:
        """A new class that holds this node."""
        node, types = self._node(op, inputs, attrs)
        self.classes.append([node])
        self.types.append(types)
        return len(self.types) - 1

    def also(self, c: int, op: str, *inputs: int, **attrs: AttrValue) -> None:
        """A further node of a class."""
        node, types = self._node(op, inputs, attrs)
        assert types == self.types[c]
        self.classes[c].append(node)

    def _node(
        self, op: str, inputs: tuple[int, ...], attrs: dict[str, AttrValue]
    ) -> tuple[tuple[str, Attrs, tuple[int, ...]], tuple[TensorType, ...]]:
        if op == "proj":
            index = attrs["index"]
            assert isinstance(index, int)
            return (op, (("index", index),), inputs), (self.types[inputs[0]][index],)
        values = defaults(table()[op]) | attrs
        types = infer(table(), op, [self.types[i][0] for i in inputs], values).concrete()
        return (op, tuple(values.items()), inputs), types

    def graph(self, *outputs: int) -> Graph:
        """What was built, if no class has alternatives."""
        nodes = [
            Node(op, inputs, attrs, t)
            for ((op, attrs, inputs),), t in zip(self.classes, self.types, strict=True)
        ]
        return Graph("test", tuple(nodes), tuple((f"y{i}", o) for i, o in enumerate(outputs)))

    def egraph(self, *roots: int) -> EGraph:
        flat = [(c, *node) for c, nodes in enumerate(self.classes) for node in nodes]
        known = np.zeros(len(self.types), dtype=np.bool_)
        for _ in self.types:
            for c, op, _, inputs in flat:
                known[c] |= op != "input" and all(known[i] for i in inputs)
        starts = np.concatenate([[0], np.cumsum([len(nodes) for nodes in self.classes])])
        return EGraph(
            op=tuple(op for _, op, _, _ in flat),
            attrs=tuple(attrs for _, _, attrs, _ in flat),
            node_class=np.array([c for c, *_ in flat], dtype=np.int64),
            class_start=starts.astype(np.int64),
            offsets=np.concatenate([[0], np.cumsum([len(i) for *_, i in flat])]).astype(np.int64),
            children=np.array([d for *_, i in flat for d in i], dtype=np.int64),
            types=tuple(self.types),
            weights_only=known,
            roots=roots,
            source=starts[:-1].astype(np.int64),
            cost=np.full(len(flat), np.nan),
            home=np.arange(len(self.classes)),
        )
