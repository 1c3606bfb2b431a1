"""Modules that have to run as they are: a warning says why, and where in the user's code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning  # noqa: E402
from tensat_dl.torch.capture import _named_in, captured  # noqa: E402

from .models import QUICK  # noqa: E402

HERE = Path(__file__).name


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)  # noisy


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x  # branching


class Averages(nn.Module):
    """What is raised is raised in Python's own code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + fmean([x.sum()])  # averages


class WritesToInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * 2


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.calls


class Views(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x.t(), x + 1


class Saturates(nn.Module):
    """In ONNX Runtime the sigmoid of -30 is 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.sigmoid(-x))


class MayCopy(nn.Module):
    """PyTorch copies an input that lies in another order in memory alone."""

    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x) * 2, x.contiguous()


class ViewsItsTable(nn.Module):
    """A tensor that is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(8, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.table[2:], torch.tanh(x)


TABLE = torch.ones(8, 4)


class ViewsATable(nn.Module):
    """A tensor that is not the module's."""

    def forward(self, x: torch.Tensor) -> Any:
        return TABLE[2:], torch.tanh(x)


class MayView(nn.Module):
    """An input whose elements lie one after the other is not copied."""

    def forward(self, x: torch.Tensor) -> Any:
        return x.reshape(-1), torch.tanh(x)


class PassesOn(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@torch.library.custom_op("tensat_dl_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tensat_dl_tests.twice(x)


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), r"aten::dropout .* at the submodule 1$"),
        (nn.Sequential(nn.BatchNorm1d(4)), r"buffer or parameter 0.running_mean; .* call model.eval"),
        (Noisy(), rf"aten::rand_like draws at random, at .*{HERE}:{line_of('noisy')}, in forward"),
        (Branching(), rf"can't capture the module: .*{HERE}:{line_of('branching')}, in forward"),
        (Averages(), rf"can't capture the module: .*{HERE}:{line_of('averages')}, in forward"),
        (WritesToInput(), "writes to its input x"),
        (Counts(), "buffer or parameter calls"),
        (Saturates(), "output 0 is not finite where the module's is, for large inputs"),
        (nn.LogSigmoid(), "output 0 is not finite where the module's is, for large inputs"),
        (MayCopy(), "an output is an input or a copy of it, by how that lies in memory"),
        (Views(), "output 0 shares memory with an input"),
        (ViewsItsTable(), "output 0 shares memory with an input or a weight"),
        (ViewsATable(), "output 0 shares memory with an input or a weight"),
        (PassesOn(), "computes no tensor"),
        (
            Custom(),
            r"PyTorch is the fastest between the operators that are left to it, tensat_dl_tests::twice",
        ),
        (nn.Linear(4, 4).bfloat16(), "ONNX Runtime does not load it: .*it computes in bfloat16"),
    ],
    ids=lambda p: type(p).__name__ if isinstance(p, nn.Module) else "",
)
def test_why_and_where(module: nn.Module, reason: str) -> None:
    x = torch.ones(4, 4, dtype=next(iter(module.parameters()), torch.ones(1)).dtype)
    with pytest.warns(FallbackWarning, match=reason) as said:
        fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    assert said[0].filename == __file__
    assert torch.equal(x, torch.ones_like(x))
    assert (fast.called, bool(fast.declined)) == ("module", True)
    assert fast.declined in fast.summary()
    torch.manual_seed(1)
    found = fast(x.clone())
    if not isinstance(module, Counts):
        torch.manual_seed(1)
        torch.testing.assert_close(found, module(x.clone()))


class Strides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (4, 4), (1, 2)) + 1


class Complex(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x.abs()) + x.real


class TellsHowItLies(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x), x.stride()


class TellsItsShape(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x), x.shape


class Sparse(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).to_sparse()


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (TellsHowItLies(), "output 1 is 1, and torch.export takes 8 for it"),
        (TellsItsShape(), "a structure that PyTorch does not build"),
        (Sparse(), "output 0 is not a dense tensor"),
    ],
)
def test_outputs_that_models_do_not_have(module: nn.Module, reason: str) -> None:
    with pytest.warns(FallbackWarning, match=reason):
        tensat_dl.torch.optimize(module, (torch.randn(4, 8),), **QUICK)


@pytest.mark.parametrize(
    ("module", "x", "reason"),
    [
        (Strides(), torch.randn(8, 8), "output 0 differs by"),
        (Complex(), torch.randn(4, 8, dtype=torch.complex64), "ONNX Runtime has no complex numbers"),
        (MayView(), torch.randn(8, 4).t(), "output 0 shares memory with an input or a weight"),
    ],
)
def test_what_the_inputs_are_like_matters(module: nn.Module, x: torch.Tensor, reason: str) -> None:
    with pytest.warns(FallbackWarning, match=reason):
        fast = tensat_dl.torch.optimize(module, (x,), **QUICK)
    torch.testing.assert_close(fast(x.t()), module(x.t()))


class Appends(nn.Module):
    def forward(self, x: torch.Tensor, seen: list[torch.Tensor]) -> torch.Tensor:
        seen.append(x)
        return torch.tanh(x) * 2


class Replaces(nn.Module):
    def forward(self, given: dict[str, torch.Tensor]) -> torch.Tensor:
        given["x"] = torch.tanh(given["x"])
        return given["x"] * 2


@pytest.mark.parametrize(
    ("module", "args"),
    [
        (Appends(), lambda: (torch.ones(4, 4), [])),
        (Replaces(), lambda: ({"x": torch.ones(4, 4)},)),
    ],
)
def test_a_container_among_the_inputs_that_changes(module: nn.Module, args: Callable[[], Any]) -> None:
    example, ours, theirs = args(), args(), args()
    with pytest.warns(FallbackWarning, match="it changes a list, a dictionary or another container"):
        fast = tensat_dl.torch.optimize(module, example, **QUICK)
    torch.testing.assert_close(fast(*ours), module(*theirs))
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(example, args())


class FillsWhatIsMasked(nn.Module):
    """As `nn.TransformerEncoder` does: one way where nothing is masked, another where something is."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting() or not mask.any():
            return torch.tanh(x) * 2
        return torch.where(mask[..., None], 0.0, torch.tanh(x) * 2)


def test_a_mask_that_masks_nothing_masks_something_elsewhere() -> None:
    module, x = FillsWhatIsMasked(), torch.randn(2, 5, 4)
    mask = torch.zeros(2, 5, dtype=torch.bool)
    with pytest.warns(FallbackWarning, match="output 0 differs"):
        fast = tensat_dl.torch.optimize(module, (x, mask), **QUICK)
    mask[1, 3:] = True
    torch.testing.assert_close(fast(x, mask), module(x, mask))


def test_places_where_parts_begin_stay_in_order() -> None:
    bags = nn.EmbeddingBag(20, 8).requires_grad_(False).eval()
    ids, offsets = torch.randint(20, (12,)), torch.tensor([0, 3, 5, 7])
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(bags, (ids, offsets), **QUICK)
        other = torch.tensor([0, 1, 1, 11])
        torch.testing.assert_close(fast(ids, other), bags(ids, other))


class Doubles(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (0, x.shape[1] % 2)).reshape(x.shape[0], 2, -1) + x[:, None, :1]


def test_sizes_that_are_less_open_are_told() -> None:
    sizes = {"x": {1: torch.export.Dim("n", min=4, max=64)}}
    with pytest.warns(FallbackWarning, match="it can't show for all sizes of n that .*; Dim.DYNAMIC in"):
        tensat_dl.torch.optimize(Doubles(), (torch.randn(2, 8),), dynamic_shapes=sizes, **QUICK)


PICKED: list[float] = []


@torch.library.custom_op("tensat_dl_tests::rows", mutates_args=())
def rows(x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Rows of x, by the first column of boxes."""
    PICKED.extend(boxes[:, 0].tolist())
    return x[boxes[:, 0].long()] * boxes[:, 1:]


@rows.register_fake
def _(x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    return boxes.new_empty(boxes.shape[0], x.shape[1])


def test_a_size_that_no_dimension_has_alone() -> None:
    pairs, x = torch.export.Dim("pairs"), torch.randn(4, 8)
    with pytest.warns(
        FallbackWarning, match=r"a dimension is 2\*s\d+, and none is s\d+ alone: take Dim.AUTO"
    ):
        tensat_dl.torch.optimize(nn.Linear(8, 8).eval(), (x,), dynamic_shapes=({0: 2 * pairs},), **QUICK)


class PicksRows(nn.Module):
    def forward(self, x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        return rows(torch.tanh(x) * 2, boxes) + 1


def test_custom_operators_get_rows_of_the_example() -> None:
    """Some do not look whether indices are in range."""
    boxes = torch.cat([torch.tensor([[0.0], [1.0], [0.0]]), torch.randn(3, 4) * 9], 1)
    tensat_dl.torch.optimize(PicksRows(), (torch.randn(2, 4), boxes), **QUICK)
    assert len(PICKED) > 2 * len(boxes)
    assert {*PICKED} == {0.0, 1.0}


def test_custom_operators_can_be_translated() -> None:
    onnxscript = pytest.importorskip("onnxscript")

    def translation(x: Any) -> Any:
        return onnxscript.opset18.Add(x, x)

    x = torch.randn(4, 4)
    table = {torch.ops.tensat_dl_tests.twice.default: translation}
    fast = tensat_dl.torch.optimize(Custom(), (x,), custom_translation_table=table, **QUICK)
    assert fast.called != "module"
    torch.testing.assert_close(fast(x), Custom()(x))


class Expands(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x).expand(3, 4)


def test_the_operator_that_an_error_names() -> None:
    """Others' names may be in its name."""
    program = captured(Expands().eval(), (torch.randn(1, 4),), {})
    found = _named_in(
        "No ONNX function found for <OpOverload(op='aten.expand_copy', overload='default')>", program
    )
    assert found is not None
    assert found.target is torch.ops.aten.expand.default
    assert (
        _named_in("No ONNX function found for <OpOverload(op='aten.sin', overload='default')>", program)
        is None
    )
