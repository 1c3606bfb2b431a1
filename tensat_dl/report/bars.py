"""The seconds and the new e-nodes of each iteration, as bars in SVG and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from tensat_dl.engine.iterations import Iteration
from tensat_dl.report.facts import seconds
from tensat_dl.run.growth import growth

#: How many rules have a colour of their own.
RULES = 6
OTHERS = "other rules"

WIDTH = 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 10, 14, 34


@dataclass(frozen=True, slots=True)
class Series:
    """One number for each iteration, with the style class of its bars."""

    name: str
    style: str
    values: tuple[float, ...]


def by_rule(iterations: Sequence[Iteration]) -> list[Series]:
    """New e-nodes in each iteration: by the rules that brought most, and by all others together."""
    brought = [rule for rule, n in growth(iterations).items() if n > 0][:RULES]
    each = [growth([it]) for it in iterations]
    found = [
        Series(rule, f"r{k}", tuple(new.get(rule, 0) for new in each)) for k, rule in enumerate(brought, 1)
    ]
    rest = tuple(sum(n for rule, n in new.items() if rule not in brought) for new in each)
    return [*found, Series(OTHERS, "r0", rest)] if any(rest) else found


def growth_bars(iterations: Sequence[Iteration]) -> str:
    """New e-nodes in each iteration, by rule; "" if there are none."""
    series = by_rule(iterations)
    if not any(any(s.values) for s in series):
        return ""

    def tip(s: Series, i: int) -> str:
        return f"iteration {i + 1}: {s.name} {s.values[i]:+,.0f} e-nodes"

    return _bars(series, "new e-nodes in each iteration, by rule", tip, 220)


def seconds_bars(iterations: Sequence[Iteration]) -> str:
    """Seconds of each iteration; "" if there were none."""
    if not iterations:
        return ""
    taken = Series("seconds", "seconds", tuple(it.seconds for it in iterations))

    def tip(s: Series, i: int) -> str:
        return f"iteration {i + 1}: {seconds(s.values[i])}"

    return _bars([taken], "seconds of each iteration", tip, 130)


def _bars(series: Sequence[Series], title: str, tip: Callable[[Series, int], str], height: int) -> str:
    """Bars for each iteration, stacked in the order of the series; negative values are stacked downwards."""
    count = len(series[0].values)
    stacks = [[s.values[i] for s in series] for i in range(count)]
    top = max((sum(v for v in stack if v > 0) for stack in stacks), default=0.0)
    low = min((sum(v for v in stack if v < 0) for stack in stacks), default=0.0)
    step = _nice((top - low) / 4)
    first, last = floor(low / step), max(ceil(top / step), floor(low / step) + 1)
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    slot = inner_width / count
    width = min(48.0, slot * 0.72)

    def y(value: float) -> float:
        return _TOP + inner_height * (last - value / step) / (last - first)

    out = [f'<svg class="chart bars" role="img" viewBox="0 0 {WIDTH} {height}" aria-label="{escape(title)}">']
    for k in range(first, last + 1):
        at = y(k * step)
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text class="tick right" x="{_LEFT - 8}" y="{at + 4:.1f}">{_tick(k * step)}</text>')
    every = max(1, ceil(count / 12))
    for i, stack in enumerate(stacks):
        left = _LEFT + slot * i + (slot - width) / 2
        ends = {True: 0.0, False: 0.0}  # of what is positive, and of what is not
        for s, value in zip(series, stack, strict=True):
            if value == 0:
                continue
            start, end = ends[value > 0], ends[value > 0] + value
            ends[value > 0] = end
            out.append(
                f'<rect class="{s.style}" x="{left:.1f}" y="{y(max(start, end)):.1f}" width="{width:.1f}" '
                f'height="{abs(y(start) - y(end)):.1f}"><title>{escape(tip(s, i))}</title></rect>'
            )
        if i % every == 0:
            at = left + width / 2
            out.append(f'<text class="tick middle" x="{at:.1f}" y="{height - _BOTTOM + 18}">{i + 1}</text>')
    middle = _LEFT + inner_width / 2
    out.append(f'<text class="tick middle" x="{middle:.1f}" y="{height - 2}">iteration</text>')
    return "\n".join([*out, "</svg>"])


def _nice(step: float) -> float:
    """The next larger of .. 0.5, 1, 2, 5, 10, 20 .."""
    if step <= 0:
        return 1.0
    power = 10.0 ** floor(log10(step))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= step * (1 - 1e-9))


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"
