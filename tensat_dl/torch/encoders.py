"""`nn.TransformerEncoder` as it is when it is called: `torch.export` sees another path through it, and no way past a
look at the values of a mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import transformer

#: The function of PyTorch that looks at the values of a mask.
_DETECT = "_detect_is_causal_mask"


@contextmanager
def encoders_as_called(module: torch.nn.Module) -> Iterator[None]:
    """Within, the encoders of a module are exported with the outputs that calls have. It is looked up nowhere whether
    a mask is causal: layers compute the same with the mask."""
    nested = [m for m in module.modules() if isinstance(m, nn.TransformerEncoder) and _may_nest(m)]
    with ExitStack() as undone:
        for m in nested:
            padded = _Padded(getattr(m, "mask_check", True))
            undone.callback(m.layers[-1].register_forward_hook(padded, with_kwargs=True).remove)
        if hasattr(transformer, _DETECT):  # it is private
            undone.callback(setattr, transformer, _DETECT, getattr(transformer, _DETECT))
            setattr(transformer, _DETECT, _is_causal_without_mask)
        yield


def _is_causal_without_mask(mask: object, is_causal: bool | None = None, size: int | None = None) -> bool:
    return mask is None and bool(is_causal)


def _may_nest(encoder: nn.TransformerEncoder) -> bool:
    """Whether a call leaves out padded places, which are 0 behind the last layer."""
    return (
        torch.backends.mha.get_fastpath_enabled()
        and getattr(encoder, "use_nested_tensor", False)
        and len(encoder.layers) > 0
        and not encoder.layers[0].training
    )


class _Padded:
    """Puts zeros at padded places of the result of a layer. If ``checked``, that is done where all of them are at the
    ends of sequences."""

    def __init__(self, checked: bool) -> None:
        self._checked = checked

    def __call__(
        self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: torch.Tensor
    ) -> torch.Tensor:
        mask = kwargs.get("src_key_padding_mask")
        if (
            mask is None
            or kwargs.get("src_mask") is not None
            or found.dim() != 3
            or not torch.compiler.is_exporting()
        ):
            return found
        padded = mask != 0
        if self._checked:
            padded = padded & ~(padded[:, :-1] & ~padded[:, 1:]).any()
        return torch.where(padded[..., None], 0.0, found)
