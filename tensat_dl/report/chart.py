"""The growth of the e-graph as a small line chart in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

from tensat_dl.engine.iterations import Iteration

WIDTH, HEIGHT = 560, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 96, 14, 34


def growth_chart(iterations: Sequence[Iteration]) -> str:
    """E-nodes and e-classes over iterations; "" if there were none."""
    if not iterations:
        return ""
    count = len(iterations)
    step = _nice(max(max(it.nodes, it.classes, 1) for it in iterations) / 4)
    high = step * ceil(max(max(it.nodes, it.classes, 1) for it in iterations) / step)
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(i: int) -> float:
        return _LEFT + (inner_width * i / (count - 1) if count > 1 else inner_width / 2)

    def y(value: float) -> float:
        return _TOP + inner_height * (1 - value / high)

    out = [
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'aria-label="e-nodes and e-classes after each iteration">'
    ]
    for k in range(round(high / step) + 1):
        at = y(k * step)
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text class="tick right" x="{_LEFT - 8}" y="{at + 4:.1f}">{k * step:,.0f}</text>')
    every = max(1, ceil(count / 12))
    for i in range(0, count, every):
        out.append(f'<text class="tick middle" x="{x(i):.1f}" y="{HEIGHT - _BOTTOM + 18}">{i + 1}</text>')
    series = [
        ("e-nodes", "s1", [it.nodes for it in iterations]),
        ("e-classes", "s2", [it.classes for it in iterations]),
    ]
    ends = [y(values[-1]) for _, _, values in series]
    if abs(ends[0] - ends[1]) < 14:  # labels at the ends of the lines must not overlap
        ends = [(ends[0] + ends[1]) / 2 - 7, (ends[0] + ends[1]) / 2 + 7]
    for (name, style, values), end in zip(series, ends, strict=True):
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values))
        out.append(f'<polyline class="{style}" points="{points}"/>')
        for i, v in enumerate(values):
            tip = f"<title>iteration {i + 1}: {v:,} {name}</title>"
            out.append(f'<circle class="{style}" cx="{x(i):.1f}" cy="{y(v):.1f}" r="3">{tip}</circle>')
        out.append(
            f'<text class="series {style}" x="{x(count - 1) + 10:.1f}" y="{end + 4:.1f}">{name}</text>'
        )
    out.append(
        f'<text class="tick middle" x="{_LEFT + inner_width / 2:.1f}" y="{HEIGHT - 2}">iteration</text>'
    )
    return "\n".join([*out, "</svg>"])


def _nice(step: float) -> int:
    """The next larger of 1, 2, 5, 10, 20, 50 ..."""
    power = 10 ** floor(log10(max(step, 1)))
    return int(next(power * f for f in (1, 2, 5, 10) if power * f >= step))
