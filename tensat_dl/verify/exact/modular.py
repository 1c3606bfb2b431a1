"""Tensors modulo primes below 2^31, with the degrees that the bound on errors needs (see `bound`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd, prod

import numpy as np

from tensat_dl.beside import both, core_taken
from tensat_dl.core.graph import FLOATS, INTEGERS, Node
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.traits import having
from tensat_dl.verify.exact.arithmetic import Arithmetic, OutOfReach
from tensat_dl.verify.exact.bound import DegreeLedger, Degrees
from tensat_dl.verify.keyed import BLOCK, digest, generator, packed, scrambled

#: The two largest primes below 2^31.
PRIMES = (2**31 - 1, 2**31 - 19)

#: Primes that are drawn lie between this and 2^31.
LEAST_PRIME = 2**31 - 2**25

#: Of so many elements, residues modulo both primes are computed at the same time: of fewer, it takes less than a
#: thread takes to start.
AT_ONCE = 1 << 15
#: Sums of more products are not computed: digits would be too narrow (`Field.products`).
MOST_TERMS = 1 << 18
#: Functions of which f(0) = 0 is known. Padding with zeros, before or after, is the same to them.
KEEP_ZERO = having(lambda t: t.keeps_zero) | {"whole part", "is not zero"}
#: Integer types to which casts wrap around. Whole numbers stand for i64.
WRAPPED = frozenset(INTEGERS) - {"i64"}

CONSTANT = Degrees(0)
VARIABLE = Degrees(1)

Pair = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Residues:
    """A tensor modulo each of two primes; of machine integers if ``integer``, which divide in another way."""

    arrays: Pair
    degrees: Degrees
    integer: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.arrays[0].shape


class Modular(Arithmetic[Residues]):
    """Numbers modulo two primes. A random function takes both residues into account for each of its own.

    ``key`` decides what the random functions are. ``sigmoid`` is one of them if ``keeps_sigmoid``.
    """

    def __init__(self, primes: tuple[int, int], key: object, keeps_sigmoid: bool = True) -> None:
        super().__init__(keeps_sigmoid)
        self.fields = Field(primes[0]), Field(primes[1])
        self.key = key
        self.ledger = DegreeLedger()

    def dtype(self, x: Residues) -> str:
        return "i64" if x.integer else "f64"

    def whole(self, array: Array, like: Residues | None = None) -> Residues:
        integer = like is not None and like.integer
        return Residues(self._each(lambda f, _: f.residues(array), array.size), CONSTANT, integer)

    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> Residues:
        self.note_constant(value)

        def residues(field: Field, _: int) -> Array:
            if value.denominator % field.p == 0:
                raise OutOfReach(f"{value} is not a number modulo {field.p}")
            residue = value.numerator * pow(value.denominator, -1, field.p) % field.p
            return np.full(shape, residue, np.int64)

        return Residues(self._each(residues, prod(shape)), CONSTANT, integer)

    def variable(self, shape: tuple[int, ...], integer: bool, *key: object) -> Residues:
        """Independent random residues."""
        out = self._each(lambda f, i: f.drawn(shape, generator(self.key, *key, i)), prod(shape))
        return Residues(out, VARIABLE, integer)

    def add(self, x: Residues, y: Residues) -> Residues:
        return self._made(lambda f, a, b: f.residues(a + b), x.degrees.plus(y.degrees), x, y)

    def subtract(self, x: Residues, y: Residues) -> Residues:
        return self._made(lambda f, a, b: f.residues(a - b), x.degrees.plus(y.degrees), x, y)

    def multiply(self, x: Residues, y: Residues) -> Residues:
        return self._made(lambda f, a, b: f.multiply(a, b), x.degrees.times(y.degrees), x, y)

    def divide(self, x: Residues, y: Residues) -> Residues:
        if x.integer or y.integer:
            raise OutOfReach("quotients of integers are rounded")
        self.ledger.divided(y.degrees, y.arrays[0].size)
        return self._made(lambda f, a, b: f.multiply(a, f.inverse(b)), x.degrees.over(y.degrees), x, y)

    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[Residues]) -> Residues:
        degrees = reduce(Degrees.largest, (x.degrees for x in xs))
        return self._made(lambda _, *arrays: function(arrays), degrees, *xs)

    def sums(self, function: Callable[[Array], Array], terms: int, x: Residues) -> Residues:
        return self._made(lambda f, a: f.residues(function(a)), x.degrees.summed(terms), x)

    def products(
        self, function: Callable[[Array, Array], Array], terms: int, x: Residues, y: Residues
    ) -> Residues:
        if terms > MOST_TERMS:
            raise OutOfReach(f"sums of {terms} products are not exact")
        degrees = x.degrees.times(y.degrees).summed(terms)
        return self._made(lambda f, a, b: f.products(function, terms, a, b), degrees, x, y)

    def largest(
        self, sums: Callable[[Array], Array], largest: Callable[[Array], Array], terms: int, x: Residues
    ) -> Residues:
        """g(h(a) + h(b) + ..) for random functions g and h: it depends on the elements, but not on their order.

        What holds for all g and h holds for the largest number: with h(x) = exp(t x) and g(y) = log(y) / t that is
        the limit for large t.
        """
        self.stand_ins.add("max")
        return self._random("max g", self.sums(sums, terms, self._random("max h", x)))

    def choose(self, c: Residues, x: Residues, y: Residues) -> Residues:
        """Conditions are residues: what is not equal for these need not differ for 0 and 1."""
        self.stand_ins.add("select")
        return super().choose(c, x, y)

    def pick(self, function: Callable[[Array, Array], Array], x: Residues, places: Residues) -> Residues:
        raise OutOfReach("indices are integers, not residues")

    def typed(self, x: Residues, to: str) -> Residues:
        """Wrapping around is a function like any other, applied to the whole part."""
        if to in FLOATS:
            return Residues(x.arrays, x.degrees)
        if to == "bool":
            x = self.function("is not zero", x)
        elif not x.integer:
            x = self.function("whole part", x)
        if to in WRAPPED:
            x = self.function(f"wrapped to {to}", x)
        return Residues(x.arrays, x.degrees, integer=True)

    def function(self, name: str, x: Residues) -> Residues:
        self.stand_ins.add(name)
        return self._random(name, x)

    def _random(self, name: str, x: Residues) -> Residues:
        self.ledger.called(name, x.degrees, x.arrays[0].size)
        pairs = packed(*x.arrays)

        def residues(field: Field, i: int) -> Array:
            out = field.residues(scrambled(pairs, self.key, name, i) >> np.uint64(1))
            return np.where(pairs == 0, 0, out) if name in KEEP_ZERO else out

        return Residues(self._each(residues, pairs.size), VARIABLE, x.integer)

    def opaque(self, node: Node, xs: Sequence[Residues]) -> tuple[Residues, ...]:
        degrees = reduce(Degrees.largest, (x.degrees for x in xs), CONSTANT)
        self.stand_ins.add(node.op)
        self.ledger.called(node.op, degrees, 1)
        key = (node.op, sorted(node.attrs), [digest(array) for x in xs for array in x.arrays])
        return tuple(self.variable(t.shape, t.dtype not in FLOATS, *key, i) for i, t in enumerate(node.types))

    def _made(self, function: Callable[..., Array], degrees: Degrees, *xs: Residues) -> Residues:
        """The result of a function of a field and of arrays of residues for tensors."""
        out = self._each(
            lambda f, i: function(f, *(x.arrays[i] for x in xs)), sum(x.arrays[0].size for x in xs)
        )
        return Residues(out, degrees, any(x.integer for x in xs))

    def _each(self, function: Callable[[Field, int], Array], elements: int) -> Pair:
        """A result for each prime, from so many elements: of many, both at the same time."""
        if elements < AT_ONCE:
            return function(self.fields[0], 0), function(self.fields[1], 1)
        found: dict[int, Array] = {}

        def compute(i: int) -> None:
            with core_taken():  # so products are not divided once more
                found[i] = function(self.fields[i], i)

        both(lambda: compute(0), lambda: compute(1))
        return found[0], found[1]


def fresh_primes(numbers: Iterable[Fraction], *key: object) -> tuple[int, int]:
    """Two primes that the key decides, and that divide neither numerator nor denominator of these numbers.

    Graphs may have been written for known primes: x * 2147483647 is 0 modulo 2^31 - 1.
    """
    given = [n for x in numbers for n in (x.numerator, x.denominator) if n]
    drawn = generator("primes", *key)
    found: list[int] = []
    while len(found) < 2:
        p = int(drawn.integers(LEAST_PRIME, 2**31)) | 1
        if p not in found and _is_prime(p) and all(n % p for n in given):
            found.append(p)
    return found[0], found[1]


def _is_prime(p: int) -> bool:
    """Whether an odd number below 2^32, but a small one, is prime, by the test of Miller and Rabin (exact for these
    bases: Jaeschke 1993). Most have a small factor."""
    if gcd(p, _SMALL_FACTORS) > 1:
        return False
    twos = (p - 1 & 1 - p).bit_length() - 1
    for base in (2, 7, 61):
        x = pow(base, p - 1 >> twos, p)
        if x != 1 and all(pow(x, 1 << k, p) != p - 1 for k in range(twos)):
            return False
    return True


#: The product of small odd primes.
_SMALL_FACTORS = 3 * 5 * 7 * 11 * 13 * 17 * 19 * 23 * 29 * 31 * 37


class Field:
    """The field of p elements."""

    def __init__(self, p: int) -> None:
        if not 2 < p < 2**31:
            raise ValueError(f"{p} is not an odd prime below 2^31")
        self.p = p

    def drawn(self, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Independent random residues, all equally likely."""
        out = np.empty(prod(shape), np.int64)
        most = (1 << 31) // self.p * self.p
        for start in range(0, out.size, BLOCK):
            block = out[start : start + BLOCK]
            numbers = _of_31_bits(block.size, generator)
            while (beyond := numbers >= most).any():
                numbers[beyond] = _of_31_bits(int(np.count_nonzero(beyond)), generator)
            block[:] = numbers if most == self.p else numbers % self.p
        return out.reshape(shape)

    def residues(self, array: Array) -> Array:
        """Whole numbers below 2^63 in magnitude, modulo p."""
        return np.asarray(array % self.p, np.int64)

    def multiply(self, x: Array, y: Array) -> Array:
        """Products of residues fit into 62 bits."""
        return np.asarray(x * y % self.p, np.int64)

    def inverse(self, x: Array) -> Array:
        """x^(p - 2), which is 1 / x (Fermat). Raises `ZeroDivisionError` where an element is zero."""
        if not np.all(x):
            raise ZeroDivisionError
        result, power, exponent = np.ones_like(x), x, self.p - 2
        while exponent:
            if exponent & 1:
                result = self.multiply(result, power)
            power = self.multiply(power, power)
            exponent >>= 1
        return result

    def products(self, function: Callable[[Array, Array], Array], terms: int, x: Array, y: Array) -> Array:
        """A bilinear function of residues whose results are sums of at most ``terms`` products.

        It is computed in float64, where matrix products are fast, and exactly: the smaller operand is cut into
        digits, so narrow that a sum of products of digits and residues stays within 2^53. The larger operand, the
        weights of a layer for instance, is read as it is: to pass over it is what takes long where the other is a
        few rows.
        """
        assert 0 < terms <= MOST_TERMS
        bits = ((1 << 23) // terms).bit_length() - 1  # digits are from -2^(bits - 1) to 2^(bits - 1)
        if x.size <= y.size:
            whole = y.astype(np.float64)
            results = [function(digit, whole) for digit in _digits(x, bits)]
        else:
            whole = x.astype(np.float64)
            results = [function(whole, digit) for digit in _digits(y, bits)]
        out = self.residues(results.pop().astype(np.int64))
        while results:
            out = self.residues((out << bits) + results.pop().astype(np.int64))
        return out


def _of_31_bits(count: int, generator: np.random.Generator) -> Array:
    """Random numbers, two out of each word of the generator."""
    words = generator.bit_generator.random_raw(-(-count // 2)).astype("<u8", copy=False)
    return words.view("<u4")[:count] >> 1


def _digits(x: Array, bits: int) -> list[Array]:
    """Numbers from 0 to 2^31 in base 2^bits, as floats; the lowest digits come first. None is above 2^(bits - 1) in
    magnitude."""
    digits = []
    for _ in range(-(-32 // bits) - 1):
        higher = (x + (1 << bits - 1)) >> bits
        digits.append((x - (higher << bits)).astype(np.float64))
        x = higher
    return [*digits, x.astype(np.float64)]
