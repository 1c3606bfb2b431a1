"""Snippets of a document: files to write, commands to run, and what they are said to print.

A fenced block ``tsr name.tsr`` (or ``python name.py``) is a file. A fenced block ``console`` holds commands, each
on a line that starts with ``$ ``, and under each command what it prints.

``python tests/docs/snippets.py FILE..`` runs the commands of documents and writes down what they print now.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.cli.running import invoke

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(?P<info>\S[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
#: What differs from run to run, or from machine to machine: the seconds of a run, and rounding errors.
VARYING = (
    (re.compile(r"^time +.*\n(?: +.*\n)*", re.MULTILINE), "time ..\n"),
    (re.compile(r"^(extraction .*), [\d.]+ m?s$", re.MULTILINE), r"\1, N s"),
    (re.compile(r" in [\d.]+ s(?=;|$)", re.MULTILINE), " in N s"),
    (re.compile(r"\d\.\d+e[-+]\d+ (relative|absolute)"), r"E \1"),
    (re.compile(r"is -?\d+\.\d+ before and -?\d+\.\d+"), "is A before and B"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is (or ""), its text, and where the text stands."""

    language: str
    name: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Command:
    """One command of a console block, and the output that the document shows."""

    line: str
    shown: str


def blocks(document: str) -> Iterator[Block]:
    for found in BLOCK.finditer(document):
        language, _, name = found["info"].partition(" ")
        yield Block(language, name.strip(), found["text"], found.start("text"), found.end("text"))


def sections(document: str) -> Iterator[tuple[str, str]]:
    """Title and text of each part under a second-level heading. Commands use all files, and results of their part."""
    for part in re.split(r"^## ", document, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        yield title, text


def commands(block: Block) -> list[Command]:
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    return [Command(line, shown) for line, shown in zip(parts[1::2], parts[2::2], strict=True)]


def stable(output: str) -> str:
    """What every run prints alike."""
    for pattern, replacement in VARYING:
        output = pattern.sub(replacement, output)
    return output.strip()


class Folder:
    """A temporary folder in which a document's files and commands live."""

    def __init__(self, path: Path) -> None:
        self.path = path
        programs = path / ".bin"
        programs.mkdir()
        for name, arguments in (("tensat-dl", "-m tensat_dl"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            program.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "80",
            "NO_COLOR": "1",
        }
        shutil.copytree(ROOT / "examples", path / "examples")

    def write(self, block: Block) -> None:
        (self.path / block.name).write_text(block.text, encoding="utf-8")

    def run(self, line: str) -> str:
        """What a command prints, on both streams. What needs no shell is called in this process: it starts faster."""
        program, *words = shlex.split(line)
        if program == "tensat-dl" and not set(line) & set("|&;<>$*'\""):
            with chdir(self.path), patch.dict(os.environ, self.environment):
                return invoke(*words, joined=True).out
        done = subprocess.run(
            line,
            shell=True,
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        return done.stdout


def update(document: str, path: Path) -> str:
    """The document with the output of its commands as it is now."""
    folder = Folder(path)
    out: list[str] = []
    at = 0
    for block in blocks(document):
        if block.name:
            folder.write(block)
        elif block.language == "console":
            out.append(document[at : block.start])
            for command in commands(block):
                printed = folder.run(command.line)
                if printed and not printed.endswith("\n"):
                    printed += "\n"
                kept = command.shown if stable(printed) == stable(command.shown) else printed
                out.append(f"$ {command.line}\n{kept}")
            at = block.end
    return "".join(out) + document[at:]


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as temporary:
            file.write_text(update(file.read_text(encoding="utf-8"), Path(temporary)), encoding="utf-8")
