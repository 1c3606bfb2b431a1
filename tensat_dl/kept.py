"""Values that take long to compute and are the same each time: computed once for each user.

A value is a pickle in the user's folder for caches. Its name has a digest of all that it is computed from, the code
included, so a file is either right or never read. Files appear whole. Where there is no folder to write to, values
are computed each time.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from tensat_dl.files import write_bytes
from tensat_dl.pickles import pickled, unpickled

T = TypeVar("T")

#: So many files of a kind are kept by default, those that were written last: other versions of the program have their
#: own.
MOST = 8
_PACKAGE = Path(__file__).parent


def home() -> Path:
    """The user's own folder. Raises FileNotFoundError if there is none, as for a user without a name."""
    try:
        return Path.home()
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "the user has no home folder", "~") from None


def folder(kind: str) -> Path:
    """The folder of a kind of values: ``tensat-dl/<kind>`` in the user's folder for caches. Raises FileNotFoundError
    if there is none."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else home() / ".cache") / "tensat-dl" / kind


def kept(kind: str, key: str, make: Callable[[], T], most: int = MOST) -> T:
    """The value of ``make``, which depends on nothing but ``key``: read from the cache, or computed and kept.
    Of its kind, the ``most`` values that were written last stay."""
    data = _read(kind, key)
    with suppress(Exception):  # a damaged file can raise anything
        if data is not None:
            value: T = unpickled(data)
            return value
    value = make()
    keep(kind, key, value, most)
    return value


def recall(kind: str, key: str) -> object:
    """A value that was kept; None if there is none."""
    data = _read(kind, key)
    with suppress(Exception):  # a damaged file can raise anything
        return None if data is None else unpickled(data)
    return None


def keep(kind: str, key: str, value: object, most: int = MOST) -> None:
    """Keeps a value where there is a folder to write to. Of its kind, the ``most`` that were written last stay."""
    with suppress(OSError):
        path = folder(kind) / f"{key}.pickle"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, pickled(value))
        forget_old(path.parent, most)


def _read(kind: str, key: str) -> bytes | None:
    """The file of a value; None if there is none that is the user's own."""
    with suppress(OSError):
        path = folder(kind) / f"{key}.pickle"
        data = path.read_bytes()
        return data if os.stat(path).st_uid == os.getuid() else None
    return None


@cache
def code_digest(*parts: str) -> str:
    """A digest of the code in folders of the package."""
    return digest_of(p for part in parts for p in sorted((_PACKAGE / part).rglob("*.py")))


def digest_of(paths: Iterable[Path]) -> str:
    """A digest of the names and contents of files."""
    found = hashlib.sha256()
    for path in paths:
        data = path.read_bytes()
        found.update(f"{path.name} {len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()


def forget_old(place: Path, most: int, names: str = "*.pickle") -> None:
    """Removes all files of these names in a folder but so many, those that were written last. Raises OSError."""
    ages = []
    for path in place.glob(names):
        with suppress(FileNotFoundError):  # another process was faster
            ages.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(ages)[:-most]:
        path.unlink(missing_ok=True)
