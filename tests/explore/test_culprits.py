"""An e-class with two types: the alarm names the rules that cause it, and no others."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensat_dl.core.minimal import minimal
from tensat_dl.engine.exploration import Limits, RuleAlarm, RuleStats, Stop
from tensat_dl.engine.explore import _Messages
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.syntax import saturate
from tensat_dl.engine.worker import blamed
from tensat_dl.lang.ast import NOWHERE
from tensat_dl.lang.program import Program
from tensat_dl.processes import Child

from .graphs import graph_in, program_of

TEXT = """
rule one { relu(relu(x)) => relu(x) }
rule two { tanh(x) => relu(tanh(x)) }
rule three { relu(ewadd(x, y)) => relu(ewadd(y, x)) }
rule four { ewadd(x, y) => ewadd(y, x) }
graph g {
  input x : f32[2, 3]
  input y : f32[2]
  output relu(relu(x)), tanh(y), relu(x + x)
}
"""


class Broken(Explorer):
    """With rule ``two`` and rule ``four``, the two inputs become one: a mistake that no rule can make by itself."""

    guilty = frozenset({"two", "four"})

    def _iteration(self, number: int, stats: list[RuleStats]) -> tuple[bool, Stop | None]:
        changed = super()._iteration(number, stats)
        if self.guilty <= {r.name for r in self.rules}:
            self.store.engine.load("in_equal", [(0, 1)])
            self.store.engine.run(saturate("load"))
            self.reader.changed()
        return changed


class BrokenByOne(Broken):
    guilty = frozenset({"three"})


def explorer(program: Program, loop: type[Explorer]) -> Explorer:
    return loop(graph_in(program), program.ops, program.rules, Limits(iterations=3))


def alarm(program: Program, loop: type[Explorer]) -> RuleAlarm:
    with pytest.raises(RuleAlarm) as found:
        for _ in explorer(program, loop).run():
            pass
    return found.value


def test_an_alarm_says_which_rules_were_applied() -> None:
    found = alarm(program_of(TEXT), Broken)
    assert set(found.rules) >= {"one", "two", "four"}
    assert str(found).startswith("error: an e-class received two different types; rules applied until then: ")


def test_two_rules_together() -> None:
    program = program_of(TEXT)
    found = blamed(alarm(program, Broken), explorer(program, Broken))
    assert found.rules == ("four", "two")
    text = str(pickle.loads(pickle.dumps(found)))
    assert (
        "test.tsr:5:6: error: the rules four, two together make tensors of two different types equal" in text
    )
    assert "  3 | rule two { tanh(x) => relu(tanh(x)) }" in text
    assert "three" not in text


def test_one_rule() -> None:
    program = program_of(TEXT)
    found = blamed(alarm(program, BrokenByOne), explorer(program, BrokenByOne))
    assert found.rules == ("three",)
    assert "error: this rule makes tensors of two different types equal" in str(found)


def sent(_: Iterator[None], *alarms: RuleAlarm) -> Iterator[RuleAlarm]:
    """In place of the worker."""
    yield from alarms


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_the_alarm_of_a_worker_is_narrowed_as_long_as_it_lives(seconds: float | None) -> None:
    first, fewest = RuleAlarm(("one", "two", "three")), RuleAlarm(("two",))
    for alarms, blamed_on in (((first, fewest), fewest), ((first,), first)):
        with Child("tests.explore.test_culprits:sent", *alarms) as child:
            messages = _Messages(child, Limits(seconds=seconds))
            with pytest.raises(RuleAlarm) as found:
                messages.next()
        assert found.value.rules == blamed_on.rules


def test_what_does_not_happen_again_is_blamed_on_all() -> None:
    program = program_of(TEXT)
    first = RuleAlarm(("one", "four"))
    assert blamed(first, explorer(program, Explorer)) is first


class Stub:
    """An explorer that alarms for some sets of rules, in no order: limits may let an alarm go by with more rules."""

    graph = ops = limits = estimate = None
    alarming: frozenset[frozenset[str]]

    def __init__(self, graph: object, ops: object, rules: tuple[SimpleNamespace, ...], *_: object) -> None:
        self.rules = rules

    def run(self) -> Iterator[None]:
        yield
        if frozenset(r.name for r in self.rules) in self.alarming:
            raise RuleAlarm(tuple(r.name for r in self.rules))


@given(st.frozensets(st.frozensets(st.sampled_from("abcde"), min_size=1), max_size=12))
def test_rules_to_blame_cause_it_by_themselves(alarming: frozenset[frozenset[str]]) -> None:
    class Odd(Stub):
        pass

    Odd.alarming = alarming | {frozenset("abcde")}
    rules = tuple(SimpleNamespace(name=name, span=NOWHERE) for name in "abcde")
    found = blamed(RuleAlarm(tuple("abcde")), Odd(None, None, rules))  # type: ignore[arg-type]
    assert frozenset(found.rules) in Odd.alarming


@given(st.sets(st.integers(0, 30), min_size=1, max_size=5), st.integers(31, 60))
def test_nothing_can_be_left_out(guilty: set[int], count: int) -> None:
    tried = []

    def fails(items: object) -> bool:
        tried.append(items)
        return guilty <= set(items)  # type: ignore[call-overload]

    assert set(minimal(range(count), fails)) == guilty
    assert len(tried) <= 12 * (len(guilty) + 1) * len(guilty) + 30


def test_of_several_causes_one_is_found() -> None:
    found = minimal(range(20), lambda items: {3, 4} <= set(items) or {11} <= set(items))
    assert set(found) in ({3, 4}, {11})
