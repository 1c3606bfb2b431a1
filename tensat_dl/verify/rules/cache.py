"""Verdicts on disk, by what they depend on: the rule, the operators in it, and the code of the checker."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np

import tensat_dl
from tensat_dl.core import expression as ex
from tensat_dl.core.expression import calls_of, children
from tensat_dl.core.rule import RewriteRule, Side
from tensat_dl.files import write
from tensat_dl.ops.table import INFIX, OpDecl, OpTable
from tensat_dl.verify.rules.verdict import Counterexample, Status, Verdict

#: The parts of the program that a verdict depends on.
_CHECKER = ("core", "engine", "lang", "ops", "rewrite", "verify")
#: Operators that every rule's instances have.
_LEAVES = ("input", "weight", "fill")


def folder() -> Path:
    """Where verdicts are kept: ``tensat-dl/verdicts`` in the user's folder for caches."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "tensat-dl" / "verdicts"


def key(rule: RewriteRule, ops: OpTable, seed: int) -> str:
    """What tells a verdict from all others. Places in files, comments and other rules make no difference."""
    conditions = [(c, c.span.text) for c in rule.conditions]
    text = (rule.name, _side(rule.source), _side(rule.target), conditions, sorted(rule.members), rule.index)
    declared = [_declaration(ops[op]) for op in sorted(_operators(rule, ops))]
    return hashlib.sha256(repr((text, declared, seed, _checker())).encode()).hexdigest()


def load(name: str) -> Verdict | None:
    """The verdict that is kept under a key, or None. A damaged file is as good as none."""
    try:
        data = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
        return _verdict(data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(name: str, verdict: Verdict) -> None:
    """Keeps a verdict, if there is a place for it."""
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        write(str(folder() / f"{name}.json"), json.dumps(asdict(verdict)) + "\n")


def _side(side: Side) -> Any:
    nodes = [(n.result, n.op, n.args, n.attrs, n.each) for n in side.nodes]
    return nodes, side.outputs, side.lets


def _operators(rule: RewriteRule, ops: OpTable) -> set[str]:
    """The operators of a rule, with those that they are composed of."""
    found: set[str] = set()
    waiting = [*_LEAVES, *(n.op for n in (*rule.source.nodes, *rule.target.nodes))]
    while waiting:
        op = waiting.pop()
        if op in ops and op not in found:
            found.add(op)
            waiting += _mentioned(ops[op].composition)
    return found


def _mentioned(tree: Any) -> Iterator[str]:
    for call in calls_of(tree):
        yield call.fn
    if isinstance(tree, ex.Binary) and tree.op in INFIX:
        yield INFIX[tree.op]
    for part in children(tree):
        yield from _mentioned(part)


def _declaration(decl: OpDecl) -> Any:
    return [getattr(decl, f.name) for f in fields(decl) if f.name not in ("doc", "span", "flops")]


@cache
def _checker() -> str:
    """A digest of the code that decides."""
    digest = hashlib.sha256(np.__version__.encode())
    root = Path(tensat_dl.__file__).parent
    for part in _CHECKER:
        for path in sorted((root / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _verdict(data: Any) -> Verdict:
    """Raises TypeError, KeyError or ValueError for what is no verdict."""
    example = data.pop("counterexample")
    found = None if example is None else Counterexample(**_tuples(example))
    verdict = Verdict(**_tuples(data), counterexample=found)
    if verdict.status not in get_args(Status):
        raise ValueError(verdict.status)
    return verdict


def _tuples(value: Any) -> Any:
    """With tuples for lists, which JSON does not tell apart."""
    if isinstance(value, dict):
        return {name: _tuples(v) for name, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
