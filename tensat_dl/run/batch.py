"""Many models: which of them are to be optimized, and which are done.

The manifest in the output folder has an entry for each model, with a key: a digest of all that its answer depends on.
A model is done if its entry has its key and the files of its answer are as they were written. So a batch that was
stopped goes on, and a changed option or file starts anew what it changes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.cost.device import this_machine
from tensat_dl.cost.profile import profile_path
from tensat_dl.files import real_path, write, write_bytes
from tensat_dl.jobs.identity import identity
from tensat_dl.jobs.job import Ended, FileOf, Job, Place
from tensat_dl.lang.imports import files_of
from tensat_dl.lang.load import read_source
from tensat_dl.lang.program import load_program
from tensat_dl.onnx import is_onnx
from tensat_dl.resources import rules as library
from tensat_dl.run.one_of_many import Answered, ToOptimize
from tensat_dl.run.options import Options, device_of
from tensat_dl.sizes.dim_sizes import DimSizes, mixed_dim
from tensat_dl.why.origin import is_path, relative

#: The name of the manifest in the output folder.
MANIFEST = "manifest.json"
#: Writing the manifest may take this share of the time.
SHARE_OF_TIME = 0.1
#: Statuses of models that need not be tried again.
FINAL = ("faster", "unchanged", "refused")
#: The start of a graph, which may follow another item on its line.
_GRAPH = re.compile(r"^(?:[^/\n]*[;}])?[ \t]*graph[ \t]", re.MULTILINE)

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """A model of a batch: its path, and its name in the output folder and in messages."""

    path: Path
    name: str


def models_in(arguments: Sequence[str], out: Path) -> list[Listed]:
    """The models that arguments name: files .tsr and .onnx, all those below folders, and those in files .txt, which
    have a path in each line, relative to the file. What lies in the output folder is none.

    Raises OSError for an argument that is not there, ValueError for two models of one name, for other files, and for
    a folder in the output folder.
    """
    found = [m for argument in arguments for m in _named_by(argument, real_path(out))]
    known: dict[str, Path] = {}
    for m in found:
        first = known.setdefault(m.name, m.path)
        if real_path(first) != real_path(m.path):
            raise ValueError(
                f"the answers for {first} and {m.path} would both be {out / m.name}: "
                "name a folder that has both, or list them in a .txt file above both"
            )
    return list({m.name: m for m in found}.values())


def _named_by(argument: str, out: Path) -> Iterator[Listed]:
    path = Path(argument)
    if path.is_dir():
        if out in (real_path(path), *real_path(path).parents):
            raise ValueError(f"{argument} is in {out}, where the answers go: name another folder for these")
        for file in sorted(path.rglob("*")):
            written = out in real_path(file).parents
            if not written and file.is_file() and (is_onnx(file.name) or _has_graph(file)):
                yield Listed(file, file.relative_to(path).as_posix())
    elif path.suffix.lower() == ".txt":
        for number, line in enumerate(os.fsdecode(path.read_bytes()).splitlines(), 1):
            if "\0" in line:
                raise ValueError(f"{argument}:{number}: a path has no NUL character")
            if (text := line.strip()) and not text.startswith("#"):
                listed = path.parent / text
                name = Path(os.path.relpath(listed, path.parent)).as_posix()
                yield Listed(listed, name if not name.startswith("../") else listed.name)
    elif path.suffix.lower() in (".tsr", ".onnx"):
        yield Listed(path, path.name)
    else:
        path.stat()
        raise ValueError(f"{argument} is no model (.tsr, .onnx), no folder and no list (.txt)")


def _has_graph(file: Path) -> bool:
    """Whether a file is one of the language, and may have a graph: packs of rules lie beside models."""
    if file.suffix.lower() != ".tsr":
        return False
    try:
        text = read_source(str(file)).text
    except TsrError:  # which says why when the model is read
        return True
    return _GRAPH.search(text) is not None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keeps other batches out of an output folder. Raises ValueError if there is one already."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another batch is at work in {folder}") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


@dataclass
class Manifest:
    """What is known of the models in an output folder, by their names."""

    folder: Path
    entries: dict[str, Facts] = field(default_factory=dict)
    _next: float = 0.0

    @staticmethod
    def of(folder: Path) -> Manifest:
        """That of a folder; empty if there is none, or if it is damaged."""
        try:
            data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            return Manifest(folder, {str(name): dict(facts) for name, facts in data["models"].items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return Manifest(folder)

    def is_done(self, name: str, key: str) -> bool:
        known = self.entries.get(name)
        if known is None or known.get("key") != key or known.get("status") not in FINAL:
            return False
        files = known.get("files", {})
        return all(FileOf(os.path.abspath(self.folder / f), str(d)).is_here() for f, d in files.items())

    def add(self, name: str, facts: Facts) -> None:
        """Adds an entry, and writes the manifest unless that has taken much of the time. If it can't be written now,
        it may be at the end."""
        self.entries[name] = facts
        if time.monotonic() >= self._next:
            with suppress(OSError):
                self.write()

    def write(self) -> None:
        """Raises OSError."""
        started = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        text = json.dumps({"models": dict(sorted(self.entries.items()))}, indent=1, allow_nan=False)
        write(str(self.folder / MANIFEST), text + "\n")
        self._next = time.monotonic() + (time.monotonic() - started) / SHARE_OF_TIME

    def take(self, name: str, key: str, ended: Ended) -> Facts:
        """The entry of a model whose job has ended, after its files are written: the answer's, or the log of a
        failure. Files that can't be written are a failure of this model alone."""
        place = self.folder / name
        log = place.with_name(place.name + ".log")
        facts: dict[str, Any] = {"key": key, "tries": ended.tries, "seconds": round(ended.reply.seconds, 3)}
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if ended.failed:
                facts |= {"status": "failed", "message": ended.reply.reason}
                write_bytes(log, ended.log.encode())
            else:
                answer: Answered = ended.reply.answer
                facts |= answer.facts
                for file, content in answer.files.items():
                    write_bytes(place.with_name(file), content)
                digests = {f: hashlib.sha256(c).hexdigest() for f, c in answer.files.items()}
                facts["files"] = {
                    place.with_name(f).relative_to(self.folder).as_posix(): d for f, d in digests.items()
                }
                log.unlink(missing_ok=True)
        except OSError as e:
            facts |= {"status": "failed", "message": f"{place}: {e.strerror or e}"}
        self.add(name, facts)
        return facts


@dataclass(frozen=True, slots=True)
class Batch:
    """What is done to the models of a batch. ``packs`` are names of packs, and absolute paths of files with rules."""

    options: Options
    packs: tuple[str, ...]
    dims: Mapping[str, DimSizes]

    def __post_init__(self) -> None:
        """Raises ValueError for buckets without several sizes of a dimension."""
        if self.options.buckets:
            mixed_dim(self.dims)

    def check(self, jobs: Sequence[Job]) -> None:
        """Raises ValueError if the answer for a model would overwrite what one of them is read from, or a bucket of
        one the answer for another."""
        names = [job.title for job in jobs]
        for job in jobs:
            if job.argument.narrowed(self.options).buckets:
                stem, ending = os.path.splitext(job.title)
                bucket = re.compile(rf"{re.escape(stem)}\.\d+-(\d+|up){re.escape(ending)}")
                for name in filter(bucket.fullmatch, names):
                    raise ValueError(
                        f"{name} may be the name of a bucket of {job.title}: use two folders of answers"
                    )
        read = {file.path for job in jobs for file in job.files}
        for job in jobs:
            if job.argument.output in read:
                raise ValueError(
                    f"{job.argument.output} is an input, which would be lost: choose another folder"
                )

    def job(self, model: Listed, out: Path) -> Job:
        """The job of a model, whose name is the key of its answer. Raises OSError, also for a file or pack that is a
        pipe: it can't be read twice, and may never end."""
        file, output = real_path(model.path), real_path(out) / model.name
        for read_first in (file, *(Path(p) for p in self.packs if is_path(p))):
            if read_first.exists() and not read_first.is_file():
                raise OSError(errno.EINVAL, f"{read_first} is no regular file")
        asked = ToOptimize(str(file), os.path.abspath(model.path), str(output), self._dims_of(file))
        read = {FileOf.at(p) for p in self._files_of(file)}
        options, onnx = self.options, is_onnx(file.name)
        told = [
            identity(),
            relative(asked.called, asked.output),
            asked.dims,
            sorted(hashlib.sha256(f.digest.encode()).hexdigest() for f in read),
            [relative(p, asked.output) if is_path(p) else p for p in self.packs],
            asked.narrowed(options).arguments(onnx),
            (options.verify, options.seed, self.measures(onnx)),
            sorted((self.profiles(onnx) or {}).items()),
        ]
        key = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        return Job(key, asked, model.name, tuple(sorted(read, key=lambda f: f.path)))

    def measures(self, onnx: bool) -> bool:
        """Whether models of a kind are measured."""
        device = device_of(self.options.device, onnx)
        return self.options.measure if self.options.measure is not None else onnx and device == "cpu"

    def place(self, onnx: bool) -> Place:
        """What a job for a model of a kind needs for itself."""
        if not self.measures(onnx):
            return "core"
        return "machine" if device_of(self.options.device, onnx) == "cpu" else "gpu"

    def profiles(self, onnx: bool) -> dict[str, str] | None:
        """The user's profile of the device, by the name of its file, if there is one; None if models of a kind are
        measured, where each machine has its own."""
        device = device_of(self.options.device, onnx)
        if self.measures(onnx) or device == "cuda":
            return None
        path = profile_path(device, this_machine(device, self.options.threads))
        return {path.name: path.read_text(encoding="utf-8")} if path.is_file() else {}

    def _files_of(self, file: Path) -> set[Path]:
        """All files that a model is read from, those of the library aside."""
        files = {p for pack in self.packs if is_path(pack) for p in files_of(pack)}
        if is_onnx(file.name):
            from tensat_dl.onnx.model_files import data_files

            found = _model_at(file)
            files |= {file, *(() if found is None else map(Path, data_files(found)))}
        else:
            files |= {file, *files_of(str(file))}
        return {p for p in files if p.parent != real_path(library())}

    def _dims_of(self, file: Path) -> tuple[tuple[str, str], ...]:
        """The sizes of those open dimensions that a model has, in text."""
        known = _open_dims_of(file) if self.dims else frozenset()
        return tuple((name, str(said)) for name, said in sorted(self.dims.items()) if name in known)


def _open_dims_of(file: Path) -> Collection[str]:
    """The names of a model's open dimensions, or of the open sizes of the graphs in a .tsr file; none if it can't be
    read."""
    if is_onnx(file.name):
        from tensat_dl.onnx.inputs import open_dims

        found = _model_at(file)
        return frozenset() if found is None else open_dims(found)
    with suppress(TsrError):
        program = load_program(str(file))
        return {size.name for graph in program.graphs.values() for size in graph.sizes}
    return frozenset()


def _model_at(file: Path) -> Any:
    """The ONNX model in a file; None if it can't be read, which its job will say."""
    from tensat_dl.onnx.model_files import read_model

    try:
        return read_model(str(file))
    except TsrError:
        return None
