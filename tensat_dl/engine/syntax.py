"""egglog as data: terms, facts, actions, rules and declarations, and how each is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Var:
    """A symbol: a variable of a rule, a ruleset, a sort. A ``part`` distinguishes the variables of one name: its
    type, its elements."""

    name: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.name}.{self.part}" if self.part else self.name


#: How texts are quoted.
_IN_TEXT = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})


@dataclass(frozen=True, slots=True, eq=False)
class Lit:
    """A literal: a number, a text or a truth value. Literals are equal if they are written alike: 0.0, -0.0, 0 and
    false are four."""

    value: int | float | str

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return '"' + self.value.translate(_IN_TEXT) + '"'
        return repr(self.value).lower()  # truth values have no capitals

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lit) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@dataclass(frozen=True, slots=True)
class App:
    """A constructor, function, relation or primitive of its arguments; facts, actions and most commands are of this
    form, too."""

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


#: The engine takes time in proportion to the square of a rule's length to learn it. Of facts of more characters,
#: `shared` saves more time than it takes.
LONG = 2_000
#: Functions of numbers and lists: they have a value, or there is no match.
_COMPUTED = frozenset({"+", "-", "*", "/", "%", "max", "min", "vec-get", "vec-of"})


def shared(facts: Iterable[App]) -> list[App]:
    """The facts with a variable in place of each number or list that they compute several times."""
    known: dict[tuple[object, ...], App] = {}  # each term once
    users = Counter[int]()  # of a term, by its identity: in how many terms and facts it is

    def one(term: App) -> App:
        args: list[Term] = []
        key: list[object] = [term.function]
        for a in term.args:
            args.append(one(a) if isinstance(a, App) else a)
            key.append(id(args[-1]) if isinstance(a, App) else a)
        found = known.get(tuple(key))
        if found is None:
            found = known[tuple(key)] = App(term.function, tuple(args))
            users.update(id(a) for a in args if isinstance(a, App))
        return found

    out: list[App] = []
    variables: dict[int, Var] = {}

    def parts(term: App) -> App:
        args: list[Term] = []
        for a in term.args:
            if not isinstance(a, App):
                args.append(a)
            elif users[id(a)] < 2 or a.function not in _COMPUTED:
                args.append(parts(a))
            else:
                if id(a) not in variables:
                    plain = parts(a)
                    variables[id(a)] = Var("shared", str(len(variables)))
                    out.append(equal(variables[id(a)], plain))
                args.append(variables[id(a)])
        return App(term.function, tuple(args))

    for fact in [one(fact) for fact in facts]:
        out.append(parts(fact))
    return out


# ---- commands ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """Lines of text: comments, and the common beginning of all programs."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Declaration:
    """A table with columns of these sorts. A constructor and a function have a ``value``; ``merge`` says what two
    values of a function become."""

    kind: Literal["relation", "constructor", "function"]
    name: str
    sorts: tuple[str, ...]
    value: str = ""
    merge: Term | None = None

    def __str__(self) -> str:
        words = [self.kind, self.name, f"({' '.join(self.sorts)})"]
        words += [self.value] if self.value else []
        words += [":merge", str(self.merge)] if self.merge is not None else []
        return f"({' '.join(words)})"


@dataclass(frozen=True, slots=True)
class EgglogRule:
    """An egglog rule. Its layout is one line, a line for each fact, or one for each fact and each action."""

    name: str
    ruleset: str
    body: tuple[App, ...]
    actions: tuple[App, ...]
    layout: Literal["one line", "facts", "facts and actions"] = "facts and actions"

    def __str__(self) -> str:
        facts, parts = (" ", " ") if self.layout == "one line" else ("\n       ", "\n      ")
        actions = facts if self.layout == "facts and actions" else " "
        body = facts.join(map(str, self.body))
        if len(body) > LONG:
            body = facts.join(map(str, shared(self.body)))
        return parts.join(
            (
                f"(rule ({body})",
                f"({actions.join(map(str, self.actions))})",
                f":ruleset {self.ruleset} :name {Lit(self.name)})",
            )
        )


Command = App | Text | Declaration | EgglogRule


def written(commands: Iterable[Command]) -> str:
    """A program as text, each command on lines of its own."""
    return "\n".join(map(str, commands)) + "\n"


def comment(text: str) -> Text:
    return Text("\n".join(f"; {line}" for line in text.splitlines()))


def relation(name: str, *sorts: str) -> Declaration:
    return Declaration("relation", name, sorts)


def new_ruleset(name: str) -> App:
    return app("ruleset", Var(name))


def run_once(ruleset: str) -> App:
    return app("run", Var(ruleset), Lit(1))


def saturate(*rulesets: str) -> App:
    """Runs one ruleset after the other, each until it changes nothing."""
    return App("run-schedule", tuple(app("saturate", Var(name)) for name in rulesets))


def by_id(handle: Term) -> App:
    """The e-class that a handle names."""
    return app("by_id", handle)
