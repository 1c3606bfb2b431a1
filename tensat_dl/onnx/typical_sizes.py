"""Sizes for open dimensions that nobody gave: typical ones, with which the model runs.

The name of a dimension tells what it counts, or else its place among the inputs does. Each kind has a list of sizes.
A batch is 2, as more is true of dimensions of 1 than of others, and an answer has to hold for all sizes. The first of
each list is taken if ONNX Runtime runs the model at these sizes on random inputs. If it does not (a
reshape asks for an even batch, a product for 64 channels), other sizes of the lists are tried, of one dimension after
the other, then of all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import onnx_ir as ir

from tensat_dl.onnx.inputs import ModelInput, Undrawable, dims_of, drawn, inputs_of
from tensat_dl.onnx.session import NotRunnable, Session
from tensat_dl.sizes.dim_sizes import DimSizes

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
    kinds."""
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
    choices = (
        sizes for c in _choices(free, ranges) if _largest(inputs, sizes := complete(c)) <= MOST_ELEMENTS
    )
    return next((sizes for sizes in islice(choices, TRIES) if _runs(session, inputs, sizes)), first)


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


def _choices(kinds: Mapping[str, str], ranges: Mapping[str, DimSizes]) -> Iterator[dict[str, int]]:
    """Sizes by name, the likeliest first, each choice once. Those of one dimension lie in its range."""
    first = {name: _first(kind, ranges[name]) for name, kind in kinds.items()}
    seen = [first]
    yield first
    for own in (True, False):
        for name, kind in kinds.items():
            for size in SIZES[kind] if own else ANY:
                if size in ranges[name] and (one := {**first, name: size}) not in seen:
                    seen.append(one)
                    yield one
    for size in ANY:
        yield dict.fromkeys(kinds, size)


def _largest(inputs: Sequence[ModelInput], sizes: Mapping[str, int]) -> int:
    """How many elements the largest input has at these sizes."""
    return max((math.prod(i.at(sizes)) for i in inputs), default=0)


def _runs(session: Session, inputs: Sequence[ModelInput], sizes: Mapping[str, int]) -> bool:
    """Whether a model runs on random inputs of these sizes."""
    for values in drawn(inputs, sizes, seed=0):
        try:
            session.outputs(values)
        except NotRunnable:
            continue
        return True
    return False
