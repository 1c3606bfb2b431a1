"""What the documents show is what happens: every file is read, every command is run and its output compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from snippets import ROOT, Block, Folder, blocks, commands, sections, stable

from tensat_dl.cli.main import cli
from tensat_dl.core.diagnostics import Source, TsrError
from tensat_dl.lang.parser import parse
from tensat_dl.lang.printer import print_file

DOCUMENTS = (
    "README.md",
    "docs/tutorial.md",
    "docs/explanations.md",
    "docs/language.md",
    "docs/architecture.md",
    "docs/verification.md",
    "docs/api.md",
)
#: Files that are there to show an error.
WRONG = ("wrong.tsr", "misfit.tsr")
#: Files with a rule that is false.
FALSE = ("grouped.tsr", "negative.tsr")


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def files(document: str, language: str = "") -> list[Block]:
    found = [b for b in blocks(read(document)) if b.name]
    return [b for b in found if language in ("", b.language)]


CONSOLE = [
    pytest.param(document, text, id=f"{Path(document).stem}-{title}")
    for document in DOCUMENTS
    for title, text in sections(read(document))
    if any(b.language == "console" for b in blocks(text))
]
TSR = [pytest.param(d, b, id=f"{Path(d).stem}-{b.name}") for d in DOCUMENTS for b in files(d, "tsr")]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("document", "section"), CONSOLE)
def test_commands_print_what_is_shown(document: str, section: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for block in files(document):
        folder.write(block)
    for block in blocks(section):
        for command in commands(block) if block.language == "console" else ():
            assert stable(folder.run(command.line)) == stable(command.shown), command.line


def test_there_is_something_to_run() -> None:
    assert len(CONSOLE) >= 10
    assert len(TSR) >= 25


@pytest.mark.parametrize(("document", "block"), TSR)
def test_files_are_formatted(document: str, block: Block) -> None:
    assert print_file(parse(Source(block.name, block.text))) == block.text


@pytest.mark.parametrize(("document", "block"), TSR)
def test_files_are_right(
    document: str,
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for other in files(document):
        Path(other.name).write_text(other.text, encoding="utf-8")
    result = CliRunner().invoke(cli, ["check", block.name], standalone_mode=False)
    if block.name in WRONG:
        assert result.return_value == 2 or isinstance(result.exception, TsrError)
    else:
        assert result.exception is None
        assert result.return_value == (block.name in FALSE), result.output


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_the_language_is_a_file(document: str) -> None:
    assert all(b.name for b in blocks(read(document)) if b.language == "tsr")


def test_names_of_files_are_told() -> None:
    text = read("docs/tutorial.md")
    for block in files("docs/tutorial.md"):
        assert f"`{block.name}`:\n\n```{block.language} {block.name}\n" in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "time   0.9 s: parse 0.6 s,\n       verify 3 ms\nwritten",
            "time   1.1 s: parse 0.6 s, x 1 ms\nwritten",
        ),
        ("extraction    exact: optimal, 2 ms\n", "extraction    exact: optimal, 1.4 s\n"),
        ("largest error 1.2e-16 relative", "largest error 0.0e+00 relative"),
    ],
)
def test_seconds_and_rounding_may_differ(one: str, other: str) -> None:
    assert stable(one) == stable(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cost 0.1 ms -> 0.2 ms", "cost 0.1 ms -> 0.3 ms"),
        ("extraction    exact: optimal, 2 ms\n", "extraction    exact: feasible, 2 ms\n"),
        ("verification  equivalent, largest", "verification  different, largest"),
        ("8 e-nodes", "9 e-nodes"),
    ],
)
def test_nothing_else_may_differ(one: str, other: str) -> None:
    assert stable(one) != stable(other)
