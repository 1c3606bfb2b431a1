"""Answers as they are written: names, orders and views that a reader expects."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.running import EXAMPLES, invoke


def answer(path: Path, *options: str) -> str:
    done = invoke("run", path, "-q", "-o", "-", *options)
    assert done.code == 0, done.err
    return done.out


def numbers(text: str, op: str) -> list[int]:
    """The numbers of the names of an operator's results, where they are bound."""
    names = re.findall(r"^  (?:\((.*)\)|(\w+)) = ", text, re.MULTILINE)
    each = (name for several, one in names for name in (several or one).split(", "))
    return [int(name.removeprefix(f"{op}_")) for name in each if re.fullmatch(rf"{op}_\d+", name)]


def test_names_are_numbered_in_the_order_of_the_text() -> None:
    text = answer(EXAMPLES / "nasrnn.tsr")
    for op in ("slice", "matmul", "tanh", "h"):
        found = numbers(text, op)
        assert found == list(range(1, len(found) + 1)), op
    assert len(numbers(text, "h")) == 5
    assert "h_1_1" not in text


def test_weights_keep_their_order() -> None:
    def weights(text: str) -> list[str]:
        return re.findall(r"^  weight (\w+) ", text, re.MULTILINE)

    path = EXAMPLES / "nasrnn.tsr"
    before = weights(invoke("show", path).out)
    assert len(before) > 50
    assert weights(answer(path)) == before


def test_a_transpose_of_a_transpose_is_one(tmp_path: Path) -> None:
    path = tmp_path / "g.tsr"
    path.write_text("""import "standard"
graph g {
  input x : f32[128, 512]
  weight wk : f32[512, 512]
  weight wv : f32[512, 512]
  k = transpose(reshape(x @ wk; shape = [128, 8, 64]); perm = [1, 0, 2])
  v = transpose(reshape(x @ wv; shape = [128, 8, 64]); perm = [1, 0, 2])
  output softmax(v @ transpose(k; perm = [0, 2, 1]); axis = 2)
}
""")
    text = answer(path)
    turned = set(re.findall(r"(\w+) = transpose\(", text))
    assert turned
    assert turned.isdisjoint(re.findall(r"transpose\((\w+);", text))


def test_a_reshape_of_a_reshape_is_one(tmp_path: Path) -> None:
    path = tmp_path / "g.tsr"
    path.write_text("""import "standard"
graph g {
  input x : f32[4, 16, 64]
  weight u : f32[64, 64]
  weight v : f32[64, 64]
  output relu(x @ u) @ v
}
""")
    text = answer(path)
    reshaped = set(re.findall(r"(\w+) = reshape\(", text))
    assert reshaped
    assert reshaped.isdisjoint(re.findall(r"reshape\((\w+);", text))
