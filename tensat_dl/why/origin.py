"""The origin of an optimized graph: comments in its file, which `tensat-dl why` reads."""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tensat_dl.core.graph import Graph
from tensat_dl.files import real_path
from tensat_dl.lang.print_graph import graph_to_tsr
from tensat_dl.ops.table import OpTable
from tensat_dl.sizes.named import OpenGraph

_COMMAND = "made by: tensat-dl run "
_INPUT = "input: "


@dataclass(frozen=True, slots=True)
class Origin:
    """The arguments of the `run` that made a graph, the first of which is the original's file, and a digest of the
    graph that it began with. Paths are relative to the folder of the optimized graph."""

    arguments: tuple[str, ...]
    digest: str

    def comment(self) -> str:
        """The text of the comment, two lines. Names of files may have line breaks, or bytes that are no text."""
        command = shlex.join(self.arguments)
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in command)
        return f"{_COMMAND}{shown}\n{_INPUT}{self.digest}"


def read_origin(text: str) -> Origin | None:
    """The origin in the comments of a file; None if there is none."""
    lines = [line.removeprefix("// ") for line in text.splitlines() if line.startswith("// ")]
    for command, given in pairwise(lines):
        if command.startswith(_COMMAND) and given.startswith(_INPUT):
            try:
                return Origin(tuple(shlex.split(command.removeprefix(_COMMAND))), given.removeprefix(_INPUT))
            except ValueError:  # a quotation mark that is not closed
                return None
    return None


def digest(graph: Graph, ops: OpTable, opened: OpenGraph | None) -> str:
    """Tells graphs apart: 16 hexadecimal digits that depend on its operators, not on the layout of its file. Those of
    a graph with named sizes, which is ``opened``, depend on their ranges, too."""
    return hashlib.sha256(graph_to_tsr(graph, ops, opened=opened).encode()).hexdigest()[:16]


def is_path(pack: str) -> bool:
    """Whether rules are named by a file rather than as a pack of the library."""
    return pack.endswith(".tsr") or "/" in pack


def relative(path: str, output: str) -> str:
    """A path as seen from the folder of an output. Standard streams have none."""
    if path == "-" or output == "-":
        return path
    try:
        return Path(os.path.relpath(path, real_path(output).parent)).as_posix()
    except ValueError:  # on another drive
        return str(real_path(path))


def resolved(path: str, output: str) -> str:
    """The path that `relative` gave, as seen from here."""
    if path == "-" or output == "-" or Path(path).is_absolute():
        return path
    return os.path.relpath(real_path(output).parent / path)
