"""``tensat-dl bench check``: how long the rules of the library take to examine, with nothing known of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from tensat_dl.bench.common import Results, Row, json_option, new_table, where_of, where_options
from tensat_dl.core.words import plural

#: So many of the rules that take longest are told.
HEAVIEST = 10


@click.command("check")
@click.argument("packs", nargs=-1, metavar="[PACK]...")
@where_options
@json_option
def command(packs: tuple[str, ...], jobs: int | None, ray: str | None, json_path: str | None) -> int:
    """The rules of packs, by default of all, examined as by `check --again`: seconds of computing, and verdicts.

    PACKS are names of packs, or .tsr files.
    """
    from tensat_dl.lang.library import packs as all_packs

    results = Results("check", json_path, [p for p in packs if p.endswith(".tsr")], where=where_of(jobs, ray))
    variants = [{"model": pack} for pack in packs or all_packs()]
    table = new_table("seconds of computing", "pack", "rules", "proved", "tested", "cpu", left=("pack",))
    for row in results.measure("tensat_dl.bench.check:examined", variants, None):
        if "error" not in row and row["rules"]:
            numbers = (row["rules"], *(row["verdicts"].get(s, 0) for s in ("proved", "tested")))
            table.add_row(row["model"], *map(str, numbers), f"{row['cpu']:.1f}")
    return results.finish(table, [*notes([r for r in results.rows if "error" not in r])])


def examined(model: str) -> Row:
    """A pack's rules, one by one: how many there are of each verdict, and the seconds that they take."""
    from tensat_dl import resources
    from tensat_dl.lang.program import load_program
    from tensat_dl.verify.rules.prover import prover
    from tensat_dl.verify.rules.verify import examiner

    path = model if model.endswith(".tsr") else str(resources.rules() / f"{model}.tsr")
    program = load_program(path)
    verdict = examiner(tuple(program.ops.values()), 0, bool(prover()))
    verdicts, taken = Counter[str](), {}
    began = time.perf_counter()
    for rule in program.rules:
        if rule.declared in program.own_rules:
            before = time.process_time()
            verdicts[verdict(rule).status] += 1
            taken[rule.name] = time.process_time() - before
    return {
        "model": model,
        "rules": len(taken),
        "verdicts": dict(verdicts),
        "cpu": sum(taken.values()),
        "wall": time.perf_counter() - began,
        "heaviest": sorted(taken.items(), key=lambda t: -t[1])[:HEAVIEST],
    }


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """All packs together, and the rules that take longest."""
    verdicts = sum((Counter(r["verdicts"]) for r in rows), Counter[str]())
    rules = sum(r["rules"] for r in rows)
    counts = ", ".join(f"{n} {status}" for status, n in verdicts.most_common())
    yield f"{rules} {plural(rules, 'rule')} ({counts}) in {sum(r['cpu'] for r in rows):.0f} s of computing."
    heaviest = sorted((t for r in rows for t in r["heaviest"]), key=lambda t: -t[1])[:HEAVIEST]
    yield f"The heaviest: {', '.join(f'{name} {seconds:.1f} s' for name, seconds in heaviest)}."
