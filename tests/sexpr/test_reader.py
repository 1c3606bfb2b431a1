"""Lines of S-expressions: what is read, and what is said of lines that are none."""

from __future__ import annotations

import pytest

from tensat_dl.core.diagnostics import Source
from tensat_dl.lang.sexpr.reader import MAX_DEPTH, Atom, SExpr, SForm, read_lines


def plain(tree: SExpr) -> object:
    """A tree without places."""
    return tree.text if isinstance(tree, Atom) else [tree.head.text, *map(plain, tree.items)]


def test_lines() -> None:
    source = Source("r.txt", "; a comment\n\n  (relu (f 1 ?x))  =>\t?x\n# another\n// a third\n(g)=>(h 2)")
    lines, problems = read_lines(source)
    assert not problems
    assert [(x.number, plain(x.left), plain(x.right)) for x in lines if x] == [
        (3, ["relu", ["f", "1", "?x"]], "?x"),
        (6, ["g"], ["h", "2"]),
    ]
    assert lines[0] is not None
    assert lines[0].text == "(relu (f 1 ?x)) => ?x"


def test_places() -> None:
    """Every tree knows where it stands."""
    source = Source("r.txt", "\n (relu (f 1 ?x)) => ?x")
    ((line,), _) = read_lines(source)
    assert line is not None
    assert isinstance(line.left, SForm)
    assert line.left.span.text == "(relu (f 1 ?x))"
    assert line.left.items[0].span.text == "(f 1 ?x)"
    assert line.right.span.place == "r.txt:2:21"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("(relu ?x)", "1:1", "has no `=>`"),
        ("(f)=>(g)=>(h)", "1:9", "second `=>`"),
        ("=>(f)", "1:1", "nothing stands to the left"),
        ("(f)=>", "1:4", "nothing stands to the right"),
        ("(f (g)=>(h)", "1:1", "not closed"),
        ("(f))=>(h)", "1:4", "ends before this"),
        ("(f) ?x=>(h)", "1:5", "ends before this"),
        (")=>(h)", "1:1", "closes nothing"),
        ("()=>(h)", "1:1", "operator is missing"),
        ("((f))=>(h)", "1:2", "name comes first"),
        (f"{'(f ' * (MAX_DEPTH + 1)}=>(h)", f"1:{3 * MAX_DEPTH + 1}", "nest at most"),
    ],
)
def test_bad_lines(text: str, place: str, message: str) -> None:
    lines, (problem,) = read_lines(Source("r.txt", text))
    assert lines == [None]
    assert problem.span is not None
    assert problem.span.place == f"r.txt:{place}"
    assert message in problem.message


def test_every_bad_line_is_reported() -> None:
    lines, problems = read_lines(Source("r.txt", "(f\n(f)=>(g)\n(a => b)\nx"))
    assert [line and line.number for line in lines] == [None, 2, None, None]
    assert [p.span.place for p in problems if p.span] == ["r.txt:1:1", "r.txt:3:1", "r.txt:3:8", "r.txt:4:1"]
