"""Sizes for open dimensions that nobody gave: typical ones, with which the model runs.

The name of a dimension tells what it counts, or else its place among the inputs does. Each kind has a list of sizes.
A batch is 2, as more is true of dimensions of 1 than of others, and an answer has to hold for all sizes. The first of
each list is taken if ONNX Runtime runs the model at these sizes on random inputs. If it does not (a
reshape asks for an even batch, a product for 64 channels), other sizes of the lists are tried, of one dimension after
the other, then of all of them. A choice that takes too much memory is not tried, nor is one that is as large
everywhere: what the model computes may grow with the square of an image, or with the fourth power of its sides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import onnx_ir as ir

from tensat_dl.onnx.facts import MOST_OF_VALUE, ModelFacts
from tensat_dl.onnx.inputs import ModelInput, Undrawable, dims_of, drawn, inputs_of
from tensat_dl.onnx.model_files import failed
from tensat_dl.onnx.session import NotRunnable, OutOfMemory, Session
from tensat_dl.sizes.dim_sizes import DimSizes
from tensat_dl.sizes.named import in_words

#: The sizes of each kind of dimension, the first first.
SIZES: Mapping[str, tuple[int, ...]] = {
    "batch": (2, 1, 4, 8),
    "channels": (3, 1, 4, 16, 64),
    "image": (224, 256, 32, 64, 299, 28),
    "sequence": (128, 64, 256, 32, 16, 1),
}
#: Sizes of any kind of dimension, where none of its own kind lets the model run.
ANY = (1, 2, 3, 4, 8, 10, 16, 32, 64, 128, 256, 512, 768, 784, 1024)
#: The words in names of dimensions that tell their kind. Other dimensions of more than one element count a sequence.
WORDS: Mapping[str, frozenset[str]] = {
    "batch": frozenset(["batch", "batches", "batchsize", "bs", "n", "b"]),
    "channels": frozenset(["channel", "channels", "c"]),
    "image": frozenset(["height", "width", "h", "w"]),
    "sequence": frozenset(
        [
            "sequence",
            "seq",
            "length",
            "len",
            "time",
            "times",
            "steps",
            "frames",
            "tokens",
            "text",
            "t",
            "s",
            "l",
        ]
    ),
}
#: At most so many choices of sizes are tried.
TRIES = 60
#: No choice is tried where one input has more elements: images of 1024 times 1024 in a batch of 1024 would take all
#: memory.
MOST_ELEMENTS = 2**24


def typical(path: str, model: ir.Model, asked: Mapping[str, DimSizes]) -> dict[str, int]:
    """A size for each open dimension of a model's inputs: the given one, of several the middle one, or a typical one
    in the range. The model runs at these sizes, or else at none that was tried, and then they are the first of their
    kinds. Raises `TsrError` if all take too much memory."""
    kinds = _kinds(model)
    given = {name: d.sizes[len(d.sizes) // 2] for name, d in asked.items() if d.sizes}
    sums = {name: parts for name in kinds if name not in asked and (parts := _sum(name, kinds))}
    free = {name: kind for name, kind in kinds.items() if name not in given and name not in sums}
    everywhere = DimSizes()
    ranges = {name: asked.get(name, everywhere) for name in free}

    def complete(chosen: Mapping[str, int]) -> dict[str, int]:
        known = {**given, **{name: ranges[name].nearest(size) for name, size in chosen.items()}}
        return _with_sums({name: known.get(name, 0) for name in kinds}, sums)

    first = complete({name: _first(kind, ranges[name]) for name, kind in free.items()})
    if not free:
        return first
    try:
        inputs, session = inputs_of(model), Session(Path(path))
    except (Undrawable, NotRunnable):
        return first
    room = _Room(model, inputs)
    choices = (sizes for c in _choices(free, ranges, room.too_large) if room.has(sizes := complete(c)))
    failing: dict[str, int] = {}
    for sizes in islice(choices, TRIES):
        try:
            if _runs(session, inputs, sizes):
                return sizes
            failing = failing or sizes
        except MemoryError:
            room.exceeded(sizes, "it does not fit in memory")
    if room.reason and not failing:
        example = " ".join(f"--dim {name}={ranges[name].nearest(1)}" for name in free)
        message = f"the model is too large at typical sizes: {room.reason}"
        raise failed(path, message, f"say at which sizes it may run, as in {example}")
    return failing or first


def at_sizes(sizes: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    """The sizes with other ones of some dimensions, and of those that are sums with them."""
    sums = {d: parts for d in sizes if not others.keys().isdisjoint(parts := _sum(d, sizes))}
    return _with_sums({**sizes, **others}, sums)


def _with_sums(sizes: Mapping[str, int], sums: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The sizes, with those of dimensions that are sums as the others say."""
    total = {name: sum(sizes[p] if p in sizes else int(p) for p in parts) for name, parts in sums.items()}
    return {**sizes, **total}


def _first(kind: str, within: DimSizes) -> int:
    """The likeliest size of a kind in a range."""
    return next((n for n in SIZES[kind] if n in within), within.nearest(SIZES[kind][0]))


def _kinds(model: ir.Model) -> dict[str, str]:
    """The kinds of open dimensions by name, in the order of the inputs."""
    found: dict[str, str] = {}
    for value in model.graph.inputs:
        dims = dims_of(value)
        for axis, d in enumerate(dims):
            if isinstance(d, str) and d not in found:
                found[d] = _kind_by_name(d) or _kind_by_place(axis, len(dims))
    return found


def _kind_by_name(name: str) -> str:
    """The kind that a word in a name tells, the last one of several: ``batch_length`` is a length. Names of letters
    and capitals are taken apart, as in ``seqLen``."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    kinds = [kind for word in words for kind, known in WORDS.items() if word.lower() in known]
    named_by_place = re.fullmatch(r".*\.\d+", name)  # after its input, as in `w.0`
    return "" if named_by_place or not kinds else kinds[-1]


def _kind_by_place(axis: int, rank: int) -> str:
    if axis == 0:
        return "batch"
    if rank == 4:
        return "channels" if axis == 1 else "image"
    return "sequence"


def _sum(name: str, kinds: Mapping[str, object]) -> Sequence[str]:
    """The terms of a name that is a sum of other dimensions and numbers, as in ``past + 1``."""
    parts = [part.strip() for part in name.split("+")]
    fits = len(parts) > 1 and all(p.isdecimal() or (p in kinds and "+" not in p) for p in parts)
    return parts if fits else ()


def _choices(
    kinds: Mapping[str, str], ranges: Mapping[str, DimSizes], too_large: Sequence[object]
) -> Iterator[dict[str, int]]:
    """Sizes by name, the likeliest first, each choice once. Those of one dimension lie in its range. If the first
    turns out to be ``too_large``, smaller squares come next."""
    first = {name: _first(kind, ranges[name]) for name, kind in kinds.items()}
    seen = [first]
    yield first

    def new(choice: dict[str, int]) -> Iterator[dict[str, int]]:
        if choice not in seen and all(n in ranges[name] for name, n in choice.items() if n != first[name]):
            seen.append(choice)
            yield choice

    for kind in ("image", "sequence") if too_large else ():
        alike = [name for name, its in kinds.items() if its == kind]
        for size in sorted(SIZES[kind], reverse=True):
            if any(size < first[name] for name in alike):
                yield from new(first | dict.fromkeys(alike, size))
    for own in (True, False):
        for name, kind in kinds.items():
            for size in SIZES[kind] if own else ANY:
                yield from new({**first, name: size})
    for size in ANY:
        yield dict.fromkeys(kinds, size)


class _Room:
    """Which choices of sizes there is memory for. The ``reason`` is that of the first that takes too much."""

    def __init__(self, model: ir.Model, inputs: Sequence[ModelInput]) -> None:
        self._model = model
        self._inputs = inputs
        self._fitting: list[Mapping[str, int]] = []
        self.too_large: list[Mapping[str, int]] = []
        self.reason = ""

    def has(self, sizes: Mapping[str, int]) -> bool:
        """Whether there is memory for the inputs, and for the values whose shapes are known at these sizes."""
        if max((math.prod(i.at(sizes)) for i in self._inputs), default=0) > MOST_ELEMENTS:
            return False
        if any(_at_most(other, sizes) for other in self.too_large):
            return False
        if any(_at_most(sizes, other) for other in self._fitting):
            return True
        name, shape = ModelFacts(self._model, sizes).largest()
        if math.prod(shape) > MOST_OF_VALUE:
            self.exceeded(sizes, f"{name} has the shape {list(shape)}")
            return False
        self._fitting.append(sizes)
        return True

    def exceeded(self, sizes: Mapping[str, int], why: str) -> None:
        """These sizes take too much, and so do larger ones."""
        self.too_large.append(sizes)
        self.reason = self.reason or f"with {in_words(sizes)} {why}"


def _at_most(sizes: Mapping[str, int], others: Mapping[str, int]) -> bool:
    """Whether no dimension is larger than its other size."""
    return all(n <= others[name] for name, n in sizes.items())


def _runs(session: Session, inputs: Sequence[ModelInput], sizes: Mapping[str, int]) -> bool:
    """Whether a model runs on random inputs of these sizes. Raises MemoryError."""
    for values in drawn(inputs, sizes, seed=0):
        try:
            session.outputs(values)
        except OutOfMemory:
            raise
        except NotRunnable:
            continue
        return True
    return False
