"""The options of an optimization: one list for the command line, the Python API and the pipeline.

Imports nothing heavy: ``--help`` comes through here.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Literal, get_args

from tensat_dl.extract.budget import ExtractLimits
from tensat_dl.extract.extraction import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensat_dl.core.graph import Graph
    from tensat_dl.core.rule import RewriteRule
    from tensat_dl.engine.exploration import Cycles, Limits
    from tensat_dl.onnx.importer import Imported
    from tensat_dl.sizes.resized import Resized

#: The devices that .tsr graphs and ONNX models are optimized for if no device is named.
DEVICE, ONNX_DEVICE = "h100", "cpu"
#: The options that stand together in the help of `tensat-dl run`.
Group = Literal["aim", "search", "check"]
#: `tensat_dl.engine.exploration.CYCLES`, which is too heavy to import for ``--help``.
_CYCLES: tuple[Cycles, ...] = ("none", "vanilla", "efficient", "incremental")
#: Ways to search: with an e-graph, or from graph to graph.
Search = Literal["saturation", "backtracking", "sampling"]
SEARCHES: tuple[Search, ...] = get_args(Search)
#: Options of one kind of search alone.
_SATURATING = (
    *("k_multi", "max_nodes", "max_iters", "max_memory", "cycles"),
    *("fuse", "extract", "extract_time_limit"),
)
_SEQUENTIAL = {
    "iterations": ("backtracking", "sampling"),
    "alpha": ("backtracking",),
    "split": ("backtracking",),
}


def searches_with(option: str) -> Sequence[str]:
    """The searches that have an option."""
    return ("saturation",) if option in _SATURATING else _SEQUENTIAL.get(option, SEARCHES)


#: Verdicts on which a run relies: rules that no test refutes, or rules that are proved.
Trust = Literal["tested", "proved"]


#: The e-nodes that an e-graph may have by itself: see "Limits count work" in docs/decisions.md.
NODES_PER_OPERATOR = 60
LEAST_NODES, MOST_NODES = 10_000, 50_000


@dataclass(frozen=True, slots=True)
class About:
    """The help of an option and the values that it takes. Its name, type and default are those of its field.

    The ``help`` of an option that is on by default says what happens without it. ``{}`` in it stands for the value.
    """

    group: Group
    help: str
    metavar: str | None = None
    least: int | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    none: str = ""  #: the name of None, if that is more than "not given"
    recorded: bool = True  #: whether the option decides the answer, so that it is written into the output


def _option(
    default: Any, group: Group, help: str, metavar: str | None = None, least: int | None = None, **more: Any
) -> Any:
    """The field of an option."""
    return field(default=default, metadata={"about": About(group, help, metavar, least, **more)})


def about(option: Field[Any]) -> About:
    """The help and the values of a field of `Options`."""
    found = option.metadata["about"]
    assert isinstance(found, About)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of an optimization. Raises TypeError and ValueError as `check_option` does, and ValueError for
    fusion on the CPU, where ONNX Runtime runs graphs with kernels of its own, and for an option of another search."""

    device: str | None = _option(
        *(None, "aim", "Minimise latency on this device; cuda: this machine's GPU.", "NAME"),
        none=f"{DEVICE}; {ONNX_DEVICE} for .onnx",
    )
    measure: bool | None = _option(
        None,
        "aim",
        "Measure operators and candidates on this machine (device cpu or cuda); keep a graph only if it is faster.",
        none="for .onnx",
        recorded=False,
    )
    threads: int = _option(1, "aim", "Threads of the device cpu.", "N", 1)
    buckets: bool = _option(
        False,
        "aim",
        "Where several sizes of a dimension want different graphs, each range of sizes gets its own model.",
    )
    search: Search = _option(  # noqa: RUF009 (it makes a field)
        "saturation",
        "search",
        "How to search: with an e-graph, or from graph to graph as TASO does, or at random.",
        choices=SEARCHES,
    )
    iterations: int = _option(
        100, "search", "Graphs whose substitutions the searches backtracking and sampling try.", "N", 0
    )
    alpha: float = _option(
        1.0, "search", "Backtracking keeps graphs that cost less than {} times the best.", "X", 1
    )
    split: int | None = _option(
        *(None, "search", "Backtracking takes graphs of more than {} operators apart.", "N", 2), none="never"
    )
    k_multi: int | None = _option(
        1, "search", "Iterations in which multi-pattern rules are applied.", "N", 0, none="unlimited"
    )
    max_nodes: int | None = _option(
        None,
        "search",
        f"Stop growing the e-graph at this many e-nodes; by-size: {NODES_PER_OPERATOR} for each operator of the "
        f"graph, from {LEAST_NODES} to {MOST_NODES}, and {MOST_NODES} with multi-pattern rules.",
        *("N", 1),
        none="by-size",
    )
    max_iters: int = _option(15, "search", "Stop exploring after this many iterations.", "N", 0)
    time_limit: float | None = _option(
        None, "search", "Stop exploring after {} seconds.", "S", 0, unit="seconds"
    )
    max_memory: int | None = _option(
        *(4096, "search", "Stop exploring at this resident memory.", "MiB", 1), unit="MiB", none="unlimited"
    )
    cycles: Cycles = _option(  # noqa: RUF009 (it makes a field)
        "none",
        "search",
        "Filter cycles out of the e-graph, as ilp-none requires, with one of three checks of matches.",
        choices=_CYCLES,
    )
    reassociate: bool = _option(
        True, "search", "Leave out rules that change how results are rounded, as far as their tests show."
    )
    trust: Trust = _option(  # noqa: RUF009 (it makes a field)
        "tested", "search", "Use the rules alone that are proved for all sizes.", choices=get_args(Trust)
    )
    fuse: bool = _option(
        False, "search", "Chains of elementwise operators may become operators with one kernel."
    )
    extract: str = _option("exact", "search", "Extraction method.", choices=METHODS)
    extract_time_limit: float | None = _option(
        None, "search", "Stop extracting after {} seconds.", "S", 0, unit="seconds"
    )
    verify: bool = _option(
        True, "check", "Do not verify the applied rules and the optimized graph.", recorded=False
    )
    seed: int = _option(0, "check", "Seed of verification.", "N", 0, recorded=False)

    def __post_init__(self) -> None:
        for f in fields(self):
            check_option(f.name, getattr(self, f.name))
        if self.fuse and self.device == "cpu":
            raise ValueError(
                "fusion is for GPUs: on the CPU ONNX Runtime runs graphs, with kernels of its own"
            )
        for f in fields(self):
            searches = searches_with(f.name)
            if self.search not in searches and getattr(self, f.name) != f.default:
                raise ValueError(
                    f"{f.name} is an option of the search {' or '.join(searches)}, not of {self.search}"
                )

    def arguments(self, of_onnx: bool) -> list[str]:
        """The arguments of `tensat-dl run` for the options that decide the answer, unless they have their
        defaults."""
        words = []
        for f in fields(self):
            value, default, name = getattr(self, f.name), f.default, f.name.replace("_", "-")
            if f.name == "device":
                value, default = device_of(value, of_onnx), device_of(None, of_onnx)
            if value == default or not about(f).recorded:
                continue
            if isinstance(value, bool):
                words.append(f"--{name}" if value else f"--no-{name}")
            else:
                words += [f"--{name}", about(f).none if value is None else str(value)]
        return words

    @property
    def target(self) -> str:
        """The name of the device."""
        return DEVICE if self.device is None else self.device

    def limits(self, graph: Graph, rules: Iterable[RewriteRule]) -> Limits:
        """When the exploration of a graph by these rules stops."""
        from tensat_dl.engine.exploration import Limits

        memory = None if self.max_memory is None else self.max_memory * 1024 * 1024
        nodes = MOST_NODES if self.max_nodes is None else self.max_nodes
        if self.max_nodes is None and all(r.kind != "multi" for r in rules):
            by_size = NODES_PER_OPERATOR * sum(1 for n in graph.nodes if n.inputs)
            nodes = min(max(by_size, LEAST_NODES), MOST_NODES)
        return Limits(nodes, self.max_iters, self.k_multi, self.time_limit, memory, self.cycles)

    @property
    def any_rules(self) -> bool:
        """Whether a run may use rules whatever is known about them."""
        return self.reassociate and self.trust != "proved"

    @property
    def extract_limits(self) -> ExtractLimits:
        """When extraction stops."""
        return ExtractLimits(seconds=self.extract_time_limit)


#: For the type of an option, as it is declared, the classes of its values, and words for them.
_KINDS: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (Integral, "an integer"),
    "float": (Real, "a number"),
    "str": (str, "a string"),
}


def check_option(name: str, value: Any) -> None:
    """Raises TypeError for a value of another type than the option ``name`` has, ValueError for a value out of its
    range or not among its choices."""
    option = next(f for f in fields(Options) if f.name == name)
    said = about(option)
    kind, _, none = str(option.type).partition(" | ")
    if value is None and none:
        return
    of, expected = _KINDS["str" if said.choices else kind]
    if said.choices:
        expected = f"one of {', '.join(said.choices)}"
    if said.least is not None:
        expected += f" of at least {said.least}"
    if said.unit:
        expected += f" ({said.unit})"
    if none:
        expected += " or None"
    if not isinstance(value, of) or (isinstance(value, bool) and of is not bool):
        raise TypeError(f"{name} is {short(value)}, of type {type(value).__name__}: expected {expected}")
    least = said.least
    if (said.choices and value not in said.choices) or (least is not None and not value >= least):
        raise ValueError(f"{name} is {short(value)}: expected {expected}")


def device_of(device: str | None, of_onnx: bool) -> str:
    """The name of a device that may be left open."""
    return device if device is not None else ONNX_DEVICE if of_onnx else DEVICE


def sizes_of(imported: Imported | None, options: Options) -> tuple[Resized | None, ...]:
    """If a model is optimized for several sizes of a dimension, these. Raises ValueError for options that know one
    size only."""
    found = () if imported is None else imported.sizes_of_mix()
    if found and options.search != "saturation":
        raise ValueError(
            f"dimensions with several sizes are for the search saturation, not for {options.search}"
        )
    if found and options.fuse:
        raise ValueError("dimensions with several sizes and fused operators exclude each other")
    if found and options.measure and options.target != "cpu":
        raise ValueError("a GPU measures graphs at one size: give each dimension one, or do not measure")
    return found
