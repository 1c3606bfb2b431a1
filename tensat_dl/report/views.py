"""How `Shown` values look: the text that the command line prints of them, and the same text in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from io import StringIO

from rich.console import Console
from rich.text import Text

from tensat_dl.core.shown import Shown
from tensat_dl.report.facts import operators, running, size
from tensat_dl.report.steps import print_steps
from tensat_dl.report.terminal import print_wrapped
from tensat_dl.report.text import listed, print_row, print_summary
from tensat_dl.report.verdicts import print_verdicts
from tensat_dl.run.model import Model
from tensat_dl.run.refused import Verdicts
from tensat_dl.run.result import Result
from tensat_dl.verify.rules.verdict import Verdict
from tensat_dl.why.steps import Explanation

#: Columns of all texts.
WIDTH = 80
_HTML = '<pre style="white-space: pre-wrap; line-height: 1.3">{code}</pre>'


def summary(value: Shown) -> str:
    """The text, without a line end."""
    text = StringIO()
    show(value, Console(file=text, width=WIDTH, color_system=None, force_jupyter=False))
    return text.getvalue().rstrip("\n")


def html(value: Shown) -> str:
    """The text with its colours as an element of a page that needs nothing else."""
    console = Console(
        file=StringIO(), width=WIDTH, record=True, force_terminal=True, force_jupyter=False, no_color=False
    )
    show(value, console)
    return console.export_html(code_format=_HTML, inline_styles=True)


@singledispatch
def show(value: Shown, console: Console) -> None:
    """Prints a value."""
    raise TypeError(f"nothing shows a {type(value).__name__}")


@show.register
def _(value: Result, console: Console) -> None:
    print_summary(value, console)


@show.register
def _(value: Explanation, console: Console) -> None:
    print_steps(value, console)


@show.register
def _(value: Verdict, console: Console) -> None:
    _show_verdicts([value], console)


@show.register
def _(value: Verdicts, console: Console) -> None:
    _show_verdicts(value, console)


def _show_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """A line for each verdict, and the counterexamples of false rules."""
    print_verdicts(verdicts, console)
    for v in verdicts:
        if v.counterexample is not None:
            console.print(Text(f"{v.rule} is false", style="bold red"))
            for line in v.counterexample.lines():
                print_wrapped(Text(line), "  ", WIDTH - 2, console)


@show.register
def _(value: Model, console: Console) -> None:
    graph = value.graph
    inputs = [graph.nodes[i] for i in graph.inputs]
    weights = sum(graph.nodes[i].type.nbytes for i in graph.weights)
    count = len(running(graph))
    counts = sorted(operators(graph).items(), key=lambda x: (-x[1], x[0]))
    rows = {
        "operators": f"{count}: {listed([f'{op} {n}' for op, n in counts])}",
        "inputs": listed([f"{n.attr('name')} : {n.type}" for n in inputs]) or "none",
        "outputs": listed([f"{name} : {graph.nodes[i].type}" for name, i in graph.outputs]),
        "weights": size(weights),
        "rules": f"{len(value.rules):,}",
    }
    if value.opened is not None:
        rows["sizes"] = ", ".join(map(str, value.opened.sizes))
    if value.onnx is not None:
        rows["model"] = value.onnx.summary()
        if value.onnx.dims:
            rows["sizes"] = value.onnx.sizes()
    console.print(Text(graph.name, style="bold"))
    for label, text in rows.items():
        print_row(label, text, console)
