"""Graphs that are legal but odd: they come through, are verified, and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .running import invoke

pytestmark = pytest.mark.sampled(6)

WORDS = (
    "vec map union unit string input_ rational big_int big_rat py_object t ints node edge digraph subgraph"
)
WORDS += " lambda class def None print rewrite function sort relation run extract constructor i64 String Vec"
SHAPE = "{ shape shape(x) }"


def nested(operators: list[str]) -> str:
    """Each operator applied to the one before it, on lines of their own."""
    lines = [f"  v{i + 1} = {op}(v{i})" for i, op in enumerate(operators)]
    return "\n".join(["  input v0 : f32[4]", *lines, f"  output v{len(operators)}"])


GRAPHS = {
    "an input is an output": "graph g {\n  input x : f32[4]\n  output x\n}",
    "a weight is an output": "graph g {\n  input x : f32[4]\n  weight w : f32[4]\n  output w, x\n}",
    "nothing depends on an input": "graph g {\n  weight w : f32[4]\n  output relu(w)\n}",
    "one tensor, several outputs": "graph g {\n  input x : f32[4]\n  y = relu(x)\n  output a = y, b = y, y, x\n}",
    "inputs that nothing needs": "graph g {\n  input x : f32[4]\n  input z : f32[9]\n  output relu(x)\n}",
    "scalars": "graph g {\n  input x : f32[]\n  input s : f32[]\n  output smul(relu(x), s), x * s\n}",
    "element types": (
        "graph g {\n  input b : bool[4]\n  input i : i32[4]\n  input j : i64[4]\n  input h : f16[4]\n"
        "  output reshape(b; shape = [2, 2]), i + i, concat(j, j; axis = 0), h * h\n}"
    ),
    "many dimensions": f"graph g {{\n  input x : f32[{', '.join(['1'] * 60)}]\n  output relu(x)\n}}",
    "too many dimensions to run": f"graph g {{\n  input x : f32[{', '.join(['1'] * 90)}]\n  output relu(x)\n}}",
    "too large to run": (
        "graph g {\n  input x : f32[3000000, 3000000]\n  weight w : f32[3000000, 3000000]\n"
        "  output relu(relu(x @ w))\n}"
    ),
    "many outputs": (
        "graph g {\n  input x : f32[4]\n" + "".join(f"  output o{i} = relu(x)\n" for i in range(200)) + "}"
    ),
    "many operands": (
        "graph g {\n"
        + "".join(f"  input x{i} : f32[4]\n" for i in range(60))
        + f"  output concat({', '.join(f'x{i}' for i in range(60))}; axis = 0)\n}}"
    ),
    "a long chain": "graph g {\n" + nested(["relu", "tanh"] * 1000) + "\n}",
    "operators called like words of the engine": (
        "\n".join(f"opaque op {w}(x: tensor) {SHAPE}" for w in WORDS.split())
        + "\ngraph digraph {\n"
        + nested(WORDS.split())
        + "\n}"
    ),
    "rules called like words of the engine": (
        "\n".join(f"rule {w} {{ relu(relu(x)) => relu(x) }}" for w in WORDS.split())
        + "\nrule a-b { tanh(relu(x)) => tanh(relu(relu(x))) }\n"
        + "rule a_b { tanh(x) - tanh(y) => tanh(x) + neg(tanh(y)) }\n"
        + "graph strict {\n  input node : f32[4]\n  output graph_ = tanh(relu(relu(node)))\n}"
    ),
    "an opaque operator with several outputs": """
opaque op top(x: tensor; k: int = 2) -> (values, places) {
  shape values = set(shape(x), 0, k)
  shape places = set(shape(x), 0, k)
}
graph g {
  input x : f32[8, 4]
  weight w : f32[4, 4]
  (a, b) = top(relu(relu(x)); k = 3)
  (c, d) = top(x)
  output relu(a @ w), b @ w, d
}""",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_odd_graphs(name: str, tmp_path: Path) -> None:
    path, out, report, html = (tmp_path / n for n in ("g.tsr", "out.tsr", "r.json", "r.html"))
    path.write_text(GRAPHS[name] + "\n", encoding="utf-8")
    limits = ["--max-nodes", 5000, "--max-iters", 3, "--rules", "identity"]
    done = invoke("run", path, "-q", "-o", out, "--json", report, "--html", html, "--dot", "-", *limits)
    assert done.code == 0, done.err
    found = json.loads(report.read_text())
    assert found["verify"]["status"] == ("inconclusive" if "to run" in name else "equivalent")
    assert found["cost"]["after"] <= found["cost"]["before"]
    assert done.out.count('"') % 2 == 0
    assert invoke("fmt", "--check", out).code == 0
    shown = invoke("show", out)
    assert shown.code == 0, shown.err
    assert shown.out == invoke("show", "-", stdin=shown.out).out


@pytest.mark.parametrize("search", ["saturation", "backtracking"])
@pytest.mark.parametrize(
    "output",
    [
        "x * 60000.0 * 2.0",  # the product of both is no number of f16
        "smul(smul(x, 60000.0), -2.0)",
        "log(exp(x)) * 2.0",  # by a rule that writes one
    ],
)
def test_no_constant_of_an_answer_is_too_large_for_its_type(output: str, search: str, tmp_path: Path) -> None:
    path, out = tmp_path / "g.tsr", tmp_path / "out.tsr"
    text = (
        "rule no-log { log(exp(x)) => ewmax(x, fill(; value = -100000.0, dtype = dtype(x), shape = [])) }\n"
    )
    path.write_text(f"{text}graph g {{\n  input x : f16[4]\n  output {output}\n}}\n")
    done = invoke("run", path, "-q", "-o", out, "--rules", "standard", "--search", search, "--no-verify")
    assert done.code == 0, done.err
    again = invoke("check", out)
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no graph"),
        ("graph g {\n}\n", "no output"),
        ("graph g {\n  input x : f32[0, 4]\n  output x\n}\n", ":2:"),
        ("graph g {\n  input x : f32[99999999999999999999]\n  output x\n}\n", ":2:"),
        (f"graph g {{\n  input x : f32[4]\n  output {'relu(' * 3000}x{')' * 3000}\n}}\n", ":3:"),
        ("graph <script> {\n}\n", ":1:"),
        ("graph gé {\n}\n", ":1:"),
    ],
)
def test_graphs_that_are_refused(text: str, message: str) -> None:
    done = invoke("run", "-", stdin=text)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


def test_an_error_that_only_the_engine_finds_is_located() -> None:
    """Rules are compiled in another process, from which the message comes back as it is."""
    text = "rule r {\n  relu(relu(x))\n  where dim(x, i32) == 1\n  => relu(x)\n}\n"
    text += "graph g {\n  input x : f32[4]\n  output relu(relu(x))\n}\n"
    done = invoke("run", "-", stdin=text)
    assert done.code == 2
    assert "<stdin>:3:" in done.err
