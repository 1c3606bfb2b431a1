"""The values at which the sides of a rule are run, to see what machine arithmetic makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import isqrt

import numpy as np

from tensat_dl.core.graph import FLOATS, INTEGERS, TensorType
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.exact.constants import constants
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.keyed import generator
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.machine import as_stored
from tensat_dl.verify.rules.verdict import AspectStatus
from tensat_dl.verify.weights import Distribution, draw, draw_values

Values = Mapping[str, Array]

#: How often values are drawn from a pool, or until so many elements were.
DRAWS = 12
ELEMENTS = 240
#: How often values are drawn that are not finite, or large.
SPECIAL_DRAWS = 4
#: The digits of floats, in bits.
DIGITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
#: Integers that float types with fewer digits take for one another.
BEYOND_DIGITS = (256, 257, 2048, 2049, 2**24, 2**24 + 1, 2**24 + 3, 2**53, 2**53 + 1)
#: Floats that are zero in narrower types.
TINY = {"f16": 1e-7, "bf16": 1e-30, "f32": 1e-30, "f64": 1e-60}
#: Floats that are infinite when they are added to themselves.
LARGE = {"f16": 4e4, "bf16": 2e38, "f32": 2e38, "f64": 1e308}
#: Floats whose inverses are infinite.
TINIEST = {"f16": 1e-6, "bf16": 1e-40, "f32": 1e-40, "f64": 1e-310}
#: Integers beside such floats.
FEW = (0, 1, 2)
#: So many constants of both sides are tried as numbers that may make a divisor zero.
MOST_CONSTANTS = 4


def size_of(instance: Instance) -> int:
    return sum(n.type.size for n in (*instance.before.nodes, *instance.after.nodes))


def types_of(instance: Instance) -> dict[str, TensorType]:
    return leaves((instance.before, instance.after))


def at_random(instance: Instance, seed: int) -> Iterator[Values]:
    values = draw_values((instance.before, instance.after), seed, {})
    yield {name: as_stored(v, types_of(instance)[name].dtype) for name, v in values.items()}


def _from(
    instance: Instance, seed: int, pool: Callable[[str], Sequence[float]], *key: object
) -> dict[str, Array]:
    """Each element one of the numbers that a pool has of its type."""
    out = {}
    for name, t in types_of(instance).items():
        numbers = pool(t.dtype)
        picked = generator(seed, *key, name).integers(0, len(numbers), t.shape)
        # Python's integers may be too large for int64 among floats.
        kind = np.int64 if t.dtype in INTEGERS else np.float64
        out[name] = as_stored(np.asarray(np.array(numbers, kind)[picked]), t.dtype)
    return out


def _turns(instance: Instance) -> int:
    """How often numbers are drawn: more often for few elements."""
    return max(DRAWS, ELEMENTS // max(1, size_of(instance)))


def near(instance: Instance, seed: int) -> Iterator[Values]:
    """Numbers that differ in their last digits or by many orders of magnitude."""

    def pool(dtype: str) -> Sequence[float]:
        if dtype in INTEGERS:
            most = INTEGERS[dtype][1]
            return [n for n in (1, 3, *BEYOND_DIGITS) if n <= most]
        if dtype not in FLOATS:
            return (0, 1)
        last = 2.0 ** -DIGITS[dtype]
        near_one = (1.0, 1 + last, 1 + 3 * last, 1 - last)
        return (*near_one, 1 / 3, -0.1, 3.0, -1.0, min(0.5 / last, 1e5), 100.3, TINY[dtype])

    for turn in range(_turns(instance)):
        yield _from(instance, seed, pool, "near", turn)


def ties(instance: Instance, seed: int) -> Iterator[Values]:
    """The largest number below 1, numbers next to 0 of both signs, and numbers next to the middle between two of a
    narrower type: rounded twice, they come to another one."""

    def pool(dtype: str) -> Sequence[float]:
        if dtype in INTEGERS:
            most = INTEGERS[dtype][1]
            top = most.bit_length() - 1
            return (
                1,
                2,
                *(n for d in DIGITS.values() if (n := 2**top + 2 ** max(top - d - 1, 0) + 1) <= most),
            )
        if dtype not in FLOATS:
            return (0, 1)
        own = DIGITS[dtype]
        middles = (1 + 2.0 ** -(d + 1) + 2.0**-own for d in DIGITS.values() if d + 1 < own)
        return (1 - 2.0 ** -(own + 1), 1.0, 3.0, TINY[dtype], -TINY[dtype], *middles)

    for turn in range(_turns(instance)):
        yield _from(instance, seed, pool, "ties", turn)


def extreme(instance: Instance, seed: int) -> Iterator[Values]:
    """The largest integers, and others."""

    def pool(dtype: str) -> Sequence[float]:
        least, most = INTEGERS.get(dtype, (0, 1))
        return (
            least,
            most,
            most,
            most - 1,
            most // 2 + 1,
            *((1, 2, 100, -1 if least else 3) if most > 1 else ()),
        )

    for turn in range(2 * _turns(instance)):
        yield {
            name: v if turn % 2 or v.dtype != np.int64 else np.where(v == 0, 1, v)  # a divisor may be 0
            for name, v in _from(instance, seed, pool, "extreme", turn).items()
        }


def roots(instance: Instance, seed: int) -> Iterator[Values]:
    """Numbers whose squares are beyond their type: those of the largest are small, when they have wrapped around."""

    def pool(dtype: str) -> Sequence[float]:
        least, most = INTEGERS.get(dtype, (0, 1))
        root = isqrt(most) + 2
        return (root, root, root + 1, 1, 2, -root if least else 3) if most > 1 else (0, 1)

    for turn in range(_turns(instance)):
        yield _from(instance, seed, pool, "roots", turn)


def positive(instance: Instance, seed: int) -> dict[str, Array]:
    """Numbers near 1."""
    return {  # NumPy makes numbers, not arrays, of arrays without axes
        name: np.asarray(as_stored(np.abs(v) + 0.25 if v.dtype.kind == "f" else np.abs(v), t.dtype))
        for name, t in types_of(instance).items()
        for v in [draw(name, t, Distribution(), seed)]
    }


def special(instance: Instance, seed: int, zeros: AspectStatus) -> Iterator[Values]:
    """NaN and infinities among other numbers; large numbers; and zeros of both signs, if the sides are the same at
    ``zeros``."""
    plain = positive(instance, seed)
    floats = [name for name, t in types_of(instance).items() if t.dtype in FLOATS]
    for special in (np.nan, np.inf, -np.inf):
        for name in floats:
            value = plain[name].copy()
            value.reshape(-1)[:1] = special
            yield {**plain, name: value}
    pools = (_not_finite, _large, *[_zeros_beside_infinities] * (zeros == "same"))
    for pool, turn in product(pools, range(SPECIAL_DRAWS)):
        yield _from(instance, seed, pool, pool.__name__, turn)
    for sign, name in product((1, -1), floats):
        value, dtype = plain[name].copy(), types_of(instance)[name].dtype
        value.reshape(-1)[:1] = sign * LARGE[dtype]
        yield {**plain, name: as_stored(value, dtype)}


def near_zero(instance: Instance, seed: int) -> Iterator[Values]:
    """Numbers so near 0 that their inverses are infinite; their quotients are not."""
    yield _from(instance, seed, lambda dtype: _tiny(dtype)[:1], "tiniest")
    for turn in range(SPECIAL_DRAWS):
        yield _from(instance, seed, _tiny, "tiny", turn)


def _not_finite(dtype: str) -> Sequence[float]:
    return (np.nan, np.inf, -np.inf, 1.0, -2.0) if dtype in FLOATS else FEW


def _large(dtype: str) -> Sequence[float]:
    return (large := LARGE[dtype], -large, 1.0, large) if dtype in FLOATS else FEW


def _tiny(dtype: str) -> Sequence[float]:
    return (tiny := TINIEST[dtype], -tiny, 1.0, tiny) if dtype in FLOATS else FEW[1:]


def _zeros_beside_infinities(dtype: str) -> Sequence[float]:
    return (np.inf, -np.inf, 0.0, -0.0, 1.0) if dtype in FLOATS else FEW


def zeros(instance: Instance, seed: int) -> Iterator[Values]:
    plain = positive(instance, seed)
    floats = [name for name, t in types_of(instance).items() if t.dtype in FLOATS]
    for zeros in [[name] for name in floats] + [floats] * (len(floats) > 1):
        yield plain | {name: 0 * plain[name] for name in zeros}


def at_constants(instance: Instance, seed: int, ops: OpTable) -> Iterator[Values]:
    """Numbers that a constant of the rule, added or subtracted, makes 0."""
    plain = positive(instance, seed)
    floats = [name for name, t in types_of(instance).items() if t.dtype in FLOATS]
    known = map(float, constants((instance.before, instance.after), ops)[:MOST_CONSTANTS])
    for c, name in product((s * c for c in known for s in (1, -1)), floats):
        yield plain | {name: as_stored(np.full_like(plain[name], c), types_of(instance)[name].dtype)}
