"""What operators compute that move elements or make them from nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tensat_dl.ops import symbolic as sym
from tensat_dl.ops.symbolic import Int
from tensat_dl.verify.symbolic import elements as el
from tensat_dl.verify.symbolic.context import Context, Index, Tensor, element_at
from tensat_dl.verify.symbolic.division import divided
from tensat_dl.verify.symbolic.normal_form import Value
from tensat_dl.verify.symbolic.pointwise import Attributes, as_integer, broadcast, is_type
from tensat_dl.verify.symbolic.unproved import Inexpressible


def along(index: Index, axis: int, k: Int) -> Index:
    return (*index[:axis], k, *index[axis + 1 :])


def within(context: Context, i: Int, n: Int) -> sym.Bool:
    return sym.all_of((sym.at_most(0, i), sym.at_most(sym.add(i, 1), n)))


def reshape(context: Context, x: Tensor, shape: Index) -> Tensor:
    """The same elements in row-major order."""

    def flat(offset: Int) -> Value:
        return element_at(x, offset, context)

    return Tensor(shape, x.dtype, lambda index: flat(context.offset(index, shape)), flat)


def transpose(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    perm = attrs["perm"]
    return lambda index: xs[0].at(tuple(sym.unselect(index, perm, axis) for axis in range(len(perm))))


def concat(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    axis = attrs["axis"]

    def at(index: Index) -> Value:
        start: Int = 0
        parts: list[Value] = []
        for x in xs:
            stop = sym.add(start, x.shape[axis])
            i = index[axis]
            inside = sym.all_of((sym.at_most(start, i), sym.at_most(sym.add(i, 1), stop)))
            own = along(index, axis, context.simple(sym.sub(i, start)))
            parts.append(context.inside(inside, partial(x.at, own)))
            start = stop
        return el.add(*parts)

    return at


def slice_(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    axis = attrs["axis"]
    return lambda index: xs[0].at(along(index, axis, sym.add(index[axis], attrs["start"])))


def expand(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    return lambda index: broadcast(context, xs[0], shape, index)


def pad(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    (x,), before = xs, attrs["before"]
    if not is_type(context, attrs["mode"], "constant"):
        edge = is_type(context, attrs["mode"], "edge")

        def nearest(i: Int, n: Int) -> Int:
            last = sym.sub(n, 1)
            if edge:
                return sym.minimum(sym.maximum(i, 0), last)
            distance = sym.maximum(i, sym.neg(i))
            return sym.minimum(distance, sym.sub(sym.mul(2, last), distance))

        def mirrored(index: Index) -> Value:
            own = (sym.sub(i, b) for i, b in zip(index, before, strict=True))
            return x.at(
                tuple(
                    i if context.known.holds(within(context, i, n)) else nearest(i, n)
                    for i, n in zip(own, x.shape, strict=True)
                )
            )

        return mirrored
    value = context.real(attrs["value"])

    def at(index: Index) -> Value:
        own = tuple(sym.sub(i, b) for i, b in zip(index, before, strict=True))
        inside = sym.all_of(within(context, i, n) for i, n in zip(own, x.shape, strict=True))
        return el.add(value, context.inside(inside, lambda: el.subtract(x.at(own), value), fills=True))

    return at


def dilate(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    """Simpler than by its definition, where all elements stand in one row."""
    (x,) = xs
    value, axis = context.real(attrs["value"]), attrs["axis"]

    def at(index: Index) -> Value:
        own, between = divided(context, index[axis], sym.add(attrs["count"], 1))
        there = along(index, axis, own)
        return el.add(
            value, context.inside(sym.equal(between, 0), lambda: el.subtract(x.at(there), value), fills=True)
        )

    return at


def enlarge(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (w,) = xs
    before = [sym.floordiv(sym.sub(k, n), 2) for k, n in zip(attrs["kernel"], w.shape[2:], strict=True)]

    def at(index: Index) -> Value:
        own = [sym.sub(i, b) for i, b in zip(index[2:], before, strict=True)]
        inside = sym.all_of(within(context, i, n) for i, n in zip(own, w.shape[2:], strict=True))
        return context.inside(inside, lambda: w.at((*index[:2], *own)), fills=True)

    return at


def merge(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (w,) = xs
    size = context.simple(sym.floordiv(w.shape[0], attrs["groups"]))

    def at(index: Index) -> Value:
        o, c, *taps = index
        group, _ = divided(context, o, size)
        _, member = divided(context, group, attrs["count"])
        block, own = divided(context, c, w.shape[1])
        return context.inside(sym.equal(block, member), lambda: w.at((o, own, *taps)), fills=True)

    return at


def gather(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    (x, indices), axis = xs, attrs["axis"]
    last = axis + len(indices.shape)

    def at(index: Index) -> Value:
        row = as_integer(indices.at(index[axis:last]), context)
        if row is None:
            raise Inexpressible("an index of a look-up is no element of a tensor")
        if not context.known.holds(within(context, row, x.shape[axis])):
            row = sym.mod(row, x.shape[axis])
        return x.at((*index[:axis], row, *index[last:]))

    return at


def resize(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    """Means of old pixels, with weights that depend on the mode, the sizes and the places along each dimension, and
    that add up to 1."""
    (x,) = xs
    facts = context.known.facts
    mode = " ".join(str(facts.value(attrs[name])) for name in ("mode", "coordinates", "rounding"))

    def at(index: Index) -> Value:
        image, channel, *place = index
        made = f"as pixel {place} of {shape[2:]} from {x.shape[2:]}, {mode}"

        def pixel(r: Int, s: Int) -> Value:
            with context.needs.lost(made):  # a new pixel is made of few old ones
                return x.at((image, channel, r, s))

        first = pixel(0, 0)

        def share(k: int, old: Int) -> Value:
            return context.apply(
                f"weight {mode}", *map(el.integer, (place[k], old, shape[2 + k], x.shape[2 + k]))
            )

        def part(r: Int, s: Int) -> Value:
            difference = el.subtract(pixel(r, s), first)
            return el.multiply(el.multiply(share(0, r), share(1, s)), difference)

        high, wide = x.shape[2:]
        return el.add(first, context.total(high, lambda r: context.total(wide, lambda s: part(r, s))))

    return at


def fill(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    value = context.real(attrs["value"])
    return lambda index: value


def iota(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    return lambda index: el.integer(index[attrs["axis"]])


def eye(context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index) -> Callable[[Index], Value]:
    return lambda index: context.guarded(el.number(1), sym.equal(index[0], index[1]))


def conv_identity(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    groups, kernel = attrs["groups"], attrs["kernel"]

    def at(index: Index) -> Value:
        o, c, *taps = index
        own = o if groups == 1 else divided(context, o, shape[1])[1]
        centre = [sym.floordiv(sym.sub(k, 1), 2) for k in kernel]
        there = [sym.equal(own, c), *(sym.equal(t, m) for t, m in zip(taps, centre, strict=True))]
        return context.guarded(el.number(1), sym.all_of(there))

    return at


def conv_average(
    context: Context, xs: Sequence[Tensor], attrs: Attributes, shape: Index
) -> Callable[[Index], Value]:
    share = el.inverse(el.integer(sym.mul(*attrs["kernel"])))
    return lambda index: share
