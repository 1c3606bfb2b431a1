"""Which packages are installed here."""

from __future__ import annotations


def version_of(package: str) -> str:
    """The version of a package; "" if it is not installed."""
    # few commands ask, and to import this takes some milliseconds
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
