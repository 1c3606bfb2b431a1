"""`verify_rules`: the verdicts on rules, from the cache as far as they are known.

The cache keeps verdicts on disk. Their key is the rule, its operators, and the code of the checker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, fields
from functools import cache
from typing import Any, get_args

import numpy as np

from tensat_dl.core.rule import RewriteRule
from tensat_dl.files import write
from tensat_dl.kept import code_digest, folder
from tensat_dl.ops.table import OpDecl, OpTable
from tensat_dl.verify.rules.prover import prover
from tensat_dl.verify.rules.verdict import Aspect, Counterexample, Status, Verdict
from tensat_dl.verify.rules.workers import examine_all

#: Called with how many verdicts are there, how many there will be, the rule that was examined last, and its verdict.
Progress = Callable[[int, int, str, str], None]
#: The parts of the program that a verdict depends on.
_CHECKER = ("core", "engine", "lang", "ops", "rewrite", "verify")
#: Operators that every rule's instances have.
_LEAVES = ("input", "weight", "fill")


def verify_rules(
    rules: Sequence[RewriteRule],
    ops: OpTable,
    *,
    seed: int = 0,
    cached: bool = True,
    proofs: bool = False,
    progress: Progress | None = None,
) -> tuple[Verdict, ...]:
    """The verdicts on rules, in order.

    A rule is tested on concrete instances, whose two sides are compared exactly. docs/verification.md explains the
    verdicts. With ``proofs``, rules that pass are then proved for all sizes, as far as they can be and if z3 is
    installed; without, only verdicts that are kept tell of proofs. Verdicts are kept in the user's folder for caches,
    unless not ``cached``. The same rule with the same operators and seed gets the same verdict, if it is asked for
    in the same way.
    """
    found: dict[int, Verdict] = {}
    solver = prover() if proofs else ""
    keys = [key(rule, ops, seed, solver) for rule in rules] if cached else []
    for i, name in enumerate(keys):
        known = None if solver or not prover() else _load(key(rules[i], ops, seed, prover()))
        known = known or _load(name)
        if known is not None:
            found[i] = known
    left = [(i, rule) for i, rule in enumerate(rules) if i not in found]
    with closing(examine_all(left, ops, seed, bool(solver))) as verdicts:
        for i, verdict in verdicts:
            found[i] = verdict
            if cached:
                _save(keys[i], verdict)
            if progress is not None:
                progress(len(found), len(rules), rules[i].name, verdict.status)
    return tuple(found[i] for i in range(len(rules)))


def kept_verdicts(rules: Sequence[RewriteRule], ops: OpTable, *, seed: int = 0) -> dict[int, Verdict]:
    """The verdicts with proofs that are kept, by the positions of the rules."""
    found = ((i, _load(key(rule, ops, seed, prover()))) for i, rule in enumerate(rules))
    return {i: verdict for i, verdict in found if verdict is not None}


def key(rule: RewriteRule, ops: OpTable, seed: int, solver: str = "") -> str:
    """The key of a verdict in the cache, with proofs by a version of z3 or without. Places in files, comments and
    other rules make no difference."""
    text = (rule.name, rule.content, [c.span.text for c in rule.conditions])
    declared = [_declaration(ops[op]) for op in sorted(ops.closure((*_LEAVES, *(n.op for n in rule.nodes))))]
    return hashlib.sha256(repr((text, declared, seed, solver, _checker())).encode()).hexdigest()


def _load(name: str) -> Verdict | None:
    """The verdict that is kept under a key, or None. A damaged file is ignored."""
    try:
        data = json.loads((folder("verdicts") / f"{name}.json").read_text(encoding="utf-8"))
        return _verdict(data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _save(name: str, verdict: Verdict) -> None:
    """Keeps a verdict, if there is a place for it."""
    with suppress(OSError):
        place = folder("verdicts")
        place.mkdir(parents=True, exist_ok=True)
        write(str(place / f"{name}.json"), json.dumps(asdict(verdict)) + "\n")


def _declaration(decl: OpDecl) -> Any:
    return [getattr(decl, f.name) for f in fields(decl) if f.name not in ("doc", "span", "flops")]


@cache
def _checker() -> str:
    """A digest of the code that decides."""
    return f"{np.__version__} {code_digest(*_CHECKER)}"


def _verdict(data: Any) -> Verdict:
    """Raises TypeError, KeyError or ValueError for what is no verdict."""
    example = data.pop("counterexample")
    found = None if example is None else Counterexample(**_tuples(example))
    aspects = tuple(Aspect(**_tuples(a)) for a in data.pop("aspects"))
    verdict = Verdict(**_tuples(data), counterexample=found, aspects=aspects)
    if verdict.status not in get_args(Status):
        raise ValueError(verdict.status)
    return verdict


def _tuples(value: Any) -> Any:
    """With tuples for lists, which JSON does not tell apart."""
    if isinstance(value, dict):
        return {name: _tuples(v) for name, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
