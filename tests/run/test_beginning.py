"""The worker of a search has its work before most of the pipeline is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensat_dl
from tensat_dl.core.progress import Progress
from tensat_dl.engine.exploration import Limits
from tensat_dl.run.beginning import Setup, beginning
from tensat_dl.run.options import Options
from tensat_dl.run.search import Round, Search
from tests.run.graphs import gru

#: What only the rest of a run needs.
LATER = (
    "pyscipopt",
    "rich",
    "tensat_dl.extract.api",
    "tensat_dl.measure.machine",
    "tensat_dl.run.result",
    "tensat_dl.run.search",
    "tensat_dl.verify.equivalence",
)
#: Runs the command line. Its first argument is a file for what is imported whenever the worker is asked to explore.
SCRIPT = f"""
import sys
from tensat_dl import processes
from tensat_dl.engine.exploration import Start

send = processes.Child.send
file = open(sys.argv.pop(1), "w")

def sent(child, request):
    if isinstance(request, Start):
        print(*[name for name in {LATER} if name in sys.modules], file=file, flush=True)
    send(child, request)

processes.Child.send = sent
from tensat_dl.cli.main import main
main()
"""


def test_the_worker_explores_before_the_rest_is_imported(tmp_path: Path) -> None:
    text = "graph g {\n  input x : f32[8, 8]\n  output relu(relu(x))\n}\n"
    arguments = [str(tmp_path / "imported"), "run", "-", "--rules", "standard"]
    subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], input=text, capture_output=True, text=True, check=True
    )
    first, *later = (tmp_path / "imported").read_text().splitlines()
    assert first == ""
    assert later
    assert set(later[-1].split()) >= {"pyscipopt", "tensat_dl.run.search"}, "these are what it is called"


@pytest.mark.parametrize("options", [Options(), Options(k_multi=2, fuse=True), Options(extract="greedy")])
@pytest.mark.parametrize("single", [False, True])
def test_a_search_begins_with_its_first_stage(options: Options, single: bool) -> None:
    model = tensat_dl.load(text=f"graph g {{\n{gru(1, 64)}\n}}\n", rules=["standard"])
    setup = Setup.of(options, model.graph, model.rules, model.ops)
    with beginning(model.graph, model.rules, setup, Progress(), single) as begun:
        whole = begun.stages.whole
        first = whole if single or options.extract != "exact" else begun.stages.first
        assert not begun.stages.below(begun.stages.first)
        state = Search(setup, Progress(), single=single)
        found = Round(state, begun.worker, first, begun.start, (begun.start,)).run()
    assert found.exploration.stop in ("saturated", "iterations")


def test_another_start_than_the_one_that_was_sent_is_an_error() -> None:
    model = tensat_dl.load(text=f"graph g {{\n{gru(1, 64)}\n}}\n", rules=["standard"])
    setup = Setup.of(Options(k_multi=2), model.graph, model.rules, model.ops)
    with beginning(model.graph, model.rules, setup, Progress()) as begun, pytest.raises(AssertionError):
        begun.worker.run(begun.stages.whole.start(begun.start.apart, Limits(nodes=7)))
