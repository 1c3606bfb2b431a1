"""Assignments of ranks to rules about lists: they don't multiply with the lists' length, and none is lost."""

from __future__ import annotations

from functools import cache

import pytest

from tensat_dl import resources
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.typing import Inference
from tensat_dl.rewrite.groups import instantiate, listed
from tensat_dl.rewrite.source import Forms
from tensat_dl.rewrite.variants import Assignments

FORMS = Forms((0, 1, 2, 3, 4))


@cache
def library() -> Program:
    return load_program(str(resources.rules() / "inference.tsr"))


@pytest.mark.parametrize("name", ["group-add-shared", "group-conv-enlarge", "concat-scaled", "stack-add"])
def test_only_assignments_that_never_apply_are_left_out(name: str) -> None:
    """A condition on the second member says nothing before that member is there."""
    (rule,) = (r for r in library().rules if r.name == name)
    rule, infer = instantiate(rule, 2), Inference(library().ops)
    every, met = (Assignments(rule, infer, met=m).variants(FORMS) for m in (False, True))
    usable = [v.chosen for v in every if not v.ill_typed]
    assert usable
    assert [v.chosen for v in met if not v.ill_typed] == usable


@pytest.mark.parametrize("name", ["concat-scaled", "stack-add"])
def test_longer_lists_have_no_more_assignments(name: str) -> None:
    (rule,) = (r for r in library().rules if r.name == name)
    short, long = (Assignments(listed(rule, n), Inference(library().ops)).variants(FORMS) for n in (2, 5))
    assert len(short) == len(long)
