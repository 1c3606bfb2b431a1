"""Prices e-graphs and graphs: the measured cost of each node's signature, else the roofline's estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from math import fsum

import numpy as np

from tensat_dl.core.egraph import BoolArray, EGraph, without_choices
from tensat_dl.core.graph import Attrs, Graph, Node, TensorType
from tensat_dl.cost.device import Device, load_device, this_machine
from tensat_dl.cost.layouts import by_layout
from tensat_dl.cost.profile import Profile, find_profile
from tensat_dl.cost.roofline import calibrate, roofline
from tensat_dl.cost.signature import Signature
from tensat_dl.cost.views import free_views
from tensat_dl.ops.table import OpTable
from tensat_dl.ops.typing import IllTyped, infer
from tensat_dl.sizes.resized import Resized

#: Operators that run no kernel: the caller's tensors, and one of the outputs of a node, which has the cost.
FREE = frozenset({"input", "proj"})
#: Operators that scale or shift a convolution's result.
FOLDED = frozenset({"batchnorm", "ewadd", "ewmul", "smul"})


class UnpricedError(ValueError):
    """A node whose operator or types are not known, such as one read from a foreign file."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of one application. ``measured`` is False for an estimate."""

    ms: float
    measured: bool


@dataclass(frozen=True, slots=True)
class PricedGraph:
    """A graph with the cost of each node in milliseconds; ``measured`` tells which costs were measured.

    Nodes that are computed from weights alone cost nothing at run time; their results occupy ``weight_bytes``.
    """

    graph: Graph
    cost: tuple[float, ...] = field(repr=False)
    measured: tuple[bool, ...] = field(repr=False)
    weight_bytes: int

    @property
    def total(self) -> float:
        return fsum(self.cost)

    @property
    def measured_share(self) -> float:
        """The share of the total that was measured, 0 to 1."""
        known = fsum(c for c, m in zip(self.cost, self.measured, strict=True) if m)
        return known / self.total if self.total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class CostModel:
    """Costs on one device, in milliseconds. Without a profile every cost is estimated.

    ``calibrated`` is the device with figures fitted to the profile. Its roofline prices operators that the profile
    lacks, so that they compare with measurements. Without it, the roofline of the data sheet does. With ``sizes`` of
    open dimensions, graphs and the e-graphs explored from them have the mean of their costs there; None stands for
    the sizes that they have. ``tried`` are the signatures that were measured or can't be. The others cost
    ``unmeasured_share`` of their estimates, unless the profile has them.
    """

    table: OpTable
    device: Device
    profile: Profile | None = None
    calibrated: Device | None = None
    sizes: tuple[Resized | None, ...] = ()
    tried: frozenset[Signature] = field(default=frozenset(), repr=False)
    unmeasured_share: float = 1.0
    #: The costs that were asked for: a search prices many e-graphs of the same operators.
    _known: dict[Signature, Cost] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[CostModel], tuple[object, ...]]:
        """A pickle has no costs that can be looked up again."""
        return CostModel, tuple(getattr(self, f.name) for f in fields(self) if f.init)

    @classmethod
    def of(cls, table: OpTable, device: str, threads: int = 1) -> CostModel:
        """Costs on the device of this name, with its profile; estimates are calibrated on the profile. ``threads``
        matters only on a device that this machine measures. Raises `UnknownDeviceError`, `ProfileError`."""
        sheet, profile = load_device(device), find_profile(device, this_machine(device, threads))
        model = cls(table, sheet)
        return model if profile is None else model.measured_by(profile)

    def cost(self, signature: Signature) -> Cost:
        """The cost of an application that runs as a kernel; of a view, the cost of its copy."""
        found = self._known.get(signature)
        if found is None:
            found = self._known[signature] = self._cost(signature)
        return found

    def _cost(self, signature: Signature) -> Cost:
        if self.profile is not None:
            found = self.profile.lookup(signature)
            if found is not None:
                return Cost(found.median_ms, True)
        share = 1.0 if signature in self.tried else self.unmeasured_share
        return Cost(share * roofline(self.table, self.estimating, signature), False)

    @property
    def estimating(self) -> Device:
        """The device by whose roofline costs are estimated."""
        return self.calibrated or self.device

    def measured_by(self, profile: Profile) -> CostModel:
        """The same costs with another profile, on which the estimates of the rest are calibrated."""
        found = calibrate(self.table, self.device, profile)
        return replace(self, profile=profile, calibrated=None if found is None else found.device)

    def estimated(self) -> CostModel:
        """The costs of the data sheet alone."""
        return replace(self, profile=None, calibrated=None)

    def estimate(self, op: str, attrs: Attrs, inputs: tuple[TensorType, ...], output: TensorType) -> float:
        """Estimated milliseconds of one application; a view that the device has for free costs nothing.

        Exploration chooses matches by it. `price` knows the consumers, too, and may charge a view for its copy. On a
        device where costs depend on which operands are weights, this is always the roofline's estimate, since weights
        are not known here. So the operators that are tried, and then measured, do not depend on earlier measurements.
        """
        if op in FREE or (self.device.strided_views and self.table[op].view):
            return 0.0
        content = self.table.content(op)
        signature = Signature(op, attrs, inputs, (output,), self.device.name, content=content)
        if self.device.packs_weights:
            return roofline(self.table, self.device, signature)
        return self.cost(signature).ms

    def at_all_sizes(self, egraph: EGraph, graph: Graph) -> list[EGraph]:
        """An e-graph as `mean_price` takes it, at each of the sizes that count."""
        return [one.egraph(egraph, graph) if one else egraph for one in self.sizes or (None,)]

    def mean_price(self, egraph: EGraph, graph: Graph) -> tuple[EGraph, BoolArray]:
        """The same as `price` for an e-graph that was explored from a graph, or that is this graph; each cost is the
        mean over the sizes that count. Shapes there are guessed in part: where they don't fit together, the e-graph
        has the costs that it has here."""
        priced = []
        for one in self.at_all_sizes(egraph, graph):
            try:
                priced.append(self.price(one, guessed=one is not egraph))
            except IllTyped:
                priced.append(self.price(egraph))
        cost = np.mean([one.cost for one, _ in priced], axis=0)
        return replace(egraph, cost=cost), np.all([measured for _, measured in priced], axis=0)

    def price(self, egraph: EGraph, guessed: bool = False) -> tuple[EGraph, BoolArray]:
        """The e-graph with ``cost`` filled in, and for each e-node whether its cost was measured.

        Nothing is paid for inputs, for `proj`, for views that every consumer takes as strides (see `views`), nor in
        weights-only classes, whose values are computed ahead of time. Where tensors have no strides, a reshape copies
        nothing, but costs a launch. Raises `UnpricedError`, and `IllTyped` where types are ``guessed`` and do not fit
        together.
        """
        costs = np.zeros(egraph.num_nodes, dtype=np.float64)
        measured = np.zeros(egraph.num_nodes, dtype=np.bool_)
        if not self.device.strided_views:
            reshapes = np.fromiter((op == "reshape" for op in egraph.op), np.bool_, egraph.num_nodes)
            costs[reshapes & ~egraph.weights_only[egraph.node_class]] = self.device.launch_ms
        known: dict[_Key, Cost] = {}
        for n, key in self._kernels(egraph):
            cost = known.get(key)
            if cost is None:
                signature = self._signature(egraph, key)
                cost = known[key] = self.cost(signature)
                # what moves data alone costs its bytes, whatever the types
                if guessed and not cost.measured and self.table[signature.op].flops is not None:
                    infer(self.table, signature.op, signature.inputs, dict(signature.attrs))
            costs[n] = cost.ms
            measured[n] = cost.measured
        return replace(egraph, cost=costs), measured

    def by_layout(self, priced: EGraph) -> EGraph:
        """A priced e-graph in which an answer costs as much as its graph, by `price_graph`."""
        return by_layout(priced, self.table) if self.device.strided_views else priced

    def signatures(self, egraph: EGraph) -> tuple[Signature, ...]:
        """The signatures that the costs of the e-graph depend on, each once, sorted."""
        keys = {key for _, key in self._kernels(egraph)}
        return tuple(sorted((self._signature(egraph, k) for k in keys), key=lambda s: s.text))

    def unknown(self, egraph: EGraph, graphs: Iterable[Graph] = ()) -> list[Signature]:
        """The signatures of an e-graph and of some graphs that the profile lacks: first those of the input program
        and of the graphs, then the costliest by the data sheet."""
        source = set(egraph.source.tolist())
        keys: dict[_Key, bool] = {}
        for n, key in self._kernels(egraph):
            keys[key] = keys.get(key, False) or n in source
        first = {self._signature(egraph, key): it for key, it in keys.items()}
        first |= {s: True for g in graphs for s in self.signatures(without_choices(g))}
        missing = [s for s in first if self.profile is None or self.profile.lookup(s) is None]
        return sorted(missing, key=lambda s: (not first[s], -roofline(self.table, self.device, s), s.text))

    def unknown_of(self, graphs: Iterable[Graph]) -> list[Signature]:
        """The signatures of graphs, at all sizes that count, that the profile lacks."""
        sized = (e for g in graphs for e in self.at_all_sizes(without_choices(g), g))
        return list({s: None for e in sized for s in self.unknown(e)})

    def price_graph(self, graph: Graph) -> PricedGraph:
        """The graph with the cost of each node by `price`, a graph being an e-graph without choices.

        By layout, an answer costs as much as its graph. Without that, a node costs at most what its e-node costs,
        because a view's consumers in the graph are among its consumers in the e-graph.
        """
        priced, measured = self.mean_price(without_choices(graph), graph)
        if self.device.packs_weights:  # it runs graphs as ONNX Runtime does
            priced.cost[fused(graph)] = 0.0
        return PricedGraph(graph, tuple(priced.cost.tolist()), tuple(measured.tolist()), weight_bytes(graph))

    def _kernels(self, egraph: EGraph) -> Iterator[tuple[int, _Key]]:
        """The e-nodes that run a kernel, each with the key of its cost."""
        unknown = set(egraph.op) - set(self.table) - FREE
        if unknown:
            raise UnpricedError(f"no operator `{min(unknown)}` is declared, so its cost can't be known")
        if () in egraph.types:
            raise UnpricedError(f"e-class {egraph.types.index(())} has no type, so its cost can't be known")
        # Types are compared as small integers: hashing them for every e-node would take longer than the rest.
        numbers: dict[tuple[TensorType, ...], int] = {}
        representative: list[int] = []  # by number: a class of these types
        type_of: list[int] = []
        for c, types in enumerate(egraph.types):
            number = numbers.setdefault(types, len(numbers))
            if number == len(representative):
                representative.append(c)
            type_of.append(representative[number])
        free = free_views(egraph, self.table, self.device).tolist()
        dead = egraph.weights_only.tolist()
        node_class, offsets = egraph.node_class.tolist(), egraph.offsets.tolist()
        child_types = [type_of[c] for c in egraph.children.tolist()]
        packed = [self.device.packs_weights and dead[c] for c in egraph.children.tolist()]
        for n, op in enumerate(egraph.op):
            c = node_class[n]
            if free[n] or dead[c] or op in FREE:
                continue
            operands = slice(offsets[n], offsets[n + 1])
            weights = tuple(i for i, w in enumerate(packed[operands]) if w)
            yield n, (op, egraph.attrs[n], tuple(child_types[operands]), weights, type_of[c])

    def _signature(self, egraph: EGraph, key: _Key) -> Signature:
        op, attrs, children, weights, c = key
        if self.device.packs_weights and op == "conv2d" and 1 in weights:
            # A relu is free after it (see `fused`): two measurements of one kernel would differ by noise alone.
            attrs = tuple(
                (name, "none" if (name, value) == ("act", "relu") else value) for name, value in attrs
            )
        inputs = tuple(egraph.types[d][0] for d in children)
        content = self.table.content(op)
        return Signature(op, attrs, inputs, egraph.types[c], self.device.name, weights, content)


#: Operator, attributes, for each operand a class of the same types, which operands are weights, and a class of the
#: result's types.
_Key = tuple[str, Attrs, tuple[int, ...], tuple[int, ...], int]


def weight_bytes(graph: Graph) -> int:
    """Bytes of the values that are known ahead of time and that run-time nodes or outputs read, each once."""
    known = graph.weights_only()
    read = {i for _, i in graph.outputs}
    read.update(j for i, node in enumerate(graph.nodes) if not known[i] for j in node.inputs)
    return sum(t.nbytes for i in read if known[i] for t in graph.nodes[i].types)


def fused(graph: Graph) -> list[int]:
    """The nodes that ONNX Runtime computes together with the convolution before them, so that they cost nothing.

    It folds a batch normalisation, a known factor, and known factors and terms for each channel into the weights of
    a convolution; and a relu is applied before the result is written. (Other activations are, too, but take nearly
    as long there as by themselves. A single number as a term is not folded.) All of that only where nothing else
    reads the values in between.

    In an e-graph the readers are not known. There rules bring the fused operators. A convolution with a relu has the
    price of the convolution, so that both forms cost the same.
    """
    known = graph.weights_only()
    readers = Counter(j for node in graph.nodes for j in node.inputs)
    readers.update(i for _, i in graph.outputs)
    convolutions: set[int] = set()  #: and operators that were folded into their weights
    found = []
    for i, node in enumerate(graph.nodes):
        before = [j for j in node.inputs if j in convolutions and readers[j] == 1]
        if node.op == "conv2d" and dict(node.attrs).get("act", "none") == "none" and known[node.inputs[1]]:
            convolutions.add(i)
        elif before and _folds(graph, node, before[0], known):
            convolutions.add(i)
            found.append(i)
        elif before and node.op == "relu":
            found.append(i)
    return found


def _folds(graph: Graph, node: Node, conv: int, known: list[bool]) -> bool:
    """Whether a node does nothing but scale and shift the channels of a convolution by known numbers."""
    others = [graph.nodes[j].type for j in node.inputs if j != conv]
    if node.op not in FOLDED or not all(known[j] for j in node.inputs if j != conv):
        return False
    channels = node.type.shape[1]
    return node.op == "batchnorm" or all(
        (t.size == 1 and node.op != "ewadd")
        or (t.size == channels and t.rank >= 3 and t.shape[-3] == channels)
        for t in others
    )
