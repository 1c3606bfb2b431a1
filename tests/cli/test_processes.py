"""What only shows in a process of its own: signals, pipes, terminals, closed streams, imports, hash seeds."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from .running import EXAMPLES, ROOT, Done, spawn, start

SHARED = EXAMPLES / "tiny_share_input.tsr"
#: Grows for a long time: every iteration finds more ways to add.
ENDLESS = """rule commute { x + y => y + x }
rule associate { (x + y) + z <=> x + (y + z) }
graph g {
  SUM
}
""".replace(
    "SUM",
    "\n  ".join(
        [*(f"input x{i} : f32[4]" for i in range(14)), "output " + " + ".join(f"x{i}" for i in range(14))]
    ),
)
UNLIMITED = ["--max-nodes", 10**7, "--max-iters", 10**4, "--extract", "greedy"]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"{what}: waited in vain"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def watched(*args: object) -> tuple[subprocess.Popen[str], Callable[[], str]]:
    """A command whose standard error is a terminal, and what the terminal has shown until now."""
    parent, child = pty.openpty()
    process = start(*args, stderr=child, env={"TERM": "xterm", "COLUMNS": "120"})
    os.close(child)
    shown: list[str] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while data := os.read(parent, 65536):
                shown.append(data.decode(errors="replace"))
        os.close(parent)

    threading.Thread(target=read, daemon=True).start()
    return process, lambda: "".join(shown)


def exploring(shown: str) -> bool:
    """Whether at least one iteration is complete. The display may skip some."""
    return re.search("iteration [1-9]", shown) is not None


linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@linux
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_exploring(sent: signal.Signals, tmp_path: Path) -> None:
    """The last complete iteration is used, the outputs are written, and the worker is gone."""
    path, out, report = tmp_path / "g.tsr", tmp_path / "out.tsr", tmp_path / "r.json"
    path.write_text(ENDLESS)
    process, seen = watched("run", path, "-o", out, "--json", report, *UNLIMITED)
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        (worker,) = children(process.pid)
        process.send_signal(sent)
        process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: not alive(worker), "the end of the worker")
    found = json.loads(report.read_text())
    assert found["stop"] == "interrupted"
    assert found["interrupted"] is True
    assert len(found["iterations"]) >= 1
    assert spawn("fmt", "--check", out).code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.tsr", "out.tsr", "r.json"]


@linux
def test_the_worker_ends_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "g.tsr"
    path.write_text(ENDLESS)
    process, seen = watched("run", path, *UNLIMITED)
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        (worker,) = children(process.pid)
        process.kill()
        process.communicate()
    wait_for(lambda: not alive(worker), "the end of the worker")


@linux
def test_the_worker_is_killed(tmp_path: Path) -> None:
    """As the system does when memory runs out: what there is is used, and a note says so."""
    path, out, report = tmp_path / "g.tsr", tmp_path / "out.tsr", tmp_path / "r.json"
    path.write_text(ENDLESS)
    process, seen = watched("run", path, "-o", out, "--json", report, *UNLIMITED)
    with process:
        wait_for(lambda: exploring(seen()), "the first iteration")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        process.communicate(timeout=60)
    assert process.returncode == 0
    found = json.loads(report.read_text())
    assert found["stop"] == "memory"
    assert any("the engine died" in note for note in found["notes"])
    assert out.exists()


@linux
def test_the_worker_is_killed_before_it_has_anything(tmp_path: Path) -> None:
    out = tmp_path / "out.tsr"
    with start("run", SHARED, "-o", out) as process:
        wait_for(lambda: bool(children(process.pid)), "the worker")
        os.kill(children(process.pid)[0], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert re.search("error: the e-graph engine was ended by SIGKILL", err)
    assert not out.exists()


@linux
def test_interrupted_before_there_is_anything(tmp_path: Path) -> None:
    out = tmp_path / "out.tsr"
    with start("run", SHARED, "-o", out) as process:
        wait_for(lambda: bool(children(process.pid)), "the worker")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "interrupted"
    assert not out.exists()


@linux
def test_memory_limit(tmp_path: Path) -> None:
    path, report = tmp_path / "g.tsr", tmp_path / "r.json"
    path.write_text(ENDLESS)
    done = spawn("run", path, "--json", report, "--max-memory", 200, *UNLIMITED)
    assert done.code == 0, done.err
    found = json.loads(report.read_text())
    assert found["stop"] == "memory"
    assert "the memory limit bound: the last complete iteration is used" in found["notes"]


def test_time_limit(tmp_path: Path) -> None:
    path, report = tmp_path / "g.tsr", tmp_path / "r.json"
    path.write_text(ENDLESS)
    done = spawn("run", path, "--json", report, "--time-limit", 1, *UNLIMITED)
    assert done.code == 0, done.err
    assert json.loads(report.read_text())["stop"] == "time"


def test_progress_is_for_terminals(tmp_path: Path) -> None:
    process, seen = watched("run", SHARED, "-o", "-")
    with process:
        out, _ = process.communicate()
    assert process.returncode == 0
    assert "explore" in seen()
    assert "\x1b" in seen()
    assert "\x1b" not in out
    piped = spawn("run", SHARED, "-o", "-")
    assert piped.out == out
    assert "explore" not in piped.err.partition("time ")[0]
    assert "\x1b" not in piped.err
    assert spawn("run", SHARED, "-q", "-o", "-") == Done(0, out, "")


@pytest.mark.parametrize("args", [["show", SHARED, "--ops"], ["run", SHARED, "-q", "--html", "-"]])
def test_a_reader_that_leaves(args: list[object]) -> None:
    """As in ``| head -1``: no message, no error."""
    with start(*args) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def shell(script: str) -> Done:
    """``$T`` is the command."""
    command = f'T="{sys.executable} -m tensat_dl"; {script}'
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@linux
def test_a_full_disk() -> None:
    for script in (
        "$T run S -q -o /dev/full",
        "$T run S -q -o - > /dev/full",
    ):
        done = shell(script.replace("S", str(SHARED)))
        assert done.code == 2
        assert re.fullmatch("error: (/dev/full|standard output): no space left on device\n", done.err)
    assert shell(f"$T run {SHARED} -q -o /dev/null --json /dev/null").code == 0


def test_closed_streams() -> None:
    assert shell("$T run - <&-").code == 2
    assert shell(f"$T run {SHARED} -q <&-") == Done(0, "", "")
    assert shell(f"$T run {SHARED} -o - >&-").code == 0
    assert shell(f"$T run {SHARED} -q -o - 2>&-").out.startswith("graph")


def test_a_terminal_without_unicode() -> None:
    done = spawn("run", SHARED, "-o", "-", env={"PYTHONIOENCODING": "ascii"})
    assert done.code == 0
    assert r"merge-matmul \xd73" in done.err
    done = spawn("fmt", "-", stdin="// é\n" + SHARED.read_text(), env={"PYTHONIOENCODING": "ascii"})
    assert done.out.startswith("// é\n")


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tsr")
    assert spawn("run", SHARED, "-o", name).code == 0
    assert spawn("run", name, "-q").code == 0
    done = spawn("run", name + "x")
    assert done.code == 2
    assert "Traceback" not in done.err


def test_what_is_imported() -> None:
    """Help, usage errors and syntax errors come at once: neither engine nor solver is loaded for them."""
    heavy = {"egglog", "pyscipopt", "onnx", "torch", "scipy"}
    script = """
import sys
sys.argv = ["tensat-dl", *sys.argv[1:]]
from tensat_dl.cli.main import main
try:
    main()
finally:
    print("loaded", *sorted({m.partition(".")[0] for m in sys.modules}), file=sys.stderr)
"""
    cases: list[tuple[list[str], set[str]]] = [
        (["--help"], {"numpy", "lark", "rich"}),
        (["--version"], {"numpy", "lark", "rich"}),
        (["run", "--help"], {"numpy", "lark", "rich"}),
        (["extract", "--help"], {"numpy", "lark", "rich"}),
        (["run", "--nonesuch"], {"numpy", "lark", "rich"}),
        (["run", "-"], set()),
        (["fmt", "-"], {"numpy"}),
    ]
    for args, more in cases:
        done = subprocess.run(
            [sys.executable, "-c", script, *args],
            input="graph {",
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == (0 if args[-1] in ("--help", "--version") else 2)
        loaded = set(done.stderr.rpartition("loaded ")[2].split())
        assert loaded.isdisjoint(heavy | more), args


def test_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the hash seed: the same graph, pictures, signatures and e-graph, byte for byte."""
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        names = {"-o": "o.tsr", "--dot": "g.dot", "--html": "r.html", "--save-egraph": "e.json"}
        names["--signatures"] = "s.json"
        args = [a for option, name in names.items() for a in (option, folder / name)]
        done = spawn("run", EXAMPLES / "tiny_own_op.tsr", "-q", *args, env={"PYTHONHASHSEED": seed})
        assert done == Done(0, "", "")
        texts = {p.name: p.read_text() for p in folder.iterdir()}
        assert sorted(texts) == sorted(names.values())
        # Seconds are all that may differ.
        texts["r.html"] = re.sub(r"\d+(\.\d+)? m?s\b|<td>\d+\.\d\d</td>", "", texts["r.html"])
        found.append(texts)
    assert found[0] == found[1]
