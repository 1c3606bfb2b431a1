"""``tensat-dl bench``: every benchmark runs on a small model, and says in JSON what its table shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensat_dl.bench.apart import Failed, apart
from tensat_dl.bench.common import MODELS, path_of
from tensat_dl.bench.packs import PACKS, graph_of, rules_of
from tensat_dl.cli.bench import BENCHMARKS
from tests.cli.running import EXAMPLES, Done, invoke

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
}


def bench(name: str, *arguments: object, path: Path) -> tuple[Done, dict[str, Any]]:
    done = invoke("bench", name, *arguments, "--json", path)
    return done, json.loads(path.read_text(encoding="utf-8"))


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


def test_every_benchmark_is_tried() -> None:
    assert set(ROWS) == set(BENCHMARKS)


@pytest.mark.parametrize("name", ROWS)
def test_a_small_run(name: str, tmp_path: Path) -> None:
    options, fields = ROWS[name]
    model = "resnext" if name == "depth" else SMALL
    done, report = bench(name, *options, model, path=tmp_path / "out.json")
    assert done.code == 0, done.err
    assert model in done.out
    assert set(report) == {"benchmark", "options", "machine", "rows"}
    assert report["benchmark"] == name
    assert {"cores", "python", "egglog"} <= set(report["machine"])
    assert report["rows"]
    for row in report["rows"]:
        assert row["model"] == model
        for field, kind in fields.items():
            assert isinstance(row[field], kind), field


def test_pairs_and_groups_find_the_same_in_a_small_graph(tmp_path: Path) -> None:
    _, report = bench("k-multi", "--k-multi", "1", SMALL, path=tmp_path / "out.json")
    none, pairs, groups, both = report["rows"]
    assert (none["k_multi"], pairs["k_multi"], groups["rules"]) == (0, 1, "groups")
    assert (both["rules"], both["k_multi"]) == ("both", None)
    assert pairs["after"] == pytest.approx(groups["after"])
    assert both["after"] == pytest.approx(groups["after"])
    assert pairs["after"] <= none["after"]
    assert {r["status"] for r in report["rows"]} == {"optimal"}


def test_a_failure_is_shown_and_the_others_go_on(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsr"
    bad.write_text("graph g { output nothing }\n", encoding="utf-8")
    done, report = bench("k-multi", "--k-multi", "0", bad, SMALL, path=tmp_path / "out.json")
    assert done.code == 1
    assert "failed" in done.out
    assert "error: model" in done.err.replace(str(bad), "model")
    assert ["error" in r for r in report["rows"]] == [True] * 3 + [False] * 3


def test_json_to_standard_output() -> None:
    done = invoke("bench", "models", SMALL, "--json", "-")
    assert json.loads(done.out)["benchmark"] == "models"
    assert SMALL in done.err


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
    with pytest.raises(Failed, match=r"within 1 s"):
        apart("subprocess:run", 1.0, args=["sleep", "600"])
    with pytest.raises(Failed, match="TypeError"):
        apart("math:sqrt", 60.0, nothing=1)
