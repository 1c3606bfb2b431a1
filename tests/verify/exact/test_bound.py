"""The bound on errors: graphs that differ are found equal modulo small primes no more often than it says."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tensat_dl.verify.exact.arithmetic import OutOfReach
from tensat_dl.verify.exact.bound import DegreeLedger, Degrees
from tensat_dl.verify.exact.compare import compare_modular
from tensat_dl.verify.exact.modular import PRIMES, Modular
from tensat_dl.verify.exact.operators import EXACT_SEMANTICS
from tests.verify.making import TABLE, Maker

pytestmark = pytest.mark.sampled(4)

DRAWS = 400


def build(rng: random.Random, *, divisions: bool, functions: bool) -> Maker:
    """A graph of a few operators; the last node is its result."""
    g = Maker()
    nodes = [g.input("x", 2, 2), g.input("y", 2, 2)]
    for _ in range(rng.randint(1, 4)):
        ops = ["ewadd", "ewmul", "ewsub", "matmul"] + ["ewdiv"] * divisions + ["tanh"] * functions
        op = rng.choice(ops)
        operands = rng.choices(nodes, k=1 if op == "tanh" else 2)
        nodes.append(g.op(op, *operands))
    return g


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("divisions", [False, True])
@pytest.mark.parametrize("primes", [(11, 13), (23, 29)])
def test_the_bound_holds(primes: tuple[int, int], divisions: bool, functions: bool) -> None:
    """On random pairs of graphs, with as many seeds each that chance stays below the margin."""
    rng = random.Random(0)
    tried = 0
    for _ in range(40):
        pair = [build(rng, divisions=divisions, functions=functions) for _ in range(2)]
        before, after = (g.graph(y=len(g.builder.nodes) - 1) for g in pair)
        try:
            if compare_modular(before, after, TABLE).status == "equal":
                continue
            found = [compare_modular(before, after, TABLE, seed, primes) for seed in range(DRAWS // 10)]
        except OutOfReach:
            continue  # a divisor that is zero everywhere
        wrong = [e.log2_error for e in found if e.status == "equal"]
        if not wrong:
            tried += 1
            continue
        bound = 1.0 if wrong[0] is None else 2.0 ** wrong[0]
        # 4 standard deviations above what is expected at most
        n = len(found)
        assert len(wrong) <= n * bound + 4 * (n * bound * (1 - bound)) ** 0.5 + 1e-9
        tried += 1
    assert tried >= 10


def product_of_differences(degree: int) -> tuple[Maker, int]:
    """(x - 1) (x - 2) .. (x - degree), which has as many zeros as a polynomial of its degree can have."""
    g = Maker()
    x = g.input("x", 1)
    y = g.op("ewsub", x, g.op("fill", value=1.0, dtype="f32", shape=(1,)))
    for i in range(2, degree + 1):
        y = g.op("ewmul", y, g.op("ewsub", x, g.op("fill", value=float(i), dtype="f32", shape=(1,))))
    return g, y


@pytest.mark.parametrize("degree", [1, 2, 5, 10])
def test_the_bound_is_tight(degree: int) -> None:
    primes = 11, 13
    g, y = product_of_differences(degree)
    h = Maker()
    zero = h.op("ewmul", h.input("x", 1), h.op("fill", value=0.0, dtype="f32", shape=(1,)))
    before, after = g.graph(y=y), h.graph(y=zero)
    found = [compare_modular(before, after, TABLE, seed, primes) for seed in range(DRAWS)]
    wrong = [e.log2_error for e in found if e.status == "equal"]
    expected = DRAWS * degree**2 / 143
    assert abs(len(wrong) - expected) <= 4 * (expected + 1) ** 0.5
    assert all(w == pytest.approx(wrong[0]) for w in wrong)
    assert 2.0 ** (wrong[0] or 0.0) == pytest.approx(degree**2 / 143)


def test_degrees() -> None:
    """(a / b + c / d) has the numerator a d + c b over b d."""
    x, y = Degrees(3, 1), Degrees(2, 5)
    assert x.plus(y) == Degrees(8, 6)
    assert x.times(y) == Degrees(5, 6)
    assert x.over(y) == Degrees(8, 3)
    assert x.summed(3) == x.plus(x).plus(x) == Degrees(5, 3)


def test_without_a_bound() -> None:
    """Primes that are too small for the degree say nothing."""
    g, y = product_of_differences(10)
    found = compare_modular(g.graph(y=y), g.graph(y=y), TABLE, 0, (7, 11))
    assert (found.status, found.log2_error) == ("equal", None)
    assert found.reason == "the graphs are too large to compute one"


def test_a_matrix_product_of_quotients() -> None:
    """a / b + c / d + e / f is (a d f + c b f + e b d) / (b d f): of the degrees 3 + 2 + 2 and 2 + 2 + 2 here."""
    m = Modular(PRIMES, 0)
    x = m.divide(m.variable((2, 3), False, "top"), m.variable((2, 3), False, "bottom"))
    y = m.divide(m.variable((3, 2), False, "other top"), m.variable((3, 2), False, "other bottom"))
    scaled = m.multiply(x, m.variable((2, 3), False, "factor"))
    assert EXACT_SEMANTICS["matmul"](m, scaled, y, act="none").degrees == Degrees(7, 6)


@pytest.mark.parametrize(
    ("calls", "divisors", "expected"),
    [
        # the outputs differ by 3 degrees
        (0, 0, Fraction(9, 101 * 103)),
        # 1 argument of the degrees 2 and 1 may be zero
        (1, 0, Fraction(9 + 9, 101 * 103)),
        # 6 pairs, and 4 that may be zero
        (4, 0, Fraction(9 + 10 * 9, 101 * 103)),
        # divisors of 5 degrees in all are not zero with probability 1 - 5 / 101 - 5 / 103 at least
        (0, 5, Fraction(9, 101 * 103) / (1 - Fraction(5, 101) - Fraction(5, 103))),
        (4, 5, Fraction(9 + 10 * 9, 101 * 103) / (1 - Fraction(5, 101) - Fraction(5, 103))),
    ],
)
def test_what_the_bound_adds_up(calls: int, divisors: int, expected: Fraction) -> None:
    """To a bound that is worked out by hand."""
    ledger = DegreeLedger()
    if calls:
        ledger.called("tanh", Degrees(2), calls - 1)
        ledger.called("tanh", Degrees(1, 1), 1)
    if divisors:
        ledger.divided(Degrees(1, 9), divisors)
    found = ledger.log2_error([(Degrees(3), Degrees(1)), (Degrees(1), Degrees(2))], (101, 103))
    assert 2.0**found == pytest.approx(float(expected), rel=1e-12)
