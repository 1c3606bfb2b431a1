"""What commands answer, without the times in it: the same wherever their jobs run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cli.running import EXAMPLES, invoke

MODELS = [EXAMPLES / f"tiny_{name}.tsr" for name in ("associativity", "fuse_relu")]
RULES = """import "matmul"
rule three { relu(relu(relu(x))) => relu(x) }
rule product { (x @ y) @ (z @ w) => x @ (y @ z) @ w }
"""


def batch(folder: Path, *where: object) -> Mapping[str, bytes]:
    assert invoke("batch", *MODELS, "-o", folder / "answers", *where).code == 0
    return {m.name: (folder / "answers" / m.name).read_bytes() for m in MODELS}


def check(folder: Path, *where: object) -> bytes:
    """.. of which nothing is known."""
    report = folder / "check.json"
    assert invoke("check", EXAMPLES / "tiny_own_rule.tsr", "--again", "--json", report, *where).code == 0
    return report.read_bytes()


def prove(folder: Path, *where: object) -> Any:
    rules, report = folder / "rules.tsr", folder / "prove.json"
    rules.write_text(RULES)
    done = invoke("prove", rules, "--from", "activation", "--from", "matmul", "--json", report, *where)
    assert done.code in (0, 1), done.err
    found = json.loads(report.read_text())
    return {k: v for k, v in found.items() if k not in ("seconds", "file")}, [
        r["status"] for r in found["rules"]
    ]


def discover(folder: Path, *where: object) -> bytes:
    pack = folder / "found.tsr"
    done = invoke("discover", "--ops", "matmul,relu", "--size", 2, "-o", pack, *where)
    assert done.code == 0, done.err
    return pack.read_bytes()


def bench(folder: Path, *where: object) -> Any:
    results = folder / "bench.json"
    small = ("tiny_share_input", "tiny_fuse_relu")
    done = invoke("bench", "cycles", *small, "--k-multi", 1, "--time-limit", 60, "--json", results, *where)
    assert done.code == 0, done.err
    names = ("model", "cycles", "k_multi", "nodes", "stop", "after", "status")
    return [{name: row[name] for name in names} for row in json.loads(results.read_text())["rows"]]


COMMANDS = {f.__name__: f for f in (batch, check, prove, discover, bench)}
