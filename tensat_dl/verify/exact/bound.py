"""The probability that graphs which differ agree on random values modulo two primes.

**Polynomials.** An output of a graph of polynomial operators is a polynomial in the elements of inputs and weights.
If two outputs differ as polynomials over the field F_p, their difference D is not zero, of a degree d, and at a
point drawn uniformly from the field D is zero with probability d / p at most (Schwartz, *Fast probabilistic
algorithms for verification of polynomial identities*, J. ACM 27, 1980; Zippel, *Probabilistic algorithms for sparse
polynomials*, EUROSAM 1979). With divisions a value is a quotient of polynomials of degrees (n, m); two such differ
iff n1 m2 - n2 m1 is not the zero polynomial, whose degree is max(n1 + m2, n2 + m1) at most.

**Two primes.** Everything is computed modulo p1 and modulo p2, from independent values. Both differences are zero
with probability d^2 / (p1 p2) at most.

**Divisors.** Values are drawn until no divisor is zero. Each is zero with probability degree / p at most, so that
some divisor is with the sum q of these at most. Given that none is, the probability of an error is multiplied by
1 / (1 - q) at most.

**Functions.** An elementwise function f is replaced by a random one, from pairs of residues to pairs of residues.
Take all applications f(t) in both graphs, and for each class of arguments t that are equal as expressions one fresh
indeterminate. If the graphs differ with these, which is to say that they are not equal for *every* f, then D is a
polynomial in them too, and the theorem applies if the values of f are independent and uniform. They are, unless two
arguments that differ as expressions have equal values, modulo both primes. For a pair of arguments that has a
probability of (n + m)^2 / (p1 p2) at most, by the theorem again, and of N applications there are N (N - 1) / 2
pairs. A function with f(0) = 0, such as tanh, has N more: of an argument with zero. An operator of unknown meaning
is such a function too, of all the elements of its operands.

**Beyond the bound.** Graphs that differ over the rationals are equal in a field F_p if p divides every coefficient of
D. If one of the primes does, only the other counts; if both do, the coefficients are multiples of about 2^62. And the
functions are not random but hashes with keys of 128 bits, whose bias is below 2^-32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Degrees:
    """Bounds on the degrees of numerator and denominator of each element of a tensor."""

    top: int
    bottom: int = 0

    def plus(self, other: Degrees) -> Degrees:
        return Degrees(self.of_difference(other), self.bottom + other.bottom)

    def times(self, other: Degrees) -> Degrees:
        return Degrees(self.top + other.top, self.bottom + other.bottom)

    def over(self, other: Degrees) -> Degrees:
        return Degrees(self.top + other.bottom, self.bottom + other.top)

    def summed(self, terms: int) -> Degrees:
        """A sum of this many of these, over the product of all denominators."""
        return Degrees(self.top + (terms - 1) * self.bottom, terms * self.bottom)

    def largest(self, other: Degrees) -> Degrees:
        return Degrees(max(self.top, other.top), max(self.bottom, other.bottom))

    def of_difference(self, other: Degrees) -> int:
        """Of the numerator of a difference."""
        return max(self.top + other.bottom, other.top + self.bottom)


@dataclass(slots=True)
class DegreeLedger:
    """The divisors and calls in both graphs, on which the bound depends."""

    divisors: int = 0  #: the degrees of all divisors' numerators, added up
    calls: dict[str, int] = field(default_factory=dict)  #: for each function how many arguments it was given
    arguments: dict[str, Degrees] = field(default_factory=dict)  #: and a bound on their degrees

    def divided(self, divisor: Degrees, size: int) -> None:
        self.divisors += divisor.top * size

    def called(self, name: str, argument: Degrees, size: int) -> None:
        self.calls[name] = self.calls.get(name, 0) + size
        self.arguments[name] = self.arguments.get(name, argument).largest(argument)

    def log2_error(self, outputs: Iterable[tuple[Degrees, Degrees]], primes: tuple[int, int]) -> float:
        """The bound for a pair of graphs with outputs of these degrees; 0 if it says nothing."""
        # constants alone have the degree 0, and then no error is possible: 1 is as good a bound
        wrong = max((x.of_difference(y) for x, y in outputs), default=0) ** 2 or 1
        for name, argument in self.arguments.items():
            n = self.calls[name]
            wrong += n * (n + 1) // 2 * (argument.top + argument.bottom) ** 2
        p1, p2 = primes
        # 1 / (1 - q) with q = divisors / p1 + divisors / p2, over p1 p2
        over = p1 * p2 - self.divisors * (p1 + p2)
        return math.log2(wrong) - math.log2(over) if wrong < over else 0.0
