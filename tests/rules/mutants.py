"""Rules of the library with one random change, the verdicts on them, and their truth at sizes that no verdict tries.

``python -m tests.rules.mutants 2000 FILE`` examines 2000 mutants, with proofs, and writes a line of JSON for each; it
goes on where it was interrupted. It ends with a table, and with exit code 1 if a verdict is wrong.
`test_mutants` examines a few.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tensat_dl import resources
from tensat_dl.core import expression as ex
from tensat_dl.core.rule import Attribute, Computed, PatternNode, RewriteRule
from tensat_dl.lang.program import Program, load_program
from tensat_dl.ops.semantics import semantics_of
from tensat_dl.ops.semantics.arrays import Array
from tensat_dl.ops.table import AttrDecl
from tensat_dl.verify.execute import ExecutionError, execute
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.frame import WIDE_LIMIT
from tensat_dl.verify.rules.instance import Instance
from tensat_dl.verify.rules.sampling import LIMIT, Sampler
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.verify.weights import draw_values

#: Operators that are taken for one another.
ALIKE = (
    ("ewadd", "ewsub", "ewmul", "ewmax", "ewmin"),
    ("relu", "tanh", "sigmoid", "exp", "abs"),
    ("reduce_sum", "reduce_max", "reduce_mean"),
    ("poolmax", "poolavg"),
)
#: The further instances of a mutant: how many, and after how many vain attempts no more are looked for.
FURTHER = 60
PATIENCE = 150


@dataclass(frozen=True)
class Mutant:
    """A rule with one change, of some kind: "condition", "number", "attribute", "operator" or "operands"."""

    kind: str
    change: str
    rule: RewriteRule


@cache
def library() -> Program:
    packs = sorted(p.stem for p in resources.rules().glob("*.tsr") if p.stem not in ("ops", "standard"))
    return load_program(str(resources.rules() / "standard.tsr"), tuple(packs))


def mutants(seed: int = 0) -> Iterator[Mutant]:
    """Random mutants without end: a rule, then a kind of change, then a change."""
    rng = random.Random(seed)
    while True:
        rule = rng.choice(library().rules)
        by_kind = defaultdict(list)
        for mutant in changed(rule):
            by_kind[mutant.kind].append(mutant)
        if by_kind:
            yield rng.choice(by_kind[rng.choice(sorted(by_kind))])


def changed(rule: RewriteRule) -> Iterator[Mutant]:
    """The rule with a condition dropped or with another number in it; or with another operator, other operands,
    another number or another attribute on the right."""
    for i, condition in enumerate(rule.conditions):
        rest = rule.conditions[:i], rule.conditions[i + 1 :]
        text = condition.span.line
        yield Mutant("condition", f"without {text}", replace(rule, conditions=sum(rest, ())))
        for by, other in _other_numbers(condition):
            change = f"{by:+} in {text}"
            yield Mutant("number", change, replace(rule, conditions=(*rest[0], other, *rest[1])))
    nodes = rule.target.nodes
    for k, node in enumerate(nodes):
        for kind, change, other_node in _changed_node(node):
            target = replace(rule.target, nodes=(*nodes[:k], other_node, *nodes[k + 1 :]))
            yield Mutant(kind, change, replace(rule, target=target))


def _changed_node(node: PatternNode) -> Iterator[tuple[str, str, PatternNode]]:
    for ops in ALIKE:
        if node.op in ops:
            for op in ops:
                if op != node.op and {a.name for a in node.attrs} <= {
                    a.name for a in library().ops[op].attrs
                }:
                    yield "operator", f"{node.op} -> {op}", replace(node, op=op)
    for i in range(len(node.args) - 1):
        args = (*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :])
        if args != node.args:
            yield "operands", f"{node.op}: operands {i}, {i + 1} swapped", replace(node, args=args)
    declared = library().ops[node.op]
    for i, a in enumerate(node.attrs):
        rest = node.attrs[:i], node.attrs[i + 1 :]
        for by, other in _other_numbers(a.value):
            moved = replace(a, value=other, pattern=Computed())
            yield "number", f"{node.op}: {by:+} in {a.name}", replace(node, attrs=(*rest[0], moved, *rest[1]))
        for b in node.attrs:
            if b.value != a.value and _alike(declared[a.name], declared[b.name]):
                moved = Attribute(a.name, b.value, b.pattern)
                change = f"{node.op}: {a.name} has the value of {b.name}"
                yield "attribute", change, replace(node, attrs=(*rest[0], moved, *rest[1]))
        if declared[a.name].default is not None:
            yield "attribute", f"{node.op}: without {a.name}", replace(node, attrs=sum(rest, ()))


def _alike(a: AttrDecl, b: AttrDecl) -> bool:
    """Whether a value of one attribute can be one of the other."""
    return (a.type, a.length, a.choices) == (b.type, b.length, b.choices)


def _other_numbers(value: Any) -> Iterator[tuple[int, Any]]:
    """An expression with all of its numbers moved, and by how much."""
    for by in (1, -1, 64):
        other = ex.replaced(value, lambda part, by=by: _moved(part, by))
        if other != value:
            yield by, other


def _moved(part: Any, by: int) -> Any:
    if isinstance(part, ex.Const) and part.kind in ("int", "float"):
        return replace(part, value=part.value + by, text=str(part.value + by))
    return None


# ---- truth ---------------------------------------------------------------------------------------------


def further(mutant: RewriteRule, examiner: Examiner, seed: int) -> Iterator[Instance]:
    """Instances with other sizes than those that a verdict rests on: of another seed, and beyond the usual pools."""
    for limit in (LIMIT, WIDE_LIMIT):
        thorough = limit == WIDE_LIMIT
        sampler = Sampler(mutant, examiner.infer, seed, limit=limit, thorough=thorough)
        rng = random.Random(seed)
        for form in sampler._forms:
            form.constants += tuple(rng.sample(range(5, 40), 4))
        for _, _, instance in sampler.several(FURTHER, PATIENCE):
            if max(t.size for n in instance.before.nodes for t in n.types) <= 1 << 16:
                yield instance


def agree(instance: Instance, seed: int) -> bool:
    """Whether both sides compute the same in NumPy, where the left side is a number at every step."""
    semantics = semantics_of(library().ops)
    for values in _values(instance, seed):
        try:
            with np.errstate(all="raise", under="ignore"):
                left = execute(instance.before, values, semantics)
        except ExecutionError:  # infinite, or not a number
            continue
        with np.errstate(all="ignore"):
            right = execute(instance.after, values, semantics)
        if not all(_close(x, y) for x, y in zip(left, right, strict=True)):
            return False
    return True


def _close(x: Array, y: Array) -> bool:
    finite = np.isfinite(x.astype(float))
    x, y = np.where(finite, x, 0).astype(float), np.where(finite, y, 0).astype(float)
    scale = float(np.abs(x).max(initial=0.0))
    return bool(np.allclose(x, y, rtol=1e-5, atol=1e-7 * max(scale, 1e-3)))


def _values(instance: Instance, seed: int) -> Iterator[Mapping[str, Array]]:
    """Values as they are drawn for models; whole numbers of both signs with ties; large, and positive ones."""
    drawn = draw_values((instance.before, instance.after), seed, {})
    yield drawn
    rng = np.random.default_rng(seed)
    for low, high, scale in ((-3, 4, 1.0), (-9, 10, 37.5), (1, 5, 0.25)):
        yield {
            name: rng.integers(low, high, v.shape) * scale if v.dtype == np.float64 else v
            for name, v in drawn.items()
        }


def wrong(mutant: Mutant, found: Verdict, examiner: Examiner, number: int) -> str:
    """What is wrong with a verdict; "" if nothing is seen to be."""
    if found.status not in ("proved", "tested"):
        return ""
    for instance in further(mutant.rule, examiner, 1000 + number):
        if not agree(instance, number):
            return f"false for {instance.assignment}"
    return ""


# ---- many ----------------------------------------------------------------------------------------------


def examined(mutant: Mutant, number: int, proofs: bool) -> dict[str, Any]:
    """The verdict on a mutant, and whether it is seen to be wrong, as plain data."""
    examiner = Examiner(library().ops, proofs=proofs)
    found = examiner.verdict(replace(mutant.rule, name="mutant"))
    row = {"number": number, "rule": mutant.rule.name, "kind": mutant.kind, "change": mutant.change}
    told = {
        k: v for k, v in asdict(found).items() if k in ("status", "reason", "remarks", "unproved", "proof")
    }
    return row | told | {"wrong": wrong(mutant, found, examiner, number)}


def main(count: int, file: Path) -> int:
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    with file.open("a") as out:
        for number, mutant in enumerate(islice(mutants(), count)):
            if number >= len(rows):
                rows.append(examined(mutant, number, proofs=True))
                print(json.dumps(rows[-1]), file=out, flush=True)
    for (kind, status), n in sorted(Counter((r["kind"], r["status"]) for r in rows).items()):
        print(f"{kind:10} {status:8} {n:5}")
    bad = [r for r in rows if r["wrong"]]
    for r in bad:
        print(f"{r['status']}, but {r['wrong']}: {r['rule']}, {r['change']}; {'; '.join(r['remarks'])}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
