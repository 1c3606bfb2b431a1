"""Values that a thread computes beside what else goes on: other threads run while NumPy computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def beside(make: Callable[[], T]) -> Future[T]:
    """The value of ``make``, which a thread computes. The thread does not keep the program from ending, unlike those
    of `concurrent.futures`."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(make())
        except BaseException as e:  # for whoever waits for the value
            found.set_exception(e)

    threading.Thread(target=run, daemon=True).start()
    return found
