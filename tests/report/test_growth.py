"""What is said of the growth of the e-graph: on the terminal, in JSON, and in the HTML report."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tensat_dl.engine.exploration import Iteration, RuleStats, Stop
from tensat_dl.report.charts import OTHERS, RULES, by_rule, growth_bars, seconds_bars
from tensat_dl.report.html import result_to_html
from tensat_dl.report.json import result_to_json
from tensat_dl.report.text import print_iterations, print_summary
from tensat_dl.run.growth import growth, growth_line, reason_to_stop
from tensat_dl.run.result import Result
from tests.explore.graphs import pack

from .results import AFTER, BEFORE, read_text, result

ITERATIONS = (
    Iteration(
        3400,
        1700,
        0.25,
        (
            RuleStats("matmul-assoc", 1200, 1200, 2400, 0.125),
            RuleStats("pair-matmul-left", 900, 300, 900, 0.05, "600 of 900 matches put off"),
            RuleStats("relu-relu", 0, 0, 0, 0.0),
        ),
    ),
    Iteration(
        5390,
        2001,
        1.5,
        (
            RuleStats("matmul-assoc", 10, 10, 1600, 0.5, "added 1600 e-nodes and sits out until iteration 4"),
            RuleStats("pair-matmul-left", 600, 600, 400, 0.25),
            RuleStats("a-rule-whose-name-takes-more-columns-than-there-are-for-names", 1, 1, 2, 0.0),
            RuleStats("transpose-transpose", 5, 5, -10, 0.0),
            RuleStats("matmul-assoc", 4, 4, 8, 0.0),
        ),
        skipped=12,
        filtered=7,
    ),
)


def table(iterations: tuple[Iteration, ...], width: int = 80, **options: object) -> str:
    out = io.StringIO()
    print_iterations(iterations, Console(file=out, width=width, **options))  # type: ignore[arg-type]
    return out.getvalue()


def grown(folder: Path, stop: Stop = "nodes") -> Result:
    before, after = (read_text(t, folder)[0] for t in (BEFORE, AFTER))
    return replace(result(before, after), iterations=ITERATIONS, stop=stop)


# ---- the terminal --------------------------------------------------------------------------------------------


def test_the_table() -> None:
    assert table(ITERATIONS) == (
        """\
                                     matches  applied  e-nodes  e-classes   time
iteration 1                                              3,400      1,700  0.2 s
  matmul-assoc                         1,200    1,200   +2,400             0.1 s
  pair-matmul-left                       900      300     +900             50 ms
    600 of 900 matches put off
iteration 2                                              5,390      2,001  1.5 s
    12 matches skipped: they would close a cycle; 7 e-nodes on the filter list
  matmul-assoc                            14       14   +1,608             0.5 s
    added 1600 e-nodes and sits out until iteration 4
  pair-matmul-left                       600      600     +400             0.2 s
  a-rule-whose-name-takes-more-columns-than-there-are-for-names
                                           1        1       +2              0 ms
  transpose-transpose                      5        5      -10              0 ms
"""
    )


def test_the_table_is_narrow() -> None:
    assert table(ITERATIONS, 200) == table(ITERATIONS)
    assert "\x1b" not in table(ITERATIONS)
    assert table(ITERATIONS, force_terminal=True).count("\n") == table(ITERATIONS).count("\n")
    # In less room than numbers take, lines stay whole.
    assert "  pair-matmul-left        900      300     +900             50 ms\n" in table(ITERATIONS, 40)


def test_the_table_of_nothing() -> None:
    assert table(()).splitlines()[-1] == "no iteration was completed"


def test_the_growth_line() -> None:
    line = growth_line(ITERATIONS, "saturated")
    assert line == "matmul-assoc +4,008 (75%), pair-matmul-left +1,300 (24%), 1 other +2 (<1%)"
    assert growth_line((), "nodes") == ""


@pytest.mark.parametrize("most", range(4))
def test_it_names_the_rule_that_brought_most(most: int) -> None:
    """Not the one that matched most, took longest, or came first."""
    stats = tuple(
        RuleStats(f"rule-{i}", 9_000 - i, 9_000, 700 if i == most else 500, 1.0 / (i + 1)) for i in range(4)
    )
    line = growth_line((Iteration(2_300, 100, 1.0, stats),), "saturated")
    assert line.startswith(f"rule-{most} +700 (32%), ")
    assert line.endswith(", 1 other +500 (23%)")


def test_little_growth_is_worth_a_line_at_the_limit_only() -> None:
    few = (Iteration(100, 50, 0.1, (RuleStats("relu-relu", 9, 9, 90, 0.1),)),)
    assert growth_line(few, "saturated") == ""
    assert growth_line(few, "nodes") == "relu-relu +90 (100%)"


def test_the_summary_has_the_line(tmp_path: Path) -> None:
    out = io.StringIO()
    print_summary(grown(tmp_path), Console(file=out, width=80))
    assert (
        "growth        matmul-assoc +4,008 (75%), pair-matmul-left +1,300 (24%), 1 other\n"
        "              +2 (<1%)\n"
    ) in out.getvalue()


# ---- the note ------------------------------------------------------------------------------------------------


def mostly(rule: str, share: int) -> tuple[Iteration, ...]:
    stats = (RuleStats("relu-relu", 1, 1, 10_000 - 100 * share, 0.1), RuleStats(rule, 1, 1, 100 * share, 0.1))
    return (Iteration(10_000, 10, 1.0, stats),)


def test_the_note() -> None:
    rules = pack("taso")
    multi = next(r.name for r in rules if r.kind == "multi")
    blamed = f"rule {multi} brought 60% of the new e-nodes, and a limit was reached: leave it out"
    assert reason_to_stop(mostly(multi, 60), "nodes", rules, 2) == (
        f"{blamed}, try --k-multi 1 or raise --max-nodes"
    )
    assert reason_to_stop(mostly(multi, 60), "time", rules, None) == (
        f"{blamed}, try --k-multi 1 or raise --time-limit"
    )
    assert reason_to_stop(mostly("mine", 60), "iterations", rules, 1) == (
        "rule mine brought 60% of the new e-nodes, and a limit was reached: leave it out or raise --max-iters"
    )
    assert reason_to_stop(mostly(multi, 50), "nodes", rules, 1) == ""
    assert reason_to_stop(mostly(multi, 60), "saturated", rules, 1) == ""
    assert reason_to_stop(mostly(multi, 60), "interrupted", rules, 1) == ""
    assert reason_to_stop((), "nodes", rules, 1) == ""


# ---- JSON ----------------------------------------------------------------------------------------------------


def test_json_is_complete(tmp_path: Path) -> None:
    """Every field of an iteration and of what a rule did in it."""
    report = json.loads(json.dumps(result_to_json(grown(tmp_path), None), allow_nan=False))
    assert report["growth"] == {
        "matmul-assoc": 4008,
        "pair-matmul-left": 1300,
        "a-rule-whose-name-takes-more-columns-than-there-are-for-names": 2,
        "relu-relu": 0,
        "transpose-transpose": -10,
    }
    assert next(iter(report["growth"])) == "matmul-assoc"
    for told, it in zip(report["iterations"], ITERATIONS, strict=True):
        assert {f.name for f in fields(Iteration)} <= told.keys()
        assert (told["skipped"], told["filtered"]) == (it.skipped, it.filtered)
        for rule, stats in zip(told["rules"], it.rules, strict=True):
            assert rule == {f.name: getattr(stats, f.name) for f in fields(RuleStats)}


# ---- pictures ------------------------------------------------------------------------------------------------


def tips(svg: str) -> list[str]:
    """The tooltips of the bars. The picture is well-formed, and says what it is."""
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    return [rect[0].text or "" for rect in root.iter("rect")]


def heights(svg: str) -> list[float]:
    return [float(rect.attrib["height"]) for rect in ElementTree.fromstring(svg).iter("rect")]


def test_growth_bars() -> None:
    rare = "a-rule-whose-name-takes-more-columns-than-there-are-for-names"
    svg = growth_bars(ITERATIONS)
    assert tips(svg) == [
        "iteration 1: matmul-assoc +2,400 e-nodes",
        "iteration 1: pair-matmul-left +900 e-nodes",
        "iteration 2: matmul-assoc +1,608 e-nodes",
        "iteration 2: pair-matmul-left +400 e-nodes",
        f"iteration 2: {rare} +2 e-nodes",
        f"iteration 2: {OTHERS} -10 e-nodes",
    ]
    scale = heights(svg)[0] / 2400
    assert heights(svg) == pytest.approx([v * scale for v in (2400, 900, 1608, 400, 2, 10)], abs=0.11)


def test_seconds_bars() -> None:
    svg = seconds_bars(ITERATIONS)
    assert tips(svg) == ["iteration 1: 0.2 s", "iteration 2: 1.5 s"]
    first, second = heights(svg)
    assert second / first == pytest.approx(6, rel=0.01)


def test_the_first_rules_have_colours_and_nothing_is_lost() -> None:
    stats = tuple(RuleStats(f"rule-{i}", 1, 1, 100 + i, 0.0) for i in range(10))
    iterations = (Iteration(1, 1, 0.1, stats), Iteration(1, 1, 0.1, stats[3:]))
    series = by_rule(iterations)
    assert [s.name for s in series] == [*(f"rule-{i}" for i in range(9, 9 - RULES, -1)), OTHERS]
    assert len({s.style for s in series}) == len(series)
    for i, it in enumerate(iterations):
        assert sum(s.values[i] for s in series) == sum(growth([it]).values())


def test_bars_of_nothing() -> None:
    assert growth_bars(()) == seconds_bars(()) == ""
    assert growth_bars((Iteration(5, 5, 0.1, ()),)) == ""
    assert tips(seconds_bars((Iteration(5, 5, 0.0, ()),))) == []


def test_names_are_text() -> None:
    nasty = Iteration(5, 5, 0.1, (RuleStats('<b>"&', 1, 1, 5, 0.0),))
    assert tips(growth_bars((nasty,))) == ['iteration 1: <b>"& +5 e-nodes']


def test_the_html_table_has_the_same_numbers(tmp_path: Path) -> None:
    html = result_to_html(grown(tmp_path))
    section = html.partition("iteration by iteration</h2>")[2].partition("</section>")[0]
    rows = [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(<td>.*?)</tr>", section)]
    assert rows == [
        ["1", "3,400", "1,700", "0.25", "+2,400", "+900", "–", "–"],
        ["2", "5,390", "2,001", "1.50", "+1,608", "+400", "+2", "-10"],
    ]
    assert growth_bars(ITERATIONS) in section
    assert seconds_bars(ITERATIONS) in section
    styles = {s.style for s in by_rule(ITERATIONS)}
    for style in styles:  # colours for light and for dark pages
        assert len(re.findall(rf"--{style}: #", html)) == 2
        assert f".chart rect.{style} {{ fill: var(--{style}); }}" in html
