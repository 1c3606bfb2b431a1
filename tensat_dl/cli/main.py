"""The command line. Commands live in modules of their own and are imported when they are called."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from tensat_dl.cli.outputs import ReaderGone, all_is_done, noticing

#: command -> its module and its name there, and its line of help
COMMANDS = {
    "run": ("run:command", "Optimize a graph."),
    "batch": ("batch:command", "Optimize many models, here or on a cluster."),
    "check": ("check:command", "Type-check files, verify their rules, run the tests of their rules."),
    "fmt": ("texts:fmt", "Format files."),
    "show": ("texts:show", "Print graphs, rules, operators, or the egglog program."),
    "import": ("texts:translate", "Translate rules from S-expressions to .tsr."),
    "prove": ("prove:command", "Derive rules from other rules."),
    "coverage": ("coverage:command", "Say how operators and transformations pass each other."),
    "discover": ("discover:command", "Find rules over given operators."),
    "extract": ("extract:command", "Extract the cheapest term of an e-graph in egraph-serialize JSON."),
    "why": ("why:why", "Show the steps that led to an optimized graph."),
    "why-not": ("why:why_not", "Show why a rule does not fire on a graph."),
    "profile": ("profile:profile", "Measure operators on the GPU of this machine."),
    "time": ("time:command", "Time graphs on this machine, on its GPU or its CPU."),
    "costs": ("profile:costs", "Compare a profile with the roofline, and calibrate it."),
}
#: The same for benchmarks.
BENCHMARKS = {
    "paper": ("paper:command", "The paper's evaluation, with the searches that it compares with."),
    "onnx": ("onnx:command", "Real models in ONNX Runtime, against tools that simplify models."),
    "torch": ("torch:command", "PyTorch modules: eager, Inductor, ONNX Runtime, and optimized."),
    "models": ("whole_runs:models", "The models of the paper through the whole pipeline."),
    "gpu": ("gpu:command", "Latency on the GPU of this machine, against torch and torch.compile."),
    "join": ("join:command", "Multi-pattern matching: the paper's algorithm 1 against Datalog joins."),
    "k-multi": ("sweeps:k_multi", "Pairs by k_multi, against group rules."),
    "start": ("start:command", "Small inputs: how long commands take to start."),
    "check": ("check:command", "The library's rules: how long they take to examine."),
    "depth": ("whole_runs:depth", "Deep graphs: time and memory by the number of layers."),
    "scale": ("scale:command", "Many models: cost of a job, several workers, and a simulated cluster."),
    "cycles": ("sweeps:cycles", "Cycle filters: vanilla, efficient, incremental, none."),
    "extraction": (
        "extraction:command",
        "Extraction methods on the same e-graphs: greedy, the paper's programs, exact.",
    ),
}

#: Seconds within which a second SIGTERM is the first: `timeout` sends its signal to the program and to its group.
TWICE = 1.0
#: The exit code that shells give a program whose reader is gone: 128 and the number of SIGPIPE.
READER_GONE = 141


class LazyGroup(click.Group):
    """Commands whose modules, in ``package``, are imported at first use, so that start-up is fast. All commands, and
    their help, notice that the reader has gone."""

    def __init__(self, *args: Any, package: str, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.package = package
        self.lazy = lazy

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with noticing():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with noticing():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *self.commands]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.lazy:
            return super().get_command(ctx, name)
        module, _, attribute = self.lazy[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"{self.package}.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, summary) for name, (_, summary) in self.lazy.items()]
        rows += [(name, command.get_short_help_str(limit=80)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            from tensat_dl.core.words import did_you_mean

            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{e.message}{f' ({hint})' if hint else ''}", ctx) from None


@click.group(
    cls=LazyGroup,
    package="tensat_dl.cli",
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="tensat-dl")
def cli() -> None:
    """tensat-dl: a superoptimizer for tensor graphs.

    Reads a .tsr file (a graph and the rewrite rules it may use), finds the cheapest equivalent graph by equality
    saturation and integer programming, checks that it computes the same, and writes it.
    """


@cli.group(
    cls=LazyGroup,
    package="tensat_dl.bench",
    lazy=BENCHMARKS,
    short_help="Run a benchmark: a table, and a JSON file.",
    subcommand_metavar="NAME [OPTIONS] [MODEL]...",
)
def bench() -> None:
    """Run a benchmark: a table on the terminal and, with --json FILE, a JSON file.

    Models are examples by their names, or paths of .tsr files. Costs are milliseconds from the device's profile
    where there is one, else from its roofline (estimated). Times are this machine's.

    With --jobs and --ray, several measurements run at a time, or on several machines. The benchmarks extraction, gpu,
    onnx, paper, start and torch lack them: they compare programs, which take turns on one machine.
    """


def main() -> NoReturn:
    """The command line, in this process. Exit codes: 0 done, 1 a check failed, 2 bad input, 3 no answer, 130
    interrupted, 141 nobody reads the output any more."""
    # Looking for cycles of references, by default after every few hundred objects, took a tenth of a small run.
    gc.set_threshold(300_000, 20, 20)
    _standard_streams()
    signal.signal(signal.SIGTERM, _Terminating())
    try:
        code = _run()
    except (BrokenPipeError, ReaderGone):
        code = _reader_gone()
    all_is_done()
    sys.exit(code)


def _run() -> int:
    """Runs the command line. Returns its exit code."""
    try:
        result = cli.main(standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    except click.ClickException as e:
        e.show()
        return 2
    except (BrokenPipeError, ReaderGone):
        raise
    except Exception as e:
        return _report(e)


def _output_is_full(e: OSError) -> bool:
    """Whether an error comes from standard output, whose errors have no name: another write fails there, too."""
    if e.errno != errno.ENOSPC:
        return False
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        return True
    return False


def _reader_gone() -> int:
    """Discards the output that is left, or the interpreter would complain at its end. Returns the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    return READER_GONE


class _Terminating:
    """SIGTERM is made SIGINT, for which SCIP has a handler of its own while it runs.

    Shells start background jobs with SIGINT ignored; these must still end when they are told to.
    """

    def __init__(self) -> None:
        self._last = -TWICE

    def __call__(self, *_: object) -> None:
        if time.monotonic() - self._last < TWICE:
            return
        self._last = time.monotonic()
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)


def _standard_streams() -> None:
    """Streams that the caller closed become empty, so that no file that is opened takes their place.

    Messages never fail for a character that the terminal does not have. A width of 0 is none.
    """
    if os.environ.get("COLUMNS") == "0":  # rich would print nothing
        del os.environ["COLUMNS"]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (until the end)
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")


def _report(e: Exception) -> int:
    """Prints the message of a known failure. Returns its exit code."""
    from tensat_dl.core.diagnostics import TsrError

    if isinstance(e, TsrError):
        print(e.render(), file=sys.stderr)
        return 2
    if isinstance(e, OSError):
        reason = e.strerror or str(e)
        name = e.filename or ("standard output" if _output_is_full(e) else "")
        where = f"{name}: " if name else ""
        print(f"error: {where}{reason[:1].lower()}{reason[1:]}", file=sys.stderr)
        return 2
    if isinstance(e, MemoryError):
        print(f"error: there is not enough memory: {e}", file=sys.stderr)
        print("  = hint: smaller sizes take less; --dim gives those of open dimensions", file=sys.stderr)
        return 3
    from tensat_dl.core.egraph_json import EGraphFormatError
    from tensat_dl.cost import ProfileError, SignatureError, UnknownDeviceError
    from tensat_dl.engine.exploration import RuleAlarm
    from tensat_dl.engine.explore import ExplorationError
    from tensat_dl.extract.extraction import ExtractionError
    from tensat_dl.gpu.this_gpu import GpuError
    from tensat_dl.jobs.job import NoWorkersError

    inputs = (
        UnknownDeviceError | ProfileError | SignatureError | GpuError | NoWorkersError
        | ExtractionError | EGraphFormatError
    )  # fmt: skip
    if isinstance(e, RuleAlarm):
        print(e, file=sys.stderr)
        return 1
    if isinstance(e, inputs | ExplorationError):
        print(f"error: {e}", file=sys.stderr)
        return 2 if isinstance(e, inputs) else 3
    raise e
