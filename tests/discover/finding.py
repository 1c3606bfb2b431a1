"""Small discoveries for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tensat_dl.core.diagnostics import Source
from tensat_dl.core.graph import TensorType
from tensat_dl.core.progress import Progress
from tensat_dl.cost.device import load_device
from tensat_dl.cost.model import CostModel
from tensat_dl.discover.candidates import Equation, Tree, candidates
from tensat_dl.discover.discover import Discovery, Settings, discover
from tensat_dl.discover.memo import Memo
from tensat_dl.discover.menu import Menu, menu
from tensat_dl.discover.terms import World
from tensat_dl.jobs.run import Where
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.prove.prove import axioms_of


@cache
def program(text: str = "") -> Program:
    return load_program("own.tsr", source=Source("own.tsr", text))


def menu_of(*ops: str, text: str = "") -> Menu:
    return menu(program(text).ops, ops)


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def world(ops: Menu, *leaves: tuple[int, ...], size: int = 2) -> World:
    """The terms over leaves of these shapes."""
    found = World(ops, tuple(f32(*shape) for shape in leaves))
    found.grow(size)
    return found


def equations(ops: Menu, *leaves: tuple[int, ...], size: int = 2) -> list[Equation]:
    return candidates(world(ops, *leaves, size=size), ops.ops)


def renamed(t: Tree, names: Sequence[int], ops: OpTable) -> Tree:
    """A term with other variables, and the operands of commutative operators in order again."""
    if t.variable >= 0:
        return Tree("", t.attrs, (), t.type, names[t.variable])
    args = sorted((renamed(a, names, ops) for a in t.args), key=lambda a: (-a.size, a.shape))
    plain = [renamed(a, names, ops) for a in t.args]
    return Tree(t.op, t.attrs, tuple(args if ops[t.op].commutative else plain), t.type)


def found(
    *ops: str,
    size: int = 2,
    text: str = "",
    about: tuple[str, ...] = (),
    leaves: int = 4,
    processes: int = 1,
    memo: Path | None = None,
    progress: Progress | None = None,
) -> Discovery:
    """A discovery over these operators. With a memo, it goes on with what that says."""
    chosen = menu_of(*ops, text=text)
    settings = Settings(size=size, leaves=leaves, about=frozenset(about))
    costs = CostModel(chosen.ops, load_device("h100"))
    known = axioms_of(program(text), ())
    return discover(chosen, known, settings, costs, Memo.at(memo, "test", True), Where(processes), progress)


def texts(discovery: Discovery) -> list[str]:
    """The rules without their names and comments."""
    return [r.general.text("r").removeprefix("rule r").strip() for r in discovery.rules]
