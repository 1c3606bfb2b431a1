"""The arithmetic of exact evaluation. Operators are defined once (`operators`), for every arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Generic

from tensat_dl.core.graph import Node
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.verify.exact.constants import LARGEST_DENOMINATOR
from tensat_dl.verify.execute import V


class OutOfReach(Exception):
    """This arithmetic has no exact counterpart of an operation of the graph. The message names it."""


class Arithmetic(ABC, Generic[V]):
    """Tensors of one kind of number, of type ``V``. Operands broadcast as in NumPy.

    Functions that are handed in work on NumPy arrays of whole numbers and of objects alike. ``terms`` says of how
    many numbers, or products of two numbers, an element of the result is the sum at most.

    ``stand_ins`` collects the names of functions that random ones stood in for, ``rounded`` the constants that are
    rounded. If there are any of these, equal graphs may differ here. ``constants`` collects all constants.

    ``keeps_sigmoid`` says whether sigmoid is a function in its own right, or defined by exp.
    """

    def __init__(self, keeps_sigmoid: bool = False) -> None:
        self.keeps_sigmoid = keeps_sigmoid
        self.stand_ins: set[str] = set()
        self.rounded: set[str] = set()
        self.constants: set[Fraction] = set()

    def note_constant(self, value: Fraction) -> None:
        """To be called for each constant."""
        self.constants.add(value)
        if value.denominator > LARGEST_DENOMINATOR:
            self.rounded.add(f"the constant {float(value)!r}")

    @abstractmethod
    def dtype(self, x: V) -> str:
        """``f64``, ``i64`` or ``bool``: which of these stands for the tensor's element type."""

    @abstractmethod
    def whole(self, array: Array, like: V | None = None) -> V:
        """Given whole numbers, for operations with tensors like this one."""

    @abstractmethod
    def constant(self, value: Fraction, shape: tuple[int, ...], integer: bool) -> V:
        """Every element is ``value``. ``integer`` says whether the tensor has an integer type."""

    @abstractmethod
    def add(self, x: V, y: V) -> V: ...

    @abstractmethod
    def subtract(self, x: V, y: V) -> V: ...

    @abstractmethod
    def multiply(self, x: V, y: V) -> V: ...

    @abstractmethod
    def divide(self, x: V, y: V) -> V:
        """Raises `ZeroDivisionError` where a divisor is zero."""

    def choose(self, c: V, x: V, y: V) -> V:
        """x where c holds, y elsewhere: y + c (x - y), which is right for any c that is 0 or 1."""
        return self.add(y, self.multiply(c, self.subtract(x, y)))

    @abstractmethod
    def move(self, function: Callable[[Sequence[Array]], Array], xs: Sequence[V]) -> V:
        """Data movement: each element of the result is one of the operands' or zero."""

    @abstractmethod
    def sums(self, function: Callable[[Array], Array], terms: int, x: V) -> V: ...

    @abstractmethod
    def products(self, function: Callable[[Array, Array], Array], terms: int, x: V, y: V) -> V: ...

    @abstractmethod
    def largest(
        self, sums: Callable[[Array], Array], largest: Callable[[Array], Array], terms: int, x: V
    ) -> V:
        """Each element of the result is the largest of at most ``terms`` elements of the operand, as the function
        ``largest`` computes it. ``sums`` gives the sums of the same elements."""

    @abstractmethod
    def pick(self, function: Callable[[Array, Array], Array], x: V, places: V) -> V:
        """Elements of x at places, which are integers that have to be known."""

    @abstractmethod
    def typed(self, x: V, to: str) -> V:
        """The numbers in another element type: see `tensat_dl.ops.semantics.arrays.wrapped`, and 0 is false."""

    @abstractmethod
    def function(self, name: str, x: V) -> V:
        """The elementwise function of this name, or a keyed random function in its place."""

    @abstractmethod
    def opaque(self, node: Node, xs: Sequence[V]) -> tuple[V, ...]:
        """A keyed random function of all operands, in place of an operator known by its types alone."""
