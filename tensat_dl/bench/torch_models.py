"""The models of ``tensat-dl bench torch``, all with random weights, and the contestants that run them. Imports
nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

#: Installs what the models come from.
INSTALL = "pip install torchvision timm transformers"
EAGER, INDUCTOR, INDUCTOR_MAX, ONNX_RUNTIME, OURS = CONTESTANTS = (
    "eager",
    "Inductor",
    "Inductor max",
    "ONNX Runtime",
    "tensat-dl",
)


@dataclass(frozen=True)
class TorchEntry:
    """A model by its ``name`` in a library; "" is `torch_nets` itself.

    A model of transformers is made of a configuration class, with other ``settings``. ``inputs`` tells what the model
    takes, and ``size`` how much: tokens of text, rows and columns of an image, frames of a spectrogram.
    """

    library: Literal["transformers", "torchvision", "timm", ""]
    name: str
    transformer: bool = False
    inputs: Literal["text", "image", "audio", "own"] = "image"
    size: int = 224
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> str:
        """The library that is not installed, or empty."""
        return self.library if self.library and find_spec(self.library) is None else ""

    @property
    def source(self) -> str:
        """The origin, as in ``timm: mixer_s32_224``."""
        return f"{self.library}: {self.name}" if self.library else "built"


def _text(name: str, layers: str = "num_hidden_layers", **settings: Any) -> TorchEntry:
    """A transformer of three layers on text of 64 tokens."""
    return TorchEntry("transformers", name, True, "text", 64, {layers: 3, **settings})


_DECODER: dict[str, Any] = {
    "vocab_size": 8000,
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "use_cache": False,
}

TORCH_MODELS = {
    "distilbert": _text("DistilBertConfig", "n_layers"),
    "bert": _text("BertConfig"),
    "electra": _text("ElectraConfig", hidden_size=256, intermediate_size=1024, num_attention_heads=4),
    "albert": _text("AlbertConfig", hidden_size=768, intermediate_size=3072, num_attention_heads=12),
    "deberta": _text("DebertaV2Config", hidden_size=384, intermediate_size=1536, num_attention_heads=6),
    "gpt2": _text("GPT2Config", "n_layer", use_cache=False),
    "llama": _text("LlamaConfig", **_DECODER),
    "qwen3": _text("Qwen3Config", **_DECODER),
    "whisper": TorchEntry(
        "transformers",
        "WhisperConfig",
        True,
        "audio",
        200,
        {"encoder_layers": 2, "d_model": 384, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
        | {"max_source_positions": 100},
    ),
    "vit": TorchEntry("transformers", "ViTConfig", True, settings={"num_hidden_layers": 3}),
    "swin": TorchEntry("transformers", "SwinConfig", True, settings={"depths": [2, 2], "num_heads": [3, 6]}),
    "segformer": TorchEntry("transformers", "SegformerConfig", True, size=128),
    "mixer": TorchEntry("timm", "mixer_s32_224"),
    "levit": TorchEntry("timm", "levit_128s", True),
    "mobilevit": TorchEntry("timm", "mobilevit_xxs", True, size=128),
    "repvgg": TorchEntry("timm", "repvgg_a0", size=128),
    "ghostnet": TorchEntry("timm", "ghostnet_100"),
    "convnext": TorchEntry("timm", "convnext_atto"),
    "resnet18": TorchEntry("torchvision", "resnet18", size=128),
    "mobilenet_v3": TorchEntry("torchvision", "mobilenet_v3_small"),
    "squeezenet": TorchEntry("torchvision", "squeezenet1_1"),
    "shufflenet": TorchEntry("torchvision", "shufflenet_v2_x0_5"),
    "googlenet": TorchEntry("torchvision", "googlenet", size=128, settings={"aux_logits": False}),
    "lstm": TorchEntry("", "lstm", inputs="own"),
    "diffusion": TorchEntry("", "diffusion", inputs="own"),
    "experts": TorchEntry("", "experts", True, "own"),
}
