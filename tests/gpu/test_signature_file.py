"""Files of signatures carry what compositions stand for."""

from __future__ import annotations

import json

import pytest

from tensat_dl.cost.application import OpApplication, application, dumps, loads
from tensat_dl.cost.signature import SignatureError, parse
from tensat_dl.lang.program import load_program
from tensat_dl.resources import rules

OPS = load_program(str(rules() / "ops.tsr")).ops


@pytest.mark.parametrize(
    "text",
    [
        "relu(f32[64]) -> f32[64] @ h100",
        "hardswish(f16[3, 70]) -> f16[3, 70] @ h100",
        "instancenorm(f32[2, 3, 4, 5], f32[3], f32[3]; eps=0.001) -> f32[2, 3, 4, 5] @ h100",
        "matmul(f32[5, 6], weight f32[6, 7]; act=none) -> f32[5, 7] @ cpu",
    ],
)
def test_what_is_written_is_read(text: str) -> None:
    written = application(OPS, parse(text))
    (found,) = loads(dumps([written]), "sigs.json")
    assert found.signature == written.signature
    if written.definition is None:
        assert found == written
    else:
        assert found.definition is not None
        assert found.definition.nodes == written.definition.nodes


RESHAPE = "reshape(f32[4]; shape=[2, 2]) -> f32[2, 2] @ h100"
RELU = "relu(f32[4]) -> f32[4] @ h100"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{", "not JSON"),
        ({}, "not a list"),
        ([3], "expected a signature, not 3"),
        (["relu(f32[4])"], "expected"),
        ([{"signature": RELU}], "no `node`"),
        ([{"signature": RELU, "definition": 5}], "is no list"),
        ([{"signature": RELU, "definition": [{"node": RELU, "inputs": [1]}]}], "has other inputs"),
        ([{"signature": RELU, "definition": [{"node": RELU, "inputs": ["x"]}]}], "has other inputs"),
        ([{"signature": RELU, "definition": [{"node": RELU.replace("4", "5"), "inputs": [0]}]}], "has other inputs"),
        (
            [{"signature": RELU, "definition": [{"node": RESHAPE, "inputs": [0]}]}],
            "another type",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(data: object, says: str) -> None:
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(SignatureError, match=says) as caught:
        loads(text, "sigs.json")
    assert str(caught.value).startswith("sigs.json: ")


def test_jobs_are_values() -> None:
    assert OpApplication(parse(RELU)) == OpApplication(parse(RELU))
