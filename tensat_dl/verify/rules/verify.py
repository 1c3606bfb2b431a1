"""`verify_rules`: the verdicts on rules, as far as they are known without examining rules again.

The library comes with the verdicts on its rules. The cache keeps all others on disk; their key is the rule, its
operators, and the code of the checker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from functools import cache

import numpy as np

from tensat_dl.core.rule import RewriteRule
from tensat_dl.files import write
from tensat_dl.jobs.job import Job, Work
from tensat_dl.jobs.run import Where, done
from tensat_dl.kept import code_digest, folder, forget_old
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.processes import cores
from tensat_dl.verify.rules.prover import prover
from tensat_dl.verify.rules.shipped import of_library, read_verdict, statement
from tensat_dl.verify.rules.verdict import NOT_EXAMINED, Verdict

#: Called with how many verdicts are there, how many there will be, the rule that was examined last, and its verdict;
#: both are empty before the first.
Progress = Callable[[int, int, str, str], None]
#: Fewer rules than this are not worth another process.
SHARE = 12
#: So many verdicts are kept, those that were written last.
MOST_KEPT = 10_000
#: What workers examine rules with.
_EXAMINER = "tensat_dl.verify.rules.verify:examiner"
#: The parts of the program that a verdict depends on.
_CHECKER = ("core", "engine", "lang", "ops", "rewrite", "verify")


def verify_rules(
    rules: Sequence[RewriteRule],
    ops: OpTable,
    *,
    seed: int = 0,
    proofs: bool = False,
    again: bool = False,
    progress: Progress | None = None,
    where: Where | None = None,
    partial: bool = False,
) -> tuple[Verdict, ...]:
    """The verdicts on rules, in order.

    A rule is tested on concrete instances, whose two sides are compared exactly. docs/verification.md explains the
    verdicts. With ``proofs``, rules that pass are then proved for all sizes, as far as they can be and if z3 is
    installed; without, only definitions and verdicts that are known tell of proofs. The library comes with verdicts
    on its rules; others are kept in the user's folder for caches. ``again`` examines all rules, whatever is known.
    The same rule with the same operators and seed gets the same verdict, if it is asked for in the same way,
    ``where`` ever it is examined: by default in as many processes as suit the work. If ``partial`` verdicts will do,
    Ctrl-C ends the examination: the rules that are left are "assumed", with the reason `NOT_EXAMINED`.
    """
    found: dict[int, Verdict] = {}
    try:
        _find(found, rules, ops, seed, proofs, again, progress, where)
    except KeyboardInterrupt:
        if not partial:
            raise
        left = {i: Verdict(r.name, "assumed", reason=NOT_EXAMINED) for i, r in enumerate(rules)}
        found = left | found
    return tuple(found[i] for i in range(len(rules)))


def _find(
    found: dict[int, Verdict],
    rules: Sequence[RewriteRule],
    ops: OpTable,
    seed: int,
    proofs: bool,
    again: bool,
    progress: Progress | None,
    where: Where | None,
) -> None:
    """Adds the verdicts on rules as they come, by the positions of the rules."""
    found |= {} if again else kept_verdicts(rules, ops, seed=seed)
    if len(found) == len(rules):
        return
    solver = prover() if proofs else ""
    keys = {i: key(rule, ops, seed, solver) for i, rule in enumerate(rules) if i not in found}
    if not again and not solver:
        found |= {i: known for i, name in keys.items() if (known := _load(name)) is not None}
    left = [(i, rule) for i, rule in enumerate(rules) if i not in found]
    if not left:
        return
    if progress is not None:
        progress(len(found), len(rules), "", "")  # the first verdict takes seconds
    with closing(
        _examined([(rules[i], keys[i]) for i, _ in left], ops, seed, bool(solver), where)
    ) as verdicts:
        for k, verdict in verdicts:
            i, rule = left[k]
            found[i] = verdict
            if progress is not None:
                progress(len(found), len(rules), rule.name, verdict.status)
    with suppress(OSError):
        forget_old(folder("verdicts"), MOST_KEPT, "*.json")


def _examined(
    rules: Sequence[tuple[RewriteRule, str]], ops: OpTable, seed: int, proofs: bool, where: Where | None
) -> Generator[tuple[int, Verdict], None, None]:
    """The verdicts on rules, each with its key, as they come: from jobs, if they are enough to be worth it. They are
    kept, but for rules whose jobs failed, as for want of memory.

    If no job gives an answer, as where no process starts, rules are examined in this process.
    """
    left = dict.fromkeys(range(len(rules)), "")  # and why
    suits = min(cores(), len(rules) // SHARE)
    if where is not None or suits >= 2:
        where = where or Where(suits)
        work = Work(_EXAMINER, (tuple(ops.values()), seed, proofs))
        jobs = [Job(name, rule, rule.name) for rule, name in rules]
        with where.workers(work) as workers, closing(done(workers, jobs)) as replies:
            for i, ended in replies:
                if ended.failed:
                    left[i] = f"its examination failed: {ended.reply.reason}"
                    continue
                del left[i]
                _save(rules[i][1], ended.reply.answer)
                yield i, ended.reply.answer
    if 0 < len(left) < len(rules):
        for i, reason in left.items():
            yield i, Verdict(rules[i][0].name, "assumed", reason=reason)
    elif left:
        verdict = examiner(tuple(ops.values()), seed, proofs)
        for i in left:
            found = verdict(rules[i][0])
            _save(rules[i][1], found)
            yield i, found


def examiner(ops: tuple[OpDecl, ...], seed: int, proofs: bool) -> Callable[[RewriteRule], Verdict]:
    """Gives verdicts on rules."""
    from tensat_dl.verify.rules.examine import Examiner  # takes a while to load, z3 above all

    return Examiner(OpTable(ops), seed, proofs).verdict


def kept_verdicts(rules: Sequence[RewriteRule], ops: OpTable, *, seed: int = 0) -> dict[int, Verdict]:
    """The verdicts with proofs that the library comes with, or that are kept, by the positions of the rules."""
    found = {}
    for i, rule in enumerate(rules):
        known = of_library(rule, ops) if seed == 0 else None
        if known is None and prover():
            known = _load(key(rule, ops, seed, prover()))
        if known is not None:
            found[i] = known
    return found


def key(rule: RewriteRule, ops: OpTable, seed: int, solver: str = "") -> str:
    """The key of a verdict in the cache, with proofs by a version of z3 or without."""
    text = f"{statement(rule, ops)} {seed} {solver} {_checker()}"
    return hashlib.sha256(text.encode()).hexdigest()


def _load(name: str) -> Verdict | None:
    """The verdict that is kept under a key, or None. A damaged file is ignored."""
    try:
        return read_verdict(json.loads((folder("verdicts") / f"{name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _save(name: str, verdict: Verdict) -> None:
    """Keeps a verdict, if there is a place for it."""
    with suppress(OSError):
        place = folder("verdicts")
        place.mkdir(parents=True, exist_ok=True)
        write(str(place / f"{name}.json"), json.dumps(asdict(verdict)) + "\n")


@cache
def _checker() -> str:
    """A digest of the code that decides."""
    return f"{np.__version__} {code_digest(*_CHECKER)}"
