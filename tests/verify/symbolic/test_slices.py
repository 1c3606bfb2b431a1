"""Axes that can be left out: operators act on slices as `LINKS` says, and false rules follow from nothing."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from tensat_dl.lang.program import load_program
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.groups import lists_apart
from tensat_dl.rewrite.source import Variant
from tensat_dl.rewrite.variants import Assignments
from tensat_dl.verify.symbolic.proof import RANKS
from tensat_dl.verify.symbolic.slices import LINKS, Reductions, without
from tests.ops.applications import application
from tests.verify.symbolic.test_meanings import SEMANTICS, drawn


def at(x: Array, axis: int | None, i: int) -> Array:
    """Element i along an axis, or the only one; all of x without an axis."""
    return x if axis is None else x.take(i if x.shape[axis] > 1 else 0, axis)


@pytest.mark.parametrize("op", sorted(LINKS))
def test_slice_of_result_is_result_of_slices(op: str) -> None:
    rng = random.Random(zlib.crc32(op.encode()))
    values = np.random.default_rng(rng.randrange(1000))
    seen = 0
    for _ in range(30):
        a = application(op, rng)
        arrays = [drawn(t, values) for t in a.inputs]
        result = np.asarray(SEMANTICS[op](*arrays, **a.attrs))
        for j, own in LINKS[op]([x.shape for x in arrays], result.shape, a.attrs).items():
            attrs = without(a.attrs, own[0] if own else j, j)
            for i in range(result.shape[j]):
                slices = [at(x, k, i) for x, k in zip(arrays, own, strict=True)]
                found = np.asarray(SEMANTICS[op](*slices, **attrs))
                assert found.shape == result.take(i, j).shape
                assert found == pytest.approx(result.take(i, j), rel=1e-9, abs=1e-9, nan_ok=True)
                seen += 1
    assert seen


def reduced(tmp_path: Path, text: str) -> dict[tuple[int, ...], tuple[int, ...] | None]:
    """By the ranks of each assignment of a rule and its axes those of the assignment that it follows from."""
    path = tmp_path / "rules.tsr"
    path.write_text(text, encoding="utf-8")
    program = load_program(str(path))
    (rule,) = (r for r in program.rules if r.declared in program.own_rules)
    infer = Inference(program.ops)
    rule = lists_apart(rule)
    assignments = Assignments(rule, infer, met=True, any_length=rule.index is not None)
    found = [v for v in assignments.variants(RANKS) if not v.ill_typed]
    reductions = Reductions(rule, found, infer)

    def named(v: Variant) -> tuple[int, ...]:
        return tuple(v.chosen.values())

    out = {}
    for v in found:
        lower = reductions.lower(v)
        out[named(v)] = None if lower is None else named(lower)
    return out


def test_only_the_axis_of_a_concatenation_is_left(tmp_path: Path) -> None:
    found = reduced(tmp_path, "rule r { concat(relu(x), relu(y); axis = k) => relu(concat(x, y; axis = k)) }")
    assert len(found) == 21
    assert [ranks for ranks, lower in found.items() if lower is None] == [(1, 1, 0)]


def test_only_the_axis_is_left_of_a_list(tmp_path: Path) -> None:
    text = "rule r { concat(relu(x[i]) for i in 0..len(x); axis = k) => relu(concat(x[..]; axis = k)) }"
    found = reduced(tmp_path, text)
    assert len(found) == 21
    assert [ranks for ranks, lower in found.items() if lower is None] == [(1, 0)]


@pytest.mark.parametrize("axis", [0, 3])
def test_reshape_keeps_axes_that_conditions_say_are_equal(tmp_path: Path, axis: int) -> None:
    """Behind the axis as many elements follow, before it as many go ahead."""
    text = """
    rule r {
      reshape(gather(w, i; axis = k); shape = s)
      => gather(w, reshape(i; shape = s[k..len(s) + k + 1 - rank(w)]); axis = k)
    }
    """
    found = reduced(tmp_path, text)
    assert found[4, 2, axis, 5] in {(3, 2, axis, 4), (3, 2, axis - 1, 4)}


def test_reshape_mixes_axes_of_equal_sizes(tmp_path: Path) -> None:
    """From 2 x n x 5 to 5 x n x 2: n is in the middle of both, with other numbers of elements around it."""
    text = """
    rule r {
      reshape(x; shape = s)
      where rank(x) == 3, len(s) == 3, s[0] == 5, s[1] == dim(x, 1), s[2] == 2, dim(x, 0) == 2, dim(x, 2) == 5
      => reshape(relu(x); shape = s)
    }
    """
    assert reduced(tmp_path, text) == {(3, 3): None}


def test_literal_axis_keeps_the_axes_before_it(tmp_path: Path) -> None:
    found = reduced(tmp_path, "rule r { softmax(relu(x); axis = 2) => softmax(relu(relu(x)); axis = 2) }")
    assert found == {(3,): None, (4,): (3,), (5,): (4,), (6,): (5,)}


def test_axes_of_both_sides_must_agree(tmp_path: Path) -> None:
    """Without dimension 0, the left side would still sum along axis 1 first."""
    found = reduced(
        tmp_path, "rule r { reduce_max(reduce_max(x; axis = 1); axis = k) => reduce_max(relu(x); axis = k) }"
    )
    assert all(lower is None or lower[0] == ranks[0] - 1 for ranks, lower in found.items())
    assert found[(3, 2)] is None
    assert found[(6, 1)] == (5, 1)


def test_condition_on_a_dimension_keeps_its_axis(tmp_path: Path) -> None:
    text = "rule r { relu(x) where rank(x) >= 1, dim(x, -1) > 512 => relu(relu(x)) }"
    found = reduced(tmp_path, text)
    assert found == {(1,): None, **{(n,): (n - 1,) for n in range(2, 7)}}


def test_number_of_elements_keeps_all_axes(tmp_path: Path) -> None:
    found = reduced(tmp_path, "rule r { relu(x) where prod(shape(x)) > 512 => relu(relu(x)) }")
    assert set(found.values()) == {None}
