"""Answers to graphs with named sizes: an answer holds at all sizes, computes the same at a few of them, and costs no
more at the smallest and the largest; or else the input is the answer."""

from __future__ import annotations

from dataclasses import replace

from tensat_dl.core.graph import Graph
from tensat_dl.core.progress import Progress
from tensat_dl.cost import CostModel
from tensat_dl.ops.flops import flops
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.table import OpTable
from tensat_dl.run.result import AnswerAtSizes, AtSizes, Result, Times
from tensat_dl.sizes.answers import NotOpen, OtherSizes
from tensat_dl.sizes.named import OpenGraph, Sizes, in_words
from tensat_dl.verify.equivalence import compare
from tensat_dl.why.steps import Explanation

#: Both graphs are run at other sizes where they take at most so many floating-point operations.
MOST_WORK = 5e9
#: Costs that differ by less are equal.
ROUNDING = 1e-9


def settled(result: Result, other: OtherSizes, model: CostModel, progress: Progress) -> Result:
    """The result with its answer at all sizes; with the input as the answer if it does not hold at other sizes, or
    costs more at the smallest or the largest."""
    progress.phase("verify")
    before = other.opened
    try:
        after = other.named(result.after.graph, model.table)
        found = []
        for sizes in _all(other):
            try:
                found.append(_looked_at(result, before, after, sizes, other, model))
            except KeyboardInterrupt:
                notes = (*result.notes, "interrupted: the result is not verified")
                result = replace(result, equivalence=None, interrupted=True, notes=notes)
                break
            _check(found[-1])
    except NotOpen as reason:
        if result.after.graph == before.graph:
            raise AssertionError("the input is a graph at all sizes") from reason
        return settled(_declined(result, str(reason)), other, model, progress)
    times = Times.of({**progress.seconds(), "parse": result.times.parse})
    return replace(result, sizes=AnswerAtSizes(before, after, tuple(found)), times=times)


def _all(other: OtherSizes) -> list[Sizes]:
    """Sizes to look at: those to run at, the smallest and the largest."""
    ends = [{s.name: end for s, end in zip(other.opened.sizes, ends, strict=True)} for ends in _ends(other)]
    return [*other.sizes, *(e for e in ends if e not in other.sizes and e != other.opened.defaults)]


def _ends(other: OtherSizes) -> list[list[int]]:
    return [[s.low for s in other.opened.sizes], [s.high for s in other.opened.sizes]]


def _looked_at(
    result: Result, before: OpenGraph, after: OpenGraph, sizes: Sizes, other: OtherSizes, model: CostModel
) -> AtSizes:
    a, b = before.at(sizes), after.at(sizes)
    equivalence = None
    if result.options.verify and not result.unverified and _work(a, model.table) <= MOST_WORK:
        equivalence = compare(a, b, semantics_of(model.table), result.options.seed)
    costs = None
    if list(sizes.values()) in _ends(other):
        costs = model.price_graph(a).total, model.price_graph(b).total
    return AtSizes(sizes, equivalence, costs)


def _work(graph: Graph, ops: OpTable) -> float:
    """The floating-point operations of a graph, at least one for each element of a result."""
    total = 0.0
    for node in graph.nodes:
        types = [graph.nodes[j].type for j in node.inputs if len(graph.nodes[j].types) == 1]
        total += sum(t.size for t in node.types)
        if node.op != "proj":
            total += flops(ops, node.op, types, dict(node.attrs), node.types[0])
    return total


def _check(there: AtSizes) -> None:
    """Raises `NotOpen` for an answer that is no good at these sizes."""
    if there.equivalence is not None and there.equivalence.status == "different":
        raise NotOpen(f"for {in_words(there.sizes)} it computes something else")
    if there.costs is not None and there.costs[1] > there.costs[0] * (1 + ROUNDING):
        ratio = there.costs[1] / there.costs[0]
        raise NotOpen(f"for {in_words(there.sizes)} it is estimated to take {ratio:.2f} times as long")


def _declined(result: Result, reason: str) -> Result:
    """The result whose answer is the input."""
    note = f"the cheapest graph is not the answer: {reason}"
    equivalence = result.equivalence
    if equivalence is not None:
        equivalence = replace(equivalence, max_abs_error=0.0, max_rel_error=0.0)
    return replace(
        result,
        after=result.before,
        equivalence=equivalence,
        rules_used=(),
        measured=None,
        notes=(note, *result.notes),
        steps=None if result.steps is None else Explanation((), name=result.steps.name),
    )
