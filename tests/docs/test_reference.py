"""The language reference covers the grammar and is what its generator makes; links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import ROOT

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


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "#")):
            assert (document.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md", "docs/decisions.md"])
def test_named_files_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:tensat_dl|grammar|rules|docs|tests|examples|benchmarks)/[\w./]*)`", text)
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path


def test_every_folder_is_described() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder in (ROOT / "tensat_dl").iterdir():
        if (folder / "__init__.py").is_file():
            assert f"**`tensat_dl/{folder.name}/`**" in text


def test_numbers_agree() -> None:
    """The table of models says of one of them what the run in the tour prints, which is run by other tests."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    row = re.search(r"^\| nasrnn \| .* \| (\S+) \| (\S+) \| (\S+) \| (\S+)x \| 0 \|$", text, re.MULTILINE)
    assert row is not None
    nodes, before, after, faster = row.groups()
    tour = text[text.index("$ tensat-dl run examples/nasrnn.tsr") :]
    shown = re.search(r"^cost +(\S+) ms -> (\S+) ms  (\S+)x faster", tour, re.MULTILINE)
    assert shown is not None
    assert (before, after, faster) == shown.groups()
    assert f"{nodes} e-nodes" in tour
