"""The page of ``tensat-dl bench paper``: each table and figure of the paper's evaluation, from recorded rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean

from tensat_dl.bench.common import Row
from tensat_dl.bench.paper_plan import Part
from tensat_dl.bench.paper_rows import (
    figure,
    first,
    interval,
    models_of,
    of,
    percent,
    prose,
    reached,
    shown,
    speedups,
    table,
)
from tensat_dl.bench.paper_tables import ablations, breakdown, k_multi, on_cpu, until_their_best

#: The patterns of the appendix: the models that they are of, and our rules that make them.
PATTERNS = (
    ("BERT: products of one input, merged", ("bert",), ("group-matmul-left", "group-matmul-left-bias")),
    (
        "Inception-v3, NasNet-A: convolutions of one input, merged",
        ("inception_v3", "nasnet_a"),
        ("group-conv-input", "group-conv-input-bias", "group-conv-input-grouped", "group-conv-enlarge"),
    ),
    (
        "NasNet-A: four convolutions become two, one over concatenated input channels",
        ("nasnet_a",),
        ("conv-join-terms",),
    ),
    ("NasRNN: products of one input, merged, their sums joined", ("nasrnn",), ("matmul-join-terms",)),
)
HEADINGS = (
    *("model", "original", "ours k=1", "k=2", "groups", "alpha 1", "1.05", "sampling", "on groups"),
    *("ours s", "total s", "best s", "ours at its best s", "total/ours", "best/ours"),
)


def searches(rows: list[Row]) -> Iterator[list[str]]:
    """The headings, and a line for each model: speed-ups in per cent and processor seconds."""
    yield list(HEADINGS)
    for model in models_of(rows):
        k1, k2 = (first(rows, "ours", model=model, pack="pairs", k_multi=k) for k in (1, 2))
        groups = first(rows, "ours", model=model, pack="groups")
        taso = first(rows, "baseline", model=model, pack="pairs", search="backtracking", alpha=1.0)
        loose = first(rows, "baseline", model=model, pack="pairs", search="backtracking", alpha=1.05)
        on_groups = first(rows, "baseline", model=model, pack="groups", search="backtracking")
        sampled = of(rows, "baseline", model=model, search="sampling")
        if k1 is None and taso is None:
            continue
        same = None if k1 is None or taso is None else reached(k1, taso["after"])
        which = k1
        if same is None and k2 is not None and taso is not None:
            same, which = reached(k2, taso["after"]), k2
        yield [
            model,
            f"{(k1 or taso or {})['before']:.4f}",
            *map(percent, (k1, k2, groups, taso, loose)),
            interval(speedups(sampled)),
            percent(on_groups),
            shown(None if k1 is None else k1["seconds"]),
            shown(None if taso is None else taso["seconds"]),
            shown(None if taso is None else taso["best_seconds"]),
            shown(same) + (" (k=2)" if same is not None and which is k2 else ""),
            "–" if k1 is None or taso is None else f"{taso['seconds'] / k1['seconds']:.2g}x",
            "–" if not same or taso is None else f"{taso['best_seconds'] / same:.2g}x",
        ]


def _aim(rows: list[Row]) -> Iterator[str]:
    """How far the aim is reached: never worse, and in a tenth of the time."""
    worse, better, slower, ratios, total = [], 0, [], [], 0
    for model in models_of(rows):
        for pack in ("pairs", "groups"):
            mine = of(rows, "ours", model=model, pack=pack)
            others = of(rows, "baseline", model=model, pack=pack)
            if not mine or not others:
                continue
            total += 1
            best, other = min(r["after"] for r in mine), min(r["after"] for r in others)
            if best > other * (1 + 1e-9):
                worse.append(f"{model} with the rules `{pack}` ({100 * (best / other - 1):.2f} % costlier)")
            better += best < other * (1 - 1e-9)
            taso = first(rows, "baseline", model=model, pack=pack, search="backtracking", alpha=1.0)
            times = [s for r in mine if taso is not None and (s := reached(r, taso["after"])) is not None]
            if taso is None or not taso["best_seconds"]:
                continue
            if not times:
                slower.append(f"{model} (`{pack}`: never reached)")
                continue
            ratio = taso["best_seconds"] / max(min(times), 1e-3)
            ratios.append(ratio)
            if ratio < 10:
                slower.append(f"{model} (`{pack}`: {ratio:.2g}x)")
    if not total:
        return
    yield from prose(
        f"Of {total} pairs of a model and rules, ours is cheaper than every baseline in {better}, "
        f"and costlier in {len(worse)}{': ' + ', '.join(worse) if worse else ''}."
    )
    yield ""
    yield from _by_default(rows)
    if ratios:
        mid = geometric_mean(ratios)
        yield from prose(
            f"Backtracking takes {mid:.2g} times as long to its best graph as ours takes to a graph that costs no "
            f"more (geometric mean of {len(ratios)}; from {min(ratios):.2g} to {max(ratios):.2g})."
        )
    missed = f"missed for {', '.join(slower)}" if slower else "met everywhere"
    yield from prose(f"The aim, ten times as long, is {missed}.")


def _by_default(rows: list[Row]) -> Iterator[str]:
    """How ours with its own rules compares with the best baseline, on any rules."""
    below: list[str] = []
    equal: list[str] = []
    above: list[str] = []
    for model in models_of(rows):
        own = first(rows, "ours", model=model, pack="groups")
        others = of(rows, "baseline", model=model)
        if own is not None and others:
            ratio = own["after"] / min(r["after"] for r in others)
            (equal if abs(ratio - 1) < 1e-9 else below if ratio < 1 else above).append(model)
    yield from prose(
        f"With the rules that a run has by default, `groups`, ours is cheaper than the best of all baselines on any "
        f"rules for {', '.join(below) or 'none'}; equal for {', '.join(equal) or 'none'}; costlier for "
        f"{', '.join(above) or 'none'}."
    )
    yield ""


def _kind(rows: list[Row]) -> str:
    shares = [
        r["measured_share"] for r in rows if r["part"] in ("ours", "baseline") and "measured_share" in r
    ]
    devices = ", ".join(dict.fromkeys(str(r["device"]) for r in rows if "device" in r))
    how = "**estimated** by the roofline" if not any(shares) else "partly **measured** (a profile)"
    return f"Costs are milliseconds on {devices}, {how}."


def page(rows: list[Row], machine: Row, cells: Sequence[Part]) -> Iterator[str]:
    """The lines of the page."""
    done = {r["key"] for r in rows if "error" not in r}
    failed = [r for r in rows if "error" in r]
    yield "# The paper's evaluation"
    yield ""
    yield from prose(
        'This page has the tables and figures of the evaluation of "Equality Saturation for Tensor '
        'Graph Superoptimization" (Yang et al., MLSys 2021), for this program and for the searches '
        "that the paper compares with. `tensat-dl bench paper` measures them and writes the page:"
    )
    yield ""
    limit, runs = cells[0].arguments["limit"], {c.arguments["seed"] for c in cells if "seed" in c.arguments}
    yield "    tensat-dl bench paper --json benchmarks/paper.json --resume --page docs/paper.md \\"
    yield f"        --time-limit {limit:g} --runs {len(runs)}"
    yield ""
    count = sum(c.key in done for c in cells)
    yield from prose(f"**Recorded:** {count} of the {len(cells)} measurements of this form.")
    missing = [c for c in cells if c.key not in done]
    if missing:
        yield from prose(f"Not recorded: {_listed(missing)}.")
    for r in failed:
        yield from prose(f"Failed: {r['part']} of {r['model']}: {r['error']}.")
    yield ""
    yield from prose(
        f"The machine has {machine['cores']} cores ({machine['architecture']}), Python {machine['python']}, "
        f"egglog {machine['egglog']}, and was busy with other work. So times of searches are *processor "
        "seconds*, of all processes of a search, without reading files: where a machine has nothing else "
        "to do, about as many pass on the clock. "
        f"{_kind(rows)} The columns that ONNX Runtime measured are marked as such."
    )
    yield ""
    yield from prose(
        "All searches of a row have the same costs and rules. The rules `pairs` are the pack "
        "`standard` with the paper's multi-pattern rules in place of group rules; `groups` is the "
        "pack `standard`."
    )
    yield ""
    yield from _searches(rows)
    yield from breakdown(rows)
    yield from on_cpu(rows)
    yield from k_multi(rows)
    yield from ablations(rows)
    yield from _patterns(rows)


def _listed(missing: Sequence[Part]) -> str:
    parts: dict[str, list[str]] = {}
    for c in missing:
        models = parts.setdefault(c.part, [])
        if c.arguments["model"] not in models:
            models.append(c.arguments["model"])
    return "; ".join(f"parts of {part!r} of {', '.join(models)}" for part, models in parts.items())


def _searches(rows: list[Row]) -> Iterator[str]:
    yield "## Speed-up and optimization time (the paper's Figures 4 and 5)"
    yield ""
    yield from _aim(rows)
    yield ""
    yield from table(searches(rows))
    yield ""
    yield from prose(
        "*original*: cost in milliseconds. *ours*, *groups*, *alpha*: speed-up in per cent, (before / "
        "after − 1), of our search with the rules `pairs` and k_multi 1 and 2, of ours with groups, "
        "and of backtracking on `pairs` that looks at 100 graphs. *sampling*: mean and 95 % interval "
        "over runs. *on groups*: backtracking with the rules `groups`, two members at a time and all "
        "at once. *ours s*: processor seconds of ours, k=1, with the proof of the optimum and with "
        "the rounds after the best graph. *total*, *best*: of backtracking with alpha 1, and until "
        "its best graph. *ours at its best*: until ours has a graph that costs no more than "
        "backtracking's best."
    )
    yield ""
    yield from figure("paper-speedup")
    yield from figure("paper-time")
    yield from prose(
        "The paper has ours 9.5 to 379 times faster than TASO's whole search and 1.8 to 260 times "
        "than its best graph; it gives the speed-ups in a figure without numbers. Here backtracking is "
        "quick. It shares the nodes of all its graphs, so a pattern is matched once for each node, not "
        "for each graph, and a graph is priced before it is made. TASO's program makes, hashes and "
        "prices every graph, and measures operators on the way. Ours starts a process and compiles all "
        "rules first, which takes a second or two of a processor however small the graph is, and it "
        "goes on after its best graph: it proves that the e-graph has none that is cheaper, and looks "
        "for another round. What remains is the quality of the answers, where backtracking stops at "
        "graphs that no single step improves. The costs are those of an H100 by its roofline, where "
        "launches weigh more than on the paper's T4."
    )
    yield ""
    rates = [r for r in of(rows, "baseline", search="backtracking") if r["seconds"] > 0]
    if rates:
        speeds = [r["tried"] / r["seconds"] for r in rates]
        yield from prose(
            f"Backtracking tries {min(speeds):,.0f} to {max(speeds):,.0f} substitutions in a processor "
            f"second; with its defaults it looks at {min(r['tried'] for r in rates):,} to "
            f"{max(r['tried'] for r in rates):,} substitutions."
        )
        cut = [f"{r['model']} ({r['pack']}, {r['expanded']} graphs)" for r in rates if r["stop"] == "time"]
        if cut:
            yield from prose(f"The time limit ended it early for {', '.join(dict.fromkeys(cut))}.")
        yield ""
    late = [r for r in of(rows, "ours") if r["stop"] == "time"]
    if late:
        names = (f"{r['model']} ({r['pack']}, k={r['k_multi']})" for r in late)
        yield from prose(
            "The clock's limit ended an exploration of ours early, on the busy machine, for "
            f"{', '.join(names)}: the answer is of the e-graph until then."
        )
        yield ""
    yield from until_their_best(rows)
    yield "### Trade-off (Figure 6)"
    yield ""
    yield from figure("paper-anytime")
    yield from prose(
        "Ours has nothing to show while it explores, and then the best of all graphs at once; "
        "backtracking improves step by step. The paper's curve of ours is one run for each k_multi; "
        "here it is every answer of a single run."
    )
    yield ""


def _patterns(rows: list[Row]) -> Iterator[str]:
    yield "## The appendix's patterns"
    yield ""
    yield from prose(
        "The rules of which our answers with the rules `groups` have operators, by the paper's examples:"
    )
    yield ""
    for title, models, rules in PATTERNS:
        for model in models:
            row = first(rows, "ours", model=model, pack="groups")
            if row is None:
                yield from prose(f"- {title}: {model} is not recorded.")
                continue
            there = [f"{row['used'][r]} operators by `{r}`" for r in rules if r in row["used"]]
            if there:
                yield from prose(f"- {title}: found in {model}, {', '.join(there)}.")
            else:
                yield from prose(
                    f"- {title}: not in the answer for {model} on {row['device']}; {_why_not(row)}."
                )
    yield ""


def _why_not(row: Row) -> str:
    used = ", ".join(f"`{r}`" for r in list(row["used"])[:4])
    return f"its rules are {used}" if used else "nothing was cheaper than the input"


def write_page(rows: list[Row], machine: Row, cells: Sequence[Part], path: Path) -> None:
    """Writes the page, and its figures into the folder ``figures`` beside it."""
    from tensat_dl.bench.paper_figures import draw
    from tensat_dl.files import write

    draw(rows, path.parent / "figures")
    write(str(path), "\n".join(page(rows, machine, cells)).rstrip() + "\n")
