"""The steps of ``tensat-dl why`` in words, on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.text import Text

from tensat_dl.core.words import plural
from tensat_dl.report.facts import costs_come_from, latency
from tensat_dl.report.graphs import shape
from tensat_dl.report.terminal import print_wrapped
from tensat_dl.why.steps import Explained, Explanation

#: Places that are listed of one group of steps.
MAX_PLACES = 4
#: The results of evaluating a step, in words.
VERDICTS = {
    "equal": "evaluated: equal",
    "assumed": "assumed",
    "inconclusive": "not evaluated",
    "different": "evaluated: DIFFERENT",
}


@dataclass(frozen=True, slots=True)
class AlikeSteps:
    """Steps in a row that apply one rule, numbered from ``first``."""

    first: int
    steps: tuple[Explained, ...]

    @property
    def numbers(self) -> str:
        last = self.first + len(self.steps) - 1
        return str(self.first) if self.first == last else f"{self.first}-{last}"

    @property
    def name(self) -> str:
        return self.steps[0].step.rule.name

    @property
    def doc(self) -> str:
        """The rule's documentation in one line."""
        return " ".join(self.steps[0].step.rule.doc.split())

    @property
    def cost(self) -> str:
        """The graph's cost before and after."""
        first, last = self.steps[0].cost, self.steps[-1].cost
        if first is None or last is None:
            return ""
        least = min(first[0], last[1])
        before, after = latency(first[0], least), latency(last[1], least)
        return before if before == after else f"{before} -> {after}"


def alike(steps: Sequence[Explained], verbose: bool = False) -> list[AlikeSteps]:
    """Steps in a row that apply one rule together; each by itself if ``verbose``."""
    found: list[AlikeSteps] = []
    numbered = enumerate(steps, start=1)
    for _, run in groupby(numbered, key=lambda e: e[0] if verbose else e[1].step.rule.name):
        part = list(run)
        found.append(AlikeSteps(part[0][0], tuple(e for _, e in part)))
    return found


def place(e: Explained, most: int = MAX_PLACES) -> str:
    """The tensors that a step replaces: ``q, k, v: 64×1024``."""
    names = [name for name, _ in e.step.at]
    shapes = list(dict.fromkeys(shape(t) for _, t in e.step.at))
    more = f", .. ({len(names)} in all)" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}: {', '.join(shapes[:most])}"


def verdict(e: Explained) -> str:
    """The result of evaluating a step, in words."""
    how = " exactly" if e.exactly else " in float64"
    shown = VERDICTS[e.verdict].replace("evaluated:", f"evaluated{how}:")
    return shown if e.verdict == "equal" else f"{shown}: {e.message}"


def conclusion(explanation: Explanation) -> str:
    """The conclusion from all steps, in one line."""
    steps = explanation.steps
    if not steps:
        return explanation.unfinished or "The graph is the original: no rule made it cheaper."
    count = f"{len(steps)} {plural(len(steps), 'step')}"
    short = any(e.verdict != "equal" for e in steps)
    replayed = f"{count}, {'' if len(steps) == 1 else 'each '}replayed and evaluated"
    kinds: Counter[str] = Counter(e.verdict for e in steps)
    found = ", ".join(f"{kinds[v]} {v}" for v in VERDICTS if kinds[v]) if short else "equal"
    exactly = sum(e.exactly for e in steps)
    compared = sum(e.verdict in ("equal", "different") for e in steps)
    if 0 < exactly < compared:
        found += f" ({exactly} exactly, {compared - exactly} in float64)"
    elif compared:
        found += " (exactly)" if exactly else " (in float64)"
    return f"{replayed}: {found}"


def whole_cost(explanation: Explanation) -> tuple[str, str, str] | None:
    """The graph's cost before and after all steps, and the origin of these costs; None if they are not known."""
    steps = explanation.steps
    if not steps or steps[0].whole is None or steps[-1].whole is None:
        return None
    first, last = steps[0].whole[0], steps[-1].whole[1]
    least = min(first.total, last.total)
    return (
        latency(first.total, least),
        latency(last.total, least),
        costs_come_from(first, last, explanation.device),
    )


def print_steps(explanation: Explanation, console: Console, verbose: bool = False) -> None:
    """Prints the steps; steps in a row that apply one rule are printed together."""
    steps = explanation.steps
    console.print(Text(explanation.name, style="bold"))
    told: set[str] = set()
    for part in alike(steps, verbose):
        times = f" ×{len(part.steps)}" if len(part.steps) > 1 else ""
        head = Text.assemble(
            (f"{part.numbers:>7}  ", "dim"), (part.name, "bold"), times, ("   " + part.cost, "dim")
        )
        console.print(head, soft_wrap=True)
        body = [(part.doc, "")] if part.doc and part.name not in told else []
        told.add(part.name)
        body += [(place(e), "dim") for e in part.steps[:MAX_PLACES]]
        if len(part.steps) > MAX_PLACES:
            body.append((f"and {len(part.steps) - MAX_PLACES} more places", "dim"))
        again = sum(bool(e.step.turned) for e in part.steps)
        if again:
            what = "it" if len(part.steps) == 1 else f"{again} of them"
            body.append((f"(before {what}, operators of the rule's source are put back)", "dim"))
        odd = next((e for e in part.steps if e.verdict != "equal"), None)
        if odd is not None:
            body.append((verdict(odd), "bold red" if odd.verdict == "different" else "yellow"))
        for text, style in body:
            print_wrapped(Text(text, style=style), " " * 9, max(20, console.width - 9), console)
    if costs := whole_cost(explanation):
        console.print("{} -> {}, {}".format(*costs), style="dim", soft_wrap=True)
    console.print(conclusion(explanation))
