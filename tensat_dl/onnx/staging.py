"""Writes a model beside the place where it is to be, and moves it there when it has been checked."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir

from tensat_dl.onnx.reading import external_weights

#: A protobuf file ends at 2 GiB. The weights of larger models stand in a file of their own.
MAX_BYTES = 2**31 - 2**24
#: Weights with at least so many bytes go there.
LARGE = 1024


class Staged:
    """A model that is written, but not yet in its place."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target

    @property
    def size(self) -> int:
        """Bytes of the model and its weights."""
        return sum(p.stat().st_size for p in self.path.parent.iterdir())

    def commit(self) -> None:
        """Moves the files to their place, weights first."""
        if self._target.exists() and not self._target.is_file():  # a device or a pipe
            self._target.write_bytes(self.path.read_bytes())
            return
        for file in sorted(self.path.parent.iterdir(), key=lambda p: p == self.path):
            target = self._target.parent / file.name
            if target.exists():
                shutil.copymode(target, file)
            with open(file, "rb") as written:
                os.fsync(written.fileno())
            os.replace(file, target)


@contextmanager
def staged(model: ir.Model | Path, path: str) -> Iterator[Staged]:
    """Writes a model, or copies a file, to a folder beside ``path`` that exists only meanwhile. Weights get a file of
    their own, ``path`` with ``.data`` behind it, if the model is too large for one file or had such files. Raises
    OSError."""
    target = Path(path).resolve()
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=".tensat-dl-"))
    try:
        file = folder / target.name
        if isinstance(model, Path):
            shutil.copyfile(model, file)
        else:
            save(model, file)
        yield Staged(file, target)
    except OSError as e:
        raise OSError(e.errno, e.strerror or str(e), path) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def save(model: ir.Model, path: Path) -> Path:
    """Writes a model where nothing stands yet, and returns where it is. Raises OSError."""
    if external(model):
        ir.save(model, path, external_data=data_of(path).name, size_threshold_bytes=LARGE)
    else:
        ir.save(model, path, format="protobuf")
    return path


def data_of(path: Path) -> Path:
    """The file for the weights of a model, if they get one."""
    return path.with_name(f"{path.name}.data")


def external(model: ir.Model) -> bool:
    """Whether a model's weights have to stand in a file of their own, or did."""
    if any(external_weights(model)):
        return True
    tensors = [v.const_value for graph in model.graphs() for v in graph.initializers.values()]
    return sum(t.nbytes for t in tensors if t is not None) > MAX_BYTES


def size_of(model: ir.Model, path: str) -> int:
    """Bytes of a model's file and of the weights that stand in others."""
    return os.path.getsize(path) + sum(t.nbytes for _, t in external_weights(model))
