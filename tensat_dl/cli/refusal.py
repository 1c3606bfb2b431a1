"""Why an answer is not written."""

from __future__ import annotations

from dataclasses import dataclass

from tensat_dl.lang.program import Program
from tensat_dl.run.result import Result


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message for standard error, which may be empty, and the exit code."""

    message: str
    code: int = 1


def refusal(result: Result, program: Program, output: str | None, verified: bool) -> Refusal | None:
    """The reason not to write the answer to ``output``; None if there is none. ``verified`` tells whether
    verification was asked for."""
    false = {v.rule: v for v in result.verdicts if v.failed}
    if false:
        from tensat_dl.report.verdicts import diagnostic

        found = (diagnostic(false[r.name], r) for r in program.rules if r.name in false)
        return Refusal("\n\n".join(d.render() for d in found if d is not None))
    compared = result.equivalence
    if compared is not None and compared.status == "different":
        return Refusal(
            f"error: the optimized graph computes something else: {compared.message}\n"
            f"  = hint: {_suspects(result, program)}"
        )
    if result.measured is not None and result.measured.mismatch:
        return not_the_same(output, result.measured.mismatch)
    if compared is None and verified:  # interrupted
        return Refusal(f"{output} is not written: the result is not verified" if output else "", 130)
    return None


def not_the_same(output: str | None, difference: str) -> Refusal:
    """ONNX Runtime computes something else with the answer than with the original."""
    what = "the optimized model computes something else" if output is None else f"{output} is not written"
    return Refusal(f"error: {what}: {difference}")


def _suspects(result: Result, program: Program) -> str:
    """Which rules may be at fault: those of the file itself, if any was applied, else all."""
    applied = dict.fromkeys(s.rule for step in result.iterations for s in step.rules if s.applied)
    declared = {r.name: r.declared for r in program.rules}
    own = [name for name in applied if declared.get(name) in program.own_rules]
    names = own or list(applied)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"a rule must be false; {'of this file ' if own else ''}these were applied: {shown}"
