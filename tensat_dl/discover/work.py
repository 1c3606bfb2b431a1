"""The tasks of a discovery, which are jobs. The answers come in the order of the tasks, wherever these are done."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.core.rule import RewriteRule
from tensat_dl.discover.candidates import Equation, candidates
from tensat_dl.discover.generalise import General, Generaliser
from tensat_dl.discover.menu import Menu
from tensat_dl.discover.needed import derivation
from tensat_dl.discover.saturate import Chunk, derivable
from tensat_dl.discover.terms import World
from tensat_dl.discover.worlds import Leaves
from tensat_dl.engine.exploration import RuleAlarm
from tensat_dl.jobs.job import Job, Work, Workers
from tensat_dl.jobs.run import done as run
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.verify.rules.verify import verify_rules


@dataclass(frozen=True, slots=True)
class Explore:
    """Enumerates terms over leaves, up to a size, and gives the equations between them."""

    leaves: Leaves
    size: int


@dataclass(frozen=True, slots=True)
class Generalise:
    """Gives the most general form of an equation, if there is one; as a rule with two results with ``merge``."""

    candidate: Equation
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Derive:
    """Derives a rule from others. Gives the names of those that it takes, or None."""

    rule: RewriteRule
    others: tuple[RewriteRule, ...]


@dataclass(frozen=True, slots=True)
class Examine:
    """Gives the verdict on a rule, which is kept as `tensat-dl check` keeps it. None if it takes too much memory.

    It is with a proof, if there is one: a rule that is proved needs fewer tests, which takes less time."""

    rule: RewriteRule


Task = Examine | Explore | Generalise | Derive | Chunk
Answer = Verdict | list[Equation] | General | frozenset[str] | None
#: Bytes of memory that a process may take. Rules that match each other's results may fill any memory in one step.
MEMORY = 4 << 30


class TaskRunner:
    """Does tasks."""

    def __init__(self, menu: Menu) -> None:
        self.menu = menu
        self._generaliser = Generaliser(menu.ops, menu.functions)

    def __call__(self, task: Task) -> Answer:
        match task:
            case Explore(leaves, size):
                gc.disable()  # there are no cycles, and looking for some took a fifth of the time
                try:
                    world = World(self.menu, leaves)
                    world.grow(size)
                    return candidates(world, self.menu.ops)
                finally:
                    gc.enable()
            case Generalise(candidate, merge):
                return self._generaliser.merge(candidate) if merge else self._generaliser.general(candidate)
            case Examine(rule):
                try:
                    (verdict,) = verify_rules([rule], self.menu.ops, proofs=True)
                except MemoryError:
                    return None
                return verdict
            case Chunk():
                try:
                    return derivable(task, self.menu.ops)
                except (RuleAlarm, TsrError):
                    return []
            case Derive(rule, others):
                try:
                    return derivation(rule, others, self.menu.ops)
                except (RuleAlarm, TsrError):  # the others are false together: they derive nothing
                    return None


def task_runner(ops: tuple[OpDecl, ...], names: tuple[str, ...], numbers: tuple[float, ...]) -> TaskRunner:
    """Does the tasks of a worker."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return TaskRunner(Menu(OpTable(ops), names, numbers))


def work_of(menu: Menu) -> Work:
    """Tasks over the operators of a menu."""
    arguments = (tuple(menu.ops.values()), menu.names, menu.numbers)
    return Work("tensat_dl.discover.work:task_runner", arguments, retries=1)


def answers(
    workers: Workers, tasks: Sequence[Task], done: Callable[[int, Answer], None] = lambda i, a: None
) -> list[Any]:
    """The answers to tasks, in their order. ``done`` is told each as it comes. A task that takes more memory than
    there is has no answer: nothing is derived, no form is found."""
    found: dict[int, Answer] = {}
    jobs = [Job(str(i), task) for i, task in enumerate(tasks)]
    with closing(run(workers, jobs)) as ended:
        for i, e in ended:
            none: Answer = [] if isinstance(tasks[i], Explore | Chunk) else None
            found[i] = none if e.failed else e.reply.answer
            done(i, found[i])
    return [found[i] for i in range(len(tasks))]
