"""The summary on the terminal, and the live progress."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tensat_dl.engine.exploration import Groups
from tensat_dl.report.facts import latency, rules_checked
from tensat_dl.report.terminal import LiveProgress
from tensat_dl.report.text import print_summary
from tensat_dl.run.result import Result, Rounds
from tensat_dl.verify.rules.verdict import Aspect, Verdict

from .results import AFTER, BEFORE, read_text, result


def printed(run: Result, width: int = 80) -> str:
    out = io.StringIO()
    print_summary(run, Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize(
    ("possible", "shown"),
    [(10**12, "1,000,000,000,000"), *((n, "more than 1,000,000,000,000") for n in (10**12 + 1, 2**100))],
)
def test_numbers_of_subsets_fit_on_a_line(possible: int, shown: str, tmp_path: Path) -> None:
    graph = read_text(BEFORE, tmp_path)[0]
    run = replace(result(graph, graph), groups=Groups(1, 26, possible))
    lines = [line for line in printed(run, 120).splitlines() if line.startswith("groups ")]
    assert [f"1 group; 26 of {shown}" in line for line in lines] == [True]


def test_summary(tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    assert printed(result(before, after, measured="tanh")) == (
        """shared
cost          320.0 µs -> 320.0 µs  no faster  (40% measured on h100, rest
              estimated)
operators     3 -> 4: slice 0 -> 2, matmul 2 -> 1
weights       1.5 KiB resident
e-graph       1,234 e-nodes in 700 e-classes after 2 iterations; saturated: no
              rule adds anything
extraction    exact: feasible, gap 10.0%, 1.5 s
rounds        1, of which 0 gained; another would gain nothing
verification  equivalent, largest error 1.0e-16 relative, 3.0e-16 absolute, on
              seed 0, float64
new operators 4 by merge-matmul-rhs
time          3.9 s: parse 50 ms, explore 2.0 s, cost 0.1 s, extract 1.5 s,
              verify 0.2 s
notes         a note
"""
    )


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        (
            Rounds(("nodes", "saturated"), 1),
            "2, of which 1 gained; another would gain nothing; 1 stopped",
        ),
        (
            Rounds(("saturated", "time"), 1, "the time limit ended the search"),
            "2, of which 1 gained; the time limit",
        ),
        (
            Rounds(("saturated",), 1, "the time limit ended the search", tried=False),
            "1, of which 1 gained; the time limit ended the search before all rules were tried",
        ),
    ],
)
def test_what_ended_the_search(rounds: Rounds, said: str, tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    assert f"rounds        {said}" in printed(replace(result(before, after), rounds=rounds), 200)


def test_an_answer_that_a_part_of_the_rules_found(tmp_path: Path) -> None:
    found = result(*(read_text(t, tmp_path)[0] for t in (BEFORE, AFTER)))
    assert "; saturated: no rule adds anything" in printed(replace(found, stop="saturated"), 200)
    partly = replace(found, stop="saturated", rounds=Rounds(("saturated", "time"), 1, whole=False))
    assert "; saturated with a part of the rules" in printed(partly, 200)


@pytest.mark.parametrize(
    ("other", "scale", "said"),
    [
        *((AFTER, 0.999, "0.1% faster"), (AFTER, 1.001, "0.1% slower"), (AFTER, 1.0, "no faster")),
        *((AFTER, 0.9999, "no faster"), (AFTER, 1.25, "1.25x slower"), (AFTER, 0.8, "1.25x faster")),
        *((AFTER, 0.01, "100x faster"), (BEFORE, 1.0, "unchanged")),
    ],
)
def test_a_change_is_one_however_little_it_gains(other: str, scale: float, said: str, tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, other))
    run = result(before, after)
    run = replace(run, after=replace(run.after, cost=tuple(scale * c for c in run.after.cost)))
    assert f" µs  {said}  (" in printed(run, 200)


@pytest.mark.parametrize(
    ("ms", "like", "shown"),
    [
        *(
            (0.008597, None, "8.597 µs"),
            (0.32, None, "320.0 µs"),
            (1.0, None, "1.000 ms"),
            (0.0, None, "0 ms"),
        ),
        *(
            (1.5, 0.9, "1500 µs"),
            (0.5, 0.2, "500.0 µs"),
            (0.01, 5.0, "0.01000 ms"),
            (12345.6, None, "12,346 ms"),
            (123456.0, None, "123.5 s"),
            (1.41e11, 1.2e11, "141,000,000 s"),
        ),
        (float("inf"), None, "unknown"),
    ],
)
def test_latencies_have_the_unit_that_avoids_leading_zeros(ms: float, like: float | None, shown: str) -> None:
    assert latency(ms, like) == shown


def test_evidence_on_rules(tmp_path: Path) -> None:
    """A bound on some instances is none on all of them."""
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    verdicts = (
        Verdict("whole", "tested", 8, 8, -60.0),
        Verdict("part", "tested", 8, 3, -40.0),
        Verdict("none", "tested", 8),
    )
    assert rules_checked(replace(result(before, after), verdicts=verdicts)) == (
        "1 tested, p < 2^-40; 1 tested, p < 2^-40 on some instances only (part); "
        "1 tested without a bound (none)"
    )


def test_overflow_is_told_if_the_graph_has_the_type(tmp_path: Path) -> None:
    before, after = (read_text(t, tmp_path)[0] for t in (BEFORE, AFTER))
    dtype = before.nodes[0].type.dtype
    for types, shown in (((dtype,), f"; overflow of {dtype} changes sums"), (("u8",), "")):
        wraps = Verdict("sums", "proved", 8, aspects=(Aspect("overflow", "differs", "x = 127", types),))
        text = rules_checked(replace(result(before, after), verdicts=(wraps,)))
        assert text == f"1 proved for all sizes{shown}"


def test_fits_a_screen(tmp_path: Path) -> None:
    """However much there is to say."""
    graph, _ = read_text(BEFORE, tmp_path)
    run = result(graph, graph, notes=tuple(f"note {i} " + "and more " * 12 for i in range(40)))
    run = replace(run, rules_used=tuple((f"rule-with-a-long-name-{i}", i) for i in range(100)))
    lines = printed(run).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in printed(run)


@pytest.mark.parametrize("name", ["[red]x[/red]", "[/]"])
def test_markup_is_text(name: str, tmp_path: Path) -> None:
    graph, _ = read_text(BEFORE, tmp_path)
    assert name in printed(result(replace(graph, name=name), graph, notes=(name,)))


def run_phases(progress: LiveProgress) -> None:
    with progress as p:
        p.phase("explore")
        p.exploring(3, 12345, 678)
        p.phase("extract")
        for cost, bound in [(float("inf"), 0.5), (2.0, float("-inf")), (2.0, 1.5), (0.0, 0.0)]:
            p.extracting(cost, bound)


def test_progress_is_silent_off_a_terminal() -> None:
    out = io.StringIO()
    run_phases(LiveProgress(console=Console(file=out)))
    run_phases(LiveProgress(quiet=True, console=Console(file=out, force_terminal=True)))
    assert out.getvalue() == ""


def test_progress_on_a_terminal() -> None:
    out = io.StringIO()
    run_phases(LiveProgress(console=Console(file=out, force_terminal=True, width=100)))
    assert "iteration 3, 12,345 e-nodes, 678 e-classes" in out.getvalue()
