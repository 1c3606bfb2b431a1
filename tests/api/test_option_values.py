"""The values of options: what the table of options says of each is checked before anything runs."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, Field, fields
from typing import Any
from unittest.mock import patch

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensat_dl
from tensat_dl.cli.recorded import recorded
from tensat_dl.cli.run import command
from tensat_dl.run.options import Options, about, searches_with

OPTIONS = fields(Options)
TEXT = "graph g {\n  input x : f32[4]\n  output relu(x)\n}\n"
#: A value of each kind.
VALUES: dict[str, tuple[Any, ...]] = {
    "bool": (True,),
    "int": (7, np.int64(7)),
    "float": (7.5, np.float64(7.5)),
    "str": ("exact",),
    "list": ([7],),
    "None": (None,),
}


def kinds(option: Field[Any]) -> set[str]:
    """The kinds of values that the declaration of an option admits."""
    declared = {"str"} if about(option).choices else set(str(option.type).split(" | "))
    return declared | ({"int"} if "float" in declared else set())


def refused(error: type[Exception], option: str, value: Any) -> str:
    """The message about a value."""
    model = tensat_dl.load(text=TEXT)
    with (
        patch("tensat_dl.run.pipeline.beginning", side_effect=AssertionError),
        pytest.raises(error) as raised,
    ):
        tensat_dl.optimize(model, **{"search": searches_with(option)[0], option: value})
    return str(raised.value)


WRONG = [
    pytest.param(f, value, id=f"{f.name}-{value!r}")
    for f in OPTIONS
    for kind, values in VALUES.items()
    for value in values
    if kind not in kinds(f)
]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_a_value_of_another_type_is_refused(option: Field[Any], value: Any) -> None:
    message = refused(TypeError, option.name, value)
    assert message.startswith(f"{option.name} is ")
    assert f"of type {type(value).__name__}: expected " in message
    assert ("or None" in message) == ("None" in kinds(option))


BELOW = [pytest.param(f, about(f).least, id=f.name) for f in OPTIONS if about(f).least is not None]


@pytest.mark.parametrize(("option", "least"), BELOW)
def test_a_value_below_the_least_is_refused(option: Field[Any], least: int) -> None:
    Options(**{"search": searches_with(option.name)[0], option.name: least})
    values = [least - 1, -math.inf, math.nan] if "float" in kinds(option) else [least - 1]
    for value in values:
        expected = f" of at least {least}"
        assert re.search(
            f"^{option.name} is {value}: expected .*{expected}", refused(ValueError, option.name, value)
        )


@pytest.mark.parametrize("option", [f for f in OPTIONS if about(f).choices], ids=lambda f: f.name)
def test_a_value_beside_the_choices_is_refused(option: Field[Any]) -> None:
    message = refused(ValueError, option.name, "no such value")
    assert message == f"{option.name} is 'no such value': expected one of {', '.join(about(option).choices)}"


def test_every_option_has_a_kind_that_is_checked() -> None:
    assert {f.values[0].name for f in WRONG} == {f.name for f in OPTIONS}  # type: ignore[attr-defined]
    assert {f.name for f in OPTIONS if f.default is MISSING} == set()


def test_long_values_are_cut() -> None:
    assert len(refused(TypeError, "seed", "x" * 10_000)) < 200


def test_fusion_is_not_for_the_cpu() -> None:
    model = tensat_dl.load(text=TEXT)
    with pytest.raises(ValueError, match="fusion is for GPUs"):
        tensat_dl.optimize(model, device="cpu", fuse=True)


def values(option: Field[Any]) -> st.SearchStrategy[Any]:
    """Values that an option may have."""
    said = about(option)
    of_kind: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "int": st.integers(said.least or 0, 10**9),
        "float": st.floats(said.least or 0, 1e9),
        "str": st.sampled_from(said.choices or ("h100", "cpu")),
        "None": st.none(),
    }
    return st.one_of(of_kind[kind] for kind in sorted(kinds(option)))


@given(st.fixed_dictionaries({f.name: values(f) for f in OPTIONS}), st.booleans())
def test_arguments_are_read_back(given: dict[str, Any], of_onnx: bool) -> None:
    """The command line of an answer stands for the options that decided it."""
    given["fuse"] = given["fuse"] and given["device"] != "cpu"
    for f in OPTIONS:  # options of other searches are not given
        if given["search"] not in searches_with(f.name):
            given[f.name] = f.default
    options = Options(**given)
    file = "model.onnx" if of_onnx else "graph.tsr"
    try:
        found = recorded(command, [file, *options.arguments(of_onnx)], "-").options
    except click.UsageError as e:
        assert "fusion is for GPUs" in str(e)  # noqa: PT017 (the device that is left open is the CPU)
        return
    for f in OPTIONS:
        if about(f).recorded and f.name != "device":
            assert getattr(found, f.name) == getattr(options, f.name), f.name
    assert found.device == (options.device or ("cpu" if of_onnx else "h100"))
