"""Signatures and their text form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.graph import DTYPES, TensorType
from tensat_dl.cost.signature import Signature, SignatureError, parse

from .builders import patient

types = st.builds(
    TensorType,
    st.sampled_from(DTYPES),
    st.lists(st.integers(1, 99), max_size=4).map(lambda dims: tuple(dims)),
)
values = (
    st.integers()
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.text()
    | st.sampled_from(["relu", "null", "true", "NaN", "a, b=1) -> f32[1] @ h100"])
    | st.lists(st.integers(), max_size=4).map(lambda items: tuple(items))
)
signatures = st.builds(
    Signature,
    st.sampled_from(["matmul", "com.example.Gelu", "Resize-13", "a#b"]),
    st.dictionaries(st.sampled_from(["act", "axis", "p_2"]), values).map(lambda d: tuple(d.items())),
    st.lists(types, max_size=3).map(lambda items: tuple(items)),
    st.lists(types, min_size=1, max_size=2).map(lambda items: tuple(items)),
    st.sampled_from(["h100", "cpu"]),
    content=st.sampled_from(["", "0123abcd"]),
)


def test_the_text_is_readable() -> None:
    x, w, y = (TensorType("f32", s) for s in ((1, 64, 56, 56), (64, 64, 3, 3), (1, 64, 28, 28)))
    attrs = (("stride", (2, 2)), ("pads", (1, 1, 1, 1)), ("act", "relu"))
    assert Signature("conv2d", attrs, (x, w), (y,), "h100").text == (
        "conv2d(f32[1, 64, 56, 56], f32[64, 64, 3, 3]; act=relu, pads=[1, 1, 1, 1], stride=[2, 2])"
        " -> f32[1, 64, 28, 28] @ h100"
    )


def test_the_order_of_attributes_does_not_matter() -> None:
    t = TensorType("f32", ())
    one = Signature("f", (("a", 1), ("b", 2)), (t,), (t,), "cpu")
    other = Signature("f", (("b", 2), ("a", 1)), (t,), (t,), "cpu")
    assert one == other
    assert hash(one) == hash(other)
    assert one.text == other.text == "f(f32[]; a=1, b=2) -> f32[] @ cpu"


@patient
@given(signatures)
def test_the_text_says_everything(signature: Signature) -> None:
    again = parse(signature.text)
    assert again == signature
    assert again.text == signature.text
    assert [type(v) for _, v in again.attrs] == [type(v) for _, v in signature.attrs]


@patient
@given(signatures)
def test_the_text_is_one_line(signature: Signature) -> None:
    assert len(signature.text.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "an operator at column 1"),
        ("relu", "`(` at column 5"),
        ("relu(f32)", "a type such as f32[64, 1024] at column 6"),
        ("relu(f31[2]) -> f32[2] @ cpu", "an element type, one of f32"),
        ("relu(f32[2]; p) -> f32[2] @ cpu", "`=` at column 15"),
        ("relu(f32[2]; p=) -> f32[2] @ cpu", "a value at column 16"),
        ("relu(f32[2]; p=[1.5]) -> f32[2] @ cpu", "a number, a word, true, false or a list of integers"),
        ("relu(f32[2]; p=null) -> f32[2] @ cpu", "a number, a word, true, false or a list of integers"),
        ("relu(f32[2]) -> f32[2]", "`@` at column 23"),
        ("relu(f32[2]) -> f32[2] @ cpu gpu", "a device at column 26"),
    ],
)
def test_what_is_not_a_signature_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(SignatureError) as caught:
        parse(text)
    assert wanted in str(caught.value)
