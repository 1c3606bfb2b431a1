"""Child processes that start before what they are to do is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tensat_dl import processes
from tensat_dl.processes import ahead, begun

ECHO = "tests.core.test_processes:echo"
LOADED = "tests.core.test_processes:loaded"


def echo(requests: Iterator[int], first: int) -> Iterator[int]:
    """A child that adds a number to its requests."""
    for request in requests:
        yield first + request


def loaded(requests: Iterator[str]) -> Iterator[bool]:
    """A child that says which modules it has."""
    for name in requests:
        yield name in sys.modules


def answer(first: int) -> tuple[int, int]:
    """A child's number, and what it makes of 1."""
    with begun(ECHO, first) as child:
        child.send(1)
        return child.process.pid, child.receive(30)


def test_the_first_child_that_is_begun_has_started_ahead() -> None:
    with ahead(ECHO):
        (waiting,) = processes._ahead.values()
        assert answer(10) == (waiting.process.pid, 11)
        other, found = answer(20)
        assert (other != waiting.process.pid, found) == (True, 21)
    assert not processes._ahead


def test_a_child_imports_ahead_what_its_arguments_need() -> None:
    with ahead(LOADED, "tabnanny", "zipapp"):
        for expected in (True, False):  # the second one is started when it is needed
            with begun(LOADED) as child:
                child.send("tabnanny")
                assert child.receive(30) is expected


def test_a_child_that_nobody_takes_is_ended() -> None:
    with ahead(ECHO):
        (waiting,) = processes._ahead.values()
    assert waiting.process.poll() is not None
    assert not processes._ahead
