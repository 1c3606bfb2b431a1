"""The folders of the package: which imports which. Arrows go down only."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2] / "tensat_dl"
#: From the bottom to the top: a folder imports only what stands before it.
LAYERS = (
    *("resources", "files", "pickles", "kept", "installed", "processes", "beside", "jobs"),
    *("core", "ops", "sizes", "lang", "rewrite", "engine", "paper"),
    *("cost", "extract", "fuse"),
    *("verify", "why", "baselines", "onnx", "measure", "gpu"),
    *("discover", "coverage"),
    *("run", "report", "torch", "cli", "bench"),
)
#: Arrows up by a name in a string, which is imported when it is asked for: docs/architecture.md, "Layers".
BY_NAME = {("core", "report"), ("engine", "paper"), ("cli", "bench")}


def folder(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports() -> dict[tuple[str, str], list[str]]:
    """The places at which a folder imports another, imports inside of functions included."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tensat_dl":
                module = (node.module or "").split(".")
                named = [module[1]] if len(module) > 1 else [alias.name for alias in node.names]
                for other in named:
                    if other != folder(path):
                        found[folder(path), other].append(f"{path.relative_to(ROOT.parent)}:{node.lineno}")
    return found


def names() -> set[tuple[str, str]]:
    """Which folder names a module of another in a string, as `pkgutil.resolve_name` takes it."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if (named := re.fullmatch(r"tensat_dl\.(\w+)[\w.]*(:\w*)?", text)) and named[1] != folder(path):
                found.add((folder(path), named[1]))
    return found


def test_every_folder_has_its_place() -> None:
    there = {folder(p) for p in ROOT.rglob("*.py")} - {"__init__", "__main__"}
    assert there == set(LAYERS), "tests/packaging/test_layers.py lists the folders from the bottom to the top"


def test_arrows_go_down() -> None:
    place = {name: i for i, name in enumerate(LAYERS)}
    wrong = [
        f"{a} imports {b}: {', '.join(places)}"
        for (a, b), places in imports().items()
        if a in place and place.get(b, -1) > place[a]
    ]
    assert not wrong, "\n".join([*wrong, "a folder imports only what stands before it in LAYERS"])


def test_few_arrows_go_up_by_name() -> None:
    place = {name: i for i, name in enumerate(LAYERS)}
    assert {(a, b) for a, b in names() if place.get(b, -1) > place.get(a, len(LAYERS))} == BY_NAME


def test_syntax_trees_stay_in_lang() -> None:
    users = [
        str(path.relative_to(ROOT.parent))
        for path in ROOT.rglob("*.py")
        if folder(path) != "lang" and "tensat_dl.lang import ast" in path.read_text(encoding="utf-8")
    ]
    assert not users, "what others need of a rule, an operator or a test is resolved by `lang`"


def test_nothing_below_knows_how_it_is_shown() -> None:
    shown = [
        f"{path.relative_to(ROOT.parent)} imports {library}"
        for path in ROOT.rglob("*.py")
        if folder(path) not in ("cli", "report", "bench")
        for library in ("rich", "click", "jinja2")
        if f"import {library}" in path.read_text(encoding="utf-8")
        or f"from {library}" in path.read_text(encoding="utf-8")
    ]
    assert not shown
