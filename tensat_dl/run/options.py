"""The options of an optimization: one list for the command line, the Python API and the pipeline.

Imports nothing heavy: ``--help`` comes through here.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from tensat_dl.extract.types import METHODS, ExtractLimits, check_method
from tensat_dl.run.machines import DEVICE, ONNX_DEVICE

if TYPE_CHECKING:
    from tensat_dl.engine.types import Cycles, Limits
    from tensat_dl.measure.machine import Machine
    from tensat_dl.ops.table import OpTable
    from tensat_dl.run.search import Setup, Unfit

#: The options that stand together in the help of `tensat-dl run`.
Group = Literal["aim", "search", "check"]
#: `tensat_dl.engine.types.CYCLES`, which is too heavy to import for ``--help``.
_CYCLES: tuple[Cycles, ...] = ("none", "vanilla", "efficient", "incremental")


@dataclass(frozen=True, slots=True)
class About:
    """What is said of an option and which values it takes. Its name, type and default are those of its field.

    The ``help`` of an option that is on by default says what happens without it. ``{}`` in it stands for the value.
    """

    group: Group
    help: str
    metavar: str | None = None
    least: int | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    none: str = ""  #: the name of None, if that is more than "not given"
    recorded: bool = True  #: whether the option decides what is found, so that it is written into the output


def _said(
    group: Group, help: str, metavar: str | None = None, least: int | None = None, **more: Any
) -> dict[str, About]:
    return {"about": About(group, help, metavar, least, **more)}


def about(option: Field[Any]) -> About:
    """What is said of a field of `Options`."""
    found = option.metadata["about"]
    assert isinstance(found, About)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to optimize. Raises ValueError for values below the least ones, for an unknown method (`ExtractionError`)
    or kind of cycle filtering, and for fusion on the CPU, where ONNX Runtime runs graphs with kernels of its own."""

    device: str | None = field(
        default=None,
        metadata=_said(
            *("aim", "Minimise latency on this device; cuda: this machine's GPU.", "NAME"),
            none=f"{DEVICE}; {ONNX_DEVICE} for .onnx",
        ),
    )
    measure: bool | None = field(
        default=None,
        metadata=_said(
            "aim",
            "Measure operators and candidates on this machine (device cpu or cuda); "
            "keep what is faster beyond noise.",
            none="for .onnx",
            recorded=False,
        ),
    )
    threads: int = field(
        default=1, metadata=_said("aim", "Threads of a device that this machine measures.", "N", 1)
    )
    k_multi: int | None = field(
        default=1,
        metadata=_said(
            *("search", "Iterations in which multi-pattern rules are applied.", "N", 0), none="unlimited"
        ),
    )
    max_nodes: int = field(
        default=50_000, metadata=_said("search", "Stop growing the e-graph at this many e-nodes.", "N", 1)
    )
    max_iters: int = field(
        default=15, metadata=_said("search", "Stop exploring after this many iterations.", "N", 0)
    )
    time_limit: float | None = field(
        default=None, metadata=_said("search", "Stop exploring after {} seconds.", "S", 0, unit="seconds")
    )
    max_memory: int | None = field(
        default=None, metadata=_said("search", "Stop exploring at this resident memory.", "MB", 1, unit="MiB")
    )
    cycles: Cycles = field(
        default="none",
        metadata=_said(
            "search",
            "Keep cycles out of the e-graph, for ilp-none: not at all, or by one of three checks of matches.",
            choices=_CYCLES,
        ),
    )
    reassociate: bool = field(
        default=True,
        metadata=_said(
            "search", "Leave out rules that change how results are rounded, as far as their tests show."
        ),
    )
    fuse: bool = field(
        default=False,
        metadata=_said("search", "Chains of elementwise operators may become operators of one kernel each."),
    )
    extract: str = field(default="exact", metadata=_said("search", "Extraction method.", choices=METHODS))
    extract_time_limit: float | None = field(
        default=None, metadata=_said("search", "Stop extracting after {} seconds.", "S", 0, unit="seconds")
    )
    verify: bool = field(
        default=True,
        metadata=_said("check", "Do not execute the two graphs against each other.", recorded=False),
    )
    seed: int = field(default=0, metadata=_said("check", "Seed of verification.", "N", 0, recorded=False))

    def __post_init__(self) -> None:
        _ = self.limits, self.extract_limits  # which check themselves
        check_method(self.extract)
        if self.fuse and self.device == "cpu":
            raise ValueError(
                "fusion is for GPUs: on the CPU ONNX Runtime runs graphs, with kernels of its own"
            )
        for f in fields(self):
            value, least = getattr(self, f.name), about(f).least
            if value is not None and least is not None and not value >= least:
                raise ValueError(f"{f.name} is {value}: at least {least} is needed")

    @property
    def target(self) -> str:
        """The name of the device."""
        return DEVICE if self.device is None else self.device

    @property
    def limits(self) -> Limits:
        """When exploration stops."""
        from tensat_dl.engine.types import Limits

        memory = None if self.max_memory is None else self.max_memory * 1024 * 1024
        return Limits(self.max_nodes, self.max_iters, self.k_multi, self.time_limit, memory, self.cycles)

    @property
    def extract_limits(self) -> ExtractLimits:
        """When extraction stops."""
        return ExtractLimits(seconds=self.extract_time_limit)

    def setup(self, ops: OpTable, machine: Machine | None = None, unfit: Unfit | None = None) -> Setup:
        """How to search for graphs over these operators. Raises `UnknownDeviceError`, `ProfileError`."""
        from tensat_dl.cost import CostModel
        from tensat_dl.run.search import Setup

        model = CostModel.of(ops, self.target, self.threads)
        return Setup(model, self.limits, self.extract, self.extract_limits, machine, self.fuse, unfit)
