"""The language reference covers the grammar and is what its generator makes; links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GRAMMAR = (ROOT / "grammar" / "tsr.lark").read_text(encoding="utf-8")
LANGUAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
#: What is written in backticks, fenced blocks left out.
CODE = set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", LANGUAGE, flags=re.MULTILINE | re.DOTALL)))

RULES = re.findall(r"^[?!]*([a-z_]+|[A-Z_]+):", GRAMMAR, re.MULTILINE)
ALIASES = re.findall(r"-> *([a-z_]+)", GRAMMAR)
LITERALS = sorted(set(re.findall(r'"([a-z]+)"', GRAMMAR)))


@pytest.mark.parametrize("name", sorted({*RULES, *ALIASES}))
def test_grammar_rule_is_mentioned(name: str) -> None:
    assert name in CODE


@pytest.mark.parametrize("word", LITERALS)
def test_keyword_is_explained(word: str) -> None:
    assert any(word in re.split(r"\W+", code) for code in CODE)


@pytest.mark.parametrize("word", LITERALS)
def test_keyword_is_used_in_an_example(word: str) -> None:
    examples = re.findall(r"^```tsr .*?\n(.*?)^```$", LANGUAGE, flags=re.MULTILINE | re.DOTALL)
    packs = [p.read_text(encoding="utf-8") for p in (ROOT / "rules").glob("*.tsr")]
    assert re.search(rf"\b{word}\b", "\n".join([*examples, *packs, *sorted(CODE)]))


def test_the_grammar_was_read() -> None:
    assert len(RULES) > 60
    assert {"where", "each", "opaque", "unchanged", "preset", "view"} <= set(LITERALS)


def test_reference_is_up_to_date() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, "run `python docs/generate.py`"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "#")):
            assert (document.parent / target.partition("#")[0]).exists(), target


def test_named_files_exist() -> None:
    """What a document calls `tensat_dl/..`, or calls a file of another folder, is there."""
    wrong, count = [], 0
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        paths = re.findall(r"`((?:tensat_dl|grammar|rules|kernels|docs|tests|examples)/[\w./]*)`", text)
        paths += re.findall(r"\btensat_dl/[\w/]*(?:\.\w+)?", text)
        count += len(paths)
        wrong += [f"{document.name}: {path}" for path in paths if not (ROOT / path).exists()]
    assert not wrong
    assert count > 80


def test_files_of_folders_exist() -> None:
    """In the section of a folder, `x.py` is in it or a folder inside of it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    names = [(f, n) for f, section in sections for n in re.findall(r"`([\w/]+\.py)`", section)]
    assert len(names) > 200
    wrong = [
        f"{f}: {n}"
        for f, n in names
        if not (ROOT / n).exists() and not any((ROOT / "tensat_dl" / f).rglob(n))
    ]
    assert not wrong


def test_every_folder_is_described() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder in (ROOT / "tensat_dl").iterdir():
        if (folder / "__init__.py").is_file():
            assert f"**`tensat_dl/{folder.name}/`**" in text


def test_numbers_agree() -> None:
    """The table of models says of one of them what the run in the tour prints, which is run by other tests."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    row = re.search(
        r"^\| nasrnn \| .* \| (\S+) \| (\S+) \| (\S+) \| (\S+)x \| 0 \| 0 \|$", text, re.MULTILINE
    )
    assert row is not None
    nodes, before, after, faster = row.groups()
    tour = text[text.index("$ tensat-dl run examples/nasrnn.tsr") :]
    shown = re.search(r"^cost +(\S+) µs -> (\S+) µs  (\S+)x faster", tour, re.MULTILINE)
    assert shown is not None
    assert [1000 * float(before), 1000 * float(after), float(faster)] == pytest.approx(
        [float(x) for x in shown.groups()]
    )
    assert f"{nodes} e-nodes" in tour
