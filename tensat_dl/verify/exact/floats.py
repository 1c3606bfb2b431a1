"""Compares two graphs in float64, where every function is what it is: up to rounding, which is measured.

Numbers come from several ranges. What a number that is too large for a float makes of a result says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tensat_dl.beside import two_at_a_time
from tensat_dl.core.graph import INTEGERS, Graph
from tensat_dl.ops.semantics import SEMANTICS, semantics_of
from tensat_dl.ops.semantics.arrays import Array, Semantics, computed_in
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import place
from tensat_dl.verify.exact.draws import RANGES, DrawRange, leaves, real_values
from tensat_dl.verify.exact.result import Difference, Exact
from tensat_dl.verify.execute import Value, execute
from tensat_dl.verify.keyed import generator

#: Rounding is measured for each element: everything is changed by about the first of a scale, relative, a number of
#: times, and what may be 0 for its smallness alone by the second. What float64 rounds is less than the third times
#: what an element changes, on one scale or the other: where nearly all of a number cancels, the second says more.
#: Elements that differ by less than `ROUNDING`, relative, are taken to be equal.
SCALES = ((2.0**-24, 2.0**-1000, 2.0**-22), (2.0**-46, 2.0**-1022, 1.0))
CHANGES = 8
#: So often for what is lost: a number near 0 is negative half of the time.
CHANGES_OF_LOST = 24
ROUNDING = 2.0**-46
#: Functions whose values may be too small for a float64.
VANISHING = frozenset({"exp", "sigmoid", "power"})
#: Rounding of graphs that may be deep is not measured. A difference is more than this times the output's largest
#: magnitude, plus the second times the largest magnitude of anything that was computed: what cancels leaves an error.
TOLERANCE_DEEP = 1e-9
WITHIN_DEEP = 1e-6
#: Operators that not all numbers have.
PARTIAL = frozenset({"sqrt", "rsqrt", "log", "power", "ewdiv"})
#: Functions whose results are much nearer to 1 than what they are taken of.
LEVELLING = frozenset({"sqrt", "rsqrt", "log"})


def compare_floats(
    before: Graph,
    after: Graph,
    ops: OpTable,
    seed: int,
    reason: str,
    ranges: Sequence[DrawRange],
    deep: bool = False,
    values: Mapping[str, Array] | None = None,
) -> Exact:
    """Compares on values in these ranges, and on given ones. Elements that are not finite are ignored on the latter,
    and if graphs may be ``deep``."""
    semantics = semantics_of(ops)
    reason = f"{reason}; compared in float64, but for rounding"
    compared = False
    # Where nobody writes infinite numbers, they come from numbers that are too large for a float.
    infinite = any(np.isinf(n.attr("value")) for g in (before, after) for n in g.nodes if n.op == "fill")

    def run(k: int) -> tuple[Mapping[str, Array], tuple[list[list[Array]], float, bool]]:
        # A single number has one sign in each range, not the same one in all.
        drawn = own if k == len(ranges) else real_values(before, after, ranges[k], seed * len(ranges) + k)
        return drawn, _run((before, after), drawn, semantics)

    types = leaves((before, after))
    own = {name: np.asarray(v, computed_in(types[name].dtype)) for name, v in (values or {}).items()}
    count = len(ranges) + (values is not None)
    # Graphs that may be deep take longer than threads to start.
    makes = (partial(run, k) for k in range(count))
    runs = two_at_a_time(makes) if deep else (make() for make in makes)
    for _ in range(count):
        try:
            drawn, ((x, y), largest, too_far) = next(runs)
        except ValueError as error:
            return Exact("unsupported", "float", reason=f"{reason}; {error}")
        for (name, _), *found in zip(before.outputs, x, y, strict=True):
            # Truth values have no difference; their numbers have.
            p, q = (np.asarray(array, np.float64) for array in found)
            finite = np.isfinite(p) & np.isfinite(q)
            changes = _Changes(drawn, ops, name, seed)
            # Where the first graph has no finite value, it says nothing of what the other's should be. If the other
            # has none, that counts, unless it may come from numbers that a float does not have, but reals do.
            with np.errstate(invalid="ignore"):
                counts = not deep and not too_far and drawn is not own  # where divisors may be 0
                size, apart = np.maximum(np.abs(p), np.abs(q)), np.abs(p - q)
                beyond = finite & (apart > ROUNDING * size)
                unequal = ~finite & np.isfinite(p) & counts
                if unequal.any():
                    unequal &= changes.stays_lost(after)
                if infinite:
                    unequal |= ~finite & (p != q) & ~np.isnan(p)
                if deep:
                    unequal |= finite & (
                        apart > TOLERANCE_DEEP * size[finite].max(initial=0.0) + WITHIN_DEEP * largest
                    )
                elif beyond.any() and not unequal.any():
                    unequal = beyond & (apart > changes.rounded((before, after)))
            if unequal.any():
                index = place(unequal)
                difference = Difference(name, index, float(p[index]), float(q[index]), drawn)
                return Exact("different", "float", None, difference, reason)
            compared = compared or bool(finite.any() or (infinite and (p == q).any()))
    if not compared:
        return Exact("unsupported", "float", reason=f"{reason}; no output is a finite number")
    return Exact("equal", "float", reason=reason)


def lost_in(before: Graph, after: Graph, ops: OpTable, seed: int) -> Difference | None:
    """An element that is a number in the first graph, and not in the second, as a root is of what lies below 0.
    Ranges are left out where some number is too large or too small for a float, and graphs with integers, as one may
    be a divisor."""
    integers = any(t.dtype in INTEGERS for t in leaves((before, after)).values())
    if integers or PARTIAL.isdisjoint(ops.closure(n.op for n in after.nodes)):
        return None
    semantics = semantics_of(ops)
    for k, spread in enumerate(RANGES):
        drawn = real_values(before, after, spread, seed * len(RANGES) + k)
        (x, y), _, too_far = _run((before, after), drawn, semantics)
        if too_far:
            continue
        for (name, _), p, q in zip(before.outputs, x, y, strict=True):
            lost = np.isfinite(np.asarray(p, np.float64)) & ~np.isfinite(np.asarray(q, np.float64))
            if lost.any():
                lost &= _Changes(drawn, ops, name, seed).stays_lost(after)
            if lost.any():
                index = place(lost)
                return Difference(name, index, float(p[index]), float(q[index]), drawn)
    return None


@dataclass(frozen=True, slots=True)
class _Changes:
    """An output on some values where everything that is computed is changed a little."""

    values: Mapping[str, Array]
    ops: OpTable
    output: str
    seed: int

    def rounded(self, graphs: Sequence[Graph]) -> Array:
        """How much rounding may change each element, as far as it is measured; infinite if it is no number where
        everything that is computed is changed."""
        with np.errstate(all="ignore"):
            return np.maximum(
                *(part * np.maximum(*(self._change(g, *by) for g in graphs)) for *by, part in SCALES)
            )

    def stays_lost(self, graph: Graph) -> Array:
        """Which elements are no numbers in any turn: where rounding alone makes a divisor 0, or a number negative,
        they are."""
        ((relative, least, _), *_) = SCALES
        lost: Array = np.asarray(True)
        with np.errstate(all="ignore"):
            for found in self._turns(graph, relative, least, CHANGES_OF_LOST):
                lost = lost & ~np.isfinite(found)
                if not lost.any():
                    break
        return lost

    def _change(self, graph: Graph, relative: float, least: float) -> Array:
        """The mean of how much each element changes: of magnitudes, as squares of small ones would be 0."""
        usual = self._of(execute(graph, self.values, semantics_of(self.ops)), graph)
        errors = (np.abs(found - usual) for found in self._turns(graph, relative, least, CHANGES))
        return sum((np.nan_to_num(e, nan=np.inf) for e in errors), start=np.zeros(usual.shape)) / CHANGES

    def _turns(self, graph: Graph, relative: float, least: float, turns: int) -> Iterator[Array]:
        """The output in each turn: by about ``relative`` others, and by ``least`` what may vanish."""
        drawn: np.random.Generator

        def changed(x: Array) -> Array:
            return x * (1 + relative * drawn.uniform(-1, 1, x.shape)) if x.dtype.kind == "f" else x

        def perturbed(name: str, function: Semantics) -> Semantics:
            more = least if name in VANISHING else 0.0

            def apply(*xs: Array, **attrs: Any) -> Array:
                x = np.asarray(function(*xs, **attrs))
                return np.asarray(changed(x) + more) if x.dtype.kind == "f" else x

            return apply

        other = semantics_of(self.ops, {name: perturbed(name, f) for name, f in SEMANTICS.items()})
        for turn in range(turns):
            drawn = generator("change", self.seed, turn)
            values = {name: changed(v) for name, v in self.values.items()}
            yield self._of(execute(graph, values, other), graph)

    def _of(self, outputs: Sequence[Array], graph: Graph) -> Array:
        (found,) = (x for (name, _), x in zip(graph.outputs, outputs, strict=True) if name == self.output)
        return np.asarray(found, np.float64)


def _run(
    graphs: Sequence[Graph], values: Mapping[str, Array], semantics: Mapping[str, Semantics]
) -> tuple[list[list[Array]], float, bool]:
    """The outputs of graphs; the largest magnitude of anything that was computed; and whether a number was too large
    or too small for a float."""
    levelled = {id(values[name]) for name in _levelled(graphs)}
    magnitudes = [0.0]
    too_far: list[str] = []

    def noted(array: Value) -> None:
        if id(array) not in levelled:
            magnitudes.append(largest_magnitude(np.asarray(array, np.float64)))

    with np.errstate(all="ignore", over="call", under="call", call=lambda error, _: too_far.append(error)):
        found = [execute(graph, values, semantics, noted) for graph in graphs]
    return found, max(magnitudes), bool(too_far)


def largest_magnitude(array: Array) -> float:
    """The largest magnitude of the finite numbers; 0 if there are none."""
    largest = float(np.maximum(array.max(initial=0.0), -array.min(initial=0.0)))
    if not np.isfinite(largest):  # seldom, and it takes several times as long
        largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    return largest


def _levelled(graphs: Sequence[Graph]) -> set[str]:
    """Leaves that only roots and logarithms are taken of: how large they are makes no sum inaccurate."""
    rooted: set[str] = set()
    others: set[str] = set()
    for graph in graphs:
        names = {i: str(graph.nodes[i].attr("name")) for i in (*graph.inputs, *graph.weights)}
        for node in graph.nodes:
            (rooted if node.op in LEVELLING else others).update(names[i] for i in node.inputs if i in names)
        others.update(names[i] for _, i in graph.outputs if i in names)
    return rooted - others
