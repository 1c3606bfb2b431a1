"""What machine arithmetic makes of a rule that is true of real numbers: whether both sides round alike, wrap around
alike, and have the same infinities, also where a divisor is zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from tensat_dl.core.graph import FLOATS, INTEGERS
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.verify.equivalence import place
from tensat_dl.verify.execute import ExecutionError
from tensat_dl.verify.rules import special_values as sv
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.machine import MachineArithmetic, MachineRun
from tensat_dl.verify.rules.special_values import DIGITS, Values, size_of, types_of
from tensat_dl.verify.rules.verdict import Aspect, AspectName, apart

#: Instances with more elements are not run; of the others so many of each element type are, the smallest first, and
#: so many at random numbers.
MOST_ELEMENTS = 20_000
OF_EACH_TYPE = 2
AT_RANDOM = 12
#: About how many elements an instance has that is in the middle.
MIDDLE = 150
#: How often an example is made simpler, and how long it may be.
SIMPLER = 24
LONGEST = 60
#: Numbers beside infinities may differ by rounding: by so much, relative; and by so many of the last bits, in the
#: narrowest float type, of the largest finite number on the way, unless one side alone has infinities there.
TOLERANCE = 1e-2
LAST_BITS = 4

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
    small = sorted((i for i in instances if size_of(i) <= MOST_ELEMENTS), key=size_of)
    random = ((i, v) for i in instances[:AT_RANDOM] if i in small for v in sv.at_random(i, seed))
    floats = [i for t in FLOATS for i in _with(small, t)[:OF_EACH_TYPE]]
    of_floats = sorted(floats, key=size_of)[: 2 * OF_EACH_TYPE]
    mixed = [i for i in (*of_floats, *_of_both(small)) if _has_floats(i)]
    mixed += sorted((i for i in small if _has_floats(i)), key=lambda i: abs(size_of(i) - MIDDLE))[
        :OF_EACH_TYPE
    ]
    mixed += [i for t in FLOATS for i in sorted(_with_places(small, t), key=_places)[-OF_EACH_TYPE:]]
    integers = {t: _with(small, t)[:OF_EACH_TYPE] for t in INTEGERS}
    opaque = any(i.before.opaque or i.after.opaque for i in instances)

    def aspect(name: AspectName, drawn: Iterable[tuple[Instance, Values]], counts: Counts) -> Aspect:
        if not small or (opaque and name != "rounding"):
            return Aspect(name, "not examined")
        found = _example(drawn, counts, machine)
        return Aspect(name, "differs", found) if found else Aspect(name, "same")

    rounding = ((i, v) for i in mixed for v in sv.near(i, seed))
    extreme = {
        t: chain(
            ((i, v) for i in f for v in sv.extreme(i, seed)), ((i, v) for i in f for v in sv.roots(i, seed))
        )
        for t, f in integers.items()
        if f
    }
    by_type = [(t, aspect("overflow", drawn, _wraps)) for t, drawn in extreme.items()]
    zeros = aspect("zero divisors", ((i, v) for i in of_floats for v in sv.zeros(i, seed)), _is_special)
    if zeros.status == "same":
        sums = ((i, v) for i in of_floats for v in sv.at_constants(i, seed, machine.ops))
        # Padding, and what else the rule has of its own, may be 0 whatever the inputs are.
        others = ((i, sv.positive(i, seed)) for i in instances[:AT_RANDOM] if i in small)
        zeros = aspect("zero divisors", chain(sums, others), _is_no_number)
    special = ((i, v) for i in of_floats for v in sv.special(i, seed, zeros.status))
    attributes = ((i, sv.positive(i, seed)) for i in infinite if set(FLOATS).issuperset(_nodes(i)))
    infinities = aspect("infinities", chain(special, attributes), _is_special)
    if infinities.status == "same":
        infinities = aspect(
            "infinities", ((i, v) for i in of_floats for v in sv.near_zero(i, seed)), _overflows
        )
    differ = [(t, a) for t, a in by_type if a.status == "differs"]
    ties = ((i, v) for i in mixed for v in sv.ties(i, seed))
    return (
        aspect("rounding", chain(rounding, random, ties), _rounds),
        Aspect("overflow", "differs", differ[0][1].example, tuple(t for t, _ in differ))
        if differ
        else aspect("overflow", (), _wraps),
        infinities,
        zeros,
    )


def _places(instance: Instance) -> int:
    """How many places are told apart: what they round to shows where these are many."""
    found = (n for g in (instance.before, instance.after) for n in g.nodes if n.op == "iota")
    return max((n.type.shape[k] for n in found if isinstance(k := n.attr("axis"), int)), default=0)


def _with_places(instances: Iterable[Instance], dtype: str) -> list[Instance]:
    """The instances with places and with numbers of an element type."""
    return [i for i in instances if dtype in _nodes(i) and _places(i)]


def _with(instances: Iterable[Instance], dtype: str) -> list[Instance]:
    """The instances with inputs of an element type."""
    return [i for i in instances if any(t.dtype == dtype for t in types_of(i).values())]


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
    types = types_of(instance)
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
