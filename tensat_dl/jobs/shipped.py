"""Begins attempts at jobs on the nodes of a cluster, where tensat-dl need not be installed.

Ray sends this module by value, so it imports nothing of tensat-dl before it has put the code there.
"""

from __future__ import annotations

import importlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

#: So many versions of the code are kept on a node.
MOST = 8


def attempt(digest: str, code: list[Any], *asked: Any) -> Any:
    """What `on_node.attempt` of the code answers; ``code`` has a reference to its archive. Raises OSError if there is
    no place for it."""
    name = "tensat_dl.jobs.on_node"
    if name not in sys.modules:
        import ray

        place = unpacked(digest, ray.get(code[0]))
        sys.path.insert(0, str(place))  # before a tensat-dl that is installed
    return importlib.import_module(name).attempt(*asked)


def unpacked(digest: str, data: bytes) -> Path:
    """The folder with the files of an archive, unpacked unless it is there. Raises OSError."""
    for parent in _parents():
        place = parent / digest
        try:
            if not _is_whole(place, data):
                _unpack(place, data)
            os.utime(place)
            _forget_old(parent)
        except OSError as e:
            error = e
        else:
            return place
    raise error


def _parents() -> list[Path]:
    """The user's folder for caches; where it can't be written, one among temporary files."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    other = Path(tempfile.gettempdir(), f"tensat-dl-{os.getuid()}", "code")
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:  # there is no home
        return [other]
    return [root / "tensat-dl" / "code", other]


def _is_whole(place: Path, data: bytes) -> bool:
    """Whether all files of the archive are there, as they were."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            return place.stat().st_uid == os.getuid() and all(
                zlib.crc32((place / file.filename).read_bytes()) == file.CRC for file in packed.infolist()
            )
    except OSError:
        return False


def _unpack(place: Path, data: bytes) -> None:
    """Unpacks the archive beside the place and moves it there, whole."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = Path(tempfile.mkdtemp(dir=place.parent, prefix=".tensat-dl-"))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            packed.extractall(new)
        for _ in range(2):
            try:
                new.rename(place)
                return
            except OSError:  # there is one: of another worker, which was faster, or a damaged one
                if _is_whole(place, data):
                    return
                shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _forget_old(parent: Path) -> None:
    with suppress(OSError):  # another worker was faster
        places = [p for p in parent.iterdir() if not p.name.startswith(".")]
        for old in sorted(places, key=lambda p: p.stat().st_mtime_ns)[:-MOST]:
            shutil.rmtree(old, ignore_errors=True)
