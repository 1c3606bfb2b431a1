"""What is in the repository is in the wheel, and the program finds it however it was installed."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
#: Packages whose folders stand at the top of the repository.
TOP: dict[str, str] = SETUPTOOLS["package-dir"]

#: Run in a fresh interpreter: where things are found. Other editable installs must not answer for this one.
WHERE = """
import json, site, sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in repr(f).lower()]
for name in [m for m in sys.modules if m.startswith("__editable__")]:
    del sys.modules[name]
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    site.addsitedir(folder)
import tensat_dl
from tensat_dl import resources
print(json.dumps([tensat_dl.__file__, str(resources.grammar()), str(resources.rules())]))
"""


def folder_of(package: str) -> Path:
    first, _, rest = package.partition(".")
    return ROOT / TOP.get(first, first) / rest.replace(".", "/")


def data_files() -> set[str]:
    """Every file of the packages that is not Python, as a path in the wheel."""
    found = set()
    for package in SETUPTOOLS["packages"]:
        for file in folder_of(package).rglob("*"):
            inside = file.relative_to(folder_of(package))
            if file.is_file() and file.suffix not in (".py", ".pyc") and "__pycache__" not in inside.parts:
                found.add(f"{package.replace('.', '/')}/{inside}")
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a build needs, so that builds leave nothing behind and find nothing old."""
    copy = tmp_path / "checkout"
    for name in ("tensat_dl", *TOP.values()):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", PROJECT["project"]["readme"], "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def pip(*arguments: str | Path) -> None:
    # Building needs a recent setuptools. Where there is none, pip gets it, as `pip install .` does.
    try:
        recent = int(importlib.metadata.version("setuptools").partition(".")[0]) >= 77
    except importlib.metadata.PackageNotFoundError:
        recent = False
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "-q", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, *(["--no-build-isolation"] if recent else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def where(folder: Path, cwd: Path, *site: Path) -> list[Path]:
    """The package, the grammar and the rules that a program finds which has ``folder`` on its path."""
    cwd.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", WHERE, *map(str, site)],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Path(p) for p in json.loads(done.stdout)]


def test_the_list_of_packages_is_complete() -> None:
    on_disk = {
        ".".join((top, *init.parent.relative_to(ROOT / folder).parts))
        for top, folder in {"tensat_dl": "tensat_dl", **TOP}.items()
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert sorted(SETUPTOOLS["packages"]) == sorted(on_disk)


def test_every_module_is_in_a_package() -> None:
    for folder in ("tensat_dl", *TOP.values()):
        for module in (ROOT / folder).rglob("*.py"):
            assert (module.parent / "__init__.py").is_file(), module


def test_there_are_data_files() -> None:
    found = data_files()
    for name in (
        "tensat_dl/py.typed",
        "tensat_dl_grammar/tsr.lark",
        "tensat_dl_rules/ops.tsr",
        "tensat_dl_rules/standard.tsr",
        "tensat_dl/report/templates/report.html",
        "tensat_dl/cost/devices/h100.json",
    ):
        assert name in found


@pytest.mark.thorough
def test_wheel(checkout: Path, tmp_path: Path) -> None:
    pip("wheel", checkout, "-w", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {
        f"{package.replace('.', '/')}/{file.name}"
        for package in SETUPTOOLS["packages"]
        for file in folder_of(package).glob("*.py")
    }
    assert modules - names == set()
    assert data_files() - names == set()
    assert not [n for n in names if n.startswith(("tests/", "docs/", "examples/"))]

    site = tmp_path / "site"
    pip("install", wheel, "--target", site)
    assert all(p.is_relative_to(site) for p in where(site, tmp_path / "elsewhere"))
    text = (ROOT / "examples" / "tiny_fuse_relu.tsr").read_text(encoding="utf-8")
    (tmp_path / "elsewhere" / "graph.tsr").write_text('import "standard"\n' + text, encoding="utf-8")
    outputs = ["-o", "out.tsr", "--html", "out.html", "--json", "out.json"]
    subprocess.run(
        [sys.executable, "-m", "tensat_dl", "run", "graph.tsr", "-q", *outputs],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path / "elsewhere",
        check=True,
    )
    assert "act = relu" in (tmp_path / "elsewhere" / "out.tsr").read_text(encoding="utf-8")
    assert "<html" in (tmp_path / "elsewhere" / "out.html").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_editable_install(checkout: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    pip("install", "--prefix", prefix, "--ignore-installed", "--no-warn-script-location", "-e", checkout)
    (pth,) = prefix.rglob("*.pth")
    found = where(tmp_path / "nothing", tmp_path / "elsewhere", pth.parent)
    assert all(p.is_relative_to(checkout) for p in found)


def test_checkout(checkout: Path, tmp_path: Path) -> None:
    assert all(p.is_relative_to(checkout) for p in where(checkout, tmp_path / "elsewhere"))


def test_missing_folder_is_told(checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(checkout / "grammar")
    (checkout / "pyproject.toml").unlink()
    with pytest.raises(RuntimeError, match="installed without its grammar/ folder"):
        where(checkout, tmp_path / "elsewhere")
