"""`bench paper`: the page says what was recorded and what was not; measurements are resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensat_dl import processes
from tensat_dl.bench import paper_cell
from tensat_dl.bench.paper_page import page, searches
from tensat_dl.bench.paper_plan import PAPER, QUICK, Plan
from tensat_dl.bench.paper_rows import interval, reached, spent
from tensat_dl.bench.paper_tables import until_their_best
from tests.cli.running import invoke

ROOT = Path(__file__).parents[2]
TINY = str(ROOT / "examples" / "tiny_share_input.tsr")


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "paper.json").read_text(encoding="utf-8"))
    return found


def full() -> Plan:
    options = recorded()["options"]
    return Plan(PAPER, options["iterations"], options["runs"], options["time_limit"], options["device"], True)


def test_the_page_is_what_the_results_say() -> None:
    found = recorded()
    text = "\n".join(page(found["rows"], found["machine"], list(full().cells()))).rstrip() + "\n"
    assert (ROOT / "docs" / "paper.md").read_text(encoding="utf-8") == text


def test_every_recorded_row_is_of_the_full_form() -> None:
    keys = {c.key for c in full().cells()}
    assert {r["key"] for r in recorded()["rows"]} <= keys


def test_the_page_names_what_is_missing() -> None:
    cells = list(Plan(QUICK, 30, 2, 15.0, "h100", True).cells())
    text = "\n".join(page([], {"cores": 2, "architecture": "x", "python": "3", "egglog": "13"}, cells))
    assert f"**Recorded:** 0 of the {len(cells)} measurements" in text
    for model in QUICK:
        assert model in text
    assert "bert is not recorded" in text


def test_keys_tell_measurements_apart() -> None:
    keys = [c.key for c in full().cells()]
    assert len(set(keys)) == len(keys)


def test_a_search_of_each_kind_can_be_measured() -> None:
    ours = paper_cell.ours(TINY, "pairs", "h100", 1, 30.0)
    other = paper_cell.baseline(TINY, "pairs", "h100", "backtracking", 10, 30.0)
    assert ours["before"] == pytest.approx(other["before"])
    assert ours["after"] <= other["after"] < other["before"]
    for row in (ours, other):
        costs = [c for _, c in row["gains"]]
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] == pytest.approx(row["after"])
        assert reached(row, row["after"]) is not None
        assert reached(row, row["after"] * 0.99) is None
        assert row["seconds"] > 0
    rows = [
        {**ours, "part": "ours", "model": "tiny", "pack": "pairs", "k_multi": 1, "device": "h100"},
        {
            **other,
            "part": "baseline",
            "model": "tiny",
            "pack": "pairs",
            "search": "backtracking",
            "alpha": 1.0,
        },
    ]
    _, line = searches(rows)
    assert line[0] == "tiny"
    assert line[2] == line[5] != "–"
    parts = spent(ours, other["after"])
    assert parts is not None
    assert parts["start"] > 0
    assert sum(parts.values()) <= reached(ours, other["after"]) + 1e-6
    assert any(text.startswith("| tiny | `pairs` |") for text in until_their_best(rows))
    assert not list(until_their_best([{**rows[0], "spent": []}, rows[1]])), "earlier results do not have it"


def test_measurements_are_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "paper.json")
    calls: list[str] = []

    def measured(function: str, seconds: float, /, **arguments: Any) -> dict[str, Any]:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(function)
        if len(calls) == 2:
            raise processes.Failed("no memory")
        row = {
            "before": 2.0,
            "after": 1.0,
            "seconds": 1.0,
            "best_seconds": 0.5,
            "gains": [[0.0, 2.0], [0.5, 1.0]],
        }
        return {**row, "tried": 3, "stop": "iterations", "expanded": 1, "used": {}, "measured_share": 0.0}

    monkeypatch.setattr(processes, "apart", measured)
    first = invoke("bench", "paper", "--quick", "--json", path, joined=True)
    assert first.code == 130, first.out
    assert "interrupted: --resume goes on" in first.out
    rows = json.loads(Path(path).read_text())["rows"]
    assert ["error" in r for r in rows] == [False, True, False]
    calls[:] = ["", ""]  # as if two had been made: the third is, and then Ctrl-C is pressed
    second = invoke("bench", "paper", "--quick", "--runs", "1", "--json", path, "--resume", joined=True)
    assert second.code == 130
    results = json.loads(Path(path).read_text())
    again = results["rows"]
    assert results["options"]["runs"] == 1
    assert [r["key"] for r in again] == [r["key"] for r in rows], "they are in the order of the first"
    assert not any("error" in r for r in again)  # what failed is measured again


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no-measure"], "--no-measure is for --resume"),
        (["--resume"], "--resume needs the file with the earlier results"),
        (["--page", "page.html"], "does not end in .md"),
    ],
)
def test_wrong_options(options: list[str], message: str) -> None:
    done = invoke("bench", "paper", *options, joined=True)
    assert done.code == 2
    assert message in done.out


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tensat_dl.bench.paper_figures import draw
    from tensat_dl.bench.paper_rows import FIGURES

    draw(recorded()["rows"], tmp_path)
    for name in FIGURES:
        assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8").rstrip().endswith("</svg>")


def test_an_interval_holds_the_mean() -> None:
    assert interval([4.0]) == "4.0"
    assert interval([1.0, 2.0, 3.0]) == "2.0 ± 2.5"
    assert interval([]) == "–"
