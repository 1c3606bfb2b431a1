"""Whether rules can be proved here: z3 is an extra."""

from __future__ import annotations

from tensat_dl.installed import version_of


def prover() -> str:
    """The version of z3; "" if it is not installed."""
    return version_of("z3-solver")
