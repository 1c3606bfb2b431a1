"""What a discovery has done so far, kept in a file beside its output, so that it can go on after an interruption.

A discovery that goes on takes the same steps again; what it had done is answered from here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensat_dl.core.graph import TensorType
from tensat_dl.discover.candidates import Equation, Tree
from tensat_dl.discover.generalise import General
from tensat_dl.files import write
from tensat_dl.kept import code_digest

#: Seconds between two writes: at first, and at most. They double.
FIRST_PAUSE, PAUSE = 1.0, 10.0
#: The parts of the program that answers depend on.
_CODE = ("core", "discover", "engine", "lang", "ops", "rewrite", "verify")


def key_of(*given: object) -> str:
    """Tells questions apart, and versions of the program."""
    return hashlib.sha256(repr((given, code_digest(*_CODE))).encode()).hexdigest()


@dataclass
class Memo:
    """Answers by the key of their question."""

    path: Path | None
    key: str
    known: dict[str, Any] = field(default_factory=dict)
    _written: float = field(default_factory=time.monotonic)
    _pause: float = FIRST_PAUSE

    @staticmethod
    def at(path: Path | None, key: str, resume: bool) -> Memo:
        """The memo of a file, if it is about the same discovery; else an empty one."""
        memo = Memo(path, key)
        if resume and path is not None and path.exists():
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                memo.known = dict(data["known"]) if data["key"] == key else {}
            except (OSError, ValueError, TypeError, KeyError):  # damaged: begin anew
                memo.known = {}
        return memo

    def note(self, key: str, data: Any) -> None:
        """Keeps an answer, and now and then writes all of them."""
        self.known[key] = data
        if time.monotonic() - self._written > self._pause:
            self.write()
            self._pause = min(2 * self._pause, PAUSE)

    def write(self) -> None:
        if self.path is not None:
            write(str(self.path), json.dumps({"key": self.key, "known": self.known}) + "\n")
        self._written = time.monotonic()

    def remove(self) -> None:
        """The discovery is complete: there is nothing to go on with."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


# ---- as plain data ----------------------------------------------------------------------------------------


def candidate_to_data(c: Equation) -> Any:
    return [_tree_to_data(c.left), _tree_to_data(c.right)]


def candidate_of(data: Any) -> Equation:
    left, right = map(_tree_of, data)
    return Equation(left, right)


def general_to_data(g: General | None) -> Any:
    if g is None:
        return None
    return [candidate_to_data(g.equation), g.arrow, g.texts, g.where, g.family]


def general_of(data: Any) -> General | None:
    if data is None:
        return None
    equation, arrow, texts, where, family = data
    return General(candidate_of(equation), arrow, _tuples(texts), _tuples(where), _tuples(family))


def _tree_to_data(t: Tree) -> Any:
    return [t.op, t.attrs, [_tree_to_data(a) for a in t.args], t.type.dtype, t.type.shape, t.variable]


def _tree_of(data: Sequence[Any]) -> Tree:
    op, attrs, args, dtype, shape, variable = data
    return Tree(op, _tuples(attrs), tuple(map(_tree_of, args)), TensorType(dtype, tuple(shape)), variable)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
