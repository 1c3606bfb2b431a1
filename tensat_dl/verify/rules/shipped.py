"""The verdicts on the library's rules that come with it, in ``rules/verdicts.json``.

They are what `Examiner` says, with proofs and seed 0; a test works out each anew. A rule that was changed, or whose
operators were, is not among them. To write the file anew: ``python -m tensat_dl.verify.rules.shipped``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from functools import cache
from typing import Any, get_args

from tensat_dl import resources
from tensat_dl.core.rule import RewriteRule
from tensat_dl.ops.table import OpTable
from tensat_dl.verify.rules.verdict import Aspect, Counterexample, Status, Verdict

#: Operators that every rule's instances have.
_LEAVES = ("input", "weight", "fill")


def of_library(rule: RewriteRule, ops: OpTable) -> Verdict | None:
    """The verdict on a rule of the library; None for other rules."""
    data = _verdicts().get(rule.name)
    if data is None or data["of"] != _digest(rule, ops):
        return None
    return read_verdict({name: value for name, value in data.items() if name != "of"})


def statement(rule: RewriteRule, ops: OpTable) -> str:
    """All that a verdict on a rule depends on but the checker: the rule and its operators. Places in files, comments
    and other rules make no difference."""
    text = (rule.name, rule.content, [c.span.text for c in rule.conditions])
    declared = [ops[op].meaning for op in sorted(ops.closure((*_LEAVES, *(n.op for n in rule.nodes))))]
    return repr((text, declared))


def read_verdict(data: Mapping[str, Any]) -> Verdict:
    """A verdict that was JSON. Raises TypeError, KeyError or ValueError for what is none."""
    data = {name: _tuples(value) for name, value in data.items()}
    if data.get("counterexample") is not None:
        data["counterexample"] = Counterexample(**data["counterexample"])
    data["aspects"] = tuple(Aspect(**a) for a in data.get("aspects", ()))
    verdict = Verdict(**data)
    if verdict.status not in get_args(Status):
        raise ValueError(verdict.status)
    return verdict


def written(rule: RewriteRule, ops: OpTable, verdict: Verdict) -> str:
    """A verdict as a line of the file: what differs from the defaults."""
    usual = {f.name: f.default for f in fields(verdict) if f.default is not MISSING}
    data = {n: v for n, v in asdict(verdict).items() if n not in usual or v != usual[n]}
    return f"{json.dumps(rule.name)}: {json.dumps({'of': _digest(rule, ops), **data})}"


def _digest(rule: RewriteRule, ops: OpTable) -> str:
    return hashlib.sha256(statement(rule, ops).encode()).hexdigest()[:20]


@cache
def _verdicts() -> Mapping[str, Any]:
    """What the file says, by rule. The file is a part of the program: it may not be damaged."""
    path = resources.rules() / "verdicts.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _tuples(value: Any) -> Any:
    """With tuples for lists, which JSON does not tell apart."""
    if isinstance(value, dict):
        return {name: _tuples(v) for name, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def main() -> None:
    """Writes the file: known verdicts of rules that have not changed, and new ones."""
    from tensat_dl.files import write
    from tensat_dl.lang.program import load_program
    from tensat_dl.verify.rules.verify import verify_rules

    rules: dict[str, RewriteRule] = {}
    for path in sorted(resources.rules().glob("*.tsr")):
        program = load_program(str(path))
        rules |= {r.name: r for r in program.rules}
    found = verify_rules(tuple(rules.values()), program.ops, proofs=True)
    lines = sorted(written(r, program.ops, v) for r, v in zip(rules.values(), found, strict=True))
    write(str(resources.rules() / "verdicts.json"), "{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
