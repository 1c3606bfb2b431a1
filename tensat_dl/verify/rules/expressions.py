"""Symbolic integers and conditions as Python functions of the values of unknowns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any

from tensat_dl.ops.functions import FUNCTIONS
from tensat_dl.ops.symbolic import Atom, Condition, EvaluationError, Opaque, Sym, select
from tensat_dl.rewrite.facts import Facts

#: Values of unknowns by atom, such as ("dim", "x", 0): integers, words, floats, truth values.
Values = dict[Atom, Any]
#: Atoms that are integers by themselves; others are computed from these.
INTEGERS = ("dim", "attr", "elem", "factors")

_OPERATORS = {"div": "//", "mod": "%"}
_SIGNS = {"eq": "==", "ne": "!=", "le": "<="}
#: What the functions name.
_NAMES = {"at": select, "holds": FUNCTIONS["holds"].apply, "inf": inf, "nan": nan}


def holds(function: Callable[[Values], Any], values: Values) -> bool:
    """Whether a condition's function is true. One that has no value, as it divides by zero, is not."""
    try:
        return bool(function(values))
    except (ArithmeticError, EvaluationError):
        return False


class FunctionWriter:
    """Writes expressions over unknowns as Python text, with what is known of them put in place."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def function(self, x: Any) -> Callable[[Values], Any]:
        return self.compiled(self.text(x))

    @staticmethod
    def compiled(text: str) -> Callable[[Values], Any]:
        """The function of ``v``, the values by atom, that a text of this class says."""
        result: Callable[[Values], Any] = eval(f"lambda v: {text}", _NAMES)
        return result

    def text(self, x: Any) -> str:
        if isinstance(x, Sym):
            return "(" + " + ".join(self._term(m, k) for m, k in x.terms) + ")"
        if isinstance(x, Condition):
            return self._condition(x)
        if isinstance(x, Opaque):
            value = self._facts.value(x)
            return f"v[{value.atom!r}]" if isinstance(value, Opaque) else repr(value)
        return repr(x)

    def unknowns(self, x: Any) -> frozenset[Atom]:
        """The atoms whose values an expression needs."""
        if isinstance(x, Sym):
            known = self._facts.known
            base = [a for a in x.mentioned if a[0] in INTEGERS]
            return frozenset(b for a in base for b in (self.unknowns(known[a]) if a in known else (a,)))
        if isinstance(x, Opaque):
            value = self._facts.value(x)
            return frozenset((value.atom,)) if isinstance(value, Opaque) else frozenset()
        if isinstance(x, Condition):
            if x.kind in ("weight", "start"):
                return frozenset(((x.kind, *x.args),))
            return frozenset(a for part in x.args for a in self.unknowns(part))
        return frozenset()

    def _term(self, monomial: Sequence[Atom], k: int) -> str:
        return " * ".join([str(k), *(self._atom(a) for a in monomial)])

    def _atom(self, a: Atom) -> str:
        kind = a[0]
        if kind in _OPERATORS:
            return f"({self.text(a[1])} {_OPERATORS[kind]} {self.text(a[2])})"
        if kind in ("max", "min"):
            return f"{kind}({self.text(a[1])}, {self.text(a[2])})"
        if kind == "select":
            items = "".join(f"{self.text(i)}, " for i in a[1])
            return f"at(({items}), {self.text(a[2])})"
        known = self._facts.known.get(a)
        return f"v[{a!r}]" if known is None else self.text(known)

    def _condition(self, c: Condition) -> str:
        match c.kind:
            case "eq" | "ne" | "le":
                return f"({self.text(c.args[0])} {_SIGNS[c.kind]} 0)"
            case "same":
                return f"({self.text(c.args[0])} == {self.text(c.args[1])})"
            case "below":
                return f"({self.text(c.args[0])} < {self.text(c.args[1])})"
            case "holds":
                return f"holds({self.text(c.args[0])}, {self.text(c.args[1])})"
            case "and" | "or":
                return "(" + f" {c.kind} ".join(self._condition(x) for x in c.args) + ")"
            case "not":
                return f"(not {self._condition(c.args[0])})"
        return f"v[{(c.kind, *c.args)!r}]"  # weight, start
