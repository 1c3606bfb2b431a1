"""How values show themselves: one line, the text of the command line, and HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tensat_dl
from tensat_dl.core.shown import Shown
from tests.cli.running import invoke
from tests.docs.snippets import stable

SHARED = str(Path(__file__).parents[2] / "examples" / "tiny_share_input.tsr")
#: A false rule.
FALSE = (
    "rule turn { exp(relu(x)) => relu(exp(x)) }\ngraph g {\n  input x : f32[4]\n  output exp(relu(x))\n}\n"
)


@pytest.fixture(scope="module")
def shown(model: tensat_dl.Model, result: tensat_dl.Result) -> dict[str, Shown]:
    false = tensat_dl.load(text=FALSE)
    verdicts = tensat_dl.verify_rules(false, false.rules[:1])
    explanation = tensat_dl.explain(model, result)
    return {
        "model": model,
        "result": result,
        "verdicts": verdicts,
        "verdict": verdicts[0],
        "explanation": explanation,
    }


KINDS = ("model", "result", "verdicts", "verdict", "explanation")


def test_a_repr_is_one_short_line(shown: dict[str, Shown], model: tensat_dl.Model, result: Any) -> None:
    parts = [model.graph, model.program, model.rules[0], result.after, result.extraction]
    for value in (*shown.values(), *parts):
        line = repr(value)
        assert type(value).__name__ in line
        assert "\n" not in line
        assert len(line) < 250, line
    assert result.device in repr(result)
    assert "1 refuted" in repr(shown["verdicts"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_fits_a_terminal_and_has_no_colour(kind: str, shown: dict[str, Shown]) -> None:
    text = shown[kind].summary()
    assert str(shown[kind]) == text
    assert text.strip()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", KINDS)
def test_html_is_the_text_and_needs_nothing_else(kind: str, shown: dict[str, Shown]) -> None:
    html = shown[kind]._repr_html_()
    page = Page(html)
    assert page.text.rstrip("\n") == shown[kind].summary()
    assert {tag for tag, _ in page.tags} == {"pre", "span"}
    assert {name for _, attributes in page.tags for name in attributes} <= {"style"}
    assert len(html) < 10_000


def test_names_are_escaped() -> None:
    model = tensat_dl.load(text=FALSE)
    nasty = tensat_dl.Verdict("<script>alert(1)</script>[bold]", "assumed", reason="a & b")
    found = tensat_dl.Verdicts(model.rules[:1], (nasty,))
    page = Page(found._repr_html_())
    assert all(tag in ("pre", "span") for tag, _ in page.tags)
    assert "<script>alert(1)</script>[bold]" in page.text


def test_texts_are_those_of_the_command_line(shown: dict[str, Shown], tmp_path: Path) -> None:
    out = tmp_path / "out.tsr"
    printed = invoke("run", SHARED, "-o", out).out
    assert stable(shown["result"].summary() + "\n") == stable(printed[: printed.index("written to")])
    assert invoke("why", out).out.strip() == shown["explanation"].summary()
    path = tmp_path / "false.tsr"
    path.write_text(FALSE, encoding="utf-8")
    counterexample = invoke("check", path).err
    for line in shown["verdict"].summary().splitlines()[2:]:
        assert line.strip() in counterexample


def test_a_false_rule_cannot_be_overlooked(shown: dict[str, Any]) -> None:
    verdicts = shown["verdicts"]
    assert [v.rule for v in verdicts.refuted] == ["turn"]
    with pytest.raises(tensat_dl.RefutedRule, match="rule `turn` is false") as raised:
        verdicts.raise_for_refuted()
    assert raised.value.result is None
    with pytest.raises(tensat_dl.Mismatch, match="<text>:1:6: error: rule `turn` is false") as error:
        tensat_dl.optimize(tensat_dl.load(text=FALSE))
    assert error.value.result is not None
    assert [v.status for v in error.value.result.verdicts] == ["refuted"]


def test_a_false_rule_that_is_left_out_is_noted() -> None:
    model = tensat_dl.load(text=FALSE)
    result = tensat_dl.optimize(model, model.rules[:1], reassociate=False)
    assert "rule turn is false: not used" in result.notes
    assert result.verdicts == ()


def test_true_rules_raise_nothing() -> None:
    model = tensat_dl.load(text=FALSE, rules=["standard"])
    verdicts = tensat_dl.verify_rules(model, [r for r in model.rules if r.name == "matmul-relu"])
    verdicts.raise_for_refuted()
    assert verdicts.refuted == ()
    assert verdicts[:1] == tuple(verdicts)


def test_progress_is_one_line_that_is_blank_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """It is on standard error, which is no terminal here, and only if it is asked for."""
    model = tensat_dl.load(SHARED)
    tensat_dl.optimize(model, verify=False)
    assert capsys.readouterr() == ("", "")
    tensat_dl.optimize(model, verify=False, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    first, *lines, last, end = err.split("\r")
    assert (first, last.strip(), end) == ("", "", "")
    assert any("explore  iteration" in line for line in lines)
    assert "\n" not in err
    assert all(len(line) >= len(before.rstrip()) for before, line in pairwise(lines))
