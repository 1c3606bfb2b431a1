"""Runs two models in ONNX Runtime on the same inputs, and compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from math import isfinite, isqrt, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from tensat_dl.core.words import first_line
from tensat_dl.onnx.blocks import SLACK, apart, nudged
from tensat_dl.onnx.facts import MOST_OF_VALUE, ModelFacts
from tensat_dl.onnx.inputs import Undrawable, drawn, inputs_of
from tensat_dl.onnx.ranges import half
from tensat_dl.onnx.session import NotRunnable, Session
from tensat_dl.onnx.tensors import numpy_dtype
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.sizes.dim_sizes import DimSizes
from tensat_dl.sizes.named import in_words
from tensat_dl.verify.equivalence import Agreement

if TYPE_CHECKING:
    from tensat_dl.core.graph import Graph
    from tensat_dl.onnx.importer import Imported

#: The largest difference that is put down to rounding, in units of the largest magnitude of an output. Outputs may be
#: moved `SLACK` times as far as ONNX Runtime's own optimizations move those of the original, which shows how much it
#: makes of what is rounded.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-2, "bfloat16": 5e-2}

#: At so many other sizes of each open dimension models are compared.
FURTHER = 3
#: Larger dimensions are timed at a larger size, too, others at 1; but tensors grow at most so many times as large.
FEW = 4
LARGER = 4.0
#: Models are compared at so many of the sizes around numbers that the original compares sizes with, where tensors are
#: at most so many times as large.
TURNING, LARGEST = 6, 8


class Incomparable(Exception):
    """The original can't be compared with; the message says why."""


@dataclass(slots=True)
class _Case:
    """Inputs, and the outputs of the original; once they are needed, also those without optimizations, and those that
    small changes move."""

    what: str
    values: dict[str, Array]
    expected: list[Any]
    plain: list[Any] | None = None
    moved: list[list[Any]] | None = None


class Reference:
    """The model that others have to agree with: loaded, and run on inputs that it accepts.

    It runs at ``dims``, the sizes of its open dimensions, on random inputs and on the ``given`` ones, and at the
    sizes of a ``mix``. Other sizes are those in the ranges that are ``said``. Each output may differ by as much as
    its type, or the ``coarsest`` type that it is computed in, allows. The ``largest`` value has so many elements.
    Raises `Incomparable` if it does not run.
    """

    def __init__(
        self,
        model: ir.Model,
        path: str,
        dims: Mapping[str, int],
        seed: int = 0,
        given: Mapping[str, Array] | None = None,
        said: Mapping[str, DimSizes] | None = None,
        mix: Sequence[Mapping[str, int]] = (),
        turning: Sequence[Mapping[str, int]] = (),
        coarsest: Sequence[float] = (),
        largest: int = 0,
    ) -> None:
        self.path = path
        self._model = model
        self._largest = largest
        self._dims = dict(dims)
        self._said = said or {}
        self._turning = turning
        self._coarsest = coarsest
        self._seed = seed
        self._session = _session(path)
        self._cases: list[_Case] = []
        self._elsewhere: list[tuple[Mapping[str, int], _Case]] | None = None
        try:
            if given is not None:
                self._cases.append(_Case("the given inputs", dict(given), self._session.outputs(given)))
        except NotRunnable as e:
            raise Incomparable(f"it does not run on the given inputs: {e}") from None
        try:
            self._inputs = inputs_of(model)
            self._cases.append(self._random(dims, f"random inputs, seed {seed}"))
        except (Undrawable, Incomparable) as e:
            if not self._cases:
                raise Incomparable(str(e)) from None
            self._elsewhere = []
        #: At each of several sizes that the model is optimized for.
        self._mix: list[tuple[Mapping[str, int], _Case]] = []
        for sizes in mix:
            varied = {name: n for name, n in sizes.items() if self._range(name).mixed}
            try:
                self._mix.append((varied, self._random(sizes, "")))
            except (Undrawable, Incomparable) as e:
                raise Incomparable(f"with {in_words(varied)} {e}") from None

    @classmethod
    def of(cls, imported: Imported, seed: int) -> Reference:
        """A model that was read, with the sizes and inputs that came with it. Raises `Incomparable`."""
        mix = [dims for dims, _ in imported.mix]
        model, path, dims, given = imported.model, imported.path, imported.dims, imported.given
        types, turning = coarsest(imported.graph), imported.turning
        largest = max((t.size for node in imported.graph.nodes for t in node.types), default=0)
        return cls(model, path, dims, seed, given, imported.said, mix, turning, types, largest)

    @property
    def feeds(self) -> dict[str, Array]:
        """The inputs to time with: given ones if there are any."""
        return self._cases[0].values

    @property
    def inputs(self) -> str:
        """The inputs of the comparison in words, as in ``the given inputs and random inputs, seed 0``."""
        return " and ".join(c.what for c in self._cases)

    def check(self, path: str, sizes: bool = True) -> Agreement:
        """Compares the model in a file with the original; with ``sizes`` also at other sizes of open dimensions. The
        status is "not compared" if all outputs agree but those that the original does not repeat."""
        if (wrong := _invalid(path)) and not _invalid(self.path):
            return Agreement("broken", 0.0, f"the optimized model is not valid: {wrong}")
        try:
            session = _session(path)
        except Incomparable as e:
            return Agreement("broken", 0.0, f"the optimized model does not load: {e}")
        worst, tolerance = 0.0, 0.0
        random: Agreement | None = None
        for case in self._cases:
            found = self._compare(session, case)
            if found.status == "differs":
                return found
            random = found if found.status == "not compared" else random
            worst, tolerance = max(worst, found.max_rel), max(tolerance, found.tolerance)
        for others, case in (*self._mix, *self._others()) if sizes else ():
            found = self._compare(session, case)
            if found.status == "differs":
                here, there = (
                    in_words({name: sizes[name] for name in others}) for sizes in (self._dims, others)
                )
                message = f"it is right for {here} only: with {there} {found.message}"
                return Agreement("narrow", worst, message)
        return random or Agreement("agrees", worst, inputs=self.inputs, tolerance=tolerance)

    @property
    def feeds_of_mix(self) -> list[tuple[str, dict[str, Array]]]:
        """Each of several sizes that the model is optimized for, in words, and inputs of these sizes."""
        return [(in_words(sizes), case.values) for sizes, case in self._mix]

    def feeds_at(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Random inputs of these sizes. Raises `Incomparable` if the original does not run on any."""
        return self._random(sizes, "").values

    @property
    def feeds_elsewhere(self) -> tuple[str, dict[str, Array]] | None:
        """Other sizes to time at, all dimensions at once if the original runs so, and inputs of these sizes; None if
        there are none."""
        found = self._others()
        return (in_words(found[-1][0]), found[-1][1].values) if found else None

    def _others(self) -> list[tuple[Mapping[str, int], _Case]]:
        """For each open dimension other sizes in its range at which the original runs, up to `FURTHER`, a prime and
        the smallest among them; sizes where it may do something else; and another size of all dimensions at once."""
        if self._elsewhere is None:
            self._elsewhere = []
            for sizes in self._turning:
                grown = prod(n / self._dims[name] for name, n in sizes.items())
                if grown <= LARGEST and len(self._elsewhere) < TURNING:
                    self._tried(sizes)
            at_once: dict[str, int] = {}
            larger = 1.0
            for name, size in self._dims.items():
                accepted = list(islice(self._accepted(name, size), FURTHER))
                if accepted:  # a batch of one, a longer sequence or a shorter one
                    low = self._range(name).low
                    wanted = (low,) if size <= FEW else (2 * size, half(self._range(name), size))
                    fitting = (n for n in wanted if n in accepted and larger * n <= LARGER * size)
                    at_once[name] = next(fitting, accepted[0])
                    larger *= at_once[name] / size
            if len(at_once) > 1:
                self._tried(at_once)
            self._elsewhere.sort(key=lambda found: dict(found[0]) == at_once)  # it is the last one
        return self._elsewhere

    def _accepted(self, name: str, size: int) -> Iterator[int]:
        """Other sizes of a dimension at which the original runs."""
        return (n for n in further(size, self._range(name)) if self._tried({name: n}))

    def _range(self, name: str) -> DimSizes:
        return self._said.get(name, DimSizes())

    def _tried(self, sizes: Mapping[str, int]) -> bool:
        """Whether the original runs at these sizes of some dimensions. If it does, that is a case."""
        dims = {**self._dims, **sizes}
        try:
            if not self._fits(dims):
                return False
            case = self._random(dims, "")
        except Incomparable:
            return False
        assert self._elsewhere is not None
        self._elsewhere.append((sizes, case))
        return True

    def _fits(self, dims: Mapping[str, int]) -> bool:
        """Whether values at these sizes fit in memory, as far as shapes are known, or are not that much larger."""
        grown = prod(n / self._dims[name] for name, n in dims.items())
        if self._largest * grown**2 <= MOST_OF_VALUE:  # what is large grows with the square at most
            return True
        shape = ModelFacts(self._model, dims).largest()[1]
        return prod(shape) <= max(MOST_OF_VALUE, LARGER * self._largest)

    def _random(self, dims: Mapping[str, int], what: str) -> _Case:
        """Inputs that the original accepts. Inputs for which its outputs have the declared shapes are preferred: the
        model may not be made for others (sizes, perhaps). Raises `Incomparable` if there are none."""
        reason = ""
        accepted: _Case | None = None
        for values in drawn(self._inputs, dims, self._seed):
            try:
                case = _Case(what, values, self._session.outputs(values))
            except NotRunnable as e:  # with these inputs
                reason = str(e)
                continue
            if self._as_declared(case.expected):
                return case
            accepted = accepted or case
        if accepted is None:
            raise Incomparable(f"it does not run: {reason}")
        return accepted

    def _as_declared(self, results: Sequence[Any]) -> bool:
        for declared, result in zip(self._session.declared, results, strict=True):
            shape = getattr(result, "shape", None)  # sequences and maps have none
            if not declared.shape or shape is None:  # of an unknown rank it says what it says of scalars
                continue
            if len(shape) != len(declared.shape):
                return False
            if any(isinstance(d, int) and d != n for d, n in zip(declared.shape, shape, strict=True)):
                return False
        return True

    def _compare(self, session: Session, case: _Case) -> Agreement:
        try:
            actual = session.outputs(case.values)
        except NotRunnable as e:
            return Agreement("differs", 0.0, f"the optimized model does not run: {e}")
        found = [relative_error(x, y) for x, y in zip(case.expected, actual, strict=True)]
        least = self._coarsest or [0.0] * len(found)
        limits = [limit and max(limit, other) for (_, limit), other in zip(found, least, strict=True)]
        if any(
            error > limit for (error, _), limit in zip(found, limits, strict=True)
        ):  # perhaps the original is as unsteady
            drifts = [relative_error(x, y)[0] for x, y in zip(case.expected, self._plain(case), strict=True)]
            limits = [
                max(limit, SLACK * drift) if limit and isfinite(drift) else limit
                for limit, drift in zip(limits, drifts, strict=True)
            ]
        far = [i for i, (error, _) in enumerate(found) if not error <= limits[i]]
        if not far:
            for i, (x, y) in enumerate(zip(case.expected, actual, strict=True)):
                if found[i][0] and (block := apart(x, y, limits[i], partial(self._moved, case, i))):
                    message = f"output {self._session.declared[i].name} differs {block}"
                    return Agreement("differs", found[i][0], message)
            return Agreement(
                "agrees", max((e for e, _ in found), default=0.0), "", "", max(limits, default=0.0)
            )
        try:
            again = self._session.outputs(case.values)
        except NotRunnable as e:
            return Agreement("not compared", 0.0, f"the original does not run once more: {e}")
        for i in far:
            name, (error, _), limit = self._session.declared[i].name, found[i], limits[i]
            if relative_error(case.expected[i], again[i])[0] <= limit:  # the original repeats it
                on = " on the given inputs" if case.what == "the given inputs" else ""
                return Agreement("differs", error, told_apart(name, error, limit, on))
        name = self._session.declared[far[0]].name
        return Agreement("not compared", 0.0, f"its output {name} is another one each time that it runs")

    def _plain(self, case: _Case) -> list[Any]:
        """The original's outputs without ONNX Runtime's optimizations; with them, if it does not run so."""
        if case.plain is None:
            case.plain = case.expected
            with suppress(Incomparable, NotRunnable):
                case.plain = _session(self.path, optimized=False).outputs(case.values)
        return case.plain

    def _moved(self, case: _Case, i: int) -> list[Any]:
        """An output of the original as it is without optimizations, at another time, and for inputs that are changed
        a little."""
        if case.moved is None:
            case.moved = [self._plain(case)]
            with suppress(NotRunnable):
                case.moved.append(self._session.outputs(case.values))
                case.moved.append(self._session.outputs({n: nudged(x) for n, x in case.values.items()}))
        return [outputs[i] for outputs in case.moved]


def coarsest(graph: Graph) -> list[float]:
    """What the coarsest type allows, of those that what each output of a graph computes from its inputs has."""
    found: list[float | None] = []  # None for what depends on constants alone
    for node in graph.nodes:
        before = [known for j in node.inputs if (known := found[j]) is not None]
        if node.op == "input":
            found.append(0.0)
        else:
            names = [numpy_dtype(t.dtype).name for t in node.types]
            found.append(max(*before, *(TOLERANCE.get(n, 0.0) for n in names)) if before else None)
    return [found[i] or 0.0 for _, i in graph.outputs]


def further(size: int, within: DimSizes = DimSizes()) -> Iterator[int]:  # noqa: B008 (it is frozen)
    """Other sizes of a dimension in its range: a larger prime or else a smaller one, the smallest size, a larger or
    a smaller number with the factors of this one, and others."""
    low, high = within.low, within.high
    prime = _prime(size + 1)
    if prime not in within:
        prime = next((n for n in range(size - 1, low - 1, -1) if _is_prime(n)), size)
    longer = 2 * size if 2 * size in within else half(within, size)
    largest = () if high is None else (high,)
    more = (size + 1, 3 * size, _prime(3 * size + 1), size - 1, *range(low + 1, low + FURTHER + 1))
    sizes = (prime, low, longer, *largest, *(more if high is not None else more[:3]))
    return (n for n in dict.fromkeys(sizes) if n != size and n in within)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))


def _prime(least: int) -> int:
    """The first prime that is not smaller."""
    return next(n for n in count(least) if _is_prime(n))


def _invalid(path: str) -> str:
    """The message of ONNX's own checker about a model."""
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as e:
        return first_line(e)
    return ""


def told_apart(output: object, error: float, limit: float, on: str = "") -> str:
    """What is said of an output whose relative error is beyond a limit."""
    if not isfinite(error):
        return f"output {output}{on} has another shape or type, or infinities or NaN elsewhere"
    return f"output {output} differs by {error:.1e}{on}, more than {limit:.1e}"


def relative_error(x: Any, y: Any) -> tuple[float, float]:
    """The relative difference of one output, infinite where types or what is finite are others, and the tolerance;
    for integers the share of different elements, and 0."""
    a, b = np.asarray(x), np.asarray(y)
    if isinstance(x, list | dict) or (a.dtype.kind not in "fiub" and a.dtype.name not in TOLERANCE):
        return (0.0 if str(x) == str(y) else 1.0), 0.0
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf"), 0.0
    if a.size == 0:
        return 0.0, 0.0
    if a.dtype.name not in TOLERANCE:
        return float((a != b).mean()), 0.0
    if np.array_equal(a, b):  # which takes a tenth of the time
        return 0.0, TOLERANCE[a.dtype.name]
    with np.errstate(all="ignore"):
        p, q = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(p)
        if not np.array_equal(np.where(finite, 0, p), np.where(np.isfinite(q), 0, q), equal_nan=True):
            return float("inf"), 0.0
        p, q = p[finite], q[finite]
        norm = max(float(np.abs(p).max(initial=0)), float(np.abs(q).max(initial=0)))
        error = float(np.abs(p - q).max(initial=0))
    return (error / norm if norm else 0.0), TOLERANCE[a.dtype.name]


def _session(path: str, optimized: bool = True) -> Session:
    try:
        return Session(Path(path), optimized=optimized)
    except NotRunnable as e:
        message = str(e).replace(path, Path(path).name)  # the file is gone when somebody reads this
        raise Incomparable(f"ONNX Runtime does not load it: {message}") from None
