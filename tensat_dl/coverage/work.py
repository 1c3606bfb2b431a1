"""Cells and derivations in several processes. What was found is kept for each user, so that the same command goes on
after an interruption, and examines again only what has changed."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from tensat_dl.core.progress import Progress
from tensat_dl.coverage.catalogue import stated
from tensat_dl.coverage.cells import Answer, Cell, CellExaminer, Source, questions
from tensat_dl.coverage.equations import Form
from tensat_dl.discover.memo import Memo, key_of
from tensat_dl.discover.work import MEMORY
from tensat_dl.kept import folder
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.processes import Pool
from tensat_dl.verify.rules.prover import prover


@dataclass(frozen=True, slots=True)
class Examination:
    """Gives the cell of an operator and a transformation, without derivations."""

    op: str
    transformation: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """Gives the derivation of an equation."""

    form: Form


def serve(
    tasks: Iterator[Examination | Derivation], ops: tuple[OpDecl, ...], sources: tuple[Source, ...]
) -> Iterator[Any]:
    """The answers of a child process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    examiner = CellExaminer(OpTable(ops), sources, bool(prover()))
    for task in tasks:
        try:
            if isinstance(task, Examination):
                yield examiner.cell(task.op, task.transformation)
            else:
                yield examiner.derivation(task.form)
        except MemoryError:
            yield _lost(task)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Cells in the order in which they were asked for, after Ctrl-C those that were complete."""

    cells: tuple[Cell, ...]
    interrupted: bool = False


def coverage(
    wanted: Sequence[tuple[str, str]],
    ops: OpTable,
    sources: Sequence[Source],
    processes: int,
    progress: Progress,
    again: bool = False,
) -> Coverage:
    """Examines cells, by operator and transformation. Ctrl-C ends it with those that are complete. ``again`` does not
    look at what is known."""
    memo = Memo.at(_place(), "", not again)
    keys = [_key(ops, *w) for w in wanted]
    rules = key_of([r.content for s in sources for r in s.rules])
    interrupted = False
    with Pool(processes, "tensat_dl.coverage.work:serve", tuple(ops.values()), tuple(sources)) as pool:
        try:
            progress.phase("examine")
            _run(pool, memo, dict(zip(keys, (Examination(*w) for w in wanted), strict=True)), progress)
            progress.phase("derive")
            forms = [a.form for key in keys for a in cell_of(memo.known[key]).answers if a.status == "true"]
            _run(pool, memo, {f"{rules} {f}": Derivation(f) for f in forms}, progress)
        except KeyboardInterrupt:
            interrupted = True
    memo.write()
    cells = []
    for key in keys:
        if key in memo.known:
            cell = cell_of(memo.known[key])
            answers = [a if a.status == "false" else _derived(a, memo.known, rules) for a in cell.answers]
            if None not in answers:
                cells.append(replace(cell, answers=tuple(a for a in answers if a is not None)))
    return Coverage(tuple(cells), interrupted)


def _place() -> Path | None:
    """The file of what is known, if there is a place for it."""
    with suppress(OSError):
        folder("coverage").mkdir(parents=True, exist_ok=True)
        return folder("coverage") / "cells.json"
    return None


def _key(ops: OpTable, op: str, transformation: str) -> str:
    """The key of a cell: the declarations of its operator, and its equations."""
    own = [_declaration(ops[name]) for name in sorted(ops.closure([op]))]
    return key_of(own, questions(ops[op], transformation), stated(op, transformation), prover())


def _run(pool: Pool, memo: Memo, tasks: Mapping[str, object], progress: Progress) -> None:
    """Does the tasks whose answers are not known by their key."""
    left = [key for key in tasks if key not in memo.known]
    count = len(tasks) - len(left)
    progress.counting(count, len(tasks))

    def done(i: int, answer: object) -> None:
        nonlocal count
        count += 1
        memo.note(left[i], asdict(answer) if isinstance(answer, Cell) else answer)
        progress.counting(count, len(tasks))

    pool.run([tasks[key] for key in left], done, _lost)


def _lost(task: Examination | Derivation) -> Cell | None:
    """The answer to a task that took a process down."""
    if isinstance(task, Derivation):
        return None
    return Cell(task.op, task.transformation, reason="its examination takes more memory than there is")


def _derived(answer: Answer, known: Mapping[str, Any], rules: str) -> Answer | None:
    """An equation that is true with its derivation, if there is one; None where it was not looked for yet."""
    key = f"{rules} {answer.form}"
    if key not in known:
        return None
    if known[key] is None:
        return answer
    source, names = known[key]
    return replace(answer, status="derived", source=source, rules=tuple(names))


def cell_of(data: Any) -> Cell:
    """A cell that was JSON."""
    answers = []
    for a in data["answers"]:
        form = Form(a["form"]["left"], a["form"]["right"], tuple(a["form"]["where"]))
        texts = {name: tuple(a[name]) for name in ("rules", "counterexample")}
        answers.append(Answer(**{**a, "form": form, **texts}))
    return Cell(data["op"], data["transformation"], tuple(answers), data["reason"])


def _declaration(decl: OpDecl) -> list[object]:
    """What equations depend on."""
    return [getattr(decl, f.name) for f in fields(decl) if f.name not in ("doc", "span", "flops")]
