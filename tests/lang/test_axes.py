"""Axes that are counted from the end, in graphs and in rules."""

from __future__ import annotations

from pathlib import Path

from tensat_dl.core.graph import Graph
from tensat_dl.lang.elaborate import elaborate
from tensat_dl.lang.program import load_program
from tests.cli.running import invoke

RULES = Path(__file__).parent / "axes.tsr"


def graph(folder: Path, body: str) -> Graph:
    path = folder / "g.tsr"
    path.write_text(f"graph g {{\n  input x : f32[8, 6]\n  {body}\n}}\n")
    program = load_program(str(path))
    return elaborate(program.graphs["g"], program.ops, program.blocks)


def test_a_negative_axis_counts_from_the_end(tmp_path: Path) -> None:
    written = "output softmax(x; axis = {0}), transpose(x; perm = [{0}, 0]), concat(x, x; axis = {0})"
    assert graph(tmp_path, written.format(-1)).nodes == graph(tmp_path, written.format(1)).nodes


def test_in_split_and_in_operators_without_tensors(tmp_path: Path) -> None:
    places = "iota(; shape = [3, 4], axis = {0}, dtype = i32)"
    written = f"(l, r) = split(x; axis = {{0}}, sizes = [4, 2]); output l, r, {places}"
    assert graph(tmp_path, written.format(-1)).nodes == graph(tmp_path, written.format(1)).nodes


def test_rules_with_negative_axes_match_the_axes_that_they_mean() -> None:
    """The rules are true, and their tests demand that they apply to axes that are counted from the first."""
    done = invoke("check", RULES)
    assert done.code == 0, done.err
    assert "5 rules, 4 tests: ok" in done.out
