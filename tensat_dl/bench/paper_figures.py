"""The figures of ``tensat-dl bench paper``, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensat_dl.bench.common import Row
from tensat_dl.bench.paper_rows import first, models_of, of, speedups

#: The model of the paper's trade-off curve.
ANYTIME = "inception_v3"


def draw(rows: list[Row], folder: Path) -> None:
    """Writes all figures. Equal rows give equal files."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "tensat-dl", "font.size": 9, "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for name, size, paint in (
        ("paper-speedup", (8, 3.2), _speedup),
        ("paper-time", (8, 3.2), _time),
        ("paper-anytime", (6, 3.2), _anytime),
        ("paper-k-multi", (9, 3), _k_multi),
    ):
        figure, axes = plt.subplots(1, 3 if paint is _k_multi else 1, figsize=size, layout="constrained")
        paint(rows, axes)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": "tensat-dl bench paper"})
        plt.close(figure)


def _bars(axis: Any, models: Sequence[str], series: dict[str, list[float | None]]) -> None:
    width = 0.8 / len(series)
    for i, (label, values) in enumerate(series.items()):
        places = [j + i * width for j, v in enumerate(values) if v is not None]
        axis.bar(places, [v for v in values if v is not None], width, label=label)
    axis.set_xticks([j + 0.4 - width / 2 for j in range(len(models))], models, rotation=20)
    axis.legend(fontsize=7)


def _compared(rows: list[Row]) -> tuple[list[str], dict[str, list[Row | None]]]:
    models = models_of(of(rows, "ours"))
    return models, {
        "backtracking, alpha 1": [
            first(rows, "baseline", model=m, pack="pairs", search="backtracking", alpha=1.0) for m in models
        ],
        "sampling": [first(rows, "baseline", model=m, search="sampling") for m in models],
        "ours, k_multi 1": [first(rows, "ours", model=m, pack="pairs", k_multi=1) for m in models],
        "ours, k_multi 2": [first(rows, "ours", model=m, pack="pairs", k_multi=2) for m in models],
        "ours, groups": [first(rows, "ours", model=m, pack="groups") for m in models],
    }


def _speedup(rows: list[Row], axis: Any) -> None:
    models, found = _compared(rows)
    _bars(axis, models, {k: [None if r is None else speedups([r])[0] for r in v] for k, v in found.items()})
    axis.set_ylabel("speed-up, %")


def _time(rows: list[Row], axis: Any) -> None:
    models, found = _compared(rows)
    series = {f"{k}: total": [None if r is None else r["seconds"] for r in v] for k, v in found.items()}
    best = [None if r is None else r["best_seconds"] for r in found["backtracking, alpha 1"]]
    _bars(axis, models, {"backtracking, alpha 1: best": best, **series})
    axis.set_yscale("log")
    axis.set_ylabel("processor seconds")


def _anytime(rows: list[Row], axis: Any) -> None:
    models = models_of(of(rows, "ours"))
    model = ANYTIME if ANYTIME in models else next(iter(models), "")
    for label, row in (
        ("backtracking, alpha 1", first(rows, "baseline", model=model, pack="pairs", alpha=1.0)),
        ("backtracking, alpha 1.05", first(rows, "baseline", model=model, pack="pairs", alpha=1.05)),
        ("sampling", first(rows, "baseline", model=model, search="sampling")),
        ("ours, k_multi 1", first(rows, "ours", model=model, pack="pairs", k_multi=1)),
        ("ours, k_multi 2", first(rows, "ours", model=model, pack="pairs", k_multi=2)),
        ("ours, groups", first(rows, "ours", model=model, pack="groups")),
    ):
        if row is not None:
            times = [s for s, _ in row["gains"]] + [row["seconds"]]
            costs = [100 * (row["before"] / c - 1) for _, c in row["gains"]]
            axis.step(times, [*costs, costs[-1]], where="post", label=label)
    axis.set_title(model)
    axis.set_xlabel("processor seconds")
    axis.set_ylabel("speed-up, %")
    axis.legend(fontsize=7)


def _k_multi(rows: list[Row], axes: Any) -> None:
    found = of(rows, "k_multi")
    for model in models_of(found):
        line = [r for k in range(4) if (r := first(found, "k_multi", model=model, k_multi=k)) is not None]
        ks = [r["k_multi"] for r in line]
        axes[0].plot(ks, [speedups([r])[0] for r in line], marker=".", label=model)
        axes[1].plot(ks, [r["seconds"]["iterations"] + r["seconds"]["extract"] for r in line], marker=".")
        axes[2].plot(ks, [r["nodes"] for r in line], marker=".")
    for axis, label, scale in zip(
        axes, ("speed-up, %", "seconds", "e-nodes"), ("linear", "log", "log"), strict=True
    ):
        axis.set_xlabel("k_multi")
        axis.set_ylabel(label)
        axis.set_yscale(scale)
    if found:
        axes[0].legend(fontsize=7)
