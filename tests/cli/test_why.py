"""``why`` from the command line: what it says, and what it refuses."""

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


def test_a_long_concatenation(tmp_path: Path) -> None:
    """Targets of group rules nest concatenations of more than twelve; this rule's does not."""
    inputs = "".join(f"  input x{i} : f32[4, {i + 1}]\n" for i in range(16))
    parts = ", ".join(f"x{i}" for i in range(15))
    text = f'import "concat"\ngraph g {{\n{inputs}  output concat(concat({parts}; axis = 1), x15; axis = 1)\n}}\n'
    done = invoke("why", made(tmp_path, text))
    assert (done.code, done.err) == (0, "")
    assert "flatten-columns" in done.out


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


def test_named_sizes_whose_range_has_changed(tmp_path: Path) -> None:
    """At the default size the graph is as it was."""
    text = FUSE.replace("graph g {", "graph g(n: 1..512 = 32) {").replace("f32[32", "f32[n")
    out = made(tmp_path, text)
    assert invoke("why", out).err == ""
    (tmp_path / "g.tsr").write_text(text.replace("1..512", "1..1024"))
    done = invoke("why", out)
    assert done.code == 0
    assert "has changed since" in done.err
    (tmp_path / "g.tsr").write_text(FUSE)
    assert "has changed since" in invoke("why", out).err


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
