"""``why`` and ``why-not`` from the command line: what they say, and what they refuse."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from textwrap import dedent

import pytest

from .running import EXAMPLES, Done, invoke
from .test_options import refused

pytestmark = pytest.mark.sampled(5)

SHARED = EXAMPLES / "tiny_share_input.tsr"
FUSE = """import "activation"
graph g {
  input x : f32[32, 512]
  weight w : f32[512, 512]
  output relu(x @ w)
}
"""


def made(folder: Path, text: str = FUSE, *options: object) -> Path:
    """The optimized graph of a text."""
    (folder / "g.tsr").write_text(text)
    done = invoke("run", folder / "g.tsr", "-q", "-o", folder / "out.tsr", *options)
    assert done == Done(0, "", "")
    return folder / "out.tsr"


def test_why(tmp_path: Path) -> None:
    done = invoke("why", made(tmp_path))
    assert done.err == ""
    assert done == Done(
        0,
        dedent(
            """\
            g
                  1  matmul-relu   4.391 µs -> 2.352 µs
                     relu(x y) = matmul(x, y; act = relu): one operator instead of two.
                     out0: 32×512
            4.391 µs -> 2.352 µs, estimated for h100
            1 step, replayed and evaluated: equal (exactly)
            """
        ),
        "",
    )


def test_a_number_that_is_a_product_of_numbers(tmp_path: Path) -> None:
    """No rule has made it: it is known from its factors."""
    text = """import "standard"
graph g {
  input u : f32[32, 512]
  input v : f32[32, 512]
  weight w : f32[512, 1000]
  output (u + v) @ w * 0.5 / 2.0
}
"""
    done = invoke("why", made(tmp_path, text))
    assert (done.code, done.err) == (0, "")
    assert "each replayed and evaluated: equal" in done.out


def test_the_page_has_every_step(tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    assert invoke("why", made(tmp_path, FUSE), "-q", "--html", page) == Done(0, "", "")
    text = page.read_text()
    HTMLParser().feed(text)
    assert "matmul-relu" in text
    assert text.count("<svg") == 2
    assert "1 step, replayed and evaluated: equal" in text


def test_what_was_made_of_what_is_a_comment_that_keeps_the_format(tmp_path: Path) -> None:
    out = made(tmp_path, FUSE, "--k-multi", "unlimited", "--max-iters", 7, "--rules", "groups")
    first, second = out.read_text().splitlines()[:2]
    assert first == "// made by: tensat-dl run g.tsr --rules groups --k-multi unlimited --max-iters 7"
    assert second.startswith("// input: ")
    assert invoke("fmt", "--check", out).code == 0
    assert invoke("check", out).code == 0
    assert invoke("why", out).code == 0


def test_paths_are_seen_from_the_output(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "g.tsr").write_text(FUSE.replace('import "activation"', ""))
    (tmp_path / "in" / "my rules.tsr").write_text('import "activation"\n')
    out = tmp_path / "out" / "o.tsr"
    options = ("--rules", tmp_path / "in" / "my rules.tsr", "-q", "-o", out)
    assert invoke("run", tmp_path / "in" / "g.tsr", *options).code == 0
    assert "run ../in/g.tsr --rules '../in/my rules.tsr'" in out.read_text()
    assert "matmul-relu" in invoke("why", out).out


def test_an_original_that_has_moved_or_changed(tmp_path: Path) -> None:
    out = made(tmp_path)
    moved = tmp_path / "moved.tsr"
    (tmp_path / "g.tsr").rename(moved)
    refused(invoke("why", out), "the original,", "is not there", "--from FILE")
    assert "matmul-relu" in invoke("why", out, "--from", moved).out
    moved.write_text("// another comment\n" + FUSE.replace("  weight", "    weight"))
    assert invoke("why", out, "--from", moved).err == ""
    moved.write_text(FUSE.replace("32", "64"))
    done = invoke("why", out, "--from", moved)
    assert done.code == 3
    assert f"hint: the graph of {moved} has changed since" in done.err
    moved.write_text(FUSE.replace("output relu(x @ w)", "output relu(relu(x @ w))"))
    done = invoke("why", out, "--from", moved)
    assert done.code == 0
    assert "has changed since" in done.err
    assert "relu-relu" in done.out


def test_a_result_that_was_edited(tmp_path: Path) -> None:
    out = made(tmp_path)
    out.write_text(out.read_text().replace("act = relu", "act = tanh"))
    done = invoke("why", out)
    assert done.code == 3
    assert "did not lead to its matmul" in done.err


def test_a_graph_that_nothing_is_known_of(tmp_path: Path) -> None:
    refused(invoke("why", SHARED), "no comment records the origin of this graph")
    refused(invoke("why", tmp_path / "none.tsr"), "none.tsr")
    out = made(tmp_path)
    text = out.read_text()
    for damage in ("run g.tsr --k-multi x", "run 'g.tsr", "run", "run g.tsr --unknown"):
        out.write_text(text.replace("run g.tsr", damage))
        refused(invoke("why", out), "the origin of this graph")


def test_standard_input_has_to_be_named(tmp_path: Path) -> None:
    out = tmp_path / "out.tsr"
    assert invoke("run", "-", "-q", "-o", out, stdin=FUSE).code == 0
    refused(invoke("why", out), "read from standard input", "--from FILE")
    (tmp_path / "g.tsr").write_text(FUSE)
    assert "matmul-relu" in invoke("why", out, "--from", tmp_path / "g.tsr").out


def test_a_graph_that_was_not_made_cheaper(tmp_path: Path) -> None:
    out = made(tmp_path, "graph g {\n  input x : f32[4]\n  output tanh(x)\n}\n")
    assert "The graph is the original" in invoke("why", out).out


@pytest.mark.parametrize("model", ["gpt_block", "llama_block"])
def test_a_graph_with_fused_operators(model: str, tmp_path: Path) -> None:
    """What is explored again goes on from answers with such operators, as the run did."""
    out = tmp_path / "out.tsr"
    assert invoke("run", EXAMPLES / f"{model}.tsr", "--fuse", "--no-verify", "-q", "-o", out).code == 0
    assert "fused_" in out.read_text()
    done = invoke("why", out)
    assert (done.code, done.err) == (0, "")
    assert "each replayed and evaluated: equal" in done.out


def test_a_false_rule_is_named(tmp_path: Path) -> None:
    text = FUSE.replace("graph", "rule drop { relu(x) => x }\ngraph", 1)
    text = text.replace("relu(x @ w)", "tanh(relu(x @ w))")
    done = invoke("why", made(tmp_path, text, "--no-verify"))
    assert done.code == 1
    assert "error: rule drop is false" in done.err
    assert "DIFFERENT" in done.out


def test_a_tensor_that_is_computed_from_weights_and_from_inputs(tmp_path: Path) -> None:
    """x c is c where c is 0: it needs an input in one way and none in another, as the engine has it."""
    text = """rule zero { x * c where value(c) == 0.0, dim(x, 0) == dim(c, 0) => c }
rule once { relu(relu(y)) where not weight(y) => relu(y) }
graph g {
  input x : f32[4]
  weight c : f32[4] = 0.0
  output relu(relu(x * c)) + x
}
"""
    done = invoke("why", made(tmp_path, text))
    assert (done.code, done.err) == (0, "")
    assert "zero   " in done.out
    assert "once   " in done.out


def test_the_way_as_far_as_there_is_one(tmp_path: Path) -> None:
    text = FUSE.replace("output relu(x @ w)", "output relu(x @ w), relu(tanh(x) @ w)")
    out = made(tmp_path, text)
    edited = out.read_text().replace("tanh(x)", "sigmoid(x)")
    out.write_text(edited)
    done = invoke("why", out)
    assert done.code == 3
    assert "1  matmul-relu" in done.out
    assert "out0: 32×512" in done.out
    assert "out1" not in done.out
    assert (
        "the steps end before the optimized graph: exploring the original again did not lead to its sigmoid"
        in (done.err)
    )


def test_an_original_that_cycle_filtering_took_out(tmp_path: Path) -> None:
    text = """rule cut { slice(concat(x, y; axis = 0); axis = 0, start = 0, stop = n) where n == dim(x, 0) => x }
rule once { relu(relu(x)) => relu(x) }
graph g {
  input x : f32[4, 4]
  weight w : f32[4, 4]
  output relu(relu(slice(concat(x + w, w; axis = 0); axis = 0, start = 0, stop = 4)))
}
"""
    out, saved = made(tmp_path, text, "--cycles", "efficient"), tmp_path / "e.json"
    options = ("--cycles", "efficient", "--save-egraph", saved)
    assert invoke("run", tmp_path / "g.tsr", "-q", *options).code == 0
    assert "slice" not in saved.read_text()
    done = invoke("why", out)
    assert (done.code, done.err) == (0, "")
    assert "2 steps, each replayed and evaluated: equal (exactly)" in done.out


def test_the_report_of_a_run_has_the_steps(tmp_path: Path) -> None:
    out, page, own = made(tmp_path), tmp_path / "run.html", tmp_path / "why.html"
    assert invoke("run", tmp_path / "g.tsr", "-q", "--html", page).code == 0
    assert invoke("why", out, "-q", "--html", own).code == 0
    text = page.read_text()
    assert "1 step, replayed and evaluated: equal (exactly)." in text
    steps = [
        t[t.index('<section class="step">') : t.index("Each step applies")] for t in (text, own.read_text())
    ]
    assert steps[0] == steps[1]


# ---- why-not ---------------------------------------------------------------------------------------------


def test_why_not_takes_the_rules_of_the_run_that_made_an_answer(tmp_path: Path) -> None:
    """An answer imports nothing."""
    graph, out = tmp_path / "g.tsr", tmp_path / "o.tsr"
    graph.write_text(
        "rule own { tanh(neg(x)) => neg(tanh(x)) }\ngraph g {\n  input x : f32[4]\n  output relu(x)\n}\n"
    )
    invoke("run", graph, "--rules", "activation", "-o", out)
    for rule in ("matmul-relu", "own"):
        assert invoke("why-not", rule, out).out.startswith(rule)


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
    assert "it fires after other rules\n  3 times, first in iteration 2 of" in done.out
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
