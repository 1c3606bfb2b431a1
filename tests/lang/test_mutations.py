"""Shipped files with tokens deleted, doubled, swapped or replaced: messages, and never another exception."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tensat_dl.core.diagnostics import Source
from tensat_dl.lang.tokens import scan

from .messages import diagnostics

pytestmark = pytest.mark.sampled(5)

ROOT = Path(__file__).resolve().parent.parent.parent
#: How many mutants of each file; more with MUTATIONS set.
COUNT = int(os.environ.get("MUTATIONS", "6"))
SEED = int(os.environ.get("MUTATION_SEED", "0"))

FILES = [
    *sorted((ROOT / "examples").glob("tiny_*.tsr")),
    ROOT / "examples" / "nasrnn.tsr",
    ROOT / "examples" / "gpt_block.tsr",
    *sorted(p for p in (ROOT / "rules").glob("*.tsr") if p.stem not in ("ops", "standard", "taso")),
    ROOT / "tests" / "lang" / "declarations.tsr",
]


def items(text: str) -> list[str]:
    """The items of a file, so that a mutant can be short and is checked quickly."""
    starts = [0] + [i for i in range(1, len(text)) if text[i - 1] == "\n" and text[i] not in " \n}"]
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def mutant(text: str, words: list[str], rng: random.Random) -> str:
    """The text after one to three changes to its tokens."""
    tokens = [t.text for t in scan(Source("", text))]
    real = [i for i, t in enumerate(tokens) if t.strip() and not t.startswith("//")]
    for _ in range(rng.randint(1, 3)):
        if not real:
            break
        i, j = rng.choice(real), rng.choice(real)
        match rng.randrange(5):
            case 0:
                tokens[i] = ""
            case 1:
                tokens[i] += " " + tokens[i]
            case 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 3:
                tokens[i] = tokens[j]
            case 4:
                tokens[i] = rng.choice(words)
    return "".join(tokens)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_mutants(path: Path, tmp_path: Path) -> None:
    rng = random.Random(f"{path.stem} {SEED}")
    text = path.read_text(encoding="utf-8").replace('import "standard"', "")
    parts = items(text)
    words = sorted({t.text for t in scan(Source("", text)) if t.text.strip() and t.text[0] != "/"})
    words += ["0", "1", "-1", "1.5", '"a"', "[]", "[1, 2]", "x", "weight(x)", "value(x)", "dim(x, 0)", "[..]"]
    file = tmp_path / "mutant.tsr"
    for _ in range(COUNT):
        body = text
        if len(text) > 2500:
            at = rng.randrange(len(parts))
            body = "".join(parts[at : at + rng.randint(1, 6)])
        changed = mutant(body, words, rng)
        file.write_text(changed, encoding="utf-8")
        try:
            for d in diagnostics(str(file)):
                d.render().encode("utf-8")
        except Exception as e:
            raise AssertionError(f"{type(e).__name__} for this file:\n{changed}") from e
