"""`nn.TransformerEncoder`: its calls leave out padded places, and look whether masks are causal."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.modules import transformer  # noqa: E402

import tensat_dl.torch  # noqa: E402
from tensat_dl.torch import FallbackWarning  # noqa: E402
from tensat_dl.torch.capture import Declined, captured  # noqa: E402

from .models import QUICK  # noqa: E402

CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)


def encoder(norm: bool = False, **options: Any) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 1, nn.LayerNorm(8) if norm else None, **options).eval()


def agree(module: nn.Module, calls: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    """The first call is the example."""
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        fast = tensat_dl.torch.optimize(module, *calls[0], **QUICK)
        for args, named in calls:
            torch.testing.assert_close(fast(*args, **named), module(*args, **named), rtol=1e-4, atol=1e-5)
    assert fast.called != "module"
    assert not any(m._forward_hooks for m in module.modules())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("options", [{}, {"mask_check": False}, {"enable_nested_tensor": False}], ids=str)
def test_padded_places(options: dict[str, Any]) -> None:
    """At the ends of sequences they are left out, and 0 behind the last layer, unless one is elsewhere."""
    masks = [torch.zeros(2, 5, dtype=torch.bool) for _ in range(3)]
    masks[0][1, 3:] = masks[1][0, 4:] = True
    if "mask_check" not in options:
        masks[2][1, 2] = True
    x = torch.randn(2, 5, 8)
    agree(encoder(norm=True, **options), [((x,), {"src_key_padding_mask": m}) for m in masks])


@pytest.mark.parametrize("hint", [{}, {"is_causal": True}], ids=str)
def test_causal_masks(hint: dict[str, bool]) -> None:
    agree(encoder(), [((torch.randn(2, 5, 8),), {"mask": CAUSAL, **hint}) for _ in range(2)])


def test_causal_and_padded() -> None:
    padded = torch.zeros(2, 5, dtype=torch.bool)
    padded[1, 3:] = True
    named = {"mask": CAUSAL < 0, "src_key_padding_mask": padded}
    agree(encoder(), [((torch.randn(2, 5, 8),), named) for _ in range(2)])


def test_a_decoder() -> None:
    module = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    agree(module, [((torch.randn(2, 4, 8), torch.randn(2, 5, 8)), {"tgt_mask": CAUSAL}) for _ in range(2)])


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(f"it fails with {len(self.encoder.layers[-1]._forward_hooks)} hook")


def test_what_is_changed_in_pytorch_is_changed_back() -> None:
    module, detect = Fails().eval(), transformer._detect_is_causal_mask
    with pytest.raises(Declined, match="it fails with 1 hook"):
        captured(module, (torch.randn(2, 5, 8),), {})
    assert transformer._detect_is_causal_mask is detect
    assert not module.encoder.layers[-1]._forward_hooks


def test_what_is_private_in_pytorch_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(transformer, "_detect_is_causal_mask")
    program = captured(nn.Tanh().eval(), (torch.randn(2, 8),), {})
    assert [
        n.target for n in program.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default)
    ]
    assert not hasattr(transformer, "_detect_is_causal_mask")
