"""Well-known networks as ONNX models, built of nodes that exporters write, with random weights or a package's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from tensat_dl.ops.semantics.arrays import Array

OPSET, IR_VERSION = 17, 8


class Net:
    """A model in the making. Values are given by their names. A weight that ``weights`` lacks is drawn so that values
    keep their magnitude from layer to layer."""

    def __init__(self, name: str, weights: dict[str, Array] | None = None) -> None:
        self.name = name
        self._given = weights or {}
        self._random = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._weights: list[TensorProto] = []
        self._inputs: list[Any] = []

    def input(self, name: str, *shape: int, dtype: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The value that a new node computes; with several, a list of them."""
        made = [f"{kind.lower()}_{len(self._nodes)}{f'_{k}' if k else ''}" for k in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), made, **attributes))
        return made[0] if outputs == 1 else made

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, name: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> str:
        """A weight: the given one of this name, or normally distributed."""
        if name in self._given:
            array = self._given[name].astype(np.float32)
        else:
            array = (mean + scale * self._random.standard_normal(shape)).astype(np.float32)
        return self.constant(array)

    def model(self, *outputs: str) -> ModelProto:
        made = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self._nodes, self.name, self._inputs, made, self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        whole = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        inferred = shape_inference.infer_shapes(whole)
        del inferred.graph.value_info[:]
        return inferred

    # ---- images ------------------------------------------------------------------------------------------

    def conv(
        self, x: str, c: int, out: int, kernel: Sequence[int], stride: int = 1, bias: bool = True
    ) -> str:
        """A convolution that keeps the size of the image, but for its stride."""
        h, w = kernel
        scale = (2 / (c * h * w)) ** 0.5
        operands = [x, self.weight("", out, c, h, w, scale=scale)]
        if bias:
            operands.append(self.weight("", out, scale=0.1))
        pads = [h // 2, w // 2, h // 2, w // 2]
        return str(self.op("Conv", *operands, kernel_shape=[h, w], strides=[stride, stride], pads=pads))

    def conv_norm(
        self, x: str, c: int, out: int, kernel: Sequence[int], stride: int = 1, relu: bool = True
    ) -> str:
        """A convolution and its batch normalisation, which the export has not folded."""
        y = self.conv(x, c, out, kernel, stride, bias=False)
        y = self.op(
            "BatchNormalization",
            y,
            self.weight("", out, scale=0.1, mean=1.0),
            self.weight("", out, scale=0.1),
            self.weight("", out, scale=0.1),
            self.constant(np.abs(1 + 0.1 * self._random.standard_normal(out))),
        )
        return str(self.op("Relu", y)) if relu else y

    def pool(self, x: str, kind: str, kernel: int = 3, stride: int = 2, pad: int = 0) -> str:
        more = {"count_include_pad": 1} if kind == "AveragePool" else {}
        return str(self.op(kind, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **more))

    # ---- text --------------------------------------------------------------------------------------------

    def linear(self, x: str, name: str, c: int, out: int, scale: float = 1.0) -> str:
        """x [.., c] times a weight plus a bias. Given weights are [out, c], as PyTorch has them."""
        key = f"{name}.weight"
        if key in self._given:
            w = self.constant(self._given[key].T)
        else:
            w = self.weight("", c, out, scale=scale / c**0.5)
        return str(self.op("Add", self.weight(f"{name}.bias", out, scale=0.02), self.op("MatMul", x, w)))

    def norm(self, x: str, name: str, c: int, eps: float) -> str:
        scale = self.weight(f"{name}.weight", c, scale=0.02, mean=1.0)
        shift = self.weight(f"{name}.bias", c, scale=0.02)
        return str(self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=eps))

    def gelu(self, x: str) -> str:
        """x (1 + erf(x / sqrt 2)) / 2."""
        half = self.op("Erf", self.op("Div", x, self.constant(2**0.5)))
        return str(
            self.op("Mul", self.op("Mul", x, self.op("Add", half, self.constant(1.0))), self.constant(0.5))
        )

    def gelu_tanh(self, x: str) -> str:
        """GPT-2's: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
        cube = self.op("Mul", self.op("Pow", x, self.constant(3.0)), self.constant(0.044715))
        inner = self.op("Mul", self.op("Add", x, cube), self.constant((2 / np.pi) ** 0.5))
        outer = self.op("Add", self.op("Tanh", inner), self.constant(1.0))
        return str(self.op("Mul", self.op("Mul", x, self.constant(0.5)), outer))

    def heads(self, x: str, tokens: int, c: int, heads: int, perm: Sequence[int] = (0, 2, 1, 3)) -> str:
        """[1, tokens, c] as [1, heads, tokens, c / heads], or in another order."""
        shape = self.constant([1, tokens, heads, c // heads], np.int64)
        return str(self.op("Transpose", self.op("Reshape", x, shape), perm=list(perm)))

    def attention(self, q: str, k: str, v: str, tokens: int, c: int, heads: int, causal: bool = False) -> str:
        """Attention of [1, tokens, c] each, before the last projection."""
        q, v = (self.heads(x, tokens, c, heads) for x in (q, v))
        k = self.heads(k, tokens, c, heads, (0, 2, 3, 1))
        scores = self.op("Div", self.op("MatMul", q, k), self.constant((c // heads) ** 0.5))
        if causal:
            mask = self.constant(np.tril(np.ones((1, 1, tokens, tokens))), np.bool_)
            scores = self.op("Where", mask, scores, self.constant(-1e9))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        shape = self.constant([1, tokens, c], np.int64)
        return str(self.op("Reshape", self.op("Transpose", mixed, perm=[0, 2, 1, 3]), shape))


def bert(layers: int = 4, c: int = 768, heads: int = 12, tokens: int = 64) -> ModelProto:
    """Layers of BERT-base (Devlin et al., 2018) on embedded tokens."""
    net = Net("bert")
    x = net.input("x", 1, tokens, c)
    for i in range(layers):
        x = _encoder(net, x, f"{i}", c, heads, tokens, 4 * c)
    return net.model(x)


def minilm(safetensors: Path, layers: int = 6, c: int = 384, heads: int = 12, tokens: int = 64) -> ModelProto:
    """all-MiniLM-L6-v2 with its weights: tokens in, the mean of the last hidden states out."""
    weights = {
        name.replace("encoder.layer.", "")
        .replace("attention.self.", "")
        .replace("attention.output.", "out."): w
        for name, w in _safetensors(safetensors).items()
    }
    net = Net("minilm", weights)
    ids = net.input("input_ids", 1, tokens, dtype=TensorProto.INT64)
    words = net.op("Gather", net.weight("embeddings.word_embeddings.weight"), ids)
    position = weights["embeddings.position_embeddings.weight"][:tokens]
    kind = weights["embeddings.token_type_embeddings.weight"][0]
    x = net.op("Add", net.op("Add", words, net.constant(kind)), net.constant(position[None]))
    x = net.norm(x, "embeddings.LayerNorm", c, 1e-12)
    for i in range(layers):
        x = _encoder(net, x, f"{i}", c, heads, tokens, 4 * c)
    return net.model(net.op("ReduceMean", x, axes=[1], keepdims=0))


def vit(layers: int = 4, c: int = 384, heads: int = 6, image: int = 224, patch: int = 16) -> ModelProto:
    """Layers of ViT-S/16 (Dosovitskiy et al., 2020), from the image to its class."""
    net, tokens = Net("vit"), (image // patch) ** 2 + 1
    x = net.input("pixels", 1, 3, image, image)
    w = net.weight("", c, 3, patch, patch, scale=(3 * patch * patch) ** -0.5)
    x = net.op("Conv", x, w, net.weight("", c, scale=0.1), kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = net.op("Transpose", net.op("Reshape", x, net.constant([1, c, tokens - 1], np.int64)), perm=[0, 2, 1])
    x = net.op("Concat", net.weight("", 1, 1, c), x, axis=1)
    x = net.op("Add", x, net.weight("", 1, tokens, c, scale=0.1))
    for _ in range(layers):
        h = net.norm(x, "", c, 1e-6)
        q, k, v = (net.linear(h, "", c, c) for _ in range(3))
        x = net.op("Add", net.linear(net.attention(q, k, v, tokens, c, heads), "", c, c, 0.5), x)
        h = net.linear(net.norm(x, "", c, 1e-6), "", c, 4 * c)
        x = net.op("Add", net.linear(net.gelu(h), "", 4 * c, c, 0.5), x)
    first = net.op("Gather", net.norm(x, "", c, 1e-6), net.constant(0, np.int64), axis=1)
    return net.model(net.linear(first, "", c, 1000))


def gpt2(layers: int = 4, c: int = 768, heads: int = 12, tokens: int = 64) -> ModelProto:
    """Blocks of GPT-2 (Radford et al., 2019) on embedded tokens. Its projections are Gemms between reshapes."""
    net = Net("gpt2")
    x = net.input("x", 1, tokens, c)

    def projected(y: str, c_in: int, c_out: int, scale: float = 1.0) -> str:
        flat = net.op("Reshape", y, net.constant([-1, c_in], np.int64))
        w = net.weight("", c_in, c_out, scale=scale / c_in**0.5)
        flat = net.op("Gemm", flat, w, net.weight("", c_out, scale=0.02))
        return str(net.op("Reshape", flat, net.constant([1, tokens, c_out], np.int64)))

    for _ in range(layers):
        h = projected(net.norm(x, "", c, 1e-5), c, 3 * c)
        q, k, v = net.op("Split", h, net.constant([c] * 3, np.int64), outputs=3, axis=2)
        h = net.attention(q, k, v, tokens, c, heads, causal=True)
        x = net.op("Add", projected(h, c, c, 0.5), x)
        h = net.gelu_tanh(projected(net.norm(x, "", c, 1e-5), c, 4 * c))
        x = net.op("Add", x, projected(h, 4 * c, c, 0.5))
    return net.model(net.norm(x, "", c, 1e-5))


def resnet50(image: int = 224) -> ModelProto:
    """ResNet-50 (He et al., 2015), its batch normalisations not folded."""
    net = Net("resnet50")
    x = net.conv_norm(net.input("pixels", 1, 3, image, image), 3, 64, (7, 7), 2)
    x, c = net.pool(x, "MaxPool", 3, 2, 1), 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            h = net.conv_norm(x, c, width, (1, 1))
            h = net.conv_norm(h, width, width, (3, 3), stride)
            h = net.conv_norm(h, width, 4 * width, (1, 1), relu=False)
            if not block:
                x = net.conv_norm(x, c, 4 * width, (1, 1), stride, relu=False)
            x, c = net.op("Relu", net.op("Add", h, x)), 4 * width
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    w = net.weight("", 1000, c, scale=c**-0.5)
    return net.model(net.op("Gemm", x, w, net.weight("", 1000, scale=0.1), transB=1))


def squeezenet(image: int = 224) -> ModelProto:
    """SqueezeNet 1.1 (Iandola et al., 2016)."""
    net = Net("squeezenet")
    x, c = net.input("pixels", 1, 3, image, image), 64
    x = net.pool(net.op("Relu", net.conv(x, 3, c, (3, 3), 2)), "MaxPool")
    for i, (squeeze, expand) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        if i in (2, 4):
            x = net.pool(x, "MaxPool")
        s = net.op("Relu", net.conv(x, c, squeeze, (1, 1)))
        sides = [net.op("Relu", net.conv(s, squeeze, expand, (k, k))) for k in (1, 3)]
        x, c = net.op("Concat", *sides, axis=1), 2 * expand
    x = net.op("Relu", net.conv(x, c, 1000, (1, 1)))
    return net.model(net.op("Flatten", net.op("GlobalAveragePool", x)))


def inception_v3(image: int = 299) -> ModelProto:
    """Inception-v3 (Szegedy et al., 2015), its batch normalisations not folded; all convolutions keep the size."""
    net = Net("inception_v3")

    def cbr(x: str, c: int, out: int, *kernels: tuple[int, int], stride: int = 1) -> str:
        for k in kernels:
            x, c, stride = net.conv_norm(x, c, out, k, stride), out, 1
        return x

    def reduced(x: str, c: int) -> str:
        return net.pool(x, "MaxPool", 3, 2, 1)

    x = cbr(net.input("pixels", 1, 3, image, image), 3, 32, (3, 3), (3, 3), stride=2)
    x = net.pool(cbr(x, 32, 64, (3, 3)), "MaxPool")
    x = net.pool(cbr(cbr(x, 64, 80, (1, 1)), 80, 192, (3, 3)), "MaxPool")
    c = 192
    for pooled in (32, 64, 64):
        five = cbr(cbr(x, c, 48, (1, 1)), 48, 64, (5, 5))
        three = cbr(cbr(x, c, 64, (1, 1)), 64, 96, (3, 3), (3, 3))
        average = cbr(net.pool(x, "AveragePool", 3, 1, 1), c, pooled, (1, 1))
        x, c = net.op("Concat", cbr(x, c, 64, (1, 1)), five, three, average, axis=1), 224 + pooled
    three = cbr(cbr(cbr(x, c, 64, (1, 1)), 64, 96, (3, 3)), 96, 96, (3, 3), stride=2)
    x, c = net.op("Concat", cbr(x, c, 384, (3, 3), stride=2), three, reduced(x, c), axis=1), 480 + c
    for width in (128, 160, 160, 192):
        seven = cbr(cbr(cbr(x, c, width, (1, 1)), width, width, (1, 7)), width, 192, (7, 1))
        twice = cbr(cbr(x, c, width, (1, 1)), width, width, (7, 1), (1, 7), (7, 1))
        twice = cbr(twice, width, 192, (1, 7))
        average = cbr(net.pool(x, "AveragePool", 3, 1, 1), c, 192, (1, 1))
        x, c = net.op("Concat", cbr(x, c, 192, (1, 1)), seven, twice, average, axis=1), 768
    three = cbr(cbr(x, c, 192, (1, 1)), 192, 320, (3, 3), stride=2)
    seven = cbr(cbr(x, c, 192, (1, 1), (1, 7), (7, 1)), 192, 192, (3, 3), stride=2)
    x, c = net.op("Concat", three, seven, reduced(x, c), axis=1), 512 + c
    for _ in range(2):
        a = cbr(x, c, 384, (1, 1))
        b = cbr(cbr(x, c, 448, (1, 1)), 448, 384, (3, 3))
        sides = [cbr(y, 384, 384, k) for y in (a, b) for k in ((1, 3), (3, 1))]
        average = cbr(net.pool(x, "AveragePool", 3, 1, 1), c, 192, (1, 1))
        x, c = net.op("Concat", cbr(x, c, 320, (1, 1)), *sides, average, axis=1), 2048
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    return net.model(
        net.op("Gemm", x, net.weight("", 1000, c, scale=c**-0.5), net.weight("", 1000), transB=1)
    )


def _encoder(net: Net, x: str, name: str, c: int, heads: int, tokens: int, wide: int) -> str:
    """A layer of BERT."""
    q, k, v = (net.linear(x, f"{name}.{which}", c, c) for which in ("query", "key", "value"))
    h = net.linear(net.attention(q, k, v, tokens, c, heads), f"{name}.out.dense", c, c)
    x = net.norm(net.op("Add", h, x), f"{name}.out.LayerNorm", c, 1e-12)
    h = net.gelu(net.linear(x, f"{name}.intermediate.dense", c, wide))
    h = net.linear(h, f"{name}.output.dense", wide, c)
    return net.norm(net.op("Add", h, x), f"{name}.output.LayerNorm", c, 1e-12)


def _safetensors(path: Path) -> dict[str, Array]:
    """The f32 tensors of a file: eight bytes with the length of a JSON header, the header, and the data."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {
        name: np.frombuffer(data[start + e["data_offsets"][0] : start + e["data_offsets"][1]], "<f4").reshape(
            e["shape"]
        )
        for name, e in header.items()
        if e.get("dtype") == "F32"
    }
