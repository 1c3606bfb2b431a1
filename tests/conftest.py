"""What all tests have in common."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from unittest.mock import patch

import pytest

#: Not all tests run each day.
pytest_plugins = ["sampling"]

# Hundreds of processes are started here: where no bytecode is kept, each of them compiles all modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Ctrl-C is tested, and whoever starts the tests in the background may have told them to ignore it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither read nor write the user's cache and profiles."""
    folder = tmp_path_factory.mktemp("user")
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "TENSAT_DL_PROFILES": str(folder / "profiles")}
    with patch.dict(os.environ, own):
        yield


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A command that runs in this process ignores Ctrl-C once all is done: later tests, and the processes that they
    start, do not."""
    known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in known.items():
        signal.signal(number, handler)
