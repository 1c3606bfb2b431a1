"""``why-not`` from the command line: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import EXAMPLES, invoke
from .test_options import refused

pytestmark = pytest.mark.sampled(5)

SHARED = EXAMPLES / "tiny_share_input.tsr"


def test_why_not_takes_the_rules_of_the_run_that_made_an_answer(tmp_path: Path) -> None:
    """An answer imports nothing."""
    graph, out = tmp_path / "g.tsr", tmp_path / "o.tsr"
    graph.write_text(
        "rule own { tanh(neg(x)) => neg(tanh(x)) }\ngraph g {\n  input x : f32[4]\n  output relu(x)\n}\n"
    )
    invoke("run", graph, "--rules", "activation", "-o", out)
    for rule in ("matmul-relu", "own"):
        assert invoke("why-not", rule, out).out.startswith(rule)


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        ("--k-multi", 0, "rules with several results are applied in none of its iterations (--k-multi)"),
        ("--max-iters", 0, "it has no iteration (--max-iters)"),
        ("--max-nodes", 1, "the most that are allowed (--max-nodes)"),
    ],
)
def test_limits_keep_a_rule_from_firing(limit: str, value: int, says: str) -> None:
    """As in a run, which then applies nothing."""
    usual, limited = (invoke("why-not", "merge-matmul", SHARED, *o) for o in ([], [limit, value]))
    assert (usual.code, limited.code) == (0, 0)
    assert "a run with these limits" not in usual.out
    assert "fires on the graph itself" in limited.out
    assert says in limited.out.splitlines()[-1]
    assert "new operators none" in " ".join(invoke("run", SHARED, limit, value).out.split())


RULES = """
/// A rule with conditions.
rule halves {
  left = matmul(x, a; act = f)
  right = matmul(x, b; act = f)
  where dim(a, 1) == dim(b, 1), weight(a)
  =>
  y = matmul(x, concat(a, b; axis = 1); act = f)
  (left, right) = split(y; axis = 1, sizes = [dim(a, 1), dim(b, 1)])
}
rule once { relu(relu(x)) => relu(x) }
rule plain { relu(matmul(x, y)) => matmul(x, y; act = relu) }
rule six { x * c where value(c) == 6.0 => x + x }
rule square { matmul(transpose(x; perm = [1, 0]), x) => matmul(x, x) }
rule two-roots {
  p = relu(matmul(x, a))
  q = tanh(matmul(x, b))
  where dim(a, 1) == dim(b, 1), weight(b)
  =>
  m = matmul(x, concat(a, b; axis = 1))
  (l, r) = split(m; axis = 1, sizes = [dim(a, 1), dim(b, 1)])
  p = relu(l)
  q = tanh(r)
}
rule three-roots {
  p = relu(matmul(x, a))
  q = tanh(matmul(x, b))
  r = sigmoid(matmul(y, b))
  =>
  s = matmul(concat(x, y; axis = 0), b)
  (t, u) = split(s; axis = 0, sizes = [dim(x, 0), dim(y, 0)])
  p = relu(matmul(x, a))
  q = tanh(t)
  r = sigmoid(u)
}
rule listed {
  concat(tanh(xs[i]) for i in 0..len(xs); axis = k)
  where dim(xs[i], 1) == 8
  =>
  tanh(concat(xs[..]; axis = k))
}
rule all {
  each i: y[i] = matmul(x, w[i]; act = f)
  =>
  m = matmul(x, concat(w[..]; axis = 1); act = f)
  y[..] = split(m; axis = 1, sizes = [dim(w[i], 1) for i in 0..len(w)])
}
"""


def asked(folder: Path, rule: str, body: str, *options: object) -> str:
    path = folder / "g.tsr"
    path.write_text(RULES + "graph g {\n  input x : f32[4, 8]\n" + body + "\n}\n")
    done = invoke("why-not", rule, path, *options)
    assert (done.code, done.err) == (0, "")
    return done.out


@pytest.mark.parametrize(
    ("rule", "body", "said"),
    [
        ("plain", "weight w : f32[8, 2]\n output relu(x @ w)", "fires on the graph itself, at 1 place"),
        ("plain", "output tanh(x)", "there is no matmul and no relu in the graph"),
        (
            "plain",
            "weight w : f32[8, 2]\n t = x @ w\n output tanh(t)",
            "there is no relu in the graph\n  nearest is `matmul(x, y)` at t",
        ),
        (
            "plain",
            "weight w : f32[8, 2]\n t = matmul(x, w; act = tanh)\n output relu(t)",
            "nearest is `relu(matmul(x, y))` at out0 (f32[4, 2])\n"
            "  but at t: act is tanh, and the pattern has none",
        ),
        ("plain", "t = tanh(x)\n output relu(t)", "`t` is a tanh, and the pattern has a matmul"),
        (
            "plain",
            "weight w : f32[8, 2]\n weight b : f32[2]\n output relu(matmul(x, w, b))",
            "it has 3 operands, and the pattern 2 operands",
        ),
        (
            "halves",
            "weight a : f32[8, 2]\n weight b : f32[8, 3]\n output x @ a, x @ b",
            "fails `dim(a, 1) == dim(b, 1)`: 2 != 3",
        ),
        (
            "halves",
            "input a : f32[8, 2]\n input b : f32[8, 2]\n output x @ a, x @ b",
            "fails `weight(a)`: a is computed from an input",
        ),
        (
            "halves",
            "input z : f32[4, 8]\n weight a : f32[8, 2]\n weight b : f32[8, 2]\n output x @ a, z @ b",
            "`x` is `x` in one place and `z` in another",
        ),
        ("six", "weight c : f32[] = 5.0\n output x * c", "fails `value(c) == 6.0`: 5.0 != 6.0"),
        ("six", "weight c : f32[]\n output x * c", "c is no constant with one value"),
        (
            "square",
            "output matmul(transpose(x; perm = [1, 0]), x)",
            "fails the target's `matmul(x, x)`: matmul requires that the inner dimensions agree",
        ),
        (
            "two-roots",
            "weight b : f32[8, 2]\n output tanh(x @ b)",
            "nearest is `tanh(matmul(x, b))` at out0 (f32[4, 2])\n"
            "  but there is no other relu (for `relu(matmul(x, a))`)",
        ),
        (
            "two-roots",
            "weight b : f32[8, 2]\n output tanh(x @ b), relu(x)",
            "nearest is `relu(matmul(x, a))` at out1 (f32[4, 8])\n"
            "  but `x` is an input, and the pattern has a matmul (for `matmul(x, a)`)",
        ),
        (
            "three-roots",
            "weight b : f32[8, 2]\n output sigmoid(x @ b)",
            "nearest is `sigmoid(matmul(y, b))` at out0 (f32[4, 2])\n"
            "  but there is no other relu (for `relu(matmul(x, a))`)\n"
            "  but there is no other tanh (for `tanh(matmul(x, b))`)",
        ),
        (
            "three-roots",
            "weight b : f32[8, 2]\n output sigmoid(x @ b), tanh(x @ b)",
            "  but there is no other relu (for `relu(matmul(x, a))`)\n",
        ),
        (
            "all",
            "input z : f32[4, 8]\n weight a : f32[8, 2]\n output x @ a, z @ a",
            "but `x` is `x` for the first and `z` for the second",
        ),
        (
            "all",
            "weight a : f32[8, 8]\n output x @ a, matmul(x, a; act = relu)",
            "but `f` is none for the first and relu for the second",
        ),
        ("all", "weight a : f32[8, 8]\n output x @ a", "there is one member only"),
        ("all", "output tanh(x)", "there is no matmul in the graph"),
        (
            "listed",
            "output concat(tanh(x), tanh(x), tanh(x); axis = 0)",
            "fires on the graph itself, at 1 place",
        ),
        (
            "listed",
            "y = relu(x)\n output concat(tanh(x), y, tanh(x); axis = 0)",
            "nearest is `concat(tanh(xs[i]) for i in 0..len(xs); axis = k)` at out0 (f32[12, 8])\n"
            "  but `y` is a relu, and the pattern has a tanh (for `tanh(xs[i])`)",
        ),
        (
            "listed",
            "input z : f32[4, 9]\n output concat(tanh(x), tanh(z); axis = 1)",
            "matches xs[0] = x, xs[1] = z\n  fails `dim(xs[i], 1) == 8`: 9 != 8",
        ),
        (
            "listed",
            "output concat(x, x, x; axis = 1)",
            "there is no tanh in the graph\n"
            "  nearest is `concat(tanh(xs[i]) for i in 0..len(xs); axis = k)` at out0 (f32[4, 24])\n"
            "  but `x` is an input",
        ),
        ("listed", "output tanh(x)", "there is no concat in the graph\n  nearest is `tanh(xs[i])` at out0"),
    ],
)
def test_what_fails(tmp_path: Path, rule: str, body: str, said: str) -> None:
    assert said in asked(tmp_path, rule, body)


def test_a_target_that_no_ranks_give_a_type(tmp_path: Path) -> None:
    """The rule applies to the values of this graph, but is not compiled: it was said to fire."""
    rules = """\
rule shrink {
  transpose(x; perm = p)
  =>
  slice(
    transpose(x; perm = p);
    axis = max(p[0], p[1]), start = 0, stop = dim(x, min(p[0], p[1]))
  )
}
rule sorted { transpose(x; perm = p) => transpose(x; perm = [max(p[0], p[1]), min(p[0], p[1])]) }
"""
    graph = "graph g {\n  input x : f32[4, 8]\n  output transpose(x; perm = [1, 0])\n}\n"
    (tmp_path / "g.tsr").write_text(rules + graph)
    said = invoke("why-not", "shrink", tmp_path / "g.tsr").out
    assert "does not fire on graph g, nor on any graph that the rules make of it" in said
    assert "fails the target's `slice(" in said
    assert "the position is not known when rules are compiled" in said
    assert "fires on the graph itself" in invoke("why-not", "sorted", tmp_path / "g.tsr").out


def test_members_that_need_one_another(tmp_path: Path) -> None:
    body = "y = transpose(x; perm = [1, 0])\n z = y @ x\n output y @ (x @ z)"
    # z = y x, and y (x z): both multiply y, and the second needs the first.
    assert "is computed from" in asked(tmp_path, "all", body)


GROUPS = """
rule two {
  each i: y[i] = relu(x[i])
  where len(x) == 2
  =>
  m = relu(concat(x[..]; axis = 0))
  y[..] = split(m; axis = 0, sizes = [dim(x[i], 0) for i in 0..len(x)])
}
rule long {
  each i: y[i] = relu(x[i])
  where dim(x[i], 0) > 6
  =>
  m = relu(concat(x[..]; axis = 0))
  y[..] = split(m; axis = 0, sizes = [dim(x[i], 0) for i in 0..len(x)])
}
graph g {
  input p : f32[8]
  input q : f32[7]
  input r : f32[6]
  output relu(p), relu(q), relu(r)
}
"""


def test_a_group_fires_as_a_whole(tmp_path: Path) -> None:
    """Conditions are on all members, and those that do not fit are none of it."""
    path = tmp_path / "g.tsr"
    path.write_text(GROUPS)
    said = invoke("why-not", "two", path).out
    assert "does not fire on graph g" in said
    assert "fails `len(x) == 2`: 3 != 2" in said
    said = invoke("why-not", "long", path).out
    assert "fires on the graph itself, at 1 group:\n  out0, out1\n" in said


def test_a_rule_that_cannot_be_compiled(tmp_path: Path) -> None:
    """It never fires, wherever its pattern is found."""
    text = "rule r { relu(x) => relu(relu(x)) where dtype(x) == f32 or not weight(x) }\n"
    (tmp_path / "g.tsr").write_text(text + "graph g { input x : f32[4]\n output relu(x) }\n")
    refused(invoke("why-not", "r", tmp_path / "g.tsr"), "rule `r` can't be compiled")


def test_a_rule_that_fires_after_others(tmp_path: Path) -> None:
    said = asked(tmp_path, "once", "weight w : f32[8, 2]\n output relu(relu(x @ w) * 6.0 + 0.0)")
    assert "does not fire on graph g" in said
    text = RULES + "rule thrice { tanh(x) => relu(relu(x)) }\ngraph g { input x : f32[4]\n output tanh(x) }\n"
    (tmp_path / "h.tsr").write_text(text)
    done = invoke("why-not", "once", tmp_path / "h.tsr")
    assert "it fires after other rules\n  2 times, first in iteration 2 of" in done.out
    assert "on operators that thrice built" in done.out


def test_unknown_names_get_a_hint(tmp_path: Path) -> None:
    refused(
        invoke("why-not", "merge-matmull", SHARED), "no rule `merge-matmull`", "did you mean `merge-matmul`?"
    )
    hint = "it is in the pack `activation`: add --rules activation"
    refused(invoke("why-not", "conv-relu-back", SHARED), hint)
    refused(invoke("why-not", "zzz", SHARED), "`tensat-dl show --list rules FILE` lists the rules of a file")
    refused(invoke("why-not", "merge-matmul", SHARED, "--graph", "none"), "no graph `none`")
    refused(invoke("why-not", "merge-matmul", tmp_path / "none.tsr"), "none.tsr")
    refused(invoke("why-not", "merge-matmul"), "Missing argument")


def test_pairs_that_no_iteration_is_left_for(tmp_path: Path) -> None:
    text = RULES + "rule thrice { tanh(x) => relu(relu(x)) }\n"
    text += "rule both { a = relu(x); b = relu(y) => a = tanh(x); b = tanh(y) }\n"
    (tmp_path / "g.tsr").write_text(text + "graph g { input x : f32[4]\n output tanh(x) }\n")
    done = invoke("why-not", "both", tmp_path / "g.tsr", "--k-multi", 0)
    assert "it would match there, but was not applied" in done.out
    assert "`--k-multi` iterations only" in done.out


@pytest.mark.parametrize(
    ("pattern", "output", "written", "op"),
    [
        ("tanh(x) - exp(y)", "exp(x) - tanh(z)", "tanh(x) - exp(y)", "ewsub"),
        ("relu(matmul(tanh(x), y))", "relu(x @ tanh(z))", "matmul(tanh(x), y)", "matmul"),
        ("greater(relu(x), y)", "greater(x, relu(z))", "greater(relu(x), y)", "greater"),
    ],
)
def test_operands_in_the_other_order(
    pattern: str, output: str, written: str, op: str, tmp_path: Path
) -> None:
    text = f"rule r {{ {pattern} => neg(neg({pattern})) }}\n"
    graph = f"graph g {{ input x : f32[4, 4]\n input z : f32[4, 4]\n output {output} }}\n"
    (tmp_path / "g.tsr").write_text(text + graph)
    done = invoke("why-not", "r", tmp_path / "g.tsr")
    assert f"but the operands of `{written}` stand in the other order, which matters for {op}" in done.out
    assert "nearest" not in done.out
