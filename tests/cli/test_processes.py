"""What only shows in a process of its own: pipes, terminals, closed streams, imports, hash seeds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .processes import SHARED, linux, watched
from .running import EXAMPLES, ROOT, Done, spawn, start

pytestmark = pytest.mark.sampled(5)


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


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves(unbuffered: str) -> None:
    """As in ``| head -1``: no message, and the exit code that shells give to a program that ends by SIGPIPE."""
    unread = start("show", EXAMPLES / "bert.tsr", "--egglog", env={"PYTHONUNBUFFERED": unbuffered})
    with unread as process:  # which writes more than a pipe holds
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    "args",
    [
        *(["--help"], ["run", "--help"], ["run", SHARED], ["show", SHARED], ["check", SHARED]),
        ["run", SHARED, "-q", "--html", "-"],
        ["prove", EXAMPLES / "tiny_own_rule.tsr", "--from", "activation", "--json", "-", "-q"],
        ["bench", "models", SHARED, "--json", "-"],
    ],
)
def test_output_that_nobody_reads(args: list[object]) -> None:
    """Whatever prints it, and whenever: 1 would say that a check failed."""
    with start(*args) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, "error" in said, "Traceback" in said) == (141, False, False)


def test_files_are_written_though_nobody_reads_what_is_said(tmp_path: Path) -> None:
    """As in ``run .. -o out.tsr | head -1``."""
    files = [tmp_path / name for name in ("out.tsr", "report.json", "report.html")]
    with start("run", SHARED, "-o", files[0], "--json", files[1], "--html", files[2]) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
    assert process.returncode == 141
    assert spawn("run", SHARED, "-q", "-o", tmp_path / "again.tsr").code == 0
    assert files[0].read_bytes() == (tmp_path / "again.tsr").read_bytes()
    assert json.loads(files[1].read_text(encoding="utf-8"))["output"] == str(files[0])
    assert "</html>" in files[2].read_text(encoding="utf-8")


def test_messages_that_nobody_reads() -> None:
    with start("show", "none.tsr") as process:
        assert process.stderr is not None
        process.stderr.close()
    assert process.returncode == 141


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
        "$T run S > /dev/full",
        "$T --help > /dev/full",
    ):
        done = shell(script.replace("S", str(SHARED)))
        assert done.code == 2
        where = "standard output" if ">" in script else "/dev/full"
        assert done.err == f"error: {where}: no space left on device\n"
    assert shell(f"$T run {SHARED} -q -o /dev/null --json /dev/null").code == 0


def test_an_interrupt_of_generated_code(tmp_path: Path) -> None:
    """CPython remembers an interrupt that came out of an `eval` of text, and a module would end by the signal."""
    script = """
from tensat_dl.__main__ import command
from tensat_dl.cli import main

def interrupted(**options):
    raise_signal = __import__("signal").raise_signal
    eval("raise_signal(2)")

main.cli.main = interrupted
command()
"""
    (tmp_path / "stopped.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "stopped"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("size", [300, 1000, 1500])
def test_the_process_ends_beside_what_is_still_computed(size: int) -> None:
    """As after Ctrl-C. OpenBLAS is not unloaded: that could wait for ever for what a thread holds."""
    program = f"""
import sys, time
import numpy as np
from tensat_dl.__main__ import command
from tensat_dl.beside import beside

def products():
    while True:
        a @ a

a = np.ones(({size}, {size}))
beside(products)
time.sleep(0.2)
sys.argv = ["tensat-dl", "--version"]
command()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tensat-dl, version")


def test_closed_streams() -> None:
    assert shell("$T run - <&-").code == 2
    assert shell(f"$T run {SHARED} -q <&-") == Done(0, "", "")
    lost = shell(f"$T run {SHARED} -o - >&-")
    assert (lost.code, "standard output is closed" in lost.err) == (2, True)
    assert shell(f"$T run {SHARED} >&-").code == 0
    assert shell(f"$T run {SHARED} -q -o - 2>&-").out.startswith("// made by")


def test_a_terminal_without_a_width() -> None:
    assert "verification" in spawn("run", SHARED, env={"COLUMNS": "0"}).out


def test_a_terminal_without_unicode() -> None:
    done = spawn("run", SHARED, "-o", "-", env={"PYTHONIOENCODING": "ascii"})
    assert done.code == 0
    assert r"8.597 \xb5s" in done.err
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
        texts["r.html"] = re.sub(r'<div class="seconds">.*?</div>', "", texts["r.html"], flags=re.DOTALL)
        texts["r.html"] = re.sub(r"\d+(\.\d+)? m?s\b|<td>\d+\.\d\d</td>", "", texts["r.html"])
        found.append(texts)
    assert found[0] == found[1]


def test_modules_in_the_working_folder_are_not_taken_for_others(tmp_path: Path) -> None:
    for name in ("random", "queue", "egglog", "numpy", "tensat_dl"):
        (tmp_path / f"{name}.py").write_text('raise SystemExit("the wrong module")', encoding="utf-8")
    program = "from tensat_dl.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "run", str(SHARED), "-q", "-o", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
