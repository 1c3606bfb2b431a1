"""Random rules, applied by the engine and by plain Python: the e-graphs are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

import pytest

from tensat_dl.core import expression as ex
from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.rule import RewriteRule
from tensat_dl.engine.exploration import Limits
from tensat_dl.ops.evaluate import evaluate
from tensat_dl.ops.symbolic import EvaluationError

from .graphs import explored, graph_in, program_of
from .random_rules import computing, conditional, joining
from .reference import Reference, counterparts

pytestmark = pytest.mark.sampled(3)

CHAINS = """
graph g {
  input x : f32[6, 4]
  input y : f32[2, 12, 2]
  output reshape(slice(x; axis = 0, start = 0, stop = 6); shape = [4, 6])
  output reshape(slice(x; axis = 0, start = 1, stop = 4); shape = [3, 4])
  output reshape(slice(x; axis = 0, start = 1, stop = 4); shape = [2, 3, 2])
  output reshape(slice(x; axis = 0, start = 2, stop = 3); shape = [4, 1])
  output reshape(slice(y; axis = 0, start = 0, stop = 1); shape = [2, 12])
  output reshape(slice(y; axis = 0, start = 1, stop = 2); shape = [2, 3, 2, 2])
  output reshape(slice(y; axis = 0, start = 0, stop = 2); shape = [2, 2, 12])
}"""
SIBLINGS = """
graph g {
  input x : f32[6, 4]
  input y : f32[2, 12, 2]
  output reshape(x; shape = [4, 6]), reshape(x; shape = [2, 3, 4]), reshape(y; shape = [4, 12])
  output reshape(y; shape = [2, 2, 12]), reshape(y; shape = [2, 2, 6, 2])
  output slice(x; axis = 0, start = 1, stop = 4), slice(x; axis = 0, start = 2, stop = 3)
  output slice(y; axis = 0, start = 1, stop = 2), slice(y; axis = 0, start = 0, stop = 1)
}"""
KINDS: dict[str, tuple[Callable[[Random], str], str]] = {
    "conditions": (conditional, CHAINS),
    "attributes": (computing, CHAINS),
    "joins": (joining, SIBLINGS),
}
COUNT = 40


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_agrees_with_plain_python(kind: str) -> None:
    draw, graph_text = KINDS[kind]
    compared = fired = 0
    for seed in range(COUNT):
        text = draw(Random(seed))
        program = program_of(text + graph_text)
        rule = next(r for r in program.rules if r.name == "r")
        graph = graph_in(program)
        reference = Reference(graph, program.ops)
        if any(not has_value(reference, rule, e) for e in expressions(rule)):
            continue  # a part that has no value is seen or not, as far as it matters when the rule is compiled
        try:
            egraph = explored(graph, [rule], Limits(iterations=1), program.ops)
        except TsrError:  # a length or a bound depends on an attribute
            continue
        fired += reference.step(rule) > 0
        missing, _ = counterparts(egraph, reference)
        assert not missing, text
        assert egraph.num_nodes == len(reference.nodes), text
        compared += 1
    assert compared > COUNT / 3
    assert fired > COUNT / 8


def expressions(rule: RewriteRule) -> Iterator[ex.Expr]:
    """All that a rule computes, with all its parts."""
    for expr in (*rule.conditions, *(k.value for node in rule.target.nodes for k in node.attrs)):
        yield from _parts(expr)


def _parts(value: Any) -> Iterator[ex.Expr]:
    if isinstance(value, ex.Binary | ex.Unary | ex.Call | ex.Index | ex.Section | ex.ListExpr):
        yield value
    if is_dataclass(value):
        for f in fields(value):
            found = getattr(value, f.name)
            for part in found if isinstance(found, tuple) else (found,):
                yield from _parts(part)


def has_value(reference: Reference, rule: RewriteRule, expr: ex.Expr) -> bool:
    """Whether an expression has a value wherever the rule's source matches."""
    for tensors, variables in reference.sources(rule):
        types = {name: reference.types[c] for name, c in tensors.items()}
        try:
            evaluate(expr, {**types, **variables})
        except EvaluationError:
            return False
        except TsrError:  # it names the variable of a list around it
            continue
    return True
