"""egglog as data: terms, facts, actions and rules, and how each is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of a rule. A ``part`` tells those apart that belong to one name: its type, its elements."""

    name: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.name}.{self.part}" if self.part else self.name


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal: a number, a text or a truth value."""

    value: int | float | str

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return '"' + self.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return repr(self.value).lower()  # truth values have no capitals


@dataclass(frozen=True, slots=True)
class App:
    """A constructor, function, relation or primitive of its arguments; facts and actions are of this form, too."""

    function: str
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"({' '.join([self.function, *map(str, self.args)])})"


Term = Var | Lit | App


def app(function: str, *args: Term) -> App:
    return App(function, args)


def equal(left: Term, right: Term) -> App:
    return App("=", (left, right))


def names(*terms: Term) -> Iterator[Var]:
    """The variables of terms, as often as they occur."""
    for term in terms:
        if isinstance(term, Var):
            yield term
        elif isinstance(term, App):
            yield from names(*term.args)


@dataclass(frozen=True, slots=True)
class EgglogRule:
    """An egglog rule."""

    name: str
    ruleset: str
    body: tuple[App, ...]
    actions: tuple[App, ...]

    def text(self, between: str = "\n       ") -> str:
        """The rule with each fact on a line; ``between`` is put between actions."""
        return self._written("\n       ", between, "\n      ")

    def line(self) -> str:
        """The rule on one line."""
        return self._written(" ", " ", " ")

    def _written(self, facts: str, actions: str, parts: str) -> str:
        lists = (f"({facts.join(map(str, self.body))})", f"({actions.join(map(str, self.actions))})")
        return parts.join((f"(rule {lists[0]}", lists[1], f":ruleset {self.ruleset} :name {Lit(self.name)})"))


def relation(name: str, *sorts: str) -> str:
    """The declaration of a relation."""
    return f"(relation {name} ({' '.join(sorts)}))"
