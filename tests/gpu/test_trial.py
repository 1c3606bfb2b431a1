"""Implementations are tried on operands that their operators take, and what they compute is looked at closely."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tensat_dl.cost.application import OpApplication, application, from_data
from tensat_dl.cost.signature import parse
from tensat_dl.gpu.trial import FILLINGS, Trial, operands, rotated
from tests.cost.test_calibrate import OPS
from tests.gpu.test_executor import CPU

BATCHNORM = "batchnorm(f32[2, 3, 4, 4], f32[3], f32[3], f32[3], f32[3]; eps=0.001) -> f32[2, 3, 4, 4] @ h100"


class Implementation:
    """In place of the registry's."""

    def __init__(self, kernel: Callable[[Any], torch.Tensor], tf32: bool = False) -> None:
        self.kernel, self.tf32 = kernel, tf32

    def build(self) -> Callable[[Any], torch.Tensor]:
        return self.kernel


def said(text: str, kernel: Callable[[Any], torch.Tensor], tf32: bool = False) -> str:
    """What a check says of a kernel for an application."""
    trial = Trial(OpApplication(parse(text)), CPU, False)
    trial.implementations = {"it": Implementation(kernel, tf32)}
    return trial.check("it")


def test_a_result_has_the_element_type_that_is_declared() -> None:
    relu = "relu(f16[8]) -> f16[8] @ h100"
    assert said(relu, lambda x: torch.relu(x[0])) == ""
    wider = said(relu, lambda x: torch.relu(x[0]).float())
    assert wider == "wrong: its element type is float32, not float16"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("power(i32[4]; exponent=2.0) -> i32[4] @ h100", "float32[4]"),
        ("relu(f32[4]) -> f32[5] @ h100", "float64[4]"),
    ],
)
def test_what_does_not_type_check_is_not_measured(text: str, means: str) -> None:
    trial = Trial(OpApplication(parse(text)), CPU, False)
    for name in trial.implementations:
        with pytest.raises(ValueError, match=re.escape(f"it does not type-check: it is {means}")):
            trial.check(name)


@pytest.mark.parametrize(
    "text",
    [
        BATCHNORM,
        "sqrt(f32[9, 50]) -> f32[9, 50] @ h100",
        "rsqrt(f16[9, 50]) -> f16[9, 50] @ h100",
        "log(f32[9, 50]) -> f32[9, 50] @ h100",
        "power(f32[9, 50]; exponent=0.7) -> f32[9, 50] @ h100",
        "instancenorm(f32[2, 3, 4, 5], f32[3], f32[3]; eps=0.001) -> f32[2, 3, 4, 5] @ h100",
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")  # beyond the tensor's end
def test_every_element_is_looked_at(text: str) -> None:
    wanted = application(OPS, parse(text))
    trial = Trial(wanted, CPU, False)
    assert {trial.check(name) for name in trial.implementations} == {""}
    assert trial.want().isfinite().all()


def test_other_operands_have_both_signs() -> None:
    x, *_, var = operands(OpApplication(parse(BATCHNORM)), CPU)
    assert (x < 0).any()
    assert (x > 0).any()
    assert (var > 0).all()
    (x,) = operands(OpApplication(parse("power(f32[99]; exponent=2.0) -> f32[99] @ h100")), CPU)
    assert (x < 0).any()


def test_operands_inside_of_a_composition_need_not_be_positive() -> None:
    (x,) = operands(application(OPS, parse("softplus(f32[40]) -> f32[40] @ h100")), CPU)
    assert (x < 0).any()


def composed(text: str, *parts: tuple[str, list[int]]) -> OpApplication:
    return from_data({"signature": text, "definition": [{"node": n, "inputs": i} for n, i in parts]})


def test_operands_of_a_composition_are_positive_where_its_operators_need_it() -> None:
    found = composed(
        "f(f32[40], f32[40]) -> f32[40] @ h100",
        ("sqrt(f32[40]) -> f32[40] @ h100", [1]),
        ("ewadd(f32[40], f32[40]) -> f32[40] @ h100", [0, 2]),
    )
    x, y = operands(found, CPU)
    assert (x < 0).any()
    assert (y > 0).all()


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_where_nothing_is_finite_operands_are_positive() -> None:
    """The mean of logarithms of sums is a number only if all of these are positive."""
    found = composed(
        "f(f32[9, 40], f32[9, 40]) -> f32[9, 1] @ h100",
        ("ewadd(f32[9, 40], f32[9, 40]) -> f32[9, 40] @ h100", [0, 1]),
        ("log(f32[9, 40]) -> f32[9, 40] @ h100", [2]),
        ("reduce_mean(f32[9, 40]; axis=1) -> f32[9, 1] @ h100", [3]),
    )
    trial = Trial(found, CPU, False)
    assert {trial.check(name) for name in trial.implementations} == {""}
    trial.implementations = {"it": Implementation(lambda x: torch.zeros(9, 1))}  # type: ignore[dict-item]
    assert trial.check("it").startswith("wrong: off by")


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_check_without_a_finite_element_is_no_success() -> None:
    never = composed(
        "f(f32[40]) -> f32[40] @ h100",
        ("ewmul(f32[40], f32[40]) -> f32[40] @ h100", [0, 0]),
        ("ewsub(f32[40], f32[40]) -> f32[40] @ h100", [0, 0]),
        ("ewsub(f32[40], f32[40]) -> f32[40] @ h100", [2, 1]),
        ("log(f32[40]) -> f32[40] @ h100", [3]),
    )
    trial = Trial(never, CPU, False)
    (said,) = {trial.check(name) for name in trial.implementations}
    assert said == "not checked: no element of the result is finite"


MB = 1 << 20


@pytest.mark.parametrize(
    ("kilobytes", "copies"), [(16, 256), (256, 256), (512, 201), (4096, 26), (200 * 1024, 1)]
)
def test_copies_of_weights_fill_the_cache(kilobytes: int, copies: int) -> None:
    given = [torch.zeros(8), torch.zeros(kilobytes * 256)]
    sets = rotated({1}, given, 50 * MB)
    assert len(sets) == copies
    assert all(x is given[0] for x, _ in sets)  # was just computed
    weights = {w.data_ptr(): w.nbytes for _, w in sets}
    assert len(weights) == copies
    assert sum(weights.values()) <= FILLINGS * 50 * MB + given[1].nbytes
    if kilobytes >= 256:
        assert sum(weights.values()) >= 50 * MB


def test_all_implementations_are_timed_on_the_same_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensat_dl.gpu.trial.cache_bytes", lambda _: 1 << 12)
    trial = Trial(
        OpApplication(parse("matmul(f32[2, 8], f32[8, 8]; act=none) -> f32[2, 8] @ h100")), CPU, False
    )
    seen: list[set[int]] = []

    def kernel(given: Any) -> torch.Tensor:
        seen[-1].add(given[1].data_ptr())
        return torch.zeros(2, 8)

    trial.implementations = {name: Implementation(kernel) for name in ("one", "two")}  # type: ignore[misc]
    for name in trial.implementations:
        seen.append(set())
        trial.time(name)
    assert seen[0] == seen[1]
    assert len(seen[0]) == 33


def rounded(x: torch.Tensor, bits: int) -> torch.Tensor:
    """f32 with so many bits of mantissa, to the nearest number."""
    left = 23 - bits
    return ((x.view(torch.int32) + (1 << (left - 1))) & -(1 << left)).view(torch.float32)


@pytest.mark.parametrize("act", ["none", "relu", "sigmoid", "tanh", "gelu"])
@pytest.mark.parametrize("k", [32, 512, 4096])
def test_tf32_is_as_wrong_as_its_factors(act: str, k: int) -> None:
    """.. also behind an activation that makes large elements small."""
    text = f"matmul(f32[64, {k}], f32[{k}, 64]; act={act}) -> f32[64, 64] @ h100"
    activation = {"none": lambda x: x, "gelu": torch.nn.functional.gelu}.get(act) or getattr(torch, act)

    def of(change: Callable[[torch.Tensor], torch.Tensor]) -> str:
        return said(text, lambda given: activation(change(given[0]) @ change(given[1])), tf32=True)

    assert of(lambda x: rounded(x, 10)) == ""
    assert (
        of(lambda x: (x.view(torch.int32) & -8192).view(torch.float32)) == ""
    )  # cut off, as tensor cores do
    assert said(text, lambda x: activation(x[0][:, :-1] @ x[1][:-1]), tf32=True).startswith("wrong: off by")
    if act == "tanh" and k > 32:
        assert said(text, lambda x: activation(rounded(x[0], 10) @ rounded(x[1], 10))) != ""  # is not f32
        assert of(lambda x: rounded(x, 7)).startswith("wrong: off by")  # is bf16
