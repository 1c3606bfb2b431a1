"""A part of the tests each day, all of them with ``--all``, the others in turn with ``--rest``.

Most tests are members of large matrices, such as every rule with every check, whose members are alike. A test says
how it takes part, by a mark of its own or of its module (the nearest one counts):

- ``sampled(n)``: every n-th parameter of the test runs, others on another day; ``n`` days meet all of them. At least
  one runs each day. In a module that is marked, tests without parameters take turns in the same way.
- ``thorough``: the test runs with ``--all`` only.

Tests without a mark always run, and so do tests that are named on the command line (``file::test``) and, with
``--lf`` or ``--ff``, those that failed. Hypothesis draws a fifth of the examples unless everything runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from shlex import quote
from typing import Any

import pytest

#: Of the examples of Hypothesis, one in so many is drawn in a sample.
FEWER_EXAMPLES = 5
MARKS = (
    "sampled(n): every n-th parameter runs, or every n-th test of a module, others on another day",
    "thorough: runs with --all only",
)
#: Where Hypothesis keeps the settings of a test.
SETTINGS = "_hypothesis_internal_use_settings"
COUNTS = pytest.StashKey["Counts"]()


@dataclass(frozen=True)
class Counts:
    """How many tests were selected, and how many there are."""

    selected: int
    all: int


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampling")
    group.addoption("--all", action="store_true", help="run all tests, not only the sample of a day")
    group.addoption(
        "--rest",
        metavar="N",
        type=int,
        help="run what the sample leaves out or shortens: the day's part of N, so that N days run all of it",
    )
    group.addoption("--sample", metavar="DATE", help="the day whose sample is meant (default: today)")


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    # Workers take the day of the process that started them: it may be midnight.
    handed_on = getattr(config, "workerinput", {}).get("sample")
    config.option.sample = handed_on or config.option.sample or date.today().isoformat()
    try:
        date.fromisoformat(config.option.sample)
    except ValueError:
        raise pytest.UsageError(f"--sample {config.option.sample}: not a date such as 2026-01-31") from None
    if config.option.rest is not None and config.option.rest < 1:
        raise pytest.UsageError("--rest is in at least one part")
    if config.option.all and config.option.rest:
        raise pytest.UsageError("--all and --rest exclude each other")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["sample"] = node.config.option.sample


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects, before other options do: how members are dealt out depends on nothing but the members."""
    config.stash[COUNTS] = Counts(len(items), len(items))
    if config.option.all:
        return
    day = date.fromisoformat(config.option.sample).toordinal()
    chosen = sample(items, day)
    if parts := config.option.rest:
        rest = {i.nodeid for i in items if i.nodeid not in chosen or hasattr(_function(i), SETTINGS)}
        chosen = {test for test in rest if (day + _hash(test)) % parts == 0}
    else:
        shorten(items)
    chosen |= named(config, items) | failed_before(config)
    left_out = [i for i in items if i.nodeid not in chosen]
    items[:] = [i for i in items if i.nodeid in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    config.stash[COUNTS] = Counts(len(items), len(items) + len(left_out))


def sample(items: Iterable[pytest.Item], day: int) -> set[str]:
    """The node ids of what runs on a day. Members of a family are ordered by a hash and dealt out in turn."""
    chosen: set[str] = set()
    families: dict[tuple[str, int], list[str]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if item.get_closest_marker("thorough"):
            continue
        if mark is None:
            chosen.add(item.nodeid)
            continue
        (n,) = mark.args
        test, bracket, _ = item.nodeid.partition("[")
        families[test if bracket else test.rpartition("::")[0], n].append(item.nodeid)
    for (family, n), members in families.items():
        parts = min(n, len(members))
        members.sort(key=_hash)
        chosen.update(members[(day + _hash(family)) % parts :: parts])
    return chosen


def _hash(text: str) -> int:
    """A number that is the same in every process."""
    return int.from_bytes(sha256(text.encode()).digest()[:8])


def named(config: pytest.Config, items: Iterable[pytest.Item]) -> set[str]:
    """The tests whose ids, or the ids around them, are on the command line."""
    wanted = []
    for argument in config.args:
        path, colons, name = argument.partition("::")
        if colons:
            wanted.append(((config.invocation_params.dir / path).resolve(), name))
    found = set()
    for item in items:
        own = item.nodeid.partition("::")[2]
        if any(item.path == p and (own == n or own.startswith((f"{n}[", f"{n}::"))) for p, n in wanted):
            found.add(item.nodeid)
    return found


def failed_before(config: pytest.Config) -> set[str]:
    """The tests that failed last time, where that is asked for."""
    if not (config.getoption("lf", False) or config.getoption("failedfirst", False)):
        return set()
    return set(config.cache.get("cache/lastfailed", {}))


def shorten(items: Iterable[pytest.Item]) -> None:
    """Makes Hypothesis draw fewer examples."""
    for function in {_function(i) for i in items if hasattr(_function(i), SETTINGS)}:
        from hypothesis import settings  # kernels are tested where it is not installed, too

        full = getattr(function, SETTINGS)
        fewer = max(1, full.max_examples // FEWER_EXAMPLES)
        setattr(function, SETTINGS, settings(full, max_examples=fewer))


def _function(item: pytest.Item) -> object:
    return getattr(item, "obj", None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Workers count for the process that started them, which collects nothing."""
    counts = session.config.stash.get(COUNTS, None)
    if counts is not None and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["sampled"] = [counts.selected, counts.all]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    counts = getattr(node, "workeroutput", {}).get("sampled")
    if counts:
        node.config.stash[COUNTS] = Counts(*counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash.get(COUNTS, None)
    if counts is not None and counts.selected < counts.all:
        parts = config.option.rest
        part = f"a part in {parts} of what the sample leaves out" if parts else "the sample"
        terminalreporter.write_line(
            f"sampled: {counts.selected:,} of {counts.all:,} tests, {part} of {config.option.sample}; "
            "`pytest --all` runs everything"
        )
    if config.option.all:
        return
    failed = [r for kind in ("failed", "error") for r in terminalreporter.stats.get(kind, ())]
    repeated = [
        r.nodeid for r in failed if {"sampled", "thorough", "hypothesis"} & {*getattr(r, "keywords", ())}
    ]
    for test in dict.fromkeys(repeated):
        terminalreporter.write_line(f"repeat: python -m pytest --all {quote(test)}")
