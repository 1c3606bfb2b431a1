"""Cells and derivations in several processes. What was found is kept for each user, so that the same command goes on
after an interruption, and examines again only what has changed."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tensat_dl.core.progress import Progress
from tensat_dl.coverage.catalogue import stated
from tensat_dl.coverage.cells import Axioms, Cell, CellExaminer, Finding, questions
from tensat_dl.coverage.equations import Law
from tensat_dl.discover.memo import Memo, key_of
from tensat_dl.discover.work import MEMORY
from tensat_dl.jobs.job import Job, Work, Workers
from tensat_dl.jobs.run import Where
from tensat_dl.jobs.run import done as run
from tensat_dl.kept import code_digest, folder
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.rules.prover import prover

Key = TypeVar("Key")

#: A task whose process died is tried once more.
RETRIES = 1


@dataclass(frozen=True, slots=True)
class Examination:
    """Gives the cell of an operator and a transformation, without derivations."""

    op: str
    transformation: str


@dataclass(frozen=True, slots=True)
class Derivation:
    """Gives the derivation of an equation."""

    law: Law


def task_runner(
    ops: tuple[OpDecl, ...], sources: tuple[Axioms, ...]
) -> Callable[[Examination | Derivation], Any]:
    """Does the tasks of a worker."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    examiner = CellExaminer(OpTable(ops), sources, bool(prover()))

    def answer(task: Examination | Derivation) -> Any:
        try:
            if isinstance(task, Examination):
                return examiner.cell(task.op, task.transformation)
            return examiner.derivation(task.law)
        except MemoryError:
            return _lost(task, "more memory than there is")

    return answer


@dataclass(frozen=True, slots=True)
class Covered:
    """Cells in the order in which they were asked for, after Ctrl-C those that were complete."""

    cells: tuple[Cell, ...]
    interrupted: bool = False


def coverage(
    wanted: Sequence[tuple[str, str]],
    ops: OpTable,
    sources: Sequence[Axioms],
    where: Where,
    progress: Progress,
    again: bool = False,
) -> Covered:
    """Examines cells, by operator and transformation. Ctrl-C ends it with those that are complete. ``again`` does not
    look at what is known."""
    memo = Memo.at(_place(), code_digest("coverage"), resume=True)
    known = _Known.of(memo, sources)
    keys = [_key(ops, *w) for w in wanted]
    for key in keys if again else ():
        memo.known.pop(key, None)
    interrupted = False
    work = Work("tensat_dl.coverage.work:task_runner", (tuple(ops.values()), tuple(sources)), retries=RETRIES)
    with where.workers(work) as workers:
        try:
            progress.phase("examine")
            left = {
                key: Examination(*w) for key, w in zip(keys, wanted, strict=True) if key not in memo.known
            }
            _run(workers, left, known.keep, len(keys), progress)
            progress.phase("derive")
            laws = [a.law for key in keys for a in cell_of(memo.known[key]).findings if a.status == "true"]
            tasks = {law: Derivation(law) for law in laws if again or not known.has(law)}
            _run(workers, tasks, known.note, len(set(laws)), progress)
        except KeyboardInterrupt:
            interrupted = True
    with suppress(OSError):
        memo.write()
    cells = (cell_of(memo.known[key]) for key in keys if key in memo.known)
    complete = (c for c in cells if all(a.status == "false" or known.has(a.law) for a in c.findings))
    return Covered(tuple(map(known.derived, complete)), interrupted)


@dataclass(frozen=True, slots=True)
class _Known:
    """The derivations that a memo has, whose file need not be there. One holds as long as its rules are what they
    were, and no rules that are asked first have changed; that there is none, as long as no rules have."""

    memo: Memo
    sources: Sequence[Axioms]
    digests: Mapping[str, str]  #: of all rules of a source

    @staticmethod
    def of(memo: Memo, sources: Sequence[Axioms]) -> _Known:
        return _Known(memo, sources, {s.name: key_of([r.content for r in s.rules]) for s in sources})

    def has(self, law: Law) -> bool:
        data = self.memo.known.get(self._key(law))
        return data is not None and data["of"] == self._of(data["source"], data["rules"])

    def keep(self, key: str, data: Any) -> None:
        """Notes an answer, also where it can't be written."""
        with suppress(OSError):
            self.memo.note(key, data)

    def note(self, law: Law, answer: tuple[str, tuple[str, ...]] | None) -> None:
        source, rules = answer or ("", ())
        of = self._of(source, rules)
        self.keep(self._key(law), {"source": source, "rules": list(rules), "of": of})

    def derived(self, cell: Cell) -> Cell:
        """The cell with derivations."""
        return replace(cell, findings=tuple(map(self._with_derivation, cell.findings)))

    def _with_derivation(self, finding: Finding) -> Finding:
        data = self.memo.known.get(self._key(finding.law))
        if finding.status == "false" or not data or not data["source"]:
            return finding
        return replace(finding, status="derived", source=data["source"], rules=tuple(data["rules"]))

    def _key(self, law: Law) -> str:
        return f"{[s.name for s in self.sources]} {law}"

    def _of(self, source: str, rules: Sequence[str]) -> str:
        """A digest of the rules that a derivation depends on: its own, and all of the sources before."""
        names = [s.name for s in self.sources]
        before = self.sources[: names.index(source)] if source in names else self.sources
        own = {r.content for s in self.sources if s.name == source for r in s.rules if r.declared in rules}
        return key_of(sorted(own), [self.digests[s.name] for s in before])


def _place() -> Path | None:
    """The file of what is known, if there is a place for it."""
    with suppress(OSError):
        folder("coverage").mkdir(parents=True, exist_ok=True)
        return folder("coverage") / "cells.json"
    return None


def _key(ops: OpTable, op: str, transformation: str) -> str:
    """The key of a cell: the declarations of its operator, its equations, and how they are examined."""
    own = [ops[name].meaning for name in sorted(ops.closure([op]))]
    asked = [
        [astuple(law) for law in q] for q in (*questions(ops[op], transformation), stated(op, transformation))
    ]
    return key_of(own, asked, prover())


def _run(
    workers: Workers,
    tasks: Mapping[Key, Examination | Derivation],
    note: Callable[[Key, Any], None],
    total: int,
    progress: Progress,
) -> None:
    """Does tasks, and notes the answers by their key. They are those of ``total`` that are not known."""
    keys = list(tasks)
    count = total - len(keys)
    progress.counting(count, total)
    jobs = [Job(str(i), task) for i, task in enumerate(tasks.values())]
    with closing(run(workers, jobs)) as ended:
        for i, e in ended:
            lost = f"its examination failed: {e.reply.reason}"
            answer = _lost(tasks[keys[i]], lost) if e.failed else e.reply.answer
            count += 1
            note(keys[i], asdict(answer) if isinstance(answer, Cell) else answer)
            progress.counting(count, total)


def _lost(task: Examination | Derivation, reason: str) -> Cell | None:
    """The answer to a task that took a process down, or took more memory than there is."""
    if isinstance(task, Derivation):
        return None
    return Cell(task.op, task.transformation, reason=reason)


def cell_of(data: Any) -> Cell:
    """A cell that was JSON."""
    findings = []
    for a in data["findings"]:
        law = Law(a["law"]["left"], a["law"]["right"], tuple(a["law"]["where"]))
        texts = {name: tuple(a[name]) for name in ("rules", "counterexample")}
        findings.append(Finding(**{**a, "law": law, **texts}))
    return Cell(data["op"], data["transformation"], tuple(findings), data["reason"])
