"""Which packages are installed here."""

from __future__ import annotations


def version_of(package: str) -> str:
    """The version of a package; "" if it is not installed."""
    from importlib.metadata import (
        PackageNotFoundError,
        version,
    )  # few commands ask, and it takes some milliseconds

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
