"""Rules of the library with one random change: a changed rule that passes without a remark is true on further
instances, evaluated in NumPy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tensat_dl import resources
from tensat_dl.core import expression as ex
from tensat_dl.core.rule import Computed, PatternNode, RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.execute import execute
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.sampling import instances
from tensat_dl.verify.weights import draw_values

MUTANTS = 150
FURTHER = 60
#: Operators that are taken for one another.
ALIKE = (
    ("ewadd", "ewsub", "ewmul", "ewmax", "ewmin"),
    ("relu", "tanh", "sigmoid"),
    ("reduce_sum", "reduce_max"),
)


@cache
def library() -> Program:
    packs = sorted(
        p.stem for p in resources.rules().glob("*.tsr") if p.stem not in ("ops", "standard", "xla")
    )
    return load_program(str(resources.rules() / "standard.tsr"), tuple(packs))


def changed(rule: RewriteRule) -> Iterator[RewriteRule]:
    """The rule with one condition less; or with another operator, other operands or another number on the right."""
    for i in range(len(rule.conditions)):
        yield replace(rule, conditions=rule.conditions[:i] + rule.conditions[i + 1 :])
    nodes = rule.target.nodes
    for k, node in enumerate(nodes):
        for other in _changed_node(node):
            target = replace(rule.target, nodes=(*nodes[:k], other, *nodes[k + 1 :]))
            yield replace(rule, target=target)


def _changed_node(node: PatternNode) -> Iterator[PatternNode]:
    for ops in ALIKE:
        if node.op in ops:
            yield from (replace(node, op=op) for op in ops if op != node.op)
    if len(node.args) > 1:
        yield replace(node, args=(node.args[1], node.args[0], *node.args[2:]))
    for i, a in enumerate(node.attrs):
        for by in (1, -1, 64):
            other = ex.replaced(a.value, lambda part, by=by: _moved(part, by))
            if other != a.value:
                moved = replace(a, value=other, pattern=Computed())
                yield replace(node, attrs=(*node.attrs[:i], moved, *node.attrs[i + 1 :]))


def _moved(part: Any, by: int) -> Any:
    if isinstance(part, ex.Const) and part.kind in ("int", "float"):
        return replace(part, value=part.value + by)
    return None


def agree(instance: Instance, seed: int) -> bool:
    """Whether both sides compute the same in NumPy, where the left side is a number."""
    values = draw_values((instance.before, instance.after), seed, {})
    assert leaves((instance.before, instance.after)).keys() == values.keys()
    semantics = semantics_of(library().ops)
    with np.errstate(all="ignore"):
        left, right = (execute(g, values, semantics) for g in (instance.before, instance.after))
    return all(
        np.allclose(np.where(np.isfinite(x), x, 0), np.where(np.isfinite(x), y, 0), rtol=1e-5, atol=1e-7)
        for x, y in zip(left, right, strict=True)
    )


@pytest.mark.sampled(15)
@pytest.mark.parametrize("number", range(MUTANTS))
def test_a_changed_rule_that_passes_is_true(number: int) -> None:
    rng = random.Random(number)
    mutants = [*changed(rng.choice(library().rules))]
    if not mutants:
        pytest.skip("the rule has nothing to change")
    mutant = replace(rng.choice(mutants), name="mutant")
    examiner = Examiner(library().ops)
    found = examiner.verdict(mutant)
    assert found.status in ("refuted", "vacuous", "tested", "assumed")
    if found.status == "tested" and not found.remarks:
        further = instances(mutant, examiner.infer, FURTHER, 150, seed=1000 + number)
        assert all(agree(instance, number) for _, _, instance in further)
