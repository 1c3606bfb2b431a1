"""The cases of ONNX's own backend tests for each operator that is read: the graph that a model becomes computes what
they expect. What a case gives as inputs may be constants in a model, so each is tried in several ways."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")

import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from tensat_dl.onnx.importer import Imported
from tensat_dl.onnx.model_files import NEWEST
from tensat_dl.onnx.operators import READ
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import computed_in
from tensat_dl.verify.execute import execute

from .models import read

pytestmark = pytest.mark.sampled(8)

#: What is read of these needs more than a case shows: values of their operands, or another rank.
NONE_READ = {"ConvTranspose", "LayerNormalization", "OneHot"}

TOLERANCE = {"float16": 5e-3, "bfloat16": 3e-2}


@cache
def node_cases() -> dict[str, list[Any]]:
    """Those of single nodes, by operator. Making them takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    found: dict[str, list[Any]] = {}
    for case in collected:
        if len(case.model.graph.node) == 1 and "expanded" not in case.name:
            found.setdefault(case.model.graph.node[0].op_type, []).append(case)
    return found


def variants(case: Any) -> Iterator[tuple[Any, dict[str, Any], list[Any]]]:
    """Models, their inputs and the expected outputs: as the case is, and with all integer inputs but the first, and
    all but the first, as constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.opset_import[0].version = min(model.opset_import[0].version, NEWEST)
    arrays, expected = (
        [numpy_helper.to_array(a) if isinstance(a, onnx.TensorProto) else np.asarray(a) for a in given]
        for given in case.data_sets[0]
    )
    values = dict(zip((i.name for i in model.graph.input), arrays, strict=True))
    _, *others = values
    choices = {(), tuple(n for n in others if values[n].dtype.kind in "iu"), tuple(others)}
    for constants in sorted(choices):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        changed.graph.initializer.extend(numpy_helper.from_array(values[n], n) for n in constants)
        inputs = [i for i in changed.graph.input if i.name not in constants]
        del changed.graph.input[:]
        changed.graph.input.extend(inputs)
        yield changed, {n: a for n, a in values.items() if n not in constants}, expected


def computed(imported: Imported, inputs: dict[str, Any]) -> list[Any]:
    """The outputs, in NumPy, in f64."""
    values = {}
    for node in imported.graph.nodes:
        if node.op in ("input", "weight"):
            name = str(node.attr("name"))
            array = inputs[name] if name in inputs else imported.constants[name].numpy()
            values[name] = np.asarray(array).astype(computed_in(node.type.dtype))
    with np.errstate(all="ignore"):
        return execute(imported.graph, values, semantics_of(imported.program.ops))


@pytest.mark.parametrize("operator", sorted(READ))
def test_as_onnx_defines_it(operator: str, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for case in node_cases()[operator]:
        for proto, inputs, expected in variants(case):
            imported = read(tmp_path, proto)
            if imported.opaque:
                found["opaque"] += 1
                continue
            for actual, wanted in zip(computed(imported, inputs), expected, strict=True):
                tolerance = TOLERANCE.get(wanted.dtype.name, 1e-4)
                np.testing.assert_allclose(
                    actual.astype(np.float64),
                    wanted.astype(np.float64),
                    tolerance,
                    tolerance,
                    err_msg=f"{case.name}, given {', '.join(inputs)}",
                )
            found["read"] += 1
    assert (found["read"] > 0) != (operator in NONE_READ), found
