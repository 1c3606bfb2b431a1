"""``tensat-dl bench``: every benchmark runs on a small model, and says in JSON what its table shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.bench.cells import PACKS, explored, extracted, graph_of, load, rules_of
from tensat_dl.bench.common import MODELS, Row, path_of
from tensat_dl.bench.extraction import HEADINGS, check, columns, lines, measured
from tensat_dl.cli.main import BENCHMARKS
from tensat_dl.extract.extraction import METHODS
from tensat_dl.jobs.job import Job, Reply, Work
from tensat_dl.processes import Failed, Overran, apart
from tests.cli.running import EXAMPLES, Done, invoke

pytestmark = pytest.mark.sampled(5)

ROOT = Path(__file__).parents[2]
SMALL = "tiny_share_input"
#: Options that make each benchmark quick, and what each of its rows says.
ROWS: dict[str, tuple[list[str], dict[str, type | tuple[type, ...]]]] = {
    "models": (
        [],
        {
            "operators": int,
            "nodes": int,
            "stop": str,
            "seconds": dict,
            "before": float,
            "after": float,
            "gap": float,
        },
    ),
    "join": (
        ["--rules", "pairs", "--runs", "1"],
        {
            "k_multi": int,
            "nodes": int,
            "combinations": int,
            "matches": int,
            "enumerated": float,
            "seconds": dict,
        },
    ),
    "start": (["--runs", "1"], {"command": str, "first": float, "wall": float, "cpu": float}),
    "check": ([], {"rules": int, "verdicts": dict, "cpu": float, "wall": float, "heaviest": list}),
    "cycles": (
        ["--k-multi", "1", "--time-limit", "20"],
        {
            "cycles": str,
            "k_multi": int,
            "nodes": int,
            "stop": str,
            "seconds": dict,
            "after": float,
            "status": str,
        },
    ),
    "depth": (
        ["--layers", "1", "--width", "64", "--tokens", "8"],
        {
            "layers": int,
            "nodes": int,
            "stop": str,
            "seconds": dict,
            "megabytes": dict,
            "after": float,
            "verified": str,
        },
    ),
    "k-multi": (
        ["--k-multi", "1", "--time-limit", "20"],
        {
            "rules": str,
            "k_multi": (int, type(None)),
            "nodes": int,
            "stop": str,
            "seconds": dict,
            "after": float,
            "status": str,
        },
    ),
    "extraction": (
        ["--k-multi", "1", "--time-limit", "20"],
        {
            "k_multi": int,
            "cycles": str,
            "nodes": int,
            "classes": int,
            "stop": str,
            "before": float,
            "method": str,
            "status": str,
            "cost": float,
            "bound": float,
            "gap": float,
            "seconds": float,
        },
    ),
}


def bench(name: str, *arguments: object, path: Path) -> tuple[Done, dict[str, Any]]:
    done = invoke("bench", name, *arguments, "--json", path)
    return done, json.loads(path.read_text(encoding="utf-8"))


def in_this_process(function: str, seconds: float | None = None, /, **arguments: Any) -> Row:
    """What `apart` answers, without the start of a process and all that it reads."""
    module, _, name = function.partition(":")
    try:
        answer = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))
    except Exception as e:
        raise Failed(str(e)) from e
    found: Row = json.loads(json.dumps(answer))
    return found


class WorkersHere:
    """Do jobs in this process, one at a time."""

    room = 1

    def __init__(self, work: Work) -> None:
        self.work = work

    def __enter__(self) -> WorkersHere:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self, job: Job, told: Callable[[Reply], None]) -> None:
        try:
            told(Reply(in_this_process(self.work.shared[0], **job.argument)))
        except Failed as e:
            told(Reply(reason=str(e)))

    def stop(self) -> None: ...


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch)


def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is measured in this process."""
    monkeypatch.setattr("tensat_dl.processes.apart", in_this_process)
    monkeypatch.setattr("tensat_dl.jobs.run.Where.workers", lambda _, work: WorkersHere(work))


def test_help_lists_every_benchmark() -> None:
    done = invoke("bench", "--help")
    assert done.code == 0
    for name, (_, summary) in BENCHMARKS.items():
        assert name in done.out
        assert summary.split()[0] in done.out
        one = invoke("bench", name, "--help")
        assert one.code == 0
        assert "--json FILE" in one.out


def test_unknown_benchmark() -> None:
    done = invoke("bench", "jion")
    assert done.code == 2
    assert "did you mean `join`?" in done.err


def test_unknown_model() -> None:
    done = invoke("bench", "models", "nasrn")
    assert done.code == 2
    assert "did you mean `nasrnn`?" in done.err
    assert invoke("bench", "models", "nothing.tsr").code == 2


@pytest.mark.parametrize("name", BENCHMARKS)
def test_results_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    """Known before anything is measured."""
    done = invoke("bench", name, "--json", tmp_path / "none" / "out.json")
    assert (done.code, done.out) == (2, "")
    assert "no such folder" in done.err


def test_an_egraph_is_not_overwritten_by_results(tmp_path: Path) -> None:
    file = tmp_path / "cyclic.json"
    file.write_text(json.dumps(CYCLIC), encoding="utf-8")
    done = invoke("bench", "extraction", file, "--json", file)
    assert (done.code, "is an input" in done.err) == (2, True)
    assert json.loads(file.read_text(encoding="utf-8")) == CYCLIC


def test_every_benchmark_is_tried() -> None:
    """Those that need other packages have files of their own."""
    assert set(ROWS) | {"onnx", "torch", "gpu", "scale", "paper"} == set(BENCHMARKS)


@pytest.mark.parametrize("name", [name for name in ROWS if name != "k-multi"])  # which is below
def test_a_small_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name not in ("join", "depth"):  # these two are run as they are
        here(monkeypatch)
    options, _ = ROWS[name]
    model = {"depth": "resnext", "check": "pool"}.get(name, SMALL)
    done, report = bench(name, *options, model, path=tmp_path / "out.json")
    well_formed(name, model, done, report)


def well_formed(name: str, model: str, done: Done, report: dict[str, Any]) -> None:
    assert done.code == 0, done.err
    assert model in done.out
    assert set(report) == {"benchmark", "options", "machine", "rows"}
    assert report["benchmark"] == name
    assert {"cores", "python", "egglog"} <= set(report["machine"])
    assert report["rows"]
    for row in report["rows"]:
        assert row["model"] == model
        for field, kind in ROWS[name][1].items():
            assert isinstance(row[field], kind), field


def test_another_installation_is_timed_in_turn(tmp_path: Path) -> None:
    """Each has a folder for caches of its own, so one keeps nothing for the other."""
    there = tmp_path / "python"
    there.write_text(f'#!/bin/sh\necho "$XDG_CACHE_HOME" >> {tmp_path}/calls\nexec {sys.executable} "$@"\n')
    there.chmod(0o755)
    done, report = bench("start", "--runs", "1", "--against", there, SMALL, path=tmp_path / "out.json")
    assert done.code == 0, done.err
    assert [row["command"] for row in report["rows"]] == ["check", "run"]
    for row in report["rows"]:
        assert set(row["other"]) == {"first", "wall", "cpu"}
        assert row["cpu"] <= row["wall"] * (report["machine"]["cores"] + 1)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").split()
    assert len(calls) == 4
    assert all(c.endswith("/other") for c in calls)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no such version >&2\nexit 3\n")
    broken.chmod(0o755)
    done, report = bench("start", "--runs", "1", "--against", broken, SMALL, path=tmp_path / "out.json")
    assert done.code == 1
    assert report["rows"][0]["error"] == "no such version"


@pytest.mark.usefixtures("_here")
def test_pairs_and_groups_find_the_same_in_a_small_graph(tmp_path: Path) -> None:
    done, report = bench("k-multi", *ROWS["k-multi"][0], SMALL, path=tmp_path / "out.json")
    well_formed("k-multi", SMALL, done, report)
    none, pairs, groups, both = report["rows"]
    assert (none["k_multi"], pairs["k_multi"], groups["rules"]) == (0, 1, "groups")
    assert (both["rules"], both["k_multi"]) == ("both", None)
    assert pairs["after"] == pytest.approx(groups["after"])
    assert both["after"] == pytest.approx(groups["after"])
    assert pairs["after"] <= none["after"]
    assert {r["status"] for r in report["rows"]} == {"optimal"}


#: The root's cheaper e-node needs a class that can need the root again.
CYCLIC = {
    "nodes": {
        "r0": {"op": "add", "children": ["a0"], "eclass": "r", "cost": 1},
        "r1": {"op": "leaf", "eclass": "r", "cost": 7},
        "a0": {"op": "neg", "children": ["r0"], "eclass": "a", "cost": 0},
        "a1": {"op": "leaf", "eclass": "a", "cost": 4},
    },
    "root_eclasses": ["r"],
}


@pytest.mark.usefixtures("_here")
def test_extraction_from_a_file_with_cycles(tmp_path: Path) -> None:
    file = tmp_path / "cyclic.json"
    file.write_text(json.dumps(CYCLIC), encoding="utf-8")
    done, report = bench("extraction", file, path=tmp_path / "out.json")
    assert done.code == 0, done.err
    found = {r["method"]: r for r in report["rows"]}
    assert {m: found[m]["status"] for m in ("ilp-real", "ilp-int", "ilp-none", "exact")} == {
        "ilp-real": "optimal",
        "ilp-int": "optimal",
        "ilp-none": "cyclic",
        "exact": "optimal",
    }
    assert {r["cost"] for r in found.values() if "cost" in r} == {5.0}
    assert {(r["nodes"], r["classes"], r["rules"]) for r in found.values()} == {(4, 2, None)}
    assert "cyclic.json" in done.out
    assert "roofline" not in done.out


@pytest.mark.parametrize("text", ["{", "{}", '{"nodes": {}, "root_eclasses": ["r"]}', "\udcff"])
def test_extraction_from_a_file_that_is_no_egraph(text: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    for done in (
        invoke("bench", "extraction", SMALL, file),
        invoke("bench", "extraction", tmp_path / "none.json"),
    ):
        assert done.code == 2
        assert "rror: " in done.err
        assert "Traceback" not in done.err
        assert not done.out


def test_extraction_knows_the_models() -> None:
    done = invoke("bench", "extraction", "nasrn")
    assert done.code == 2
    assert "did you mean `nasrnn`?" in done.err


def test_every_method_is_given_the_same_priced_egraph(tmp_path: Path) -> None:
    path = str(tmp_path / "kept.pickle")
    row = explored(str(SMALL), "groups", None, "none", "h100", 1000, 60.0, path)
    egraph, _ = load(path)
    assert (egraph.num_nodes, egraph.num_classes) == (row["nodes"], row["classes"])
    assert egraph.weights_only.any()
    found = {m: extracted(path, m, 20.0) for m in ("greedy", "exact")}
    assert found["exact"]["cost"] <= found["greedy"]["cost"] <= row["before"]


@pytest.mark.usefixtures("_here")
def test_groups_are_measured_once_whatever_k_multi(tmp_path: Path) -> None:
    arguments = ["--rules", "groups", "--k-multi", "1", "--k-multi", "2", "--time-limit", "20"]
    _, report = bench("extraction", *arguments, SMALL, path=tmp_path / "out.json")
    methods = [(r["k_multi"], r["cycles"], r["method"]) for r in report["rows"]]
    assert len(methods) == len(set(methods)) == 8
    assert {k for k, _, _ in methods} == {None}


def answer(method: str, cost: float, bound: float, cycles: str = "none") -> Row:
    proven = cost == bound
    return {
        "model": "m",
        "rules": "pairs",
        "k_multi": 1,
        "cycles": cycles,
        "nodes": 10,
        "classes": 5,
        "stop": "nodes",
        "method": method,
        "status": "optimal" if proven else "feasible",
        "cost": cost,
        "bound": bound,
        "gap": (cost - bound) / cost,
        "seconds": 12.0,
    }


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([answer("greedy", 3.0, 1.0), answer("ilp-real", 2.0, 2.0), answer("exact", 2.0, 2.0)], []),
        ([answer("ilp-int", 2.0, 1.0), answer("exact", 2.0 + 1e-6, 2.0 + 1e-6)], []),
        ([answer("ilp-int", 2.0, 1.0), answer("exact", 2.1, 2.1)], ["exact"]),
        ([answer("greedy", 2.0, 1.0), answer("ilp-int", 4.0, 2.5), answer("exact", 3.0, 1.0)], ["ilp-int"]),
        ([answer("exact", 2.0, 2.0), answer("exact", 3.0, 3.0, "efficient")], []),
        ([{"status": "cyclic", "cycles": "none"}, answer("exact", 2.0, 2.0)], []),
    ],
)
def test_what_is_proven_and_false_is_an_error(rows: list[Row], wrong: list[str]) -> None:
    check(rows)
    assert [r["method"] for r in rows if "error" in r] == wrong


def test_a_false_proof_fails_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(function: str, seconds: float, /, **job: Any) -> Row:
        if function.endswith(":explored"):
            return {"nodes": 4, "classes": 2, "stop": "saturated", "measured_share": 0.0}
        return answer(job["method"], *((2.0, 2.0) if job["method"] == "exact" else (1.0, 0.5)))

    monkeypatch.setattr("tensat_dl.processes.apart", lying)
    done, report = bench("extraction", SMALL, "--k-multi", "1", path=tmp_path / "out.json")
    assert done.code == 1
    assert "method exact: proves that nothing costs less than 2 (optimal), but greedy found 1" in done.err
    assert "failed" in done.out
    assert report["rows"][-1]["cost"] == 2.0


def test_a_method_that_does_not_stop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object, **__: object) -> Row:
        raise Overran("no answer")

    monkeypatch.setattr("tensat_dl.processes.apart", endless)
    row = {**answer("exact", 1.0, 1.0), **measured("extracted", 20.0, {})}
    assert row["status"] == "killed"
    ((*_, exact, _),) = lines([row])
    assert exact == "killed (100)"


def test_lines_of_the_extraction_table() -> None:
    rows = [
        answer("greedy", 3.0, 0.5),
        {**answer("ilp-none", 3.0, 3.0), "status": "cyclic"},
        answer("exact", 2.0, 2.0),
        answer("ilp-none", 2.5, 1.0, "efficient"),
        answer("exact", 2.5, 2.4, "efficient"),
    ]
    kept, filtered = (dict(zip(HEADINGS, line, strict=True)) for line in lines(rows))
    assert (kept["e-graph"], kept["k"], kept["e-nodes"]) == ("m", "1", "10n")
    assert (kept["greedy"], kept["ilp-int"], kept["ilp-none"]) == ("3.0000 (12)", "", "cyclic")
    assert (kept["exact"], filtered["exact"]) == ("2.0000 (12)", "2.5000 ±4.0% (12)")
    assert filtered["ilp-none"] == "2.5000 ±60% (12)"
    assert (kept[HEADINGS[-1]], filtered[HEADINGS[-1]]) == ("", "1.20–1.25")
    rows[-1] = answer("exact", 2.5, 2.5, "efficient")
    assert [line[-1] for line in lines(rows)] == ["", "1.250"]
    failed = {"model": "m", "k_multi": 1, "cycles": "none", "error": "no memory"}
    assert [line[:4] for line in lines([failed])] == [["m", "1", "failed", ""]]


@pytest.mark.usefixtures("_here")
def test_a_method_that_the_extraction_table_does_not_know_has_a_column() -> None:
    known = ("greedy", "greedy-dag", "ilp-real", "ilp-int", "ilp-none", "exact")
    assert columns(METHODS) == known
    assert columns((*METHODS, "best")) == (*known, "best")


def test_a_failure_is_shown_and_the_others_go_on(tmp_path: Path) -> None:
    """And with JSON on standard output, the table is beside it."""
    bad = tmp_path / "bad.tsr"
    bad.write_text("graph g { output nothing }\n", encoding="utf-8")
    done = invoke("bench", "k-multi", "--k-multi", "0", bad, SMALL, "--json", "-")
    assert done.code == 1
    assert "failed" in done.err
    assert SMALL in done.err
    assert "error: model" in done.err.replace(str(bad), "model")
    report = json.loads(done.out)
    assert report["benchmark"] == "k-multi"
    assert ["error" in r for r in report["rows"]] == [True] * 3 + [False] * 3


def test_packs() -> None:
    kinds = {pack: {r.kind for r in rules_of(pack)} for pack in PACKS}
    assert kinds == {
        "groups": {"single", "group"},
        "pairs": {"single", "multi"},
        "both": {"single", "multi", "group"},
        "taso": {"single", "multi"},
    }
    for pack in PACKS:
        names = [r.name for r in rules_of(pack)]
        assert len(names) == len(set(names))
    graph, _ = graph_of(str(EXAMPLES / "tiny_own_op.tsr"))
    assert graph.nodes


def test_models_exist() -> None:
    assert all(path_of(m).is_file() for m in MODELS)


def test_a_measurement_can_be_ended() -> None:
    with pytest.raises(Overran, match=r"within 1 s"):
        apart("subprocess:run", 1.0, args=["sleep", "600"])
    with pytest.raises(Failed, match="TypeError"):
        apart("math:sqrt", 60.0, nothing=1)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends a process with its parent")
def test_a_measurement_ends_with_what_asked_for_it(tmp_path: Path) -> None:
    """.. however that ends: by the kill of a time limit, too."""
    pids = tmp_path / "pids"
    shell = f"echo $PPID $$ > {pids}.new; mv {pids}.new {pids}; exec sleep 60"
    code = f"from tensat_dl.processes import apart; apart('subprocess:run', args=['sh', '-c', {shell!r}])"
    asking = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_for(pids.exists)
    finally:
        asking.kill()
        asking.wait()
    measuring, sleeping = map(int, pids.read_text().split())
    try:
        wait_for(lambda: not running(measuring))
    finally:
        os.kill(sleeping, signal.SIGKILL)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether there is such a process, which has not ended without being waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
