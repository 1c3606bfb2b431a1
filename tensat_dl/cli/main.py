"""The command line. Commands live in modules of their own and are imported when they are called."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

import click

from tensat_dl.cli.lazy import LazyGroup
from tensat_dl.cli.readers import ReaderGone, noticing

#: command -> the module that defines it, and its line of help
COMMANDS = {
    "run": ("tensat_dl.cli.run", "Optimize a graph."),
    "check": ("tensat_dl.cli.check", "Type-check files, verify their rules, run the tests of their rules."),
    "fmt": ("tensat_dl.cli.fmt", "Format files."),
    "show": ("tensat_dl.cli.show", "Print graphs, rules, operators, or the egglog program."),
    "import": ("tensat_dl.cli.import_", "Translate rules from S-expressions to .tsr."),
    "prove": ("tensat_dl.cli.prove", "Derive rules from other rules."),
    "extract": ("tensat_dl.cli.extract", "Extract the cheapest term of an e-graph in egraph-serialize JSON."),
    "why": ("tensat_dl.cli.why", "Show the steps that led to an optimized graph."),
    "why-not": ("tensat_dl.cli.why_not", "Show what keeps a rule from firing on a graph."),
    "profile": ("tensat_dl.cli.profile", "Measure operators on the GPU of this machine."),
    "time": ("tensat_dl.cli.time", "Time graphs on this machine, on its GPU or its CPU."),
    "costs": ("tensat_dl.cli.costs", "Compare a profile with the roofline, and calibrate it."),
    "bench": ("tensat_dl.cli.bench", "Run a benchmark: a table, and a JSON file."),
}


#: The exit code that shells give a program whose reader is gone: 128 and the number of SIGPIPE.
READER_GONE = 141


class Commands(LazyGroup):
    """All commands. A reader that has gone is noticed in any of them, and in their help."""

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with noticing():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with noticing():
            return super().invoke(ctx)


@click.group(cls=Commands, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tensat-dl")
def cli() -> None:
    """tensat-dl: a superoptimizer for tensor graphs.

    Reads a .tsr file (a graph and the rewrite rules it may use), finds the cheapest equivalent graph by equality
    saturation and integer programming, checks that it computes the same, and writes it.
    """


def main() -> NoReturn:
    """The entry point. Exit codes: 0 done, 1 a check failed, 2 bad input, 3 no answer, 130 interrupted, 141 nobody
    reads the output any more."""
    _standard_streams()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _run()
    except (BrokenPipeError, ReaderGone):
        code = _reader_gone()
    # After an interrupt within an `eval` or `exec` of text, such as dataclasses are made of, CPython ends by the
    # signal what was run by `-m`, whoever caught it, and forgets that only in the next one.
    eval("0")
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


def _reader_gone() -> int:
    """Discards the output that is left, or the interpreter would complain at its end. Returns the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    return READER_GONE


def _terminate(*_: object) -> None:
    """SIGTERM is made SIGINT, for which SCIP has a handler of its own while it runs.

    Shells start background jobs with SIGINT ignored; these must still end when they are told to.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _standard_streams() -> None:
    """Streams that the caller closed become empty, so that no file that is opened takes their place.

    Messages never fail for a character that the terminal does not have.
    """
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
        print(f"error: {e.filename or 'standard output'}: {reason[:1].lower()}{reason[1:]}", file=sys.stderr)
        return 2
    from tensat_dl.cost.device import UnknownDeviceError
    from tensat_dl.cost.profile import ProfileError
    from tensat_dl.cost.signature import SignatureError
    from tensat_dl.gpu.environment import GpuError

    if isinstance(e, UnknownDeviceError | ProfileError | SignatureError | GpuError):
        print(f"error: {e}", file=sys.stderr)
        return 2
    from tensat_dl.core.egraph_json import EGraphFormatError
    from tensat_dl.engine.explore import ExplorationError
    from tensat_dl.engine.types import RuleAlarm
    from tensat_dl.extract.types import ExtractionError

    if isinstance(e, ExtractionError | EGraphFormatError):
        print(f"error: {e}", file=sys.stderr)
        return 2
    if isinstance(e, RuleAlarm):
        print(e, file=sys.stderr)
        return 1
    if isinstance(e, ExplorationError):
        print(f"error: {e}", file=sys.stderr)
        return 3
    raise e


if __name__ == "__main__":
    main()
