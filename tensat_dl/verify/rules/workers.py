"""Examines rules in several processes."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection, wait

from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.processes import Child, Died
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.verdict import Verdict

#: Fewer rules than this are not worth another process.
SHARE = 12

Numbered = Sequence[tuple[int, RewriteRule]]


def examine_all(
    rules: Numbered, ops: OpTable, seed: int, proofs: bool
) -> Generator[tuple[int, Verdict], None, None]:
    """The verdicts on numbered rules as they come in, in any order, from a number of processes that suits the work.

    Rules that a dead process leaves behind are examined in this process. The processes are gone when the iterator
    ends or is closed.
    """
    count = min(len(os.sched_getaffinity(0)), len(rules) // SHARE)
    left = dict(rules)
    if count >= 2:
        with closing(_elsewhere(rules, ops, seed, proofs, count)) as verdicts:
            for number, verdict in verdicts:
                del left[number]
                yield number, verdict
    yield from examine(iter(()), tuple(ops.values()), tuple(left.items()), seed, proofs)


def _elsewhere(
    rules: Numbered, ops: OpTable, seed: int, proofs: bool, count: int
) -> Generator[tuple[int, Verdict], None, None]:
    """The verdicts of so many processes, until each has had its share or has died."""
    with ExitStack() as stack:
        children = {}
        for k in range(count):
            share = tuple(rules[k::count])
            child = Child("tensat_dl.verify.rules.workers:examine", tuple(ops.values()), share, seed, proofs)
            children[child.connection] = stack.enter_context(child)
        while children:
            for connection in wait(list(children)):
                assert isinstance(connection, Connection)
                try:
                    yield children[connection].receive()
                except Died:
                    del children[connection]


def examine(
    _: Iterator[None], ops: tuple[OpDecl, ...], rules: Numbered, seed: int, proofs: bool
) -> Iterator[tuple[int, Verdict]]:
    """The verdicts on numbered rules."""
    examiner = Examiner(OpTable(ops), seed, proofs)
    for number, rule in rules:
        yield number, examiner.verdict(rule)
