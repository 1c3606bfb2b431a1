"""Texts that no person writes: none may hang, exhaust the stack or raise anything but a located `TsrError`."""

from __future__ import annotations

import random
import string
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensat_dl.core.diagnostics import Source, TsrError
from tensat_dl.lang import ast
from tensat_dl.lang.parser import MAX_LINE, parse
from tensat_dl.lang.printer import print_file

pytestmark = pytest.mark.sampled(6)

ROOT = Path(__file__).resolve().parent.parent.parent
OPS = (ROOT / "rules" / "ops.tsr").read_text(encoding="utf-8")
MODEL = (ROOT / "tests" / "lang" / "formatted" / "comments.out.tsr").read_text(encoding="utf-8")
BODIES = (ROOT / "tests" / "lang" / "formatted" / "bodies.out.tsr").read_text(encoding="utf-8")


def outcome(text: str) -> ast.File | TsrError:
    """The tree, or the errors after a check that each can be shown and points into the text."""
    try:
        return parse(Source("a.tsr", text))
    except TsrError as e:
        check_diagnostics(e, text)
        return e


def check_diagnostics(e: TsrError, text: str) -> None:
    assert e.diagnostics
    for d in e.diagnostics:
        d.render().encode("utf-8")
        if d.span is not None:
            assert 0 <= d.span.start <= d.span.end <= len(text)


HUGE = {
    "parentheses": ("op f() = " + "(" * 90_000, "a.tsr:1:74: error: nested more than 64 levels deep"),
    "closed parentheses": ("op f() = " + "(" * 999 + "x" + ")" * 999, "nested more than 64 levels deep"),
    "brackets": ("op f() = " + "[" * 90_000, "nested more than 64 levels deep"),
    "braces": ("graph g " + "{" * 90_000, "nested more than 64 levels deep"),
    "loops": ("graph g {\n" + "for i in x {\n" * 9999, "nested more than 64 levels deep"),
    "calls": ("op f() = " + "f(" * 9999, "nested more than 64 levels deep"),
    "sums": ("op f() = x" + "\n+ x" * 50_000, "more than 128 operators in one expression"),
    "sums in brackets": ("op f() = " + "(x + 1 + " * 50 + "x" + ")" * 50, ""),
    "minuses": ("op f() = " + "- " * 40_000 + "x", "more than 128 operators in one expression"),
    "negations": ("op f() = " + "not " * 20_000 + "x", "more than 128 operators in one expression"),
    "choices": ("op f() = " + "if a then b else " * 5000 + "x", "more than 128 operators in one expression"),
    "conditions": ("op f() = " + "if " * 20_000 + "x", "more than 128 operators in one expression"),
    "indices": ("op f() = x" + "[0]" * 20_000, "more than 128 operators in one expression"),
    "comparisons": ("op f() = x" + "\n< x" * 30_000, "comparisons do not chain"),
    "closers": ("}" * 90_000, "`}` closes nothing"),
    "semicolons": (";\n" * 100_000 + "graph g {" + ";" * 90_000, "`{` is never closed"),
    "open strings": ('import "\n' * 10_000, "more than 20 errors; the others are not shown"),
    "bad characters": ("§\n" * 30_000, "more than 20 errors; the others are not shown"),
    "bad items": ("rule r { x }\n" * 5000, "more than 20 errors; the others are not shown"),
    "one bad character a line": ("§" * 90_000, "a.tsr:1:1: error: unexpected `§`"),
    "a long name": ("graph g { " + "x" * 90_000 + " y }", "does not start a statement"),
    "a long number": ("op f() = " + "9" * 90_000, "the integer is too large"),
    "a long word": ("x" * 90_000 + "é" * 5000, "cannot be part of a name"),
    "quotes": ('"' * 90_001, "the string is not closed"),
    "backslashes": ('import "' + "\\" * 90_000, "the string is not closed"),
    "doc comments": ("///\n" * 50_000, "a doc comment must stand before"),
    "doc comments between": ("/// a\nimport\n" * 20_000, "more than 20 errors"),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge(name: str) -> None:
    text, expected = HUGE[name]
    start = time.process_time()
    result = outcome(text)
    assert time.process_time() - start < 10
    if expected:
        assert isinstance(result, TsrError)
        shown = result.render()
        assert expected in shown
        assert len(shown) < 10_000
    else:
        assert isinstance(result, ast.File)


@pytest.mark.parametrize("text", ["x" * 10**7, "graph g {\n" + " " * 10**7 + "\n}", "// " + "é" * 10**7])
def test_a_line_of_ten_megabytes(text: str) -> None:
    start = time.process_time()
    result = outcome(text)
    assert time.process_time() - start < 0.5
    assert isinstance(result, TsrError)
    assert f"at most {MAX_LINE:,} are allowed" in result.render()
    assert len(result.render()) < 500


def test_what_is_allowed_is_not_deep_enough_to_hurt() -> None:
    """The deepest tree that is accepted can be printed and read again."""
    deep = "x"
    for _ in range(31):
        deep = f"[-({deep} + 1)]"
    tree = outcome(f"op f() = {deep}")
    assert isinstance(tree, ast.File)
    assert outcome(print_file(tree)) == tree


def test_long_lists_are_allowed() -> None:
    values = ", ".join(["-1", "a + b * c", "x[0]", "if a then b else c"] * 500)
    assert isinstance(outcome(f"op f() = [{values}]"), ast.File)
    assert isinstance(outcome("graph g {\n" + "y = a + b - -c\n" * 1000 + "}"), ast.File)


def test_mistakes_in_many_items_do_not_hide_each_other() -> None:
    items = [f"/// Rule {i}.\nrule r{i} {{ relu(x{i}) => relu(relu(x)) }}\n\n" for i in range(200)]
    items[20] = "rule a { x = > y }\n"
    items[90] = "rule b {\n  f(x\n  => y\n}\n"
    items[91] = "graph g {\n  output x\n"
    items[150] = 'import "x\n'
    result = outcome("".join(items))
    assert isinstance(result, TsrError)
    assert len(result.diagnostics) == 4


_NOISE = st.one_of(
    st.sampled_from(
        [
            *'(){}[];,:=<>+-*/%@|?."\\\n\r\t \0é“─\u200b\ufeff\ud800',
            "=>",
            "<=>",
            "..",
            "//",
            "///",
            "/*",
            "++",
        ]
    ),
    st.sampled_from(
        ["op", "rule", "graph", "\ngraph g {", "for", "in", "if", "then", "else", "where", "test"]
    ),
    st.sampled_from(["1e999", "1.2.3", "0x1", "3x", "9" * 20, '"', "not", "each i:", "input", "unchanged"]),
    st.text(max_size=3),
)


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A part of a real file with characters deleted, doubled, replaced or inserted, perhaps cut short."""
    text = draw(st.sampled_from([OPS, MODEL, BODIES]))
    start = draw(st.integers(0, max(0, len(text) - 200)))
    text = text[start if draw(st.booleans()) else 0 :][: draw(st.sampled_from([300, 1500]))]
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 12))
        new = draw(st.one_of(st.just(""), st.just(text[at : at + length] * 2), _NOISE))
        text = text[:at] + new + text[at + (0 if draw(st.booleans()) else length) :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@settings(max_examples=250, deadline=None)
@given(broken())
def test_broken_files(text: str) -> None:
    result = outcome(text)
    if isinstance(result, ast.File):
        printed = print_file(result)
        again = outcome(printed)
        assert isinstance(again, ast.File)
        assert again.items == result.items
        assert print_file(again) == printed


@settings(max_examples=200, deadline=None)
@given(st.lists(_NOISE, max_size=40).map("".join) | st.text(max_size=80))
def test_noise(text: str) -> None:
    outcome(text)


def test_every_cut_of_a_file() -> None:
    for end in range(0, len(BODIES), 3):
        outcome(BODIES[:end])


def test_every_character_deleted() -> None:
    for at in range(0, len(MODEL), 2):
        outcome(MODEL[:at] + MODEL[at + 1 :])


def test_random_characters_of_the_language() -> None:
    rng = random.Random(0)
    for _ in range(200):
        outcome("".join(rng.choice(string.printable) for _ in range(rng.randrange(200))))
