"""The egglog engine: runs programs, loads tables, reads rows.

An engine belongs to the thread that made it, and a running command cannot be interrupted; the explorer therefore
keeps it in a process of its own, and others don't import egglog.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, TypeVar

from tensat_dl.engine.syntax import Command, EgglogRule, Lit, Var, app, new_ruleset, run_once

if TYPE_CHECKING:
    from egglog.bindings import EGraph

T = TypeVar("T")

#: Tabs and line ends inside a string would break a table, and spaces around one are cut off; they travel as these
#: private-use characters.
ESCAPE = str.maketrans({"\t": "\ue000", "\n": "\ue001", "\r": "\ue002", " ": "\ue003"})
_UNESCAPE = str.maketrans({"\ue000": "\t", "\ue001": "\n", "\ue002": "\r", "\ue003": " "})


def bindings() -> Any:
    """The module ``egglog.bindings``. Nothing here uses the package around it, egglog as a language in Python: that
    takes as long to import as a small graph takes to explore."""
    name = "egglog.bindings"
    package = None if {"egglog", name} & sys.modules.keys() else find_spec("egglog")
    spec = None if package is None else PathFinder.find_spec(name, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return import_module(name)
    module = module_from_spec(spec)
    # It can't be loaded twice: egglog itself is to find it, if a script imports that.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Engine:
    """One egglog e-graph."""

    def __init__(self) -> None:
        # A file without a name: nothing is left behind, however the process ends.
        self._table = tempfile.TemporaryFile("w", encoding="utf-8")  # noqa: SIM115 (it lives as long as this)
        self._bindings = bindings()
        self._egraph: EGraph = self._bindings.EGraph()
        self._cleared: set[str] = set()  #: the tables that `clear` has a rule for
        self._tables: dict[str, FrozenTable] = {}  #: as they were last
        #: From values of primitive sorts, which stay the same for as long as the engine, to Python's.
        self._decoders = {
            "i64": _remembered(self._egraph.value_to_i64),
            "f64": _remembered(self._egraph.value_to_f64),
            "String": _remembered(lambda v: self._egraph.value_to_string(v).translate(_UNESCAPE)),
            "Ints": _remembered(
                lambda v: tuple(map(self._egraph.value_to_i64, self._egraph.value_to_vec(v)))
            ),
        }
        self.run(new_ruleset("clear"))

    def close(self) -> None:
        self._table.close()

    def run(self, *commands: Command) -> list[Any]:
        """Runs commands one at a time: the parser of egglog 13 takes time quadratic in the length of its text."""
        outputs: list[Any] = []
        for command in commands:
            outputs += self._egraph.run_program(*self._egraph.parse_program(str(command)))
        return outputs

    def changes(self, command: Command) -> bool:
        """Runs a schedule: whether anything changed."""
        outputs = self.run(command)
        return any(isinstance(o, self._bindings.RunScheduleOutput) and o.report.updated for o in outputs)

    def matches(self, ruleset: str) -> tuple[dict[str, int], bool]:
        """Runs a ruleset once: matches by egglog rule, and whether anything changed."""
        counts: dict[str, int] = {}
        updated = False
        for output in self.run(run_once(ruleset)):
            if isinstance(output, self._bindings.RunScheduleOutput):
                updated = updated or output.report.updated
                for name, n in output.report.num_matches_per_rule.items():
                    counts[name] = counts.get(name, 0) + n
        return counts, updated

    def load(self, relation: str, rows: Iterable[Sequence[int | float | str]]) -> None:
        """Adds rows to a relation of primitive columns."""
        text = "".join(
            "\t".join(c.translate(ESCAPE) if isinstance(c, str) else repr(c) for c in row) + "\n"
            for row in rows
        )
        if not text:
            return
        self._table.seek(0)
        self._table.truncate()
        self._table.write(text)
        self._table.seek(0)  # some systems read on from here
        self.run(app("input", Var(relation), Lit(f"/dev/fd/{self._table.fileno()}")))

    def clear(self, origins: Mapping[str, str]) -> None:
        """Deletes all rows; what is declared stays."""
        self.learn_to_clear(origins)
        self.run(run_once("clear"))

    def learn_to_clear(self, origins: Mapping[str, str]) -> None:
        """Declares the rules of `clear` for tables that have rows by now. Rules do not match all rows of a
        constructor, since some may be hidden from them, but all of its function in ``origins``, which has a row for
        each."""
        known = {name: table.function for name, table in self._tables.items()}
        for name, size in self.sizes().items():
            if name in self._cleared or not size:
                continue
            if name not in known:
                known = self._egraph.freeze().functions
            self._cleared.add(name)
            columns = [Var(f"a{i}") for i in range(len(known[name].input_sorts))]
            row = app(origins.get(name, name), *columns)
            gone = app("delete", app(name, *columns))
            self.run(EgglogRule(f"clear {name}", "clear", (row,), (gone,), "one line"))

    def sizes(self) -> dict[str, int]:
        """The number of rows of each table."""
        (found,) = self.run(app("print-size"))
        return dict(found.sizes)

    def freeze(self) -> Frozen:
        for name, function in self._egraph.freeze().functions.items():
            known = self._tables.get(name)
            if known is None or known.function != function:
                self._tables[name] = FrozenTable(function)
        return Frozen(dict(self._tables), self._decoders)


def _remembered(decode: Any) -> Any:
    """A function that decodes each value once."""
    known: dict[Any, Any] = {}

    def look_up(value: Any) -> Any:
        found = known.get(value)
        if found is None:
            found = known[value] = decode(value)
        return found

    return look_up


class FrozenTable:
    """The rows of a function. The next `Frozen` has the same object if they have stayed as they are, so what is made
    of them is made once."""

    def __init__(self, function: Any) -> None:
        self.function = function
        #: By name, with the other tables that it was made of.
        self._made: dict[str, tuple[tuple[FrozenTable, ...], Any]] = {}

    @property
    def rows(self) -> Sequence[Any]:
        """With ``inputs`` and ``output``. Each access copies them."""
        found: Sequence[Any] = self.function.rows
        return found

    def made(self, what: str, make: Callable[[Sequence[Any]], T], *others: FrozenTable) -> T:
        """The value of ``make`` for the rows, which is made again for other ``others``."""
        known = self._made.get(what)
        if known is None or known[0] != others:
            known = self._made[what] = others, make(self.rows)
        found: T = known[1]
        return found


class Frozen:
    """The rows of all functions at one moment. Values of sort T are hashable and equal if they are one e-class."""

    def __init__(self, tables: Mapping[str, FrozenTable], decoders: Mapping[str, Any]) -> None:
        self._tables = tables
        self._decoders = decoders
        self.named: dict[int, Any] = {}  #: e-classes by the handles that they have got since

    def decoder(self, sort: str) -> Any:
        """A function from a value of a primitive sort to its Python value."""
        return self._decoders[sort]

    def table(self, function: str) -> FrozenTable | None:
        """None if the function does not exist."""
        return self._tables.get(function)

    def rows(self, function: str) -> Sequence[Any]:
        """Rows with ``inputs`` and ``output``; empty if the function does not exist."""
        found = self._tables.get(function)
        return found.rows if found is not None else ()

    def by_handle(self) -> Iterator[tuple[int, Any]]:
        """Every handle, and the e-class that it names now."""
        number = self.decoder("i64")
        yield from ((number(row.inputs[0]), row.output) for row in self.rows("by_id"))
        yield from self.named.items()

    def rows_of(self, relation: str) -> list[tuple[Any, ...]]:
        """The rows of a relation."""
        return [tuple(row.inputs) for row in self.rows(relation)]
