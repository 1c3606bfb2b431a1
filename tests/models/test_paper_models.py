"""The models of the TENSAT paper through the whole pipeline, with the command line's defaults.

The structures that a speed-up has to come from are named: fusing an activation into its producer alone would
lower costs as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import tensat_dl
from tensat_dl.core.graph import Graph
from tests.models import structures

pytestmark = pytest.mark.sampled(9)

EXAMPLES = Path(__file__).parents[2] / "examples"


def bert(before: Graph, after: Graph) -> None:
    attentions = structures.attentions(after)
    assert len(attentions) == len(structures.attentions(before)) == 8
    for qkv in attentions:
        assert len({structures.behind(after, tensor) for tensor in qkv}) == 1
    assert len(structures.by_weights(after, "matmul")) <= 8


def nasrnn(before: Graph, after: Graph) -> None:
    # The first state is a weight, so its eight products are computed ahead of time: 8 + 4 * (8 + 8) in all.
    assert len(structures.by_weights(before, "matmul")) == 72
    products = structures.by_weights(after, "matmul")
    for step in range(5):
        (x,) = (i for i in after.inputs if after.nodes[i].attr("name") == f"x_{step}")
        operands = {x, *(i for i, n in enumerate(after.nodes) if n.op == "concat" and x in n.inputs)}
        of_step = [i for i in products if after.nodes[i].inputs[0] in operands]
        # All eight mixtures of a step: one product, or one for each activation that it is fused with.
        assert 1 <= len(of_step) <= 3
        assert sum(after.nodes[i].type.shape[1] for i in of_step) == 8 * 512
    assert len(products) <= 5 * 3


def inception_v3(before: Graph, after: Graph) -> None:
    assert len(structures.sibling_pointwise(before)) == 10
    assert structures.sibling_pointwise(after) == []
    assert len(structures.computing(after, "conv2d")) <= len(structures.computing(before, "conv2d")) - 10


def nasnet_a(before: Graph, after: Graph) -> None:
    assert structures.separable_pairs(before) == []
    assert len(structures.separable_pairs(after)) >= 15  # one in each normal cell
    assert len(structures.computing(after, "conv2d")) <= len(structures.computing(before, "conv2d")) - 2 * 15


def resnext50(before: Graph, after: Graph) -> None:
    assert structures.sibling_pointwise(before)
    assert len(structures.computing(after, "conv2d")) < len(structures.computing(before, "conv2d"))


def no_structure(before: Graph, after: Graph) -> None:
    """Only the cost counts."""


MODELS: Mapping[str, Callable[[Graph, Graph], None]] = {
    "bert": bert,
    "nasrnn": nasrnn,
    "resnext50": resnext50,
    "nasnet_a": nasnet_a,
    "inception_v3": inception_v3,
    "squeezenet": no_structure,
    "vgg19": no_structure,
    "resnet50": no_structure,
    "mobilenet_v2": no_structure,
}


@pytest.mark.parametrize("name", MODELS)
def test_model_gets_faster_and_computes_the_same(name: str) -> None:
    model = tensat_dl.load(str(EXAMPLES / f"{name}.tsr"))
    result = tensat_dl.optimize(model)
    assert result.stop in ("saturated", "iterations", "nodes")
    assert result.equivalence is not None
    assert result.equivalence.status == "equivalent"
    assert (
        result.equivalence.message == ""
    )  # no output is zero, constant or infinite, which would hide errors
    assert result.before.graph == model.graph
    assert result.after.total < result.before.total
    assert result.extraction.cost <= result.before.total
    MODELS[name](result.before.graph, result.after.graph)


@pytest.mark.parametrize("name", ["nasrnn", "inception_v3"])
def test_same_input_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    def run(seed: str) -> bytes:
        out = tmp_path / f"{seed}.tsr"
        command = [sys.executable, "-m", "tensat_dl", "run", str(EXAMPLES / f"{name}.tsr"), "-o", str(out)]
        subprocess.run(
            [*command, "-q", "--no-verify"], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        return out.read_bytes()

    assert run("1") == run("2")
