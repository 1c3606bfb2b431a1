"""Layers of well-known networks, written as ONNX nodes in the way that exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

from tensat_dl.ops.semantics.types import Array

OPSET, IR_VERSION = 17, 8


class Net:
    """A model that is being put together. Values are called by their names. Weights are drawn, unless ``weights`` has
    them, so that values keep their magnitude from layer to layer."""

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
