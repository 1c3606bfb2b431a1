"""Whether rules can be proved here: z3 is an extra."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def prover() -> str:
    """The version of z3; "" if it is not installed."""
    try:
        return version("z3-solver")
    except PackageNotFoundError:
        return ""
