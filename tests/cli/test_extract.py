"""``tensat-dl extract``: the answer file, the report, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensat_dl.extract import api
from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.extract.extraction import Extraction

from .running import EXAMPLES, Done, invoke

SHARED = EXAMPLES / "tiny_share_input.tsr"
METHODS = ["exact", "ilp-real", "ilp-int", "ilp-none", "greedy", "greedy-dag"]


def node(eclass: str, cost: object = 1.0, *children: str, op: str = "f") -> dict[str, object]:
    return {"op": op, "children": children, "eclass": eclass, "cost": cost}


def text(roots: list[str], **nodes: object) -> str:
    return json.dumps({"nodes": nodes, "root_eclasses": roots})


#: Two ways to make x and two to use it.
GRAPH = text(
    ["sum", "x", "sum"],
    x1=node("x", 1.0, op="a"),
    x2=node("x", 1.5, op="b"),
    add=node("sum", 2.0, "x1", "x2", op="add"),
    sum=node("sum", 4.0, "x2", op="mul"),
    unused=node("other", 0.0),
)


@pytest.fixture
def egraph(tmp_path: Path) -> Path:
    path = tmp_path / "e.json"
    path.write_text(GRAPH)
    return path


def test_the_answer_file(egraph: Path, tmp_path: Path) -> None:
    out = tmp_path / "answer.json"
    done = invoke("extract", egraph, "--out", out)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("cost 3 (optimal) by exact in 0.0")
    assert done.out.endswith(" s; 5 e-nodes in 3 e-classes\n")
    answer = {"root_eclasses": ["sum", "x"], "cost": 3.0, "choices": {"x": "x1", "sum": "add"}}
    assert json.loads(out.read_text()) == answer
    piped = invoke("extract", "-", "-o", "-", stdin=GRAPH)
    assert (piped.code, piped.out) == (0, out.read_text())
    assert "cost 3 (optimal)" in piped.err
    assert invoke("extract", egraph, "-q", "-o", "-") == Done(0, out.read_text(), "")
    assert invoke("extract", egraph, "-q") == Done(0, "", "")


def test_the_answer_file_has_runners_up(egraph: Path) -> None:
    done = invoke("extract", egraph, "--n-best", 10, "-o", "-")
    assert json.loads(done.out)["runners_up"] == [
        {"cost": 3.5, "choices": {"x": "x2", "sum": "add"}},
        {"cost": 5.0, "choices": {"x": "x1", "sum": "sum"}},
        {"cost": 5.5, "choices": {"x": "x2", "sum": "sum"}},
    ]
    assert done.err.endswith(" e-classes\nrunners-up 3.5, 5, 5.5\n")
    done = invoke("extract", "-", "--n-best", 2, "-o", "-", stdin=text(["c"], n=node("c")))
    assert json.loads(done.out)["runners_up"] == []
    assert done.err.endswith("\nrunners-up none\n")
    assert "runners_up" not in json.loads(invoke("extract", egraph, "-q", "-o", "-").out)


def test_the_report(egraph: Path, tmp_path: Path) -> None:
    report, out = tmp_path / "report.json", tmp_path / "answer.json"
    assert invoke("extract", egraph, "-q", "--json", report, "--out", out, "--n-best", 3) == Done(0, "", "")
    found = json.loads(report.read_text())
    seconds = found["extract"].pop("seconds")
    log = found["extract"].pop("log")
    assert all(0 <= m["seconds"] <= seconds for m in log)
    assert [m["stage"] for m in log] == ["start", "reduction"]
    assert [(m["cost"], m["bound"]) for m in log] == [(3.0, 0.0), (3.0, 3.0)]
    assert found == {
        "extract": {
            "method": "exact",
            "status": "optimal",
            "cost": 3.0,
            "bound": 3.0,
            "gap": 0.0,
            "runners_up": [3.5, 5.0],
        },
        "interrupted": False,
    }
    assert json.loads(out.read_text())["cost"] == 3.0
    done = invoke("extract", egraph, "--json", "-")
    assert json.loads(done.out)["extract"]["runners_up"] == []
    assert "optimal" in done.err


def test_of_an_e_graph_that_was_saved(tmp_path: Path) -> None:
    egraph = tmp_path / "e.json"
    assert invoke("run", SHARED, "-q", "--save-egraph", egraph).code == 0
    nodes = json.loads(egraph.read_text())["nodes"]
    for method in METHODS:
        done = invoke("extract", egraph, "--extract", method, "--out", "-")
        assert done.code == 0
        assert f"by {method}" in done.err
        answer = json.loads(done.out)
        assert all(nodes[n]["eclass"] == c for c, n in answer["choices"].items())
        used = {nodes[kid]["eclass"] for n in answer["choices"].values() for kid in nodes[n]["children"]}
        assert used | set(answer["root_eclasses"]) == answer["choices"].keys()
        assert answer["cost"] == pytest.approx(sum(nodes[n]["cost"] for n in answer["choices"].values()))


def test_a_time_limit_is_the_only_limit(egraph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ExtractLimits | None] = []
    extract = api.extract

    def noted(*args: object, **options: object) -> Extraction:
        seen.append(args[2])  # type: ignore[arg-type]
        return extract(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "extract", noted)
    for option in ([], ["--time-limit", 7], ["--time-limit", 0]):
        assert invoke("extract", egraph, *option).code == 0
    assert seen == [ExtractLimits(), ExtractLimits(seconds=7.0), ExtractLimits(seconds=0.0)]


def test_interrupted(egraph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "improve", interrupt)
    out = tmp_path / "answer.json"
    done = invoke("extract", egraph, "--out", out, "--json", "-")
    assert done.code == 130
    assert json.loads(done.out)["interrupted"] is True
    assert json.loads(out.read_text())["choices"] == {"x": "x1", "sum": "add"}


LOOP = (
    "e.json: error: root e-class top has no finite derivation: each of its e-nodes needs, directly or indirectly, "
    "an e-class that is empty or depends on itself\n"
)
NO_CYCLES = (
    "e.json: error: ilp-none has no constraints against cycles, and this e-graph has some: e-class p and 1 other "
    "can depend on one another. Extract with exact, ilp-real or ilp-int\n"
)


@pytest.mark.parametrize(
    ("egraph", "message"),
    [
        ("", "e.json: error: not JSON: Expecting value: line 1 column 1 (char 0)\n"),
        (
            "{",
            "e.json: error: not JSON: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)\n",
        ),
        ("[]", "e.json: error: the file must be an object, not a list\n"),
        ("{}", "e.json: error: the file has no field 'nodes'\n"),
        ('{"nodes": 1}', "e.json: error: the file: field 'nodes' must not be a number\n"),
        (text([]), "e.json: error: root_eclasses is empty: there is nothing to extract\n"),
        (
            text(["d"], n=node("c")),
            "e.json: error: root_eclasses names 'd', which is not an e-class of the file\n",
        ),
        (
            text(["c"], n=node("c", 1.0, "m")),
            "e.json: error: e-node 'n' has the child 'm', which is not an e-node of the file\n",
        ),
        (
            text(["c"], n=node("c", -1)),
            "e.json: error: e-node 'n' has cost -1.0: costs must be finite and not negative\n",
        ),
        (
            text(["c"], n=node("c", float("nan"))),
            "e.json: error: e-node 'n' has cost nan: costs must be finite and not negative\n",
        ),
        (
            text(["c"], n=node("c", 10**400)),
            "e.json: error: e-node 'n' has cost inf: costs must be finite and not negative\n",
        ),
        (
            text(["c"], n=node("c", "1")),
            "e.json: error: e-node 'n': field 'cost' must not be a string\n",
        ),
        (
            text(["c"], n=node("c", 1e300)),
            "e.json: error: e-node n (f) has cost 1e+300: costs other than 0 must be from 1e-200 to 1e+200 "
            "(1 such e-node)\n",
        ),
        (text(["leaf", "top"], leaf=node("leaf"), n=node("top", 1.0, "n")), LOOP),
    ],
)
def test_bad_e_graphs(egraph: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One message, and an older answer is as it was."""
    monkeypatch.chdir(tmp_path)
    Path("e.json").write_text(egraph)
    Path("answer.json").write_text("as it was")
    assert invoke("extract", "e.json", "--out", "answer.json", "--json", "r.json") == Done(2, "", message)
    assert Path("answer.json").read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answer.json", "e.json"]
    assert invoke("extract", "-", stdin=egraph) == Done(2, "", message.replace("e.json", "<stdin>"))


def test_e_classes_have_the_names_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.json").write_text(
        text(
            ["p"],
            x=node("x"),
            p=node("p", 1.0, "q"),
            p2=node("p", 9.0),
            q=node("q", 1.0, "p"),
            q2=node("q", 3.0),
        )
    )
    assert invoke("extract", "e.json", "--extract", "ilp-none") == Done(2, "", NO_CYCLES)
    assert invoke("extract", "e.json").code == 0


def test_bad_files(egraph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = [
        ("e.json", "Error: e.json is an input, which would be lost: choose another name\n"),
        (".", "error: .: is a directory\n"),
        ("none/a.json", "error: none/a.json: no such folder to write to\n"),
        ("", "error: an output: the name of the file is empty\n"),
        ("a\0b", "error: a\0b: the name of the file has a NUL character\n"),
    ]
    for option in ("--out", "--json"):
        for path, message in outputs:
            done = invoke("extract", "e.json", option, path)
            assert (done.code, done.out) == (2, "")
            assert done.err.endswith(message)
    for path, message in (("a.json", "both go to a.json\n"), ("-", "both go to standard output\n")):
        done = invoke("extract", "e.json", "--out", path, "--json", path)
        assert (done.code, done.out) == (2, "")
        assert done.err.endswith(f"Error: two outputs cannot {message}")
    done = invoke("extract", "none.json", "--out", "a.json")
    assert (done.code, done.out) == (2, "")
    assert done.err == "none.json: error: no such file\n"
    assert egraph.read_text() == GRAPH
    assert list(tmp_path.iterdir()) == [egraph]


def test_bad_options(egraph: Path) -> None:
    for options in (["--time-limit", "nan"], ["--time-limit", -1], ["--n-best", 0], ["--n-best", "many"]):
        done = invoke("extract", egraph, *options)
        assert (done.code, done.out) == (2, "")
        assert str(options[0]) in done.err
    done = invoke("extract", egraph, "--n-best", 2, "--extract", "greedy")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("Error: --n-best is for --extract exact, not for greedy\n")
