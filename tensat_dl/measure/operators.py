"""Times single operators in ONNX Runtime.

The cost of an operator is the time of a model of this operator alone, less the time of an empty call. It is at least
the time of a node on one number: if the empty call were measured too long, small operators would cost nothing.
Operands that are weights are initialisers, which ONNX Runtime packs ahead of time. A composition or an activation is
fused if it is fused in a real model. A convolution or pool runs in the channel-blocked layout if ONNX Runtime prefers
it; conversions are left out, since a chain of such operators converts at its two ends only.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.graph import Attrs, Graph, GraphBuilder
from tensat_dl.cost.profile import Measurement
from tensat_dl.cost.signature import Signature, parse
from tensat_dl.measure.statistics import summary
from tensat_dl.measure.timing import Clock, Run, calls_per_sample, clock_of, timed
from tensat_dl.onnx.exporter import build, random_weights
from tensat_dl.onnx.session import NotRunnable, Session
from tensat_dl.onnx.tensors import numpy_dtype
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable

#: Operators are timed in rounds: a machine that is shared, or that changes its frequency, is slow at one moment and
#: fast at the next. In each round so many samples of an operator are taken, or fewer if they take longer than this
#: together; and a round begins so many seconds after the one before.
ROUNDS, SAMPLES, SECONDS, EVERY = 4, 2, 0.05, 0.1
#: How fast the machine is at a moment, this product tells, which is timed before every second operator: by the median
#: of that time and as many as this before and after it, since one of them scatters as much as an operator does.
#: Measurements of 237 operators repeated as well as with five rounds of three samples and a product before each,
#: in half of the time.
REFERENCE = parse("matmul(f32[256, 256], weight f32[256, 256]; act=none) -> f32[256, 256] @ cpu")
BETWEEN, NEAR = 2, 3
#: When the reference takes x times as long as usual, operators take about x to this power times as long. With it,
#: measurements of 65 operators on a shared machine scattered little, within a minute and from one to the next.
SLOWED = 0.8
#: So many operators are timed together, if their operands and results are not larger than `MOST_BYTES`.
TOGETHER = 48

#: In a graph, an operator's operands are not where its last run left them. So copies of it are run in turn: few, so
#: that activations come from a near cache at best, more where its weights are large, as other operators' weights
#: drive them out.
COPIES, WEIGHT_COPIES, WEIGHT_BYTES, LARGE = 4, 16, 32 * 2**20, 2**18
#: A product of so few rows waits for its weights, which come from main memory: so many bytes of them, or copies.
COLD_ROWS, COLD_COPIES, COLD_BYTES = 8, 32, 64 * 2**20
#: All copies together, operands and results, are not larger than this, unless one is.
MOST_BYTES = 2**29

#: The lengths of two chains of small nodes. Their difference in time is the price of nodes, the rest of a call. The
#: best time of each counts: the time of a call is subtracted from every operator's time, so that a moment when the
#: machine was busy would make all of them look cheap.
SHORT, LONG = 1, 65
#: They are timed in so many rounds, each with so many samples.
CHAIN_ROUNDS, CHAIN_SAMPLES = 5, 3


class OperatorTimer:
    """Measures signatures on the CPU with so many threads, where the reference usually takes so many seconds. Raises
    `NotRunnable` if ONNX Runtime does not work."""

    def __init__(self, ops: OpTable, threads: int, usual: float | None = None) -> None:
        self.ops = ops
        self.threads = threads
        self.clock = clock_of(threads)
        self._reference = Copies(self._runs(REFERENCE), self.clock)
        #: Seconds that the reference usually takes; None until they are known.
        self.usual = usual
        x = np.ones(1, np.float32)
        chains = [Copies([Session(_chain(n), threads).bound({"x0": x})], self.clock) for n in (SHORT, LONG)]
        rounds = [[median(chain.samples(CHAIN_SAMPLES)) for chain in chains] for _ in range(CHAIN_ROUNDS)]
        short, long = (min(times) for times in zip(*rounds, strict=True))
        #: Seconds of a node of one number, which no operator takes less than.
        self.node = max(0.0, (long - short) / (LONG - SHORT))
        #: Seconds of a call that does nothing.
        self.call = max(0.0, short - SHORT * self.node)

    def __call__(self, signatures: Iterable[Signature]) -> Iterator[tuple[Signature, Measurement | None]]:
        """Milliseconds of one application of each beyond the call; None if it can't run by itself."""
        for batch in batches(signatures):
            yield from zip(batch, self._measured(batch), strict=True)

    def _measured(self, batch: Sequence[Signature]) -> list[Measurement | None]:
        ready = [self._copies_of(signature) for signature in batch]
        able = [operator for operator in ready if operator is not None]
        rounds: list[_Round] = []
        begin = -inf
        for _ in range(ROUNDS if able else 0):
            time.sleep(max(0.0, begin - time.monotonic()))
            begin = time.monotonic() + EVERY
            rounds.append(self._round(able))
        if self.usual is None and rounds:
            self.usual = median(seconds for one in rounds for seconds in one.reference)
        found = iter([self._summed([one.samples(k) for one in rounds]) for k in range(len(able))])
        return [None if operator is None else next(found) for operator in ready]

    def _round(self, operators: Sequence[Copies]) -> _Round:
        reference: list[float] = []
        seconds = []
        for turn, operator in enumerate(operators):
            if turn % BETWEEN == 0:
                reference += self._reference.samples(1)
            seconds.append(operator.samples(SAMPLES))
        return _Round(reference, seconds)

    def _summed(self, rounds: Sequence[tuple[Sequence[float], float]]) -> Measurement:
        """The measurement on a machine that is as fast as it usually is, from the samples of each round and what the
        reference took at their moment."""
        assert self.usual is not None
        seconds = [s * (self.usual / now) ** SLOWED - self.call for samples, now in rounds for s in samples]
        found = summary([max(self.node, s) for s in seconds])
        return Measurement(found.median_ms, found.spread_ms, found.samples)

    def _copies_of(self, signature: Signature) -> Copies | None:
        """None if it can't run by itself."""
        try:
            return Copies(self._runs(signature), self.clock)
        except (TsrError, ValueError, NotRunnable):
            return None

    def _runs(self, signature: Signature) -> list[Run]:
        graph = operator_graph(signature)
        model = build(graph, self.ops, random_weights(graph, 0))
        feeds = {f"x{i}": _operand(signature, i) for i in range(len(signature.inputs))}
        feeds = {name: feeds[name] for name in (str(v.name) for v in model.graph.inputs)}
        proto, optimized = ir.to_proto(model), True
        if any(t.rank == 4 for t in signature.inputs):
            blocked = _blocked(proto, feeds, self.threads)
            if blocked is not None:
                (proto, feeds), optimized = blocked, False
        data = proto.SerializeToString()
        return [Session(data, self.threads, optimized).bound(feeds) for _ in range(copies(signature))]


@dataclass(frozen=True, slots=True)
class _Round:
    """Seconds of operators that were timed one after the other, by sample, and of the reference before every second
    one."""

    reference: Sequence[float]
    seconds: Sequence[Sequence[float]]

    def samples(self, k: int) -> tuple[Sequence[float], float]:
        """The samples of an operator, and what the reference took about then."""
        at = k // BETWEEN
        return self.seconds[k], median(self.reference[max(0, at - NEAR) : at + NEAR + 1])


class Copies:
    """Copies of an operator, which have run once, and which are run in turn."""

    def __init__(self, runs: Sequence[Run], clock: Clock) -> None:
        self._next = cycle(runs)
        self._clock = clock
        self._calls = calls_per_sample(self._run, clock=clock)

    def samples(self, count: int) -> list[float]:
        """Seconds per call, by sample, of so many samples or fewer; after a call that does not count, unless a call
        is long enough to be a sample."""
        if self._calls > 1:
            self._run()
        started = time.monotonic()
        found = [timed(self._run, self._calls, self._clock)]
        while len(found) < count and time.monotonic() - started < SECONDS:
            found.append(timed(self._run, self._calls, self._clock))
        return found

    def _run(self) -> None:
        next(self._next)()


def batches(signatures: Iterable[Signature]) -> Iterator[list[Signature]]:
    """Signatures that are timed together."""
    batch: list[Signature] = []
    size = 0
    for signature in signatures:
        more = copies(signature) * _bytes(signature)
        if batch and (len(batch) == TOGETHER or size + more > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(signature)
        size += more
    if batch:
        yield batch


def _bytes(signature: Signature) -> int:
    return sum(t.nbytes for t in (*signature.inputs, *signature.outputs))


def copies(signature: Signature) -> int:
    """How many copies of an operator are run in turn."""
    weights = max((signature.inputs[i].nbytes for i in signature.weights), default=0)
    if signature.op == "matmul" and weights and signature.outputs[0].shape[-2] <= COLD_ROWS:
        wanted = min(COLD_COPIES, 1 + COLD_BYTES // weights)
    elif weights >= LARGE:
        wanted = max(COPIES, min(WEIGHT_COPIES, WEIGHT_BYTES // weights))
    else:
        wanted = COPIES
    return max(1, min(wanted, MOST_BYTES // max(1, _bytes(signature))))


def operator_graph(signature: Signature) -> Graph:
    """The graph of one application: operands are inputs x0, x1, .., or weights of these names."""
    builder = GraphBuilder("operator")
    operands = []
    for i, type in enumerate(signature.inputs):
        attrs: Attrs = (("name", f"x{i}"), ("dtype", type.dtype), ("shape", type.shape))
        operands.append(builder.add("weight" if i in signature.weights else "input", (), attrs, (type,)))
    result = builder.add(signature.op, operands, signature.attrs, signature.outputs)
    return builder.finish([("y", result)])


def _operand(signature: Signature, i: int) -> Array:
    """An operand. Ones suit every operator, and take as long as any other number."""
    type = signature.inputs[i]
    return np.ones(type.shape, numpy_dtype(type.dtype))


def _blocked(
    model: onnx.ModelProto, feeds: dict[str, Array], threads: int
) -> tuple[onnx.ModelProto, dict[str, Array]] | None:
    """A model as ONNX Runtime optimizes it, without the reordering of its inputs and outputs, and the inputs that it
    then has; None if nothing is reordered. Raises `NotRunnable`."""
    with TemporaryDirectory(prefix="tensat-dl-") as folder:
        file = Path(folder) / "optimized.onnx"
        Session(model.SerializeToString(), threads, keep=file)
        optimized = onnx.load(file)
    graph = optimized.graph
    at_input = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "ReorderInput"}
    at_output = {n.input[0]: n.output[0] for n in graph.node if n.op_type == "ReorderOutput"}
    at_input = {inner: outer for inner, outer in at_input.items() if outer in feeds}
    if not at_input and not at_output:
        return None
    # In blocks, channels are rounded up, which only a run tells.
    inner = list(at_input)
    whole = onnx.ModelProto()
    whole.CopyFrom(optimized)
    whole.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in inner)
    arrays = Session(whole.SerializeToString(), threads, optimized=False).outputs(feeds)[len(graph.output) :]
    feeds = {name: x for name, x in feeds.items() if name not in at_input.values()}
    feeds |= {name: np.asarray(x) for name, x in zip(inner, arrays, strict=True)}
    nodes = [n for n in graph.node if n.output[0] not in at_input and n.input[0] not in at_output]
    outputs = [next((i for i, o in at_output.items() if o == v.name), v.name) for v in graph.output]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feeds.items()]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    blocked = helper.make_graph(nodes, graph.name, inputs, results, graph.initializer)
    opsets = optimized.opset_import
    return helper.make_model(blocked, opset_imports=opsets, ir_version=optimized.ir_version), feeds


def _chain(length: int) -> bytes:
    """A model of so many negations of one number."""
    nodes = [helper.make_node("Neg", [f"x{i}"], [f"x{i + 1}"]) for i in range(length)]
    ends = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [1]) for i in (0, length)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
