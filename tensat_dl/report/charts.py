"""The iterations of an exploration as charts in SVG: lines for sizes, bars for new e-nodes and for seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from tensat_dl.engine.exploration import Iteration
from tensat_dl.report.facts import seconds
from tensat_dl.report.template import drawing
from tensat_dl.run.growth import growth

#: How many rules have a colour of their own.
RULES = 6
OTHERS = "other rules"

WIDTH = 560
_LEFT, _TOP, _BOTTOM = 62, 14, 34


@dataclass(frozen=True, slots=True)
class Series:
    """One number for each iteration, with the style class of its bars or its line."""

    name: str
    style: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """The grid of a chart, from ``first`` to ``last`` times a ``step``, and its size in pixels."""

    first: int
    last: int
    step: float
    height: int
    right: int  #: where the grid ends; labels of lines stand beside it
    left: int = _LEFT
    width: int = WIDTH

    @classmethod
    def around(cls, low: float, high: float, height: int, margin: int) -> ChartFrame:
        """A frame for values between two numbers, with a ``margin`` on the right."""
        step = _nice((high - low) / 4)
        first = floor(low / step)
        return cls(first, max(ceil(high / step), first + 1), step, height, WIDTH - margin)

    def y(self, value: float) -> float:
        """The height at which a value lies."""
        share = (self.last - value / self.step) / (self.last - self.first)
        return _TOP + (self.height - _TOP - _BOTTOM) * share

    def grid(self) -> list[tuple[float, str]]:
        """The lines of the grid: their heights, and the numbers beside them."""
        values = [k * self.step for k in range(self.first, self.last + 1)]
        return [(self.y(v), f"{v:,.0f}" if v == round(v) else f"{v:.3g}") for v in values]


def _nice(step: float) -> float:
    """The next larger of .. 0.5, 1, 2, 5, 10, 20 .."""
    if step <= 0:
        return 1.0
    power = 10.0 ** floor(log10(step))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= step * (1 - 1e-9))


def growth_chart(iterations: Sequence[Iteration]) -> str:
    """E-nodes and e-classes over iterations, as lines; "" if there were none."""
    if not iterations:
        return ""
    count = len(iterations)
    series = [
        Series("e-nodes", "s1", tuple(it.nodes for it in iterations)),
        Series("e-classes", "s2", tuple(it.classes for it in iterations)),
    ]
    frame = ChartFrame.around(0, max(4, *series[0].values, *series[1].values), height=250, margin=96)
    inner = frame.right - _LEFT
    xs = [_LEFT + (inner * i / (count - 1) if count > 1 else inner / 2) for i in range(count)]
    ends = [frame.y(s.values[-1]) for s in series]
    if abs(ends[0] - ends[1]) < 14:  # labels at the ends of the lines must not overlap
        ends = [(ends[0] + ends[1]) / 2 - 7, (ends[0] + ends[1]) / 2 + 7]
    lines = []
    for s, end in zip(series, ends, strict=True):
        points = enumerate(zip(xs, s.values, strict=True), 1)
        lines.append((s, end, [(x, frame.y(v), f"iteration {i}: {v:,} {s.name}") for i, (x, v) in points]))
    return drawing("lines", frame, xs, lines)


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
    title = "new e-nodes in each iteration, by rule"
    return _bars(series, title, lambda s, value: f"{s.name} {value:+,.0f} e-nodes", 220)


def seconds_bars(iterations: Sequence[Iteration]) -> str:
    """Seconds of each iteration; "" if there were none."""
    if not iterations:
        return ""
    taken = Series("seconds", "seconds", tuple(it.seconds for it in iterations))
    return _bars([taken], "seconds of each iteration", lambda _, value: seconds(value), 130)


def _bars(series: Sequence[Series], title: str, tip: Callable[[Series, float], str], height: int) -> str:
    """Bars for each iteration, stacked in the order of the series; negative values are stacked downwards."""
    stacks = list(zip(*(s.values for s in series), strict=True))
    top = max(sum(v for v in stack if v > 0) for stack in stacks)
    low = min(sum(v for v in stack if v < 0) for stack in stacks)
    frame = ChartFrame.around(low, top, height, margin=10)
    slot = (frame.right - _LEFT) / len(stacks)
    width = min(48.0, slot * 0.72)
    centres = [_LEFT + slot * (i + 0.5) for i in range(len(stacks))]
    rects = []
    for i, (x, stack) in enumerate(zip(centres, stacks, strict=True), 1):
        ends = {True: 0.0, False: 0.0}  # of the positive bars, and of the negative ones
        for s, value in zip(series, stack, strict=True):
            if value == 0:
                continue
            start, end = ends[value > 0], ends[value > 0] + value
            ends[value > 0] = end
            upper, lower = frame.y(max(start, end)), frame.y(min(start, end))
            rects.append((s.style, x - width / 2, upper, lower - upper, f"iteration {i}: {tip(s, value)}"))
    return drawing("bars", frame, centres, title, width, rects)
