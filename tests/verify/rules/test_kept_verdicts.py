"""Where verdicts are kept, and what they depend on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

import tensat_dl
from tensat_dl.cost.profile import find_profile, profile_path
from tensat_dl.jobs.run import Where
from tensat_dl.lang.program import Program, load_program
from tensat_dl.verify.rules import verify
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.prover import prover
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.verify.rules.verify import verify_rules

pytestmark = pytest.mark.sampled(5)


def program(text: str, tmp_path: Path, name: str = "r.tsr") -> Program:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_program(str(path))


RULE = "rule r { relu(relu(x)) => relu(x) }"
FALSE = "rule r { relu(ewadd(x, y)) => ewadd(relu(x), relu(y)) }"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    with patch.dict(os.environ, {"XDG_CACHE_HOME": str(tmp_path / "cache")}):
        yield tmp_path / "cache" / "tensat-dl" / "verdicts"


def check(text: str, tmp_path: Path) -> tuple[tuple[Verdict, ...], bool]:
    """Verdicts on a text's own rules, and whether any rule was examined for them."""
    found = program(text, tmp_path)
    own = [r for r in found.rules if r.name in found.own_rules]
    with patch.object(Examiner, "verdict", autospec=True, side_effect=Examiner.verdict) as examined:
        return verify_rules(own, found.ops), examined.called


@pytest.mark.parametrize("text", [RULE, FALSE])
def test_verdicts_are_kept(text: str, empty: Path, tmp_path: Path) -> None:
    first, examined = check(text, tmp_path)
    assert examined
    again, examined = check(text, tmp_path)
    assert again == first
    assert not examined
    assert [p.suffix for p in empty.iterdir()] == [".json"]  # nothing half-written is left


@pytest.mark.parametrize(
    ("text", "examined"),
    [
        ("// a comment\n\n" + RULE, False),
        ("/// Its algebra.\n" + RULE, False),
        (RULE + "\nrule other { tanh(relu(x)) => tanh(relu(relu(x))) }", True),
        (RULE.replace("=> relu(x)", "where rank(x) == 2 => relu(x)"), True),
        (RULE.replace("rule r", "rule s"), True),
    ],
)
def test_what_a_verdict_depends_on(text: str, examined: bool, empty: Path, tmp_path: Path) -> None:
    check(RULE, tmp_path)
    assert check(text, tmp_path)[1] is examined


def test_operators_count(empty: Path, tmp_path: Path) -> None:
    op = "op twice(x: tensor) = ewadd(x, x)\nrule r { twice(x) => ewadd(x, x) }"
    (first,), _ = check(op, tmp_path)
    (other,), examined = check(op.replace("= ewadd(x, x)\n", "= ewmul(x, x)\n"), tmp_path)
    assert examined
    assert (first.status, other.status) == ("tested", "refuted")


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", '{"rule": "r", "status": "proven"}', "\x00\xff"])
def test_a_damaged_cache_is_ignored(damage: str, empty: Path, tmp_path: Path) -> None:
    first, _ = check(RULE, tmp_path)
    for path in empty.iterdir():
        path.write_bytes(damage.encode("latin-1"))
    again, examined = check(RULE, tmp_path)
    assert examined
    assert again == first


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "cache"
    blocked.write_text("a file, where a folder should be")
    with patch.dict(os.environ, {"XDG_CACHE_HOME": str(blocked)}):
        (found,), _ = check(RULE, tmp_path)
    assert found.status == "tested"


def test_a_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """.. has no folder for caches, and none for profiles."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TENSAT_DL_PROFILES", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    (found,), _ = check(RULE, tmp_path)
    assert found.status == "tested"
    assert find_profile("h100") is None
    with pytest.raises(FileNotFoundError, match="the user has no home folder"):
        profile_path("h100")


def test_a_rule_that_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: Path) -> None:
    """.. is not examined again in this one, and nothing is kept of it."""
    found = program(RULE, tmp_path)
    (rule,) = [r for r in found.rules if r.name == "r"]
    monkeypatch.setattr(verify, "_EXAMINER", "tests.jobs.work:examiner_of_some")
    verdicts = verify_rules([replace(rule, name="deadly"), rule], found.ops, where=Where(1))
    assert [(v.status, v.reason) for v in verdicts] == [
        ("assumed", "its examination failed: its process was ended by signal 9"),
        ("tested", ""),
    ]
    assert len(list(empty.glob("*"))) == 1


def test_the_seed_counts(empty: Path, tmp_path: Path) -> None:
    found = program(RULE, tmp_path)
    (rule,) = [r for r in found.rules if r.name == "r"]
    assert verify.key(rule, found.ops, 0) != verify.key(rule, found.ops, 1)
    assert verify.key(rule, found.ops, 0) == verify.key(replace(rule, doc="other"), found.ops, 0)


@pytest.mark.skipif(not prover(), reason="proofs need z3")
def test_proofs_that_are_kept_are_told_of(empty: Path, tmp_path: Path) -> None:
    found = program(RULE, tmp_path)
    own = [r for r in found.rules if r.name == "r"]
    assert [v.status for v in verify_rules(own, found.ops)] == ["tested"]
    assert [v.status for v in verify_rules(own, found.ops, proofs=True)] == ["proved"]
    assert [v.status for v in verify_rules(own, found.ops)] == ["proved"]


def test_the_library_comes_with_its_verdicts(empty: Path, tmp_path: Path) -> None:
    """Of a rule that differs from the library's, nothing is known."""
    found = program('import "hoist"\n', tmp_path)
    own = [r for r in found.rules if r.name.startswith("slice")]
    with patch.object(Examiner, "verdict", side_effect=AssertionError):
        assert {v.status for v in verify_rules(own, found.ops)} == {"proved"}
    assert not verify.kept_verdicts(own, found.ops, seed=1)
    other = program("rule slice-mul { ewmul(x, x) => x * x * 1.0 }\n", tmp_path)
    (same_name,) = (r for r in other.rules if r.name == "slice-mul")
    assert not verify.kept_verdicts([same_name], other.ops)


def test_the_api(empty: Path, tmp_path: Path) -> None:
    graph = "graph g {\n  input x : f32[4]\n  output relu(x)\n}\n"
    path = tmp_path / "m.tsr"
    path.write_text(RULE + "\n" + graph, encoding="utf-8")
    model = tensat_dl.load(str(path))
    own = [r for r in model.rules if r.name == "r"]
    assert [v.status for v in tensat_dl.verify_rules(model, own)] == ["proved" if prover() else "tested"]


def test_several_processes_say_the_same(empty: Path, tmp_path: Path) -> None:
    found = program('import "pool"\n', tmp_path)
    rules = [*found.rules, *program('import "hoist"\n', tmp_path, "h.tsr").rules]
    rules = [r for r in rules if not r.name.startswith(("fuse", "unfuse"))]
    one = {r.name: Examiner(found.ops).verdict(r) for r in rules[:6]}
    counts: list[int] = []
    with patch("os.sched_getaffinity", return_value={0, 1}), patch("tensat_dl.verify.rules.verify.SHARE", 4):
        together = verify_rules(
            rules, found.ops, again=True, progress=lambda done, total, *_: counts.append(done)
        )
    assert [v for v in together if v.rule in one] == list(one.values())
    assert counts == list(range(len(rules) + 1))  # 0 before the first


def test_processes_that_die_leave_nothing_undone(empty: Path, tmp_path: Path) -> None:
    found = program('import "pool"\n', tmp_path)
    rules = [r for r in found.rules if not r.name.startswith(("fuse", "unfuse"))]
    alone = [Examiner(found.ops).verdict(r) for r in rules]
    with (
        patch("os.sched_getaffinity", return_value={0, 1}),
        patch("tensat_dl.verify.rules.verify.SHARE", 1),
        patch("sys.executable", "false"),
    ):
        assert list(verify_rules(rules, found.ops, again=True)) == alone
