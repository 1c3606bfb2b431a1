"""Child processes that answer requests. A child may crash, take too much memory or never end: the parent goes on.

A child runs a generator function ``module:function``. It is called with an iterator of requests and the arguments
that the parent gave; each value that it yields is an answer. `Child` is the parent's end, `main` the child's. They
exchange pickles over a socket. A child ends with its parent.

`multiprocessing.Process` and `concurrent.futures` do not fit: they import the parent's main module again, so a script
without ``if __name__ == "__main__"`` would start itself, and they can't end one process for its time or memory.
"""

from __future__ import annotations

import os
import pkgutil
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from tensat_dl.pickles import pickled, unpickled

#: Seconds between two looks at the memory of a child, and at the clock.
TICK = 0.1
#: Seconds that a child that has closed its end may take to exit with a code of its own.
LEAVING = 0.5
#: Bytes of a child's output that are kept for a message.
MOST_OUTPUT = 20_000
#: The number of an option of Linux, from <linux/prctl.h>.
PR_SET_PDEATHSIG = 1


def cores() -> int:
    """The cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # which not every system has
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


class Failed(Exception):
    """A child gives no answer. The message says why."""


class Overran(Failed):
    """The child was ended because its answer took too long."""


class Outgrew(Failed):
    """The child was ended because it took too much memory."""


class Died(Failed):
    """The child ended by itself with an exit code, negative for a signal. ``last`` is the last line of its output."""

    def __init__(self, code: int, last: str) -> None:
        super().__init__(last or f"exit code {code}")
        self.code = code
        self.last = last


#: What a child runs. It imports what its parent does: with ``-m`` a file ``random.py`` in the working folder would
#: come before Python's own.
_MAIN = "import sys; sys.path[:] = sys.argv[3:]; from tensat_dl.processes import main; main(*sys.argv[1:3])"


class Child:
    """A process that runs a generator function. It is gone when the context ends."""

    def __init__(self, function: str, *arguments: Any, environment: Mapping[str, str] | None = None) -> None:
        """With variables of the environment that the child shall have, beside the parent's."""
        self._start(function, environment)
        self.give(arguments)

    @classmethod
    def idle(cls, function: str, *modules: str) -> Child:
        """A child that imports the function, and modules that its arguments need, and waits for these, which are to
        be sent yet."""
        child = cls.__new__(cls)
        child._start(function, None, modules)
        return child

    def give(self, arguments: tuple[Any, ...]) -> None:
        """Sends a child the arguments that it waits for."""
        try:
            self.send(arguments)
        except BaseException:  # Ctrl-C, while the child is about to listen
            self.__exit__()
            raise

    def _start(
        self, function: str, environment: Mapping[str, str] | None, modules: Sequence[str] = ()
    ) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the child)
        self._mark = 0
        self.connection, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _MAIN, function, " ".join(modules), *sys.path],
                stdin=theirs.fileno(),
                stdout=self._output,  # prints must not get between the answers
                stderr=self._output,
                start_new_session=True,  # Ctrl-C is for the parent; and the child is ended with all that it started
                env={**os.environ, "RUST_BACKTRACE": "0", **(environment or {})},
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.connection.close()
        self._output.close()

    def send(self, request: Any) -> None:
        """Asks for something. If the child is gone, `receive` says so."""
        with suppress(OSError):
            self.connection.send_bytes(pickled(request))

    def mark(self) -> None:
        """From here on, `output` is what the child prints."""
        self._mark = os.fstat(self._output.fileno()).st_size

    def output(self) -> str:
        """The end of what the child has printed since the mark; nothing once the context has ended."""
        with suppress(OSError, ValueError):
            size = os.fstat(self._output.fileno()).st_size
            first = max(self._mark, size - MOST_OUTPUT)
            return os.pread(self._output.fileno(), size - first, first).decode(errors="replace")
        return ""

    def receive(self, seconds: float | None = None, memory: int | None = None) -> Any:
        """The next answer. A child that takes more seconds for it, or whose resident memory, with that of its own
        children, grows beyond so many bytes, is ended. Raises `Overran`, `Outgrew`, `Died`. Ctrl-C ends the child,
        too."""
        deadline = None if seconds is None else time.monotonic() + seconds
        try:
            while not self.connection.poll(TICK):
                if deadline is not None and time.monotonic() > deadline:
                    raise Overran(f"no answer within {seconds:g} s")
                if memory is not None and resident(self.process.pid) > memory:
                    raise Outgrew(f"more than {memory:,} bytes")
            return unpickled(self.connection.recv_bytes())
        except (EOFError, OSError):
            code = self.end(LEAVING)
            lines = self.output().strip().splitlines()
            raise Died(code, lines[-1] if lines else "") from None
        except BaseException:  # half of an answer may be left
            self.end()
            raise

    def end(self, patience: float = 0.0) -> int:
        """Ends the child and its own children; its exit code, negative for a signal. It may exit by itself within so
        many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.dismiss()
        return self.process.wait()

    def dismiss(self) -> None:
        """Ends the child and its own children without waiting until the system has their memory."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


#: Children that wait for arguments, by their function.
_ahead: dict[str, Child] = {}


@contextmanager
def ahead(function: str, *modules: str) -> Iterator[None]:
    """Starts a child before its arguments are known, and has it import the modules that these need. In the context,
    the first `begun` for the function gives them to it; a child that nobody has taken is ended."""
    _ahead[function] = Child.idle(function, *modules)
    try:
        yield
    finally:
        if (left := _ahead.pop(function, None)) is not None:
            left.__exit__()


def begun(function: str, *arguments: Any) -> Child:
    """A child that runs a function: one that has started ahead, if there is one."""
    child = _ahead.pop(function, None) or Child.idle(function)
    child.give(arguments)
    return child


def resident(pid: int) -> int:
    """Resident memory in bytes of a process and its descendants; 0 where the system does not tell."""
    total, left = 0, [pid]
    while left:
        folder = Path(f"/proc/{left.pop()}")
        with suppress(OSError, IndexError, ValueError):
            total += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for thread in (folder / "task").iterdir():
                with suppress(OSError):
                    left += map(int, (thread / "children").read_text().split())
    return total


def apart(function: str, seconds: float | None = None, /, **arguments: Any) -> Any:
    """The value of ``module:function`` for the arguments, computed by a child, so that nothing is left over from
    earlier computations. Raises `Failed`, and `Overran` after so many seconds."""
    with Child("tensat_dl.processes:_value", function, arguments) as child:
        return child.receive(seconds)


def _value(_: Iterator[Any], function: str, arguments: dict[str, Any]) -> Iterator[Any]:
    yield pkgutil.resolve_name(function)(**arguments)


def main(name: str, modules: str) -> None:
    """The child, which runs the function of this name."""
    if sys.platform == "linux":
        import ctypes

        # Code that never lets another thread run would go on when the parent is killed. Linux counts the end of the
        # thread that started the child, so threads that start children live as long as these.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = Connection(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # processes that the child starts have no part in it
    function = pkgutil.resolve_name(name)
    for module in modules.split():
        import_module(module)
    try:
        arguments = unpickled(parent.recv_bytes())
    except EOFError:  # the parent is gone
        os._exit(1)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                requests.put(unpickled(parent.recv_bytes()))
        except (EOFError, OSError):  # the parent is gone
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    for answer in function(iter(requests.get, None), *arguments):
        parent.send_bytes(pickled(answer))
    os._exit(0)  # memory need not be freed piece by piece
