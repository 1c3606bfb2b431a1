"""What a search found, kept for the next run of the same model with the same options on the same machine.

Exploration, extraction and the candidates to be timed depend on the graph, the rules, the options, the code, and the
costs of operators that were measured on the way. All but the last are the name of a file in the user's folder for
caches. The costs are in the file: it counts only if the profile still has the same ones, whatever else was measured
since. A search that a limit of seconds, the memory limit or Ctrl-C may have ended is not kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tensat_dl.core.progress import Progress
from tensat_dl.cost import CostModel
from tensat_dl.cost.device import this_machine
from tensat_dl.engine.exploration import Stop
from tensat_dl.extract.extraction import Extraction
from tensat_dl.jobs.identity import identity
from tensat_dl.kept import keep, recall
from tensat_dl.measure.machine import Machine
from tensat_dl.run.beginning import Setup
from tensat_dl.run.options import Options
from tensat_dl.run.rounds import Searched
from tensat_dl.run.search import Search

if TYPE_CHECKING:
    from tensat_dl.measure.cpu import Cpu
    from tensat_dl.onnx.importer import Imported

#: What an earlier run found, and its candidates.
Recalled = tuple[Searched, tuple[Extraction, ...]]
#: So many searches are kept. One of a model with some hundred operators takes a megabyte.
MOST = 64
#: Other reasons for the end of an exploration depend on the machine's load, or on somebody's patience.
_REPEATED: frozenset[Stop] = frozenset({"saturated", "iterations", "nodes"})


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a search found, of whose state it has the cost model and the operators that these came to; and the
    extractions that are candidates."""

    found: Searched
    extractions: tuple[Extraction, ...]

    def holds(self, now: CostModel) -> bool:
        """Whether the costs that were measured then are still the profile's."""
        profile = self.found.search.model.profile
        then = {} if profile is None else profile.entries
        entries = {} if now.profile is None else now.profile.entries
        return all(entries.get(text) == measured for text, measured in then.items())


@dataclass(frozen=True, slots=True)
class KeptSearches:
    """The searches of one question on a machine, by the options that rules and limits are taken from."""

    question: str
    machine: Cpu

    @classmethod
    def of(cls, imported: Imported, options: Options, machine: Machine) -> KeptSearches | None:
        """Those for a model, with the rules that came with it; None on a GPU."""
        from tensat_dl.measure.cpu import Cpu  # with the packages for ONNX models

        return cls(question(imported, threads=options.threads), machine) if isinstance(machine, Cpu) else None

    def recalled(self, options: Options, setup: Setup, progress: Progress) -> Recalled | None:
        """What an earlier run found, and its candidates; None if there is nothing, or if its costs do not hold."""
        kept = recall("searches", self._key(options))
        if not isinstance(kept, _Kept) or not kept.holds(setup.model):
            return None
        return _with_state(kept.found, setup, progress), kept.extractions

    def keep(self, options: Options, found: Searched, extractions: tuple[Extraction, ...]) -> None:
        """Keeps what a run found, if another one would find the same."""
        limited = options.time_limit is not None or options.extract_time_limit is not None
        if limited or self.machine.cut_short or found.interrupted or not _REPEATED.issuperset(found.stops):
            return
        if not extractions or any(e.interrupted for e in extractions):  # Ctrl-C came before
            return
        kept = _Kept(_with_state(found, Setup(found.search.model), Progress()), extractions)
        keep("searches", self._key(options), kept, MOST)

    def _key(self, options: Options) -> str:
        return hashlib.sha256(f"{self.question} {options!r}".encode()).hexdigest()


def _with_state(found: Searched, setup: Setup, progress: Progress) -> Searched:
    """What a search found, as of one with another setup."""
    state = Search(setup, progress)
    state.model, state.declared = found.search.model, found.search.declared
    return replace(found, search=state)


def question(imported: Imported, *parts: object, threads: int) -> str:
    """A digest of all that a search for a model depends on, beside its options: not of the values of its weights.
    ``parts`` are what else matters."""
    graph, program, environment = imported.graph, imported.program, this_machine("cpu", threads)
    known: tuple[object, ...] = (
        graph.name,
        graph.nodes,
        graph.outputs,
        imported.header,
        sorted((name, str(said)) for name, said in imported.said.items()),
        [sorted(shapes.items()) for shapes in imported.elsewhere],
        [(sorted(dims.items()), sorted(shapes.items())) for dims, shapes in imported.mix],
        # as they were read: files of rules may have changed since
        [(rule.name, rule.declared, rule.content) for rule in program.rules],
        [(name, op.decl.meaning, op.decl.flops) for name, op in program.declared.items()],
        *parts,
        environment.key if environment is not None else "",
        identity(),
    )
    return hashlib.sha256(repr(known).encode()).hexdigest()
