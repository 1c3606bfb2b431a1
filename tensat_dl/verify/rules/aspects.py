"""What machine arithmetic makes of a rule that is true of real numbers: whether both sides round alike, wrap around
alike, and have the same infinities, also where a divisor is zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import isqrt

import numpy as np

from tensat_dl.core.graph import FLOATS, INTEGERS, TensorType
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.equivalence import place
from tensat_dl.verify.exact.constants import constants
from tensat_dl.verify.exact.draws import leaves
from tensat_dl.verify.execute import ExecutionError
from tensat_dl.verify.keyed import generator
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.machine import MachineArithmetic, MachineRun, as_stored
from tensat_dl.verify.rules.verdict import Aspect, AspectName, AspectStatus, apart
from tensat_dl.verify.weights import Distribution, draw, draw_values

Values = Mapping[str, Array]

#: Instances with more elements are not run; of the others so many of each element type are, the smallest first, and
#: so many at random numbers.
MOST_ELEMENTS = 20_000
OF_EACH_TYPE = 2
AT_RANDOM = 12
#: How often numbers are drawn from a pool, or until so many elements were; and about how many elements an instance
#: has that is in the middle.
DRAWS = 12
ELEMENTS = 240
MIDDLE = 150
#: How often numbers are drawn that are not finite, or large.
SPECIAL_DRAWS = 4
#: How often an example is made simpler, and how long it may be.
SIMPLER = 24
LONGEST = 60
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
#: Numbers beside infinities may differ by rounding: by so much, relative; and by so many of the last bits, in the
#: narrowest float type, of the largest finite number on the way, unless one side alone has infinities there.
TOLERANCE = 1e-2
LAST_BITS = 4
#: So many constants of both sides are tried as numbers that may make a divisor zero.
MOST_CONSTANTS = 4

#: Which elements differ, given both sides, their runs, and by how much rounding may change each element.
Runs = tuple[MachineRun, MachineRun]
Counts = Callable[[Array, Array, Runs, Array], Array]


def aspects_of(
    instances: Sequence[Instance], infinite: Sequence[Instance], machine: MachineArithmetic, seed: int
) -> tuple[Aspect, ...]:
    """Rounding, overflow of integers, infinities, and divisors that are zero. Some instances may have ``infinite``
    attributes."""
    with np.errstate(all="ignore"):
        return _aspects_of(instances, infinite, machine, seed)


def _aspects_of(
    instances: Sequence[Instance], infinite: Sequence[Instance], machine: MachineArithmetic, seed: int
) -> tuple[Aspect, ...]:
    small = sorted((i for i in instances if _size(i) <= MOST_ELEMENTS), key=_size)
    random = ((i, v) for i in instances[:AT_RANDOM] if i in small for v in _random(i, seed))
    floats = [i for t in FLOATS for i in _with(small, t)[:OF_EACH_TYPE]]
    of_floats = sorted(floats, key=_size)[: 2 * OF_EACH_TYPE]
    mixed = [i for i in (*of_floats, *_of_both(small)) if _has_floats(i)]
    mixed += sorted((i for i in small if _has_floats(i)), key=lambda i: abs(_size(i) - MIDDLE))[:OF_EACH_TYPE]
    mixed += [i for t in FLOATS for i in sorted(_with_places(small, t), key=_places)[-OF_EACH_TYPE:]]
    integers = {t: _with(small, t)[:OF_EACH_TYPE] for t in INTEGERS}
    opaque = any(i.before.opaque or i.after.opaque for i in instances)

    def aspect(name: AspectName, drawn: Iterable[tuple[Instance, Values]], counts: Counts) -> Aspect:
        if not small or (opaque and name != "rounding"):
            return Aspect(name, "not examined")
        found = _example(drawn, counts, machine)
        return Aspect(name, "differs", found) if found else Aspect(name, "same")

    rounding = ((i, v) for i in mixed for v in _near(i, seed))
    extreme = {
        t: chain(((i, v) for i in f for v in _extreme(i, seed)), ((i, v) for i in f for v in _roots(i, seed)))
        for t, f in integers.items()
        if f
    }
    by_type = [(t, aspect("overflow", drawn, _wraps)) for t, drawn in extreme.items()]
    zeros = aspect("zero divisors", ((i, v) for i in of_floats for v in _zeros(i, seed)), _is_special)
    if zeros.status == "same":
        sums = ((i, v) for i in of_floats for v in _constants(i, seed, machine.ops))
        # Padding, and what else the rule has of its own, may be 0 whatever the inputs are.
        others = ((i, _positive(i, seed)) for i in instances[:AT_RANDOM] if i in small)
        zeros = aspect("zero divisors", chain(sums, others), _is_no_number)
    special = ((i, v) for i in of_floats for v in _special(i, seed, zeros.status))
    attributes = ((i, _positive(i, seed)) for i in infinite if set(FLOATS).issuperset(_nodes(i)))
    infinities = aspect("infinities", chain(special, attributes), _is_special)
    if infinities.status == "same":
        infinities = aspect(
            "infinities", ((i, v) for i in of_floats for v in _near_zero(i, seed)), _overflows
        )
    differ = [(t, a) for t, a in by_type if a.status == "differs"]
    ties = ((i, v) for i in mixed for v in _ties(i, seed))
    return (
        aspect("rounding", chain(rounding, random, ties), _rounds),
        Aspect("overflow", "differs", differ[0][1].example, tuple(t for t, _ in differ))
        if differ
        else aspect("overflow", (), _wraps),
        infinities,
        zeros,
    )


def _size(instance: Instance) -> int:
    return sum(n.type.size for n in (*instance.before.nodes, *instance.after.nodes))


def _places(instance: Instance) -> int:
    """How many places are told apart: what they round to shows where these are many."""
    found = (n for g in (instance.before, instance.after) for n in g.nodes if n.op == "iota")
    return max((n.type.shape[k] for n in found if isinstance(k := n.attr("axis"), int)), default=0)


def _with_places(instances: Iterable[Instance], dtype: str) -> list[Instance]:
    """The instances with places and with numbers of an element type."""
    return [i for i in instances if dtype in _nodes(i) and _places(i)]


def _types(instance: Instance) -> dict[str, TensorType]:
    return leaves((instance.before, instance.after))


def _with(instances: Iterable[Instance], dtype: str) -> list[Instance]:
    """The instances with inputs of an element type."""
    return [i for i in instances if any(t.dtype == dtype for t in _types(i).values())]


def _nodes(instance: Instance) -> Iterator[str]:
    return (n.type.dtype for g in (instance.before, instance.after) for n in g.nodes)


def _has_floats(instance: Instance) -> bool:
    return any(t in FLOATS for t in _nodes(instance))


def _of_both(instances: Iterable[Instance]) -> list[Instance]:
    """For each integer type one that has such inputs and floats elsewhere, such results if there is one, and few
    types: integers that come back as integers show what floats lost."""
    mixed = sorted((i for i in instances if _has_floats(i)), key=lambda i: len({*_nodes(i)}))
    return [next((i for i in f if _results(i) == {t}), f[0]) for t in INTEGERS if (f := _with(mixed, t))]


def _results(instance: Instance) -> set[str]:
    return {instance.before.nodes[i].type.dtype for _, i in instance.before.outputs}


# ---- numbers ----------------------------------------------------------------------------------------------


def _random(instance: Instance, seed: int) -> Iterator[Values]:
    values = draw_values((instance.before, instance.after), seed, {})
    yield {name: as_stored(v, _types(instance)[name].dtype) for name, v in values.items()}


def _from(
    instance: Instance, seed: int, pool: Callable[[str], Sequence[float]], *key: object
) -> dict[str, Array]:
    """Each element one of the numbers that a pool has of its type."""
    out = {}
    for name, t in _types(instance).items():
        numbers = pool(t.dtype)
        picked = generator(seed, *key, name).integers(0, len(numbers), t.shape)
        # Python's integers may be too large for int64 among floats.
        kind = np.int64 if t.dtype in INTEGERS else np.float64
        out[name] = as_stored(np.asarray(np.array(numbers, kind)[picked]), t.dtype)
    return out


def _turns(instance: Instance) -> int:
    """How often numbers are drawn: more often for few elements."""
    return max(DRAWS, ELEMENTS // max(1, _size(instance)))


def _near(instance: Instance, seed: int) -> Iterator[Values]:
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


def _ties(instance: Instance, seed: int) -> Iterator[Values]:
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


def _extreme(instance: Instance, seed: int) -> Iterator[Values]:
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


def _roots(instance: Instance, seed: int) -> Iterator[Values]:
    """Numbers whose squares are beyond their type: those of the largest are small, when they have wrapped around."""

    def pool(dtype: str) -> Sequence[float]:
        least, most = INTEGERS.get(dtype, (0, 1))
        root = isqrt(most) + 2
        return (root, root, root + 1, 1, 2, -root if least else 3) if most > 1 else (0, 1)

    for turn in range(_turns(instance)):
        yield _from(instance, seed, pool, "roots", turn)


def _positive(instance: Instance, seed: int) -> dict[str, Array]:
    """Numbers near 1."""
    return {  # NumPy makes numbers, not arrays, of arrays without axes
        name: np.asarray(as_stored(np.abs(v) + 0.25 if v.dtype.kind == "f" else np.abs(v), t.dtype))
        for name, t in _types(instance).items()
        for v in [draw(name, t, Distribution(), seed)]
    }


def _special(instance: Instance, seed: int, zeros: AspectStatus) -> Iterator[Values]:
    """NaN and infinities among other numbers; large numbers; and zeros of both signs, if the sides are the same at
    ``zeros``."""
    plain = _positive(instance, seed)
    floats = [name for name, t in _types(instance).items() if t.dtype in FLOATS]
    for special in (np.nan, np.inf, -np.inf):
        for name in floats:
            value = plain[name].copy()
            value.reshape(-1)[:1] = special
            yield {**plain, name: value}
    pools = (_not_finite, _large, *[_zeros_beside_infinities] * (zeros == "same"))
    for pool, turn in product(pools, range(SPECIAL_DRAWS)):
        yield _from(instance, seed, pool, pool.__name__, turn)
    for sign, name in product((1, -1), floats):
        value, dtype = plain[name].copy(), _types(instance)[name].dtype
        value.reshape(-1)[:1] = sign * LARGE[dtype]
        yield {**plain, name: as_stored(value, dtype)}


def _near_zero(instance: Instance, seed: int) -> Iterator[Values]:
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


def _zeros(instance: Instance, seed: int) -> Iterator[Values]:
    plain = _positive(instance, seed)
    floats = [name for name, t in _types(instance).items() if t.dtype in FLOATS]
    for zeros in [[name] for name in floats] + [floats] * (len(floats) > 1):
        yield plain | {name: 0 * plain[name] for name in zeros}


def _constants(instance: Instance, seed: int, ops: OpTable) -> Iterator[Values]:
    """Numbers that a constant of the rule, added or subtracted, makes 0."""
    plain = _positive(instance, seed)
    floats = [name for name, t in _types(instance).items() if t.dtype in FLOATS]
    known = map(float, constants((instance.before, instance.after), ops)[:MOST_CONSTANTS])
    for c, name in product((s * c for c in known for s in (1, -1)), floats):
        yield plain | {name: as_stored(np.full_like(plain[name], c), _types(instance)[name].dtype)}


# ---- differences ------------------------------------------------------------------------------------------


def _rounds(x: Array, y: Array, runs: Runs, _: Array) -> Array:
    if any(r.wrapped for r in runs):
        return np.zeros(x.shape, np.bool_)
    both = np.isfinite(x) & np.isfinite(y) if x.dtype.kind == "f" else np.True_
    return np.asarray(both & (x != y))


def _wraps(x: Array, y: Array, runs: Runs, _: Array) -> Array:
    return np.asarray((x != y) & any(r.wrapped for r in runs))


def _is_special(x: Array, y: Array, _: Runs, rounding: Array) -> Array:
    """What is not finite on one side alone, or has another sign; and truth values that are other ones."""
    if x.dtype.kind != "f":
        return np.asarray(x != y)
    p, q = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(p) & np.isfinite(q)
    return np.asarray(np.where(finite, np.abs(p - q) > rounding, ~((p == q) | (np.isnan(p) & np.isnan(q)))))


def _is_no_number(x: Array, y: Array, _: Runs, rounding: Array) -> Array:
    """What is finite on one side alone."""
    return np.asarray(np.isfinite(x) != np.isfinite(y))


def _overflows(x: Array, y: Array, runs: Runs, rounding: Array) -> Array:
    """What is special if one side alone has infinities on the way, else what is finite on one side alone. Numbers
    next to 0 are lost by rounding, too."""
    left, right = runs
    counts = _is_no_number if left.infinite == right.infinite else _is_special
    return counts(x, y, runs, rounding)


def _example(drawn: Iterable[tuple[Instance, Values]], counts: Counts, machine: MachineArithmetic) -> str:
    """The first values for which the sides of an instance differ, made simpler; "" without any."""
    for instance, values in drawn:
        found = _difference(instance, values, counts, machine)
        if found is not None:
            return _told(instance, *_simpler(instance, values, found, counts, machine))
    return ""


def _difference(
    instance: Instance, values: Values, counts: Counts, machine: MachineArithmetic
) -> tuple[float, float] | None:
    try:
        left, right = machine.run(instance.before, values), machine.run(instance.after, values)
    except ExecutionError:
        return None
    least = min((DIGITS[t] for t in _nodes(instance) if t in FLOATS), default=DIGITS["f64"])
    last = 2.0 ** (LAST_BITS - least)
    on_the_way = last * max(left.largest, right.largest) if left.infinite == right.infinite else 0.0
    for x, y in zip(left.outputs, right.outputs, strict=True):
        rounding = on_the_way + max(TOLERANCE, last) * np.maximum(np.abs(x), np.abs(y)).astype(np.float64)
        unequal = counts(x, y, (left, right), rounding)
        if unequal.any():
            index = place(unequal)
            return float(x[index]), float(y[index])
    return None


def _simpler(
    instance: Instance, values: Values, found: tuple[float, float], counts: Counts, machine: MachineArithmetic
) -> tuple[Values, tuple[float, float]]:
    """With elements set to 1 as long as the sides differ."""
    effort = SIMPLER if sum(v.size for v in values.values()) <= SIMPLER else 0
    for name, k in [(n, k) for n, v in values.items() for k in range(v.size)][:effort]:
        changed = values[name].copy()
        changed.reshape(-1)[k] = 1
        again = _difference(instance, {**values, name: changed}, counts, machine)
        if again is not None:
            values, found = {**values, name: changed}, again
    return values, found


def _told(instance: Instance, values: Values, found: tuple[float, float]) -> str:
    """As in ``x = 200, y = 100 in u8: 44 on the left, 300 on the right``."""
    types = _types(instance)
    attributes = instance.assignment.attrs.items()
    infinite = [f"{name} = {v}" for name, v in attributes if isinstance(v, float) and np.isinf(v)]
    given = ", ".join([*infinite, *(f"{name} = {_text(v)}" for name, v in values.items())])
    if len(given) > LONGEST:
        given = ", ".join([*infinite, *(f"{name} : {t}" for name, t in types.items())])
        given = given if len(given) <= LONGEST else ", ".join(dict.fromkeys(map(str, types.values())))
    elif types:
        given += f" in {', '.join(dict.fromkeys(t.dtype for t in types.values()))}"
    left, right = apart(*found)
    return f"{given or 'always'}: {left} on the left, {right} on the right"


def _text(x: Array) -> str:
    """All digits of all elements."""
    if x.ndim:
        return f"[{', '.join(map(_text, x))}]"
    return str(x[()]).removesuffix(".0").replace("nan", "NaN")
