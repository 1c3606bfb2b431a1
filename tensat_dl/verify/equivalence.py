"""End-to-end check: runs an optimized graph beside the original on the same values, compares the outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensat_dl.core.graph import Graph, TensorType
from tensat_dl.ops.semantics.arrays import Array, Semantics
from tensat_dl.verify.execute import (
    ExecutionError,
    Value,
    available_memory,
    execute,
    held_values,
    memory_needed,
    surrogates,
)
from tensat_dl.verify.late import LATE_TYPES, late_weights, taking_late
from tensat_dl.verify.recall import Recall
from tensat_dl.verify.weights import draw_values

Status = Literal["equivalent", "inconclusive", "different"]
#: A model that is right for the sizes that it was made for, and wrong for others, is ``narrow``; one that does not
#: load is ``broken``.
AgreementStatus = Literal["agrees", "differs", "narrow", "broken", "not compared"]

#: From good to bad: of several outputs the worst verdict counts.
SEVERITY: tuple[Status, ...] = ("equivalent", "inconclusive", "different")

#: All values of a graph are remembered for the other if they take at most this share of the memory that is free.
RECALLED_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class OutputError:
    """The distance of one output of the second graph from the same output of the first.

    ``max_rel`` is ``max_abs`` over the largest magnitude in either output. Elements that are infinite or not
    a number in either are left out of both; ``status`` and ``message`` tell of them.
    """

    name: str
    status: Status
    max_abs: float
    max_rel: float
    message: str


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The result of comparing two graphs.

    ``status`` is "equivalent" if every output's relative error is within the tolerance, "different" if the graphs
    differ, and "inconclusive" if the first could not be run, or the two agree but in values of which some are not
    finite, or rules were applied that no execution can check (`tensat_dl.verify.opaque_laws`). ``message`` gives the
    reason for the last two, and for equivalent graphs any weakness of the evidence. The errors are None where no
    output was compared. ``inputs`` describes the inputs, and ``surrogates`` names the operators that a keyed random
    function stood in for.
    """

    status: Status
    max_abs_error: float | None
    max_rel_error: float | None
    outputs: tuple[OutputError, ...]
    seconds: float
    inputs: str
    surrogates: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of comparing an optimized model with the original where both run, on ``inputs``. ``max_rel`` is the
    largest difference over the largest magnitude of its output, and ``tolerance`` the largest that is accepted.
    ``of`` is a digest of what was compared, if there is one."""

    status: AgreementStatus
    max_rel: float
    message: str = ""
    inputs: str = ""
    tolerance: float = 0.0
    of: str = ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The outputs of a graph on values that were drawn for its inputs and weights, and what was computed on the way;
    None where that would take much memory. ``size`` is the bytes of all this."""

    values: Mapping[str, Value]
    outputs: tuple[Array, ...]
    recall: Recall | None
    size: int

    def again(self, semantics: Mapping[str, Semantics]) -> dict[str, Semantics]:
        """Operators for another graph on these values: they compute what was not computed on the way."""
        late = taking_late(semantics)
        return late if self.recall is None else self.recall.recalling(late)


def expected(
    graph: Graph,
    semantics: Mapping[str, Semantics],
    seed: int,
    watch: Callable[[Value], None] = lambda _: None,
) -> Expectation:
    """What another graph is compared with. ``watch`` sees each value. Raises ``ValueError``, ``MemoryError``."""
    free = available_memory()
    late = late_weights(graph, seed)
    size = held_values(graph) - sum(weight.nbytes for weight in late.values())
    recall = Recall() if free is None or size <= free * RECALLED_SHARE else None
    sizes: list[int] = []

    def seen(value: Value) -> None:
        watch(value)
        sizes.append(0 if isinstance(value, LATE_TYPES) else value.nbytes)

    # What is not finite is found when outputs are compared; warnings on the way would tell less.
    with np.errstate(all="ignore"):
        drawn = draw_values((graph,), seed, {}, late)
        known = taking_late(semantics)
        if recall is not None:
            known = recall.learning(known)
        values: dict[str, Value] = {**drawn, **late}
        outputs = tuple(execute(graph, values, known, seen))
    held = sum(v.nbytes for v in (*drawn.values(), *outputs)) if recall is None else sum(sizes)
    return Expectation(values, outputs, recall, held)


def compare(
    before: Graph,
    after: Graph,
    semantics: Mapping[str, Semantics],
    seed: int = 0,
    tolerance: float = 1e-9,
    known: Expectation | None = None,
    found: Sequence[Array] | None = None,
) -> Equivalence:
    """Compares the outputs of two graphs, matched by position and name, on one set of values, which is drawn (see
    ``draw_values``). ``semantics`` includes the compositions; an operator that it lacks gets a surrogate. ``known``
    is what the first graph is expected to compute, if that was computed before, and ``found`` the second one's
    outputs."""
    start = time.perf_counter()
    status, outputs, message = _compare(before, after, semantics, seed, tolerance, known, found)
    return Equivalence(
        status,
        max((output.max_abs for output in outputs), default=None),
        max((output.max_rel for output in outputs), default=None),
        tuple(outputs),
        time.perf_counter() - start,
        f"seed {seed}, float64",
        tuple(sorted({*surrogates(before, semantics), *surrogates(after, semantics)})),
        message,
    )


def _compare(
    before: Graph,
    after: Graph,
    semantics: Mapping[str, Semantics],
    seed: int,
    tolerance: float,
    known: Expectation | None,
    found: Sequence[Array] | None,
) -> tuple[Status, Sequence[OutputError], str]:
    difference = interface_difference(before, after)
    if difference:
        return "different", (), difference
    if known is not None and found is not None:
        return _compare_outputs(before, known.outputs, found, tolerance)
    need, free = max(memory_needed(before), memory_needed(after)), available_memory()
    if free is not None and known is not None:
        free += known.size
    if free is not None and need > free:
        return (
            "inconclusive",
            (),
            f"running the graphs takes {need / 2**30:.1f} GiB, and {free / 2**30:.1f} are free",
        )
    if known is None:
        try:
            known = expected(before, semantics, seed)
        except (ValueError, MemoryError) as error:
            return "inconclusive", (), f"the first graph cannot be run: {str(error) or 'out of memory'}"
    with np.errstate(all="ignore"):
        try:
            actual = execute(after, known.values, known.again(semantics))
        except MemoryError as error:
            return "inconclusive", (), f"the second graph cannot be run: {str(error) or 'out of memory'}"
        except ExecutionError as error:
            return "different", (), f"the second graph cannot be run: {error}"
    return _compare_outputs(before, known.outputs, actual, tolerance)


def _compare_outputs(
    graph: Graph, before: Sequence[Array], after: Sequence[Array], tolerance: float
) -> tuple[Status, Sequence[OutputError], str]:
    with np.errstate(all="ignore"):
        outputs = [
            _compare_output(name, x, y, tolerance)
            for (name, _), x, y in zip(graph.outputs, before, after, strict=True)
        ]
    status: Status = max((output.status for output in outputs), key=SEVERITY.index, default="equivalent")
    return status, outputs, "; ".join(output.message for output in outputs if output.message)


def interface_difference(before: Graph, after: Graph) -> str:
    """The difference of interface for which no values could make the graphs agree, or ""."""
    names, new_names = [[name for name, _ in graph.outputs] for graph in (before, after)]
    if names != new_names:
        return f"the outputs are {', '.join(names)} before and {', '.join(new_names)} after"
    for (name, i), (_, j) in zip(before.outputs, after.outputs, strict=True):
        old, new = before.nodes[i].types, after.nodes[j].types
        if old != new:
            return f"output {name} is {_list(old)} before and {_list(new)} after"
    given = {before.nodes[i].attr("name"): before.nodes[i] for i in (*before.inputs, *before.weights)}
    for i in (*after.inputs, *after.weights):
        node = after.nodes[i]
        name = str(node.attr("name"))
        if name in given:
            former = given[name]
            if (former.op, former.types) != (node.op, node.types):
                return f"{name} is {former.op} {former.type} before and {node.op} {node.type} after"
        else:
            return f"{node.op} {name} is new and its value is not known"
    return ""


def _list(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


def _compare_output(name: str, before: Array, after: Array, tolerance: float) -> OutputError:
    """Both arrays have one shape, which the graphs declare."""
    x, y = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    error = np.where(finite, np.abs(x - y), 0.0)
    max_abs = float(error.max())
    norm = float(np.where(finite, np.maximum(np.abs(x), np.abs(y)), 0.0).max())
    max_rel = max_abs / norm if norm > 0 else 0.0

    # NaN is equal to nothing, itself included
    parted = ~finite & (x != y) & ~(np.isnan(x) & np.isnan(y))
    status: Status = "equivalent"
    message = ""
    if parted.any():
        status, message = "different", _element(x, y, place(parted))
    elif not max_rel <= tolerance:
        status = "different"
        message = f"relative error {max_rel:.2g} > {tolerance:.2g}, {_element(x, y, place(error))}"
    elif not finite.all():
        status = "inconclusive"
        message = f"{int((~finite).sum())} of {x.size} elements are infinite or not a number in both graphs"
    elif norm == 0:
        message = "zero everywhere in both graphs, which would hide most errors"
    elif x.size > 1 and x.max() - x.min() <= tolerance * norm:
        message = "the same number everywhere in both graphs, which would hide most errors"
    return OutputError(name, status, max_abs, max_rel, f"output {name}: {message}" if message else "")


def _element(x: Array, y: Array, index: tuple[int, ...]) -> str:
    return f"element {list(index)} is {x[index]:.17g} before and {y[index]:.17g} after"


def place(array: Array) -> tuple[int, ...]:
    """The index of the largest element, the first of them."""
    return tuple(int(i) for i in np.unravel_index(int(array.argmax()), array.shape))
