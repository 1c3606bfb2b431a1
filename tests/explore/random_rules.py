"""Random rules whose conditions and attributes are made of everything that the language can say of integers and
lists."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

#: The names that a rule's source binds: tensors x and y = reshape(..; shape = s), start a and stop b of a slice.
_INTEGERS = ("0", "1", "2", "6", "-1", "a", "b", "rank(x)", "rank(y)", "len(s)", "dim(x, 0)", "dim(y, -1)")
_PLACES = ("0", "1", "-1", "a", "a - 1", "b - 1", "a - b")
_LISTS = ("s", "shape(x)", "shape(y)", "[a, b]", "s[..-1]", "s[1..]", "shape(x)[..-1]", "[s[0], s[-1]]")


def integer(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.25:
        return r.choice((*_INTEGERS, *_INTEGERS, f"s[{r.choice(_PLACES)}]"))
    forms: tuple[Callable[[], str], ...] = (
        lambda: f"({integer(r, depth - 1)} {r.choice('++--**/%')} {integer(r, depth - 1)})",
        lambda: f"{r.choice(('prod', 'sum', 'len', 'max', 'min'))}({integers(r, depth - 1)})",
        lambda: f"{r.choice(('max', 'min'))}({integer(r, depth - 1)}, {integer(r, depth - 1)})",
        lambda: f"({integers(r, depth - 1)})[{r.choice(_PLACES)}]",
        lambda: f"-{integer(r, depth - 1)}",
    )
    return r.choice((forms[0], *forms))()


def integers(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.3:
        return r.choice(_LISTS)
    forms: tuple[Callable[[], str], ...] = (
        lambda: f"({integers(r, depth - 1)} ++ {integers(r, depth - 1)})",
        lambda: f"[{', '.join(integer(r, depth - 1) for _ in range(r.randint(1, 3)))}]",
        lambda: f"({integers(r, depth - 1)})[{r.choice(('', '0', '1'))}..{r.choice(('', '-1', '2'))}]",
        lambda: f"[{integer(r, depth - 1)} + i for i in 0..{r.choice(('2', 'len(s)', 'rank(x)'))}]",
        lambda: f"[s[i] * {integer(r, 0)} for i in 0..len(s)]",
        lambda: f"set({integers(r, depth - 1)}, {r.choice(('0', '-1'))}, {integer(r, depth - 1)})",
    )
    return r.choice(forms)()


def condition(r: Random, depth: int) -> str:
    compared = r.choice(("==", "!=", "<", "<=", ">", ">="))
    if depth == 0 or r.random() < 0.4:
        return f"{integer(r, depth)} {compared} {integer(r, depth)}"
    forms: tuple[Callable[[], str], ...] = (
        lambda: f"{integers(r, depth - 1)} {r.choice(('==', '!='))} {integers(r, depth - 1)}",
        lambda: f"({condition(r, depth - 1)} {r.choice(('and', 'or'))} {condition(r, depth - 1)})",
        lambda: f"not ({condition(r, depth - 1)})",
        lambda: f"{r.choice(('all', 'any'))}({integer(r, depth - 1)} {compared} s[i] for i in 0..len(s))",
        lambda: f"distinct({integers(r, depth - 1)})",
    )
    return r.choice(forms)()


def conditional(r: Random) -> str:
    """A rule whose condition is random."""
    y = "reshape(slice(x; axis = 0, start = a, stop = b); shape = s)"
    return f"rule r {{ y = {y} where {condition(r, 3)} => y = tanh({y}) }}"


def computing(r: Random) -> str:
    """A rule one of whose attributes is random."""
    y = "slice(x; axis = 0, start = a, stop = b)"
    new = f"reshape({y}; shape = {integers(r, 3)})"
    return f"rule r {{ y = reshape({y}; shape = s) => y = reshape({new}; shape = s) }}"


def joining(r: Random) -> str:
    """A rule with two results whose condition is random."""
    y, z = "reshape(x; shape = s)", "slice(x; axis = 0, start = a, stop = b)"
    return f"""rule r {{
  y = {y}
  z = {z}
  where {condition(r, 3)}
  =>
  y = relu(tanh({y}))
  z = tanh({z})
}}"""
