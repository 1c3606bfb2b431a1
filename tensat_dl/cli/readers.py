"""The reader of a command's output may go away, as in ``| head -1``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class ReaderGone(Exception):
    """Nobody reads our output any more. Click and rich would exit with 1 for the OSError that it is, which for
    `check` means that a rule is false."""


@contextmanager
def noticing() -> Iterator[None]:
    """Raises `ReaderGone` for what libraries make of it."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except SystemExit as e:
        if isinstance(e.__context__, BrokenPipeError):
            raise ReaderGone from None
        raise


class Said:
    """The messages of a command before all its files are written. Files are written whether or not anybody reads."""

    def __init__(self) -> None:
        self._gone: ReaderGone | None = None

    @contextmanager
    def unless_gone(self) -> Iterator[None]:
        """Says something, if anybody is there."""
        try:
            with noticing():
                yield
        except ReaderGone as e:
            self._gone = e

    def end(self) -> None:
        """The files are written. Raises `ReaderGone` if nobody was there."""
        if self._gone is not None:
            raise self._gone
