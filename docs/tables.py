"""Tables of benchmark results for the documents, from the files in benchmarks/ that ``tensat-dl bench`` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensat_dl.bench.check import notes as check_notes
from tensat_dl.bench.common import cost, seconds, size
from tensat_dl.bench.extraction import HEADINGS, lines
from tensat_dl.bench.onnx import headings, line, notes
from tensat_dl.bench.torch import HEADINGS as TORCH_HEADINGS
from tensat_dl.bench.torch import line as torch_line
from tensat_dl.bench.torch import notes as torch_notes
from tensat_dl.bench.torch_models import TORCH_MODELS
from tensat_dl.bench.whole_runs import again

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def results(name: str) -> dict[str, Any]:
    """The recorded results of a benchmark."""
    found: dict[str, Any] = json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def where(report: dict[str, Any]) -> str:
    m = report["machine"]
    return (
        f"Measured on {m['cores']} cores ({m['architecture']}), Python {m['python']}, egglog {m['egglog']}."
    )


def models() -> Iterator[str]:
    yield "| model | operators | e-nodes | before | after | faster | gap | again |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for r in results("models")["rows"]:
        gap = "0" if r["status"] == "optimal" else f"{r['gap']:.1%}"
        costs = f"{r['before']:.4f} | {r['after']:.4f} | {r['before'] / r['after']:.2f}x"
        yield f"| {r['model']} | {r['operators']} | {r['nodes']:,} | {costs} | {gap} | {again(r)} |"


def join() -> Iterator[str]:
    report = results("join")
    yield where(report)
    yield ""
    ways = ("find", "find and read", "explore")
    headings = ("model", "search", "e-nodes", "combinations", "matches", "product", "hash join", *ways)
    yield f"| {' | '.join(headings)} | {' | '.join(f'product / {way}' for way in ways)} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for r in report["rows"]:
        if "seconds" not in r:
            continue
        s = r["seconds"]
        product, partial = f"{s['product']:.3f}", r["enumerated"] < 1
        if partial:
            product = f"> {s['product']:.0f} (estimated {s['product_estimated']:,.0f})"
        sizes = f"{r['nodes']:,} | {r['combinations']:,} | {r['matches']:,}"
        ours = f"{s['hash_join']:.3f} | {s['find']:.3f} | {s['read']:.3f} | {s['explore']:.3f}"
        note = " (estimated)" if partial else ""
        faster = " | ".join(
            f"{s['product_estimated'] / s[way]:.1f}x{note}" for way in ("find", "read", "explore")
        )
        yield f"| {r['model']} | {r['k_multi']} | {sizes} | {product} | {ours} | {faster} |"


def k_multi() -> Iterator[str]:
    report = results("k-multi")
    rows = report["rows"]
    columns = list(dict.fromkeys((r["rules"], r["k_multi"]) for r in rows))
    yield where(report)
    yield ""
    words = {"groups": "groups", "both": "groups and pairs, unlimited"}
    names = [words.get(rules, f"k_multi {k}") for rules, k in columns]
    yield f"| model | | {' | '.join(names)} |"
    yield f"|---|---|{'--:|' * len(columns)}"
    for model in dict.fromkeys(r["model"] for r in rows):
        found = {(r["rules"], r["k_multi"]): r for r in rows if r["model"] == model}
        cells = [found.get(c, {"error": "not run"}) for c in columns]
        for what, show in (("cost", cost), ("e-nodes", size), ("seconds", _both)):
            shown = ["failed" if "error" in r else show(r) for r in cells]
            yield f"| {model if what == 'cost' else ''} | {what} | {' | '.join(shown)} |"


def cycles() -> Iterator[str]:
    report = results("cycles")
    rows = report["rows"]
    ways = list(dict.fromkeys(r["cycles"] for r in rows))
    yield where(report)
    yield ""
    yield f"| model | k_multi | | {' | '.join(ways)} |"
    yield f"|---|--:|---|{'--:|' * len(ways)}"
    for model, k in dict.fromkeys((r["model"], r["k_multi"]) for r in rows):
        found = {r["cycles"]: r for r in rows if (r["model"], r["k_multi"]) == (model, k)}
        for what, show in (("seconds", seconds), ("e-nodes", size), ("cost", cost)):
            shown = ["failed" if "error" in found[w] else show(found[w]) for w in ways]
            name = f"{model} | {k}" if what == "seconds" else " | "
            yield f"| {name} | {what} | {' | '.join(shown)} |"


def extraction(name: str = "extraction") -> Iterator[str]:
    report = results(name)
    yield where(report)
    yield ""
    yield f"| {' | '.join(' '.join(h.split()) for h in HEADINGS)} |"
    yield f"|---|{'--:|' * (len(HEADINGS) - 1)}"
    for cells in lines(report["rows"]):
        yield f"| {' | '.join(cells)} |"


def depth() -> Iterator[str]:
    report = results("depth")
    phases = ("parse", "explore", "extract", "verify")
    yield where(report)
    yield ""
    yield f"| model | layers | operators | e-nodes | {' | '.join(phases)} | all | MB | before | after | gap |"
    yield f"|---|{'--:|' * (len(phases) + 8)}"
    for r in report["rows"]:
        s, megabytes = r["seconds"], sum(r["megabytes"].values())
        times = " | ".join(f"{s[phase]:.2f}" for phase in (*phases, "wall"))
        gap = "0" if r["status"] == "optimal" else f"{r['gap']:.1%}"
        sizes = f"{r['layers']} | {r['operators']:,} | {r['nodes']:,}"
        costs = f"{r['before']:.4f} | {r['after']:.4f}"
        yield f"| {r['model']} | {sizes} | {times} | {megabytes:.0f} | {costs} | {gap} |"


def onnx(name: str = "onnx") -> Iterator[str]:
    report = results(name)
    m, peers = report["machine"], report["options"]["peers"]
    rows = [r for r in report["rows"] if "error" not in r]
    tools = ", ".join(f"{p} {m[p]}" for p in peers)
    yield f"{rows[0]['hardware']['cpu']}, 1 thread, ONNX Runtime {m['onnxruntime']}, {tools}."
    yield ""
    yield f"| {' | '.join(headings(peers))} |"
    yield f"|---|{'--:|' * (len(headings(peers)) - 1)}"
    for row in rows:
        yield f"| {' | '.join(line(row, peers))} |"
    yield ""
    yield from (f"- {note}" for note in notes(rows))


def torch(name: str = "torch") -> Iterator[str]:
    report = results(name)
    m, threads = report["machine"], report["options"]["threads"]
    rows = [r for r in report["rows"] if "error" not in r]
    versions = (
        f"{name} {m[name]}" for name in ("torch", "onnxruntime", "transformers", "timm", "torchvision")
    )
    used = f"{threads} {'thread' if threads == 1 else 'threads'}"
    yield f"{m['cores']} cores ({m['processor']}), {used}, {', '.join(versions)}."
    yield ""
    yield f"| {' | '.join(TORCH_HEADINGS)} |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|---|--:|"
    order = list(TORCH_MODELS)
    for row in sorted(rows, key=lambda r: order.index(r["model"])):
        yield f"| {' | '.join(torch_line(row))} |"
    yield ""
    yield from (f"- {note}" for note in torch_notes(rows))


def _both(row: dict[str, Any]) -> str:
    return f"{seconds(row)} + {row['seconds']['extract']:.2f}"


def check() -> Iterator[str]:
    report = results("check")
    yield where(report)
    yield ""
    yield "| pack | rules | proved | tested | cpu s |"
    yield "|---|--:|--:|--:|--:|"
    for r in report["rows"]:
        if r["rules"]:
            counts = " | ".join(str(r["verdicts"].get(s, 0)) for s in ("proved", "tested"))
            yield f"| {r['model']} | {r['rules']} | {counts} | {r['cpu']:.1f} |"
    yield ""
    yield from (f"- {note}" for note in check_notes(report["rows"]))


def scale() -> Iterator[str]:
    yield where(results("scale"))
    yield "Ray runs on the same machine, with its own processes beside the workers."
    yield ""
    yield "| workers | start, s | a job of nothing, ms | all models, s | speedup |"
    yield "|---|--:|--:|--:|--:|"
    for name in ("scale", "scale-ray"):
        for r in results(name)["rows"]:
            if "workers" in r:
                kind = f"{r['workers']}, of Ray" if r["ray"] else str(r["workers"])
                gain = "" if r["ray"] else f"{r['speedup']:.2f}x"
                yield f"| {kind} | {r['start']:.1f} | {1000 * r['job']:.2f} | {r['models']:.1f} | {gain} |"


def simulated() -> Iterator[str]:
    yield "| nodes | makespan, s | workers busy | work / workers, s | longest, s | handing out, s |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for r in results("scale-ray")["rows"]:
        if "nodes" in r:
            bounds = " | ".join(f"{r['bound'][b]:.1f}" for b in ("work", "longest", "handing out"))
            yield f"| {r['nodes']} | {r['makespan']:.1f} | {r['busy']:.0%} | {bounds} |"
