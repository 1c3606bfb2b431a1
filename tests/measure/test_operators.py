"""Single operators in ONNX Runtime: that they run, not how fast."""

from __future__ import annotations

from math import isfinite

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx_ir")

import numpy as np
import onnx_ir as ir

from tensat_dl.cost.profile import Measurement
from tensat_dl.cost.signature import parse
from tensat_dl.measure import operators
from tensat_dl.measure.operators import OperatorTimer, operator_graph
from tensat_dl.onnx.exporter import build, random_weights
from tensat_dl.onnx.session import NotRunnable, Session
from tests.cost.builders import table

CONV = "act=relu, dilation=[1, 1], pads=[1, 1, 1, 1], stride=[1, 1]"
POOL = "act=none, dilation=[1, 1], kernel=[2, 2], pads=[0, 0, 0, 0], stride=[2, 2]"
NORM = "weight f32[8], weight f32[8], weight f32[8], weight f32[8]; eps=0.00001"

SIGNATURES = [
    "matmul(f32[4, 8], weight f32[8, 6]; act=none) -> f32[4, 6] @ cpu",
    "matmul(f32[4, 8], f32[8, 6]; act=tanh) -> f32[4, 6] @ cpu",
    "matmul(f32[4, 8], weight f32[8, 6], weight f32[6]; act=relu) -> f32[4, 6] @ cpu",
    "matmul(f32[2, 4, 8], f32[2, 8, 6]; act=none) -> f32[2, 4, 6] @ cpu",
    "matmul(f64[4, 8], weight f64[8, 6]; act=none) -> f64[4, 6] @ cpu",
    f"conv2d(f32[1, 16, 8, 8], weight f32[16, 16, 3, 3]; {CONV}) -> f32[1, 16, 8, 8] @ cpu",
    f"conv2d(f32[1, 12, 8, 8], weight f32[20, 12, 3, 3]; {CONV}) -> f32[1, 20, 8, 8] @ cpu",
    f"conv2d(f32[1, 3, 8, 8], weight f32[16, 3, 3, 3]; {CONV}) -> f32[1, 16, 8, 8] @ cpu",
    f"conv2d(f32[1, 12, 8, 8], weight f32[12, 1, 3, 3]; {CONV}) -> f32[1, 12, 8, 8] @ cpu",
    f"conv2d(f32[1, 12, 8, 8], f32[20, 12, 3, 3]; {CONV}) -> f32[1, 20, 8, 8] @ cpu",
    f"poolmax(f32[1, 12, 8, 8]; {POOL}) -> f32[1, 12, 4, 4] @ cpu",
    f"batchnorm(f32[1, 8, 4, 4], {NORM}) -> f32[1, 8, 4, 4] @ cpu",
    "ewadd(f32[1, 8, 4, 4], f32[1, 8, 1, 1]) -> f32[1, 8, 4, 4] @ cpu",
    "concat(f32[1, 8, 4, 4], weight f32[1, 8, 4, 4], f32[1, 8, 4, 4]; axis=1) -> f32[1, 24, 4, 4] @ cpu",
    "slice(f32[4, 8]; axis=1, start=2, stop=5) -> f32[4, 3] @ cpu",
    "transpose(f32[4, 8]; perm=[1, 0]) -> f32[8, 4] @ cpu",
    "silu(f32[4, 8]) -> f32[4, 8] @ cpu",
    "smul(f32[4, 8], weight f32[]) -> f32[4, 8] @ cpu",
]


@pytest.fixture(scope="module")
def timer() -> OperatorTimer:
    return OperatorTimer(table(), 1)


def measured(timer: OperatorTimer, text: str) -> Measurement | None:
    ((signature, found),) = timer([parse(text)])
    assert signature == parse(text)
    return found


@pytest.mark.parametrize("text", SIGNATURES)
def test_an_operator_is_measured(text: str, timer: OperatorTimer) -> None:
    found = measured(timer, text)
    assert found is not None
    assert isfinite(found.median_ms)
    assert found.median_ms >= timer.node * 1e3 > 0
    assert operators.ROUNDS <= found.samples <= operators.ROUNDS * operators.SAMPLES


def test_no_operator_takes_nothing(timer: OperatorTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the machine was busy while the call that does nothing was measured: relu(relu(x)) costs more than
    relu(x)."""
    monkeypatch.setattr(timer, "call", 1.0)
    found = measured(timer, "relu(f32[4, 2]) -> f32[4, 2] @ cpu")
    assert found is not None
    assert timer.node > 0
    assert found.median_ms == pytest.approx(timer.node * 1e3)


@pytest.mark.parametrize(
    "text", ["blackbox(f32[4, 8]) -> f32[4, 8] @ cpu", "pair(f32[4, 8]) -> f32[4, 8], f32[4, 8] @ cpu"]
)
def test_what_onnx_does_not_have_is_not_measured(text: str, timer: OperatorTimer) -> None:
    assert measured(timer, text) is None


class Slowed:
    """An operator of so many seconds, called so often in a round, on a machine that is slow in the second round. The
    call of the number ``slip`` happens to take longer."""

    def __init__(self, seconds: float, slowed: float, calls: int, slip: int | None = None) -> None:
        self.seconds, self.slowed, self.calls, self.slip = seconds, slowed, calls, slip
        self.turn = 0

    def samples(self, count: int) -> list[float]:
        slow = self.turn // self.calls % operators.ROUNDS == 1
        odd = 3.0 if self.turn == self.slip else 1.0
        self.turn += 1
        return [odd * self.seconds * 2.0 ** (self.slowed * slow)] * count


def test_a_slow_moment_does_not_count(timer: OperatorTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor that the reference happens to take long."""
    monkeypatch.setattr(timer, "_copies_of", lambda _: Slowed(0.01, operators.SLOWED, 1))
    monkeypatch.setattr(timer, "usual", None)
    monkeypatch.setattr(operators, "EVERY", 0.0)
    for usual in (0.001, 0.002):  # by its median at first, then as it is told
        monkeypatch.setattr(timer, "_reference", Slowed(0.001, 1.0, 5, slip=6))
        found = [found for _, found in timer(map(parse, SIGNATURES[:9]))]
        for one in found:
            assert one is not None
            expected = 10.0 * (usual / 0.001) ** operators.SLOWED
            assert one.median_ms == pytest.approx(expected - 1e3 * timer.call)
            assert one.spread_ms == pytest.approx(0.0)
            assert one.samples == operators.ROUNDS * operators.SAMPLES
        assert timer.usual == usual
        monkeypatch.setattr(timer, "usual", 0.002)


def test_what_is_timed_together_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    signatures = [parse(text) for text in SIGNATURES]
    assert list(operators.batches(signatures)) == [signatures]
    monkeypatch.setattr(operators, "TOGETHER", 7)
    assert [len(batch) for batch in operators.batches(signatures)] == [7, 7, 4]
    monkeypatch.setattr(operators, "MOST_BYTES", 1)
    assert [len(batch) for batch in operators.batches(signatures)] == [1] * len(signatures)


def test_weights_are_initialisers() -> None:
    graph = operator_graph(parse(SIGNATURES[0]))
    model = build(graph, table(), random_weights(graph, 0))
    assert [v.name for v in model.graph.inputs] == ["x0"]
    assert list(model.graph.initializers) == ["x1"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("relu(f32[64, 64]) -> f32[64, 64] @ cpu", 4),
        ("matmul(f32[64, 64], weight f32[64, 64]; act=none) -> f32[64, 64] @ cpu", 4),
        ("matmul(f32[64, 512], weight f32[512, 512]; act=none) -> f32[64, 512] @ cpu", 16),
        ("matmul(f32[64, 2048], weight f32[2048, 2048]; act=none) -> f32[64, 2048] @ cpu", 4),
        ("matmul(f32[1, 2048], weight f32[2048, 2048]; act=none) -> f32[1, 2048] @ cpu", 5),
        ("matmul(f32[1, 64], weight f32[64, 64]; act=none) -> f32[1, 64] @ cpu", 32),
        ("matmul(f32[1, 64], f32[64, 64]; act=none) -> f32[1, 64] @ cpu", 4),
        ("relu(f32[16384, 2048]) -> f32[16384, 2048] @ cpu", 2),
        ("relu(f32[65536, 2048]) -> f32[65536, 2048] @ cpu", 1),
    ],
)
def test_copies_are_run_in_turn(text: str, count: int) -> None:
    assert operators.copies(parse(text)) == count


def test_every_copy_has_its_turn(timer: OperatorTimer, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    monkeypatch.setattr(timer, "_runs", lambda _: [lambda k=k: runs.append(k) for k in range(3)])  # type: ignore[misc]
    measured(timer, SIGNATURES[0])
    assert runs[:7] == [0, 1, 2, 0, 1, 2, 0]


def test_a_session_computes() -> None:
    graph = operator_graph(parse("ewadd(f32[2], f32[2]) -> f32[2] @ cpu"))
    model = ir.to_proto(build(graph, table(), random_weights(graph, 0))).SerializeToString()
    feeds = {"x0": np.array([1, 2], np.float32), "x1": np.array([3, 4], np.float32)}
    session = Session(model, 1)
    (y,) = session.outputs(feeds)
    assert y.tolist() == [4, 6]
    session.bound(feeds)()


def test_a_model_that_is_wrong_about_the_rank_of_its_output() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 8, opset_import: ["" : 17]>
        wrong (float[8] x, int64[k] shape) => (float[1, n] y) { y = Reshape(x, shape) }"""
    )
    session = Session(ir.to_proto(model).SerializeToString(), 1)
    run = session.bound({"x": np.zeros(8, np.float32), "shape": np.array([2, 2, 2])})
    run()
    run()


def test_errors_of_onnx_runtime_are_one_line() -> None:
    with pytest.raises(NotRunnable) as e:
        Session(b"nonsense", 1)
    assert "\n" not in str(e.value)
    graph = operator_graph(parse("ewadd(f32[2], f32[2]) -> f32[2] @ cpu"))
    model = ir.to_proto(build(graph, table(), random_weights(graph, 0))).SerializeToString()
    with pytest.raises(NotRunnable):
        Session(model, 1).bound({"x0": np.ones(3, np.float32), "x1": np.ones(2, np.float32)})
