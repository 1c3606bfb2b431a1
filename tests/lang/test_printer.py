"""The printer: what it writes reads back as the same tree, for every shipped file and with any comment."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.core.diagnostics import Source
from tensat_dl.lang import ast
from tensat_dl.lang.parser import parse
from tensat_dl.lang.print_doc import flat
from tensat_dl.lang.print_expr import expression
from tensat_dl.lang.printer import print_file
from tensat_dl.lang.tokens import scan

from .trees import exprs, files

pytestmark = pytest.mark.sampled(5)

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = sorted([*ROOT.glob("rules/*.tsr"), *ROOT.glob("examples/*.tsr")])


def read(text: str) -> ast.File:
    return parse(Source("test.tsr", text))


def formatted(text: str) -> str:
    return print_file(read(text))


def comments(file: ast.File) -> Counter[str]:
    return Counter(c.text for c in file.comments)


def check(text: str) -> str:
    """Prints a text and asserts what must hold of every text."""
    tree = read(text)
    printed = print_file(tree)
    again = read(printed)
    assert again.items == tree.items
    assert comments(again) == comments(tree)
    assert print_file(again) == printed
    assert not any(line != line.rstrip() for line in printed.split("\n"))
    return printed


@settings(max_examples=150, deadline=None)
@given(exprs)
def test_an_expression_reads_back(expr: ast.Expr) -> None:
    text = flat(expression(expr))
    (item,) = read(f"op f() = {text}").items
    assert isinstance(item, ast.Op)
    assert item.composition == expr
    assert flat(expression(item.composition)) == text


@settings(max_examples=60, deadline=None)
@given(files)
def test_a_file_reads_back(file: ast.File) -> None:
    printed = print_file(file)
    assert read(printed).items == file.items
    assert check(printed) == printed


@settings(max_examples=60, deadline=None)
@given(files, st.integers(0, 2**32))
def test_no_comment_is_lost(file: ast.File, seed: int) -> None:
    check(with_comments(print_file(file), random.Random(seed)))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_shipped_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check(text) == text
    for seed in range(2):
        check(with_comments(text, random.Random(seed)))


def with_comments(text: str, rng: random.Random) -> str:
    """The text with comments and blank lines where a line may end without changing the meaning."""
    out = []
    depth = 0
    tokens = list(scan(Source("", text)))
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.kind == "line" and rng.random() < 0.3:
            out.append(rng.choice(["", "  "]) + f"// end {rng.randrange(9)}")
        out.append(token.text)
        anywhere = token.kind in ("line", "doc") or token.text in ("{", ",", "=>", "<=>") or depth > 0
        if anywhere and token.kind != "comment" and rng.random() < 0.08:
            blank = "\n" * rng.choice([0, 0, 1, 3])
            out.append(f"{blank} // own {rng.randrange(9)}\n{rng.choice(['', '', chr(10) * 2])}")
    return "".join(out) + rng.choice(["", "// at the end", "\n\n// far away\n"])


PARENTHESES = [
    "(a + b) * c",
    "a - (b - c)",
    "a - b - c",
    "-(a + b)",
    "-a * -b",
    "(-a)[0]",
    "-a[0]",
    "(a + b)[1..]",
    "not (a and b)",
    "not a == b",
    "(not a) == b",
    "(a < b) == (c < d)",
    "a or b and c",
    "(a or b) and c",
    "a + (if c then x else y)",
    "if if a then b else c then d else if e then f else g",
    "[x[i] for i in 0..n]",
    "sum([dim(x, i) for i in [0, 2]])",
    "f(; a = 1)",
    "x[..-1] ++ [n]",
    "x[..]",
    "--x",
    "1e-5 + 007",
]


@pytest.mark.parametrize("text", PARENTHESES)
def test_parentheses_are_minimal(text: str) -> None:
    (item,) = read(f"op f() = {text}").items
    assert isinstance(item, ast.Op)
    assert item.composition is not None
    assert flat(expression(item.composition)) == text


@pytest.mark.parametrize("text", ["((a))", "((a) + (b))", "(a * b) + c", "(f(x))[0]", "[(a), (b)]"])
def test_superfluous_parentheses_go(text: str) -> None:
    (item,) = read(f"op f() = {text}").items
    assert isinstance(item, ast.Op)
    assert item.composition is not None
    printed = flat(expression(item.composition))
    assert len(printed) < len(text)


GOLDEN = Path(__file__).parent / "formatted"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.in.tsr")), ids=lambda p: p.name.split(".")[0])
def test_looks(path: Path) -> None:
    """Each ``NAME.in.tsr`` in formatted/ is printed as ``NAME.out.tsr``."""
    expected = path.with_name(path.name.replace(".in.", ".out.")).read_text(encoding="utf-8")
    assert check(path.read_text(encoding="utf-8")) == expected


def test_an_empty_file_stays_empty() -> None:
    assert formatted("") == ""
    assert formatted("\n\n  \n") == ""
    assert formatted("// only this") == "// only this\n"


def test_windows_line_ends_and_a_byte_order_mark_go() -> None:
    assert formatted("\ufeff/// Doc\r\ngraph g {\r\n  // c\r\n  output x\r\n}\r\n") == (
        "/// Doc\ngraph g {\n  // c\n  output x\n}\n"
    )


def test_a_made_tree_with_foreign_spans() -> None:
    """A program may put items of several files together; their places then say nothing."""
    first, second = read("graph g {\n\n  output x\n}"), read("rule a { x => relu(x) } // why")
    made = ast.File((*first.items, *second.items), second.comments, span=first.span)
    assert print_file(made) == "graph g {\n  output x\n}\n\nrule a { x => relu(x) }\n// why\n"
