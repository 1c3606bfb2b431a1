"""The tables of the paper's evaluation beside ours: phases, measured graphs, k_multi and ablations."""

from __future__ import annotations

from collections.abc import Iterator

from tensat_dl.bench.common import Row
from tensat_dl.bench.paper_rows import (
    figure,
    first,
    models_of,
    of,
    percent,
    prose,
    reached,
    shown,
    spent,
    table,
)

#: The paper's tables 1 to 4. None: more than an hour. Its figures state no numbers, so these can't stand here.
BREAKDOWN = {
    "nasrnn": (0.10, 0.37),
    "bert": (0.83, 0.60),
    "resnext50": (0.68, 0.05),
    "nasnet_a": (8.81, 1.79),
    "squeezenet": (0.16, 0.12),
    "vgg19": (0.42, 0.02),
    "inception_v3": (4.38, 0.75),
}
RUNTIME = {"bert": (1.88, 1.88, 1.73), "nasrnn": (1.85, 1.15, 1.10), "nasnet_a": (17.8, 22.5, 16.6)}
CYCLES = {
    ("bert", 1): (0.96, 0.98, 0.16),
    ("bert", 2): (None, None, 510.3),
    ("nasrnn", 1): (1116.0, 1137.0, 0.32),
    ("nasrnn", 2): (None, None, 356.7),
    ("nasnet_a", 1): (424.0, 438.0, 1.81),
    ("nasnet_a", 2): (None, None, 75.1),
}
FILTERS = {
    ("bert", 1): (0.18, 0.17),
    ("bert", 2): (32.9, 0.89),
    ("nasrnn", 1): (1.30, 0.08),
    ("nasrnn", 2): (2932.0, 1.47),
    ("nasnet_a", 1): (3.76, 1.27),
    ("nasnet_a", 2): (None, 8.62),
}


def until_their_best(rows: list[Row]) -> Iterator[str]:
    """What our time goes into until we have a graph as cheap as backtracking's best, beside a tenth of its time."""
    lines: list[list[str]] = []
    beyond = 0  #: rows where the start alone takes more than a tenth
    exploring = 0  #: rows where exploration takes longer than extraction
    for model in models_of(rows):
        for pack in ("pairs", "groups"):
            taso = first(rows, "baseline", model=model, pack=pack, search="backtracking", alpha=1.0)
            mine = [] if taso is None else of(rows, "ours", model=model, pack=pack)
            found = [(t, r) for r in mine if (t := reached(r, taso["after"])) is not None]  # type: ignore[index]
            if taso is None or not found or not taso["best_seconds"]:
                continue
            total, row = min(found, key=lambda item: item[0])
            parts = spent(row, taso["after"])
            if parts is None:
                continue
            start, explore, extract = (parts[name] for name in ("start", "explore", "extract"))
            rest = max(0.0, total - start - explore - extract)
            seconds = (taso["best_seconds"] / 10, total, start, explore, extract, rest)
            lines.append([model, f"`{pack}`", *map(shown, seconds)])
            beyond += start > taso["best_seconds"] / 10
            exploring += explore > extract
    if not lines:
        return
    yield "### Where the time goes until backtracking's best"
    yield ""
    head = ["model", "rules", "a tenth of backtracking's s", "ours s"]
    yield from table([[*head, "start s", "explore s", "extract s", "price s"], *lines])
    yield ""
    yield from prose(
        f"The start alone, of the engine's process and of the rules' compilation, takes longer than a tenth of "
        f"backtracking's time to its best graph in {beyond} of {len(lines)} rows: there the aim is out of reach, "
        f"however quick the search is. Of the rest, exploration takes longer than extraction in {exploring} rows: "
        "all rules are applied at all places before anything is extracted."
    )
    yield ""


def breakdown(rows: list[Row]) -> Iterator[str]:
    yield "## Exploration and extraction (Table 1)"
    yield ""

    def lines() -> Iterator[list[str]]:
        yield ["model", "explore s", "extract s", "rounds", "e-nodes", "paper explore s", "paper extract s"]
        for r in of(rows, "ours", pack="pairs", k_multi=1):
            paper = BREAKDOWN.get(r["model"])
            theirs = [f"{x:.2f}" for x in paper] if paper else ["–", "–"]
            yield [
                r["model"],
                shown(r["explore"]),
                shown(r["extract"]),
                str(r["rounds"]),
                f"{r['nodes']:,}",
                *theirs,
            ]

    yield from table(lines())
    yield ""
    yield from prose(
        "Ours is the sum of all rounds, with the start of the engine's process and the compilation of "
        "the rules (more than 500 of them, the paper's 133); the paper's is one exploration and one "
        "extraction, on a machine with 16 cores. `standard` has other rules than TASO, so e-graphs "
        "are not of the same size."
    )
    yield ""


def on_cpu(rows: list[Row]) -> Iterator[str]:
    yield "## Measured on this machine's CPU"
    yield ""
    found = of(rows, "cpu")
    if not found:
        yield from prose(
            "Not recorded yet: each operator profiled in ONNX Runtime, and whole graphs timed in turn."
        )
        yield ""
        return
    yield from prose(
        "Each operator was profiled in ONNX Runtime on one thread; both searches minimise these "
        "costs. Then the original, backtracking's graph and ours ran whole, in turn, in several "
        "processes: all columns but *predicted* are **measured**."
    )
    yield ""

    def lines() -> Iterator[list[str]]:
        yield ["model", "original ms", "backtracking", "predicted", "ours", "predicted"]
        for r in found:
            g = r["graphs"]
            original = g["original"]["ms"]
            cells = [r["model"], "–" if original is None else f"{original:.2f}"]
            for name in ("backtracking", "ours"):
                ratio = g[name]["ratio"]
                cells.append(
                    f"{1 / ratio[1]:.3f}x ({1 / ratio[2]:.3f} to {1 / ratio[0]:.3f})"
                    if ratio
                    else (g[name]["reason"] or "unchanged")
                )
                cells.append(f"{g['original']['predicted'] / g[name]['predicted']:.3f}x")
            yield cells

    yield from table(lines())
    yield ""
    yield from prose(
        "`tensat-dl run` would keep a graph only where it is faster beyond noise. On a CPU, merging "
        "operators of one input gains little, as a product uses the whole core already: the paper's "
        "GPU starts a kernel for each."
    )
    yield ""
    worse = [
        f"{r['model']} ({100 * (g['ours']['predicted'] / g['backtracking']['predicted'] - 1):.1f} %)"
        for r in found
        if (g := r["graphs"])["ours"]["predicted"] > g["backtracking"]["predicted"] * (1 + 1e-9)
    ]
    if worse:
        yield from prose(
            f"By predicted cost ours is worse than backtracking here for {', '.join(worse)}. What ONNX Runtime "
            "computes together with a convolution costs nothing, and whether it does depends on the whole graph. "
            "Backtracking prices whole graphs; an e-graph has a price for each node, and rules for fused operators. "
            "A convolution with a relu has the price of the convolution; rows that were recorded before have the "
            "noise of two measurements, of which backtracking could choose the smaller in each place."
        )
        yield ""


def k_multi(rows: list[Row]) -> Iterator[str]:
    yield "## k_multi (Figure 7)"
    yield ""
    found = of(rows, "k_multi")
    if not found:
        yield from prose("Not recorded in this form yet; [Results](results.md) has `bench k-multi`.")
        yield ""
        return

    def lines() -> Iterator[list[str]]:
        yield ["model", *(f"k={k}: %; e-nodes; s" for k in range(4)), "groups %"]
        for model in models_of(found):
            cells = [model]
            for k in range(4):
                r = first(found, "k_multi", model=model, k_multi=k)
                if r is None:
                    cells.append("–")
                    continue
                spent = r["seconds"]["iterations"] + r["seconds"]["extract"]
                gap = "" if r["status"] == "optimal" else " ±"
                ended = "" if r["stop"] in ("saturated", "iterations") else f" ({r['stop']})"
                cells.append(f"{percent(r)}{gap}; {r['nodes']:,}{ended}; {spent:.1f}")
            yield [*cells, percent(first(rows, "ours", model=model, pack="groups"))]

    yield from table(lines())
    yield ""
    yield from figure("paper-k-multi")
    yield from prose(
        "One round each, seconds of the clock. ±: not proven optimal within the limit. In brackets: the "
        "limit that ended exploration. On a busy machine a limit of the clock leaves less of a large "
        "e-graph, so more iterations can give a worse answer. With group rules there is no k_multi to "
        "choose, and few e-nodes are enough for answers like those, or better."
    )
    yield ""


def _limit(row: Row | None, phase: str) -> str:
    if row is None:
        return "–"
    spent: float = row["seconds"][phase]
    late = row["status"] != "optimal" if phase == "extract" else row["stop"] == "time"
    return f"> {spent:.1f}" if late else f"{spent:.2f}"


def _paper(value: float | None) -> str:
    return "> 3600" if value is None else f"{value:g}"


def ablations(rows: list[Row]) -> Iterator[str]:
    yield "## Greedy and integer programs (Table 2)"
    yield ""

    def methods() -> Iterator[list[str]]:
        yield ["model", "original", "greedy", "ILP", "paper: original ms", "greedy ms", "ILP ms"]
        for model in models_of(of(rows, "method")):
            greedy, ilp = (first(rows, "method", model=model, method=m) for m in ("greedy", "ilp-none"))
            before = (greedy or ilp or {}).get("before")
            cells = [
                f"{x:.4f}" if x is not None else "–"
                for x in (before, *(r and r["after"] for r in (greedy, ilp)))
            ]
            paper = RUNTIME.get(model)
            yield [model, *cells, *([f"{x:g}" for x in paper] if paper else ["–"] * 3)]

    if of(rows, "method"):
        yield from table(methods())
        yield ""
        yield from prose(
            "Our greedy answer is the input where it would cost more, as no answer of ours costs more "
            "than its input."
        )
    else:
        yield from prose(
            "Not recorded in this form yet; [Results](results.md#extraction) compares all methods."
        )
    yield ""
    yield "## Cycle constraints (Table 3)"
    yield ""

    def cycles() -> Iterator[list[str]]:
        yield ["model", "k_multi", "real s", "int s", "without s", "exact s", "paper: real", "int", "without"]
        for model in models_of(of(rows, "cycles")):
            for k in (1, 2):
                cells = [
                    _limit(first(rows, "cycles", model=model, k_multi=k, method=m), "extract")
                    for m in ("ilp-real", "ilp-int", "ilp-none")
                ]
                cells.append(_limit(first(rows, "k_multi", model=model, k_multi=k), "extract"))
                paper = CYCLES.get((model, k))
                yield [model, str(k), *cells, *(map(_paper, paper) if paper else ["–"] * 3)]

    if of(rows, "cycles"):
        yield from table(cycles())
        yield ""
        yield from prose(
            "*exact*: ours, on the e-graph with its cycles, with no constraint until an answer needs "
            "it. >: not proven optimal within the time limit."
        )
    else:
        yield from prose(
            "Not recorded in this form yet; [Results](results.md#extraction) has `bench extraction`."
        )
    yield ""
    yield "## Cycle filters (Table 4)"
    yield ""

    def filters() -> Iterator[list[str]]:
        yield ["model", "k_multi", "vanilla s", "efficient s", "paper: vanilla", "efficient"]
        for model in models_of(of(rows, "filter")):
            for k in (1, 2):
                cells = [
                    _limit(first(rows, "filter", model=model, k_multi=k, cycles=c), "iterations")
                    for c in ("vanilla", "efficient")
                ]
                paper = FILTERS.get((model, k))
                yield [model, str(k), *cells, *(map(_paper, paper) if paper else ["–"] * 2)]

    if of(rows, "filter"):
        yield from table(filters())
        yield ""
        yield from prose("Seconds of the clock, on a busy machine: only large ratios mean something.")
    else:
        yield from prose(
            "Not recorded in this form yet; [Results](results.md#cycle-filters) has `bench cycles`."
        )
    yield ""
