"""The answer of a run as a file, unless it is refused."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tensat_dl.report.facts import agreed, size
from tensat_dl.run import refused
from tensat_dl.run.model import Model
from tensat_dl.run.refused import Mismatch
from tensat_dl.run.result import Result
from tensat_dl.sizes.named import in_words

#: Bytes that names and types of values may add to a model's file before it counts as grown.
NAMES = 1024

#: Lines of the summary: labels and texts.
Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an answer is not written: a message for standard error, which may be empty; and an exit code."""

    message: str
    code: int = 1


def refusal(result: Result, model: Model, output: str | None) -> Refusal | None:
    """The reason not to write the answer to ``output``; None if there is none."""
    wrong = refused.refusal(result, model.program.own_rules)
    if wrong is not None:
        return Refusal(wrong.render())
    if result.unverified:
        return Refusal(f"{output} is not written: the result is not verified" if output else "", 130)
    return None


def write_answer(output: str, model: Model, result: Result) -> tuple[Refusal | None, Rows]:
    """Writes the optimized graph, and returns lines about it; or the reason why it is not written. Raises `TsrError`,
    OSError."""
    try:
        written = model.write_answer(result, output, result.options.seed)
    except Mismatch as e:
        return Refusal(e.render()), ()
    if written is None:
        return None, ()
    from tensat_dl.onnx.write import Fresh  # with the packages for ONNX models

    if isinstance(written, Fresh):
        random = f"random, seed {result.options.seed}: a .tsr file has none"
        fixed: Rows = ()
        if written.fixed and result.sizes is not None:
            fixed = (("fixed", f"{in_words(result.sizes.after.defaults)}: {written.fixed}"),)
        return None, (("weights", random), *fixed)
    rows = []
    found = written.agreement
    if found.status == "agrees":
        rows.append(("onnx runtime", agreed(found)))
    else:
        print(f"warning: {output} is not compared with the original: {found.message}", file=sys.stderr)
    if written.ranges:
        rows.append(("holds for", f"{written.ranges}; nothing is promised for other sizes"))
    if written.after > written.before + NAMES:
        rows.append(("model size", f"{size(written.before)} -> {size(written.after)}"))
    return None, tuple(rows)
