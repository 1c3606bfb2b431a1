"""DOT text, the HTML report, and what they are made from."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tensat_dl.core.graph import GraphBuilder, TensorType
from tensat_dl.report.graphs import changed_nodes, graph_to_dot
from tensat_dl.report.html import result_to_html
from tensat_dl.report.picture import MAX_BOXES
from tensat_dl.report.picture_layout import draw
from tensat_dl.run.options import Options

from .results import AFTER, BEFORE, EXAMPLES, read, read_text, result

NASTY = """</script><script>alert("1")</script>\\'"&\n{{ 7 * 7 }}"""


class Balanced(HTMLParser):
    """Checks that elements are closed in the order in which they were opened."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def well_formed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def check_dot(text: str) -> None:
    """Statements are nodes or edges, and strings are closed. Graphviz judges too where it is installed."""
    assert re.fullmatch(r'digraph "(?:[^"\\]|\\.)*" \{\n.*\n\}\n', text, re.DOTALL)
    for line in text.splitlines()[1:-1]:
        without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', "S", line)
        assert re.fullmatch(r"  (\w+ \[[\w =S,.]+\]|\w+ -> \w+|\w+=\w+);", without_strings), line
    if shutil.which("dot"):
        assert subprocess.run(["dot", "-Tcanon"], input=text.encode(), capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["tiny_share_input", "gpt_block", "bert"])
def test_dot(name: str) -> None:
    graph, _ = read(next(p for p in EXAMPLES if p.stem == name))
    check_dot(graph_to_dot(graph, changed={1, 2}))


def test_dot_escapes(tmp_path: Path) -> None:
    graph, _ = read_text(BEFORE, tmp_path)
    nodes = tuple(replace(n, name=NASTY) for n in graph.nodes)
    check_dot(graph_to_dot(replace(graph, name=NASTY, nodes=nodes, outputs=((NASTY, 3),))))


def test_html_stands_alone(tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    html = result_to_html(result(before, after))
    page = well_formed(html)
    assert "http" not in html.replace("http-equiv", "")
    assert "url(" not in html
    assert "@import" not in html
    for tag, attrs in page.tags:
        assert tag not in ("link", "img", "iframe", "object")
        assert not {"src", "href", "xlink:href"} & attrs.keys()
    assert sum(tag == "svg" for tag, _ in page.tags) == 5
    assert result_to_html(result(before, after)) == html


def test_html_shows_the_numbers(tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    html = result_to_html(result(before, after, measured="tanh"))
    for text in [
        "320.0 µs",
        "40% measured on h100, rest estimated",
        "gap 10.0%",
        "merge-matmul-rhs",
        "a note",
    ]:
        assert text in html
    assert html.count('class="n product new"') == 3  # two products before, one after
    assert html.count('class="n movement new"') == 2


def test_html_escapes(tmp_path: Path) -> None:
    graph, _ = read_text(BEFORE, tmp_path)
    nodes = tuple(
        replace(n, name=NASTY, attrs=tuple((k, NASTY if k == "name" else v) for k, v in n.attrs))
        for n in graph.nodes
    )
    nasty = replace(graph, name=NASTY, nodes=nodes, outputs=((NASTY, 3),))
    run = replace(
        result(graph, nasty, notes=(NASTY,)), options=Options(device=NASTY), rules_used=((NASTY, 1),)
    )
    page = well_formed(result_to_html(replace(run, before=run.after)))
    assert sum(tag == "script" for tag, _ in page.tags) == 1


def test_html_without_anything_to_show(tmp_path: Path) -> None:
    graph, _ = read_text(BEFORE, tmp_path)
    run = replace(
        result(graph, graph, notes=()), iterations=(), equivalence=None, rules_used=(), stop="interrupted"
    )
    html = result_to_html(run)
    well_formed(html)
    assert "No operator that runs has changed" in html
    assert "Skipped" in html


def test_html_of_a_large_graph() -> None:
    """Too many nodes are not drawn, and the report says so."""
    type = TensorType("f32", (2,))
    builder = GraphBuilder("large")
    node = builder.add("input", (), (("name", "x"), ("dtype", "f32"), ("shape", (2,))), (type,))
    for i in range(5000):
        node = builder.add(("relu", "tanh")[i % 2], (node,), (), (type,))
    graph = builder.finish([("y", node)])
    html = result_to_html(result(graph, graph))
    assert f"Too large to draw: 5,002 nodes, and at most {MAX_BOXES:,} are drawn" in html
    assert len(html) < 100_000


@pytest.mark.parametrize("name", ["nasnet_a", "bert_encoder"])
def test_pictures_are_valid_svg(name: str) -> None:
    graph, _ = read(next(p for p in EXAMPLES if p.stem == name))
    html = result_to_html(result(graph, graph))
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        assert ElementTree.fromstring(svg).tag == "svg"


def test_boxes_do_not_overlap() -> None:
    """Whatever the widths, also with edges over many layers."""
    edges = [(i, j) for i in range(60) for j in range(i + 1, 60) if (i * 7 + j * 5) % 11 == 0]
    sizes = [(20.0 + 13 * (i % 5), 10.0 + i % 3) for i in range(60)]
    drawing = draw(sizes, edges)
    boxes = list(zip(drawing.centres, sizes, strict=True))
    for a, ((x, y), (w, h)) in enumerate(boxes):
        assert w / 2 <= x + 1e-6
        assert x + w / 2 <= drawing.width + 1e-6
        for (x2, y2), (w2, h2) in boxes[:a]:
            assert abs(x - x2) >= (w + w2) / 2 - 1e-6 or abs(y - y2) >= (h + h2) / 2
    for (a, b), route in zip(edges, drawing.routes, strict=True):
        assert drawing.centres[a][1] < drawing.centres[b][1]
        assert len(route) >= 2


def test_only_what_was_rewritten_counts_as_changed(tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    gone, new = changed_nodes(before, after)
    assert [before.nodes[i].op for i in sorted(gone)] == ["matmul", "matmul"]
    assert sorted(after.nodes[i].op for i in new) == ["concat", "matmul", "slice", "slice"]
    assert changed_nodes(before, before) == (frozenset(), frozenset())
