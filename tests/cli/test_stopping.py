"""However a run is stopped: the last complete e-graph is extracted and written, and nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.cli.main import _Terminating
from tensat_dl.engine.exploration import Stop
from tensat_dl.report.facts import STOPS

from .processes import ENDLESS, SHARED, UNLIMITED, alive, children, exploring, linux, wait_for, watched
from .running import invoke, spawn, start

pytestmark = [pytest.mark.sampled(4), linux]

#: The command line with something done to the worker just before it is asked to refine the e-graph.
REFINING = """
import os, signal, sys
from tensat_dl.engine.explore import Exploring

refine = Exploring.refine

def hooked(self, feedback):
    worker = self._worker.process.pid
    ACTION
    print("refining", file=sys.stderr, flush=True)
    return refine(self, feedback)

Exploring.refine = hooked
from tensat_dl.cli.main import main
main()
"""


@dataclass(frozen=True)
class Place:
    """Where a run writes. Its temporary files go to a folder of their own."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out.tsr"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def outputs(self) -> list[object]:
        return ["-o", self.out, "--json", self.folder / "r.json"]

    @property
    def endless(self) -> list[object]:
        """A run that goes on until it is stopped."""
        return ["run", self.folder / "g.tsr", *self.outputs, *UNLIMITED]

    @property
    def env(self) -> dict[str, str]:
        return {"TMPDIR": str(self.temporary)}

    def nothing_left(self) -> None:
        assert list(self.temporary.iterdir()) == []
        assert {p.name for p in self.folder.iterdir()} <= {"g.tsr", "out.tsr", "r.json", "tmp"}

    def complete(self, stop: Stop, shown: str, interrupted: bool = False) -> dict[str, Any]:
        """The report, of a run that has written everything that it should."""
        found: dict[str, Any] = json.loads((self.folder / "r.json").read_text())
        assert found["stop"] == stop
        assert found["interrupted"] is interrupted
        assert found["verify"]["status"] == "equivalent"
        assert STOPS[stop] in " ".join(shown.split())
        assert invoke("check", self.out).code == 0
        assert invoke("fmt", "--check", self.out).code == 0
        self.nothing_left()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "g.tsr").write_text(ENDLESS)
    return Place(tmp_path)


def gone(pid: int) -> None:
    wait_for(lambda: not alive(pid), "the end of the worker")


# ---- while exploring -----------------------------------------------------------------------------------------


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)


def interrupt_all(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def terminate(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("stopped", [interrupt, interrupt_all, terminate])
def test_interrupted_while_exploring(stopped: Callable[[subprocess.Popen[str]], None], place: Place) -> None:
    """By Ctrl-C, which a terminal sends to all processes, or by whoever ends services."""
    process, seen = watched(*place.endless, env=place.env, start_new_session=True)
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        (worker,) = children(process.pid)
        stopped(process)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    gone(worker)
    found = place.complete("interrupted", shown, interrupted=True)
    assert len(found["iterations"]) >= 1
    assert "interrupted: the last complete iteration is used" in found["notes"]


def test_sigterm_where_sigint_is_ignored(place: Place) -> None:
    """As in a background job of a script."""
    process, seen = watched(
        *place.endless, env=place.env, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    place.complete("interrupted", shown, interrupted=True)


def test_sigterm_twice_at_once_is_one() -> None:
    """`timeout` sends it to the program and to its group."""
    terminate = _Terminating()
    with pytest.raises(KeyboardInterrupt):
        terminate()
    terminate()


def test_the_worker_ends_with_its_parent(place: Place) -> None:
    process, seen = watched(*place.endless, env=place.env)
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        (worker,) = children(process.pid)
        process.kill()
        process.communicate()
    gone(worker)
    assert not place.out.exists()
    place.nothing_left()


def test_the_worker_is_killed(place: Place) -> None:
    """As the system does when memory runs out: what there is is used, and a note says so."""
    process, seen = watched(*place.endless, env=place.env)
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    found = place.complete("memory", shown)
    assert any("the engine died" in note for note in found["notes"])


def test_memory_limit(place: Place) -> None:
    done = spawn(*place.endless, "--max-memory", 200, env=place.env)
    assert done.code == 0, done.err
    found = place.complete("memory", done.out)
    assert "the memory limit was reached: the last complete iteration is used" in found["notes"]


def test_time_limit(place: Place) -> None:
    done = spawn(*place.endless, "--time-limit", 1, env=place.env)
    assert done.code == 0, done.err
    place.complete("time", done.out)


# ---- while rules are examined --------------------------------------------------------------------------------


def test_interrupted_while_rules_are_examined(place: Place) -> None:
    """That may take hours. The answer is compared with the input and written."""
    rules = (f"rule r{i} {{ relu(relu(x)) => relu(x) where dim(x, 0) < {50 + i} }}" for i in range(30))
    graph = "graph g {\n  input x : f32[4]\n  output relu(relu(x))\n}"
    (place.folder / "g.tsr").write_text("\n".join((*rules, graph)))
    cache = {"XDG_CACHE_HOME": str(place.temporary / "cache")}
    process, seen = watched("run", place.folder / "g.tsr", *place.outputs, env=place.env | cache)
    with process:
        wait_for(lambda: "rule 0 of 30" in seen(), "the examination")
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    shutil.rmtree(place.temporary / "cache")
    place.complete("saturated", shown, interrupted=True)
    assert re.search(r"interrupted: \d+ of 30 applied rules not examined", shown)
    assert re.search(r"rules applied .*\d+ not examined \(r", shown)


# ---- when everything is written --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    "hook",
    [
        "from tensat_dl.cli.outputs import Said; Said.end = lambda self: stop()",
        "import atexit; atexit.register(stop)",
    ],
)
def test_a_signal_after_the_end_changes_nothing(number: str, hook: str, place: Place) -> None:
    """The answer is written, so whoever waits for it is told so."""
    script = f"""
import os, signal, time

def stop():
    os.kill(os.getpid(), signal.{number})
    time.sleep(0.1)

{hook}
from tensat_dl.cli.main import main
main()
"""
    command = [sys.executable, "-c", script]
    done = spawn("run", SHARED, *place.outputs, command=command, env=place.env)
    assert (done.code, done.err) == (0, "")
    place.complete("saturated", done.out)


# ---- before there is anything --------------------------------------------------------------------------------


def test_the_worker_is_killed_before_it_has_anything(place: Place) -> None:
    with start("run", SHARED, *place.outputs, env=place.env) as process:
        wait_for(lambda: bool(children(process.pid)), "the worker")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert re.search("error: the e-graph engine was ended by SIGKILL", err)
    assert not place.out.exists()
    place.nothing_left()


def test_interrupted_before_there_is_anything(place: Place) -> None:
    with start("run", SHARED, *place.outputs, env=place.env) as process:
        wait_for(lambda: bool(children(process.pid)), "the worker")
        (worker,) = children(process.pid)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "interrupted"
    gone(worker)
    assert not place.out.exists()
    place.nothing_left()


# ---- when an answer is there, and the e-graph is refined for a better one ------------------------------------


def refining(place: Place, action: str, *options: object) -> subprocess.Popen[str]:
    """A run that has come to refinement, after ``action`` on ``worker``."""
    command = [sys.executable, "-c", REFINING.replace("ACTION", action)]
    args = ("run", SHARED, *place.outputs, *options)
    process = start(*args, command=command, env=place.env, start_new_session=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "refining\n"
    return process


@pytest.mark.parametrize("stopped", [interrupt, interrupt_all, terminate])
def test_interrupted_while_refining(stopped: Callable[[subprocess.Popen[str]], None], place: Place) -> None:
    """The worker stands still, so that refinement never ends by itself."""
    with refining(place, "os.kill(worker, signal.SIGSTOP)") as process:
        (worker,) = children(process.pid)
        stopped(process)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    gone(worker)
    found = place.complete("saturated", shown, interrupted=True)
    assert found["cost"]["after"] < found["cost"]["before"]
    assert "interrupted: the cheapest graph extracted until then is used" in found["notes"]


@pytest.mark.parametrize("reaped", ["", "; self._worker.process.wait()"])
def test_the_worker_is_killed_before_it_refines(reaped: str, place: Place) -> None:
    with refining(place, f"os.kill(worker, signal.SIGKILL){reaped}") as process:
        shown, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    found = place.complete("saturated", shown)
    assert found["cost"]["after"] < found["cost"]["before"]
    assert any(re.match("the engine died, .*, while groups were merged", note) for note in found["notes"])


def test_time_limit_while_refining(place: Place) -> None:
    with refining(place, "os.kill(worker, signal.SIGSTOP)", "--time-limit", 3) as process:
        (worker,) = children(process.pid)
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    gone(worker)
    found = place.complete("saturated", shown)
    assert "the time limit was reached while groups were merged that the result uses" in found["notes"]


def test_a_worker_that_waits_for_feedback_ends_with_its_parent(place: Place) -> None:
    with refining(place, "print('refining', file=sys.stderr, flush=True); signal.pause()") as process:
        (worker,) = children(process.pid)
        process.kill()
        process.communicate()
    gone(worker)
    place.nothing_left()
