"""Whole discoveries over few operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.progress import Progress
from tensat_dl.core.rule import RewriteRule
from tensat_dl.discover.discover import Discovery, _Discovery
from tensat_dl.discover.written import formatted
from tensat_dl.engine.exploration import Limits
from tensat_dl.engine.loop import Explorer
from tensat_dl.lang.named_sizes import graph_of
from tests.discover.finding import found, program, texts

pytestmark = pytest.mark.sampled(3)

GEMM = "/// x w + b.\nop gemm(x: tensor, w: tensor, b: tensor) = ewadd(matmul(x, w), b)"


@pytest.fixture(scope="module")
def products() -> Discovery:
    return found("matmul", "relu")


def test_rules_have_verdicts_and_are_general(products: Discovery) -> None:
    assert set(texts(products)) == {
        "{ relu(relu(x)) <=> relu(x) }",
        "{ matmul(matmul(x, y), z; act = f) <=> matmul(x, matmul(y, z); act = f) }",
        "-f for f in relu, sigmoid, tanh, gelu { f(matmul(x, y)) <=> matmul(x, y; act = f) }",
    }
    assert {v.status for r in products.rules for v in r.verdicts} <= {"proved", "tested"}


def test_no_name_is_that_of_a_member_of_a_family() -> None:
    """`poolmax(relu(x)) <=> ..` is a rule, and `f(poolmax(x)) <=> ..` a family: both were `poolmax-relu`."""
    names = [v.rule for r in found("poolmax", "relu", "tanh").rules for v in r.verdicts]
    assert "poolmax-relu" in names
    assert len(set(names)) == len(names)


def test_the_number_of_processes_makes_no_difference(products: Discovery) -> None:
    other = found("matmul", "relu", processes=2)
    assert [r.text for r in other.rules] == [r.text for r in products.rules]


class Stopping(Progress):
    """Ctrl-C, when so many things of a phase are done."""

    def __init__(self, phase: str, after: int) -> None:
        super().__init__()
        self.stop, self.after, self.current = phase, after, ""

    def phase(self, name: str) -> None:
        super().phase(name)
        self.current = name

    def counting(self, done: int, total: int) -> None:
        if self.current == self.stop and done >= self.after:
            self.stop = ""
            raise KeyboardInterrupt


@pytest.mark.parametrize(("phase", "after"), [("enumerate", 1), ("generalise", 2), ("reduce", 1)])
def test_an_interrupted_discovery_goes_on(
    products: Discovery, phase: str, after: int, tmp_path: Path
) -> None:
    memo = tmp_path / "found.tsr.partial"
    first = found("matmul", "relu", memo=memo, progress=Stopping(phase, after))
    assert first.interrupted
    assert memo.exists()
    second = found("matmul", "relu", memo=memo)
    assert not second.interrupted
    assert [r.text for r in second.rules] == [r.text for r in products.rules]


def test_laws_of_a_composition_do_not_repeat_its_definition() -> None:
    laws = found("gemm", "matmul", "ewadd", text=GEMM, about=("gemm",), leaves=3)
    assert "{ ewadd(matmul(x, y), z) <=> gemm(x, y, z) }" not in texts(laws)


def test_a_law_is_kept_that_follows_from_laws_of_other_operators() -> None:
    """Sums in another order are not about `gemm`, so they are not written; what follows from them is."""
    laws = found("gemm", "ewadd", text=GEMM, about=("gemm",))
    assert "{ ewadd(gemm(x, y, z), w) => gemm(x, y, ewadd(z, w)) }" in texts(laws)
    assert all("gemm" in text for text in texts(laws))


def test_a_law_is_kept_that_follows_from_the_definition_and_laws_of_other_operators() -> None:
    """The definition was among the rules that were found, so all that follows from it and from the law of sums, which
    is not written, was left out."""
    laws = found("gemm", "ewadd", "concat", text=GEMM, about=("gemm",), size=3)
    assert (
        "{ concat(gemm(x, y, z), gemm(w, y, z); axis = k) <=> gemm(concat(x, w; axis = k), y, z) }"
        in texts(laws)
    )


@pytest.mark.parametrize(("phase", "after"), [("generalise", 2), ("reduce", 0)])
def test_an_interrupted_discovery_begins_nothing_else(
    phase: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives what was tested by then: to test the rest took minutes."""
    stopping = Stopping(phase, after)
    examined = _Discovery._examine

    def examine(search: _Discovery, rules: Sequence[RewriteRule]) -> None:
        assert stopping.stop, "after the interruption"
        examined(search, rules)

    monkeypatch.setattr(_Discovery, "_examine", examine)
    first = found("matmul", "relu", progress=stopping)
    assert first.interrupted
    assert not stopping.stop
    assert all(r.verdicts for r in first.rules)
    assert bool(first.rules) == (phase == "reduce")


def test_an_interruption_among_merges_leaves_the_laws(
    products: Discovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merges(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Discovery, "merges", merges)
    laws = found("matmul", "relu")
    assert laws.interrupted
    assert [r.text for r in laws.rules] == [r.text for r in products.rules]


MERGE = """rule merge-matmul-2 {
  left = matmul(x, y; act = f)
  right = matmul(x, z; act = f)
  =>
  whole = matmul(x, concat(y, z; axis = -1); act = f)
  (left, right) = split(whole; axis = -1, sizes = [dim(left, -1), dim(right, -1)])
}
"""


def test_laws_about_concatenations_are_merges_too() -> None:
    """A search meets two products of one input, and no concatenation of them."""
    laws = found("matmul", "concat", size=3, leaves=3).rules
    merge = next(r for r in laws if r.name == "merge-matmul-2")
    assert formatted(merge.text) == "/// x @ y and x @ z are the two parts of x @ [y, z].\n" + MERGE
    assert [v.status for v in merge.verdicts] == ["proved"]


def test_a_search_merges_with_a_found_rule() -> None:
    graph = (
        "input x : f32[4, 5]\nweight u : f32[5, 6]\nweight v : f32[5, 7]\noutput matmul(x, u), matmul(x, v)"
    )
    own = program(f"{MERGE}graph g {{ {graph} }}")
    explorer = Explorer(graph_of(own.graphs["g"], own.ops, {}), own.ops, own.rules, Limits(iterations=1))
    assert [step.egraph.op.count("matmul") for step in explorer.run()] == [2, 3]


def test_terms_without_a_tensor_in_common_are_not_merged() -> None:
    assert not any(r.general.arrow == "merge" for r in found("relu", "concat", size=3).rules)


def test_a_number_on_both_sides_becomes_a_scalar() -> None:
    laws = texts(found("matmul", "ewmul", "2"))
    assert "{ matmul(x, ewmul(y, z)) <=> ewmul(matmul(x, y), z) where rank(z) == 0 }" in laws


def test_a_difference_is_a_sum_with_a_multiple() -> None:
    laws = texts(found("ewsub", "ewadd", "smul", "-1", leaves=2))
    assert "{ ewadd(smul(x, -1.0), y) <=> ewsub(y, x) }" in laws


def test_a_size_that_takes_years_is_refused() -> None:
    with pytest.raises(TsrError, match=r"would take about .* years"):
        found("matmul", "ewadd", "concat", "transpose", size=12)


@pytest.mark.sampled(5)
def test_a_merge_by_a_common_operand_is_a_law() -> None:
    """Two applications that share an operand have five leaves."""
    laws = found("gemm", "concat", text=GEMM, about=("gemm",), leaves=5, size=3)
    left, right = (
        "gemm(x, concat(y, z; axis = k), concat(w, u; axis = -1))",
        "concat(gemm(x, y, w), gemm(x, z, u); axis = k)",
    )
    assert any(left in text and right in text for text in texts(laws))
