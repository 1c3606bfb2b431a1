"""The code of tensat-dl as one value: what is sent to the nodes of a cluster, and what answers depend on."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

from tensat_dl.installed import version_of
from tensat_dl.resources import BESIDE, folder

#: Examples are models: those that a job reads are among its files.
_MODELS = "examples"


def package_version() -> str:
    """The version of tensat-dl; "none" where it is not installed."""
    return version_of("tensat-dl") or "none"


@cache
def code_digest() -> str:
    """A digest of the code, the grammar, the rules and the kernels."""
    return _digest(_files(*(name for name in BESIDE if name != _MODELS)))


@cache
def archive() -> tuple[str, bytes]:
    """A digest, and a ZIP archive of the packages as a wheel installs them. They can be imported once unpacked."""
    files = _files(*BESIDE)
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return _digest(files), found.getvalue()


def _files(*beside: str) -> dict[str, bytes]:
    """Contents by name: the package, and some of the folders beside it."""
    own, known = Path(__file__).parent.parent, package_version()
    folders = {"tensat_dl": own, **{f"tensat_dl_{name}": folder(name) for name in beside}}
    found = {
        f"{package}/{path.relative_to(place).as_posix()}": path.read_bytes()
        for package, place in folders.items()
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    facts = f"Metadata-Version: 2.1\nName: tensat-dl\nVersion: {known}\n"
    return found if known == "none" else {**found, f"tensat_dl-{known}.dist-info/METADATA": facts.encode()}


def _digest(files: dict[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, content in files.items():
        found.update(f"{name} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()
