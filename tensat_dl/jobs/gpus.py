"""The GPUs of this machine, for workers that have one each."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tensat_dl.jobs.job import NoWorkersError

#: The variable with the numbers of the GPUs that a process may use.
GPUS = "CUDA_VISIBLE_DEVICES"
#: The variable that has CUDA number GPUs as nvidia-smi does. Otherwise the fastest kind comes first.
ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU: how a process can be given it, its full name, and what no other one has."""

    number: str
    name: str = ""
    uuid: str = ""


def cards() -> list[Card]:
    """The GPUs of this machine that its processes may use."""
    known = {key: card for card in _listed() for key in (card.number, card.uuid)}
    given = os.environ.get(GPUS)
    if given is None:
        return list(_listed())
    numbers = [number for number in given.split(",") if number and number != "-1"]
    return [Card(n, known[n].name, known[n].uuid) if n in known else Card(n) for n in numbers]


def lock_of(number: str) -> str:
    """A name for the GPU that a process is given, however it is called."""
    return next((c.uuid for c in _listed() if number in (c.number, c.uuid)), number.replace("/", "-"))


def chosen(wanted: str, kinds: Iterable[str]) -> str | None:
    """Of the kinds of GPUs that there are, the wanted one, as in "h100" for "NVIDIA H100 PCIe"; None if there is no
    choice. Raises `NoWorkersError` if several are there and none is wanted."""
    there = sorted(set(kinds))
    if len(there) < 2:
        return None
    fit = [kind for kind in there if wanted and wanted.lower() in re.split(r"\W+", kind.lower())]
    if not fit:
        found = ", ".join(kind or "unknown" for kind in there)
        raise NoWorkersError(
            f"there are GPUs of several kinds ({found}), and none is {wanted or 'named'}\n"
            "  = hint: signatures name their GPU: `tensat-dl run --device a100 --signatures FILE`"
        )
    return fit[0]


@cache
def _listed() -> tuple[Card, ...]:
    """All GPUs, by the driver's tool; none without it."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.finditer(r"^GPU (\d+): (.*?)(?: \(UUID: (\S+)\))?$", done.stdout, re.MULTILINE)
    return tuple(Card(m[1], m[2], m[3] or "") for m in found)
