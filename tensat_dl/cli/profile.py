"""``tensat-dl profile``: measure operators on the GPU of this machine."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tensat_dl.gpu.profiling import ProfileReport

#: Failures that are listed one by one.
SHOWN = 20


@click.command("profile")
@click.argument("files", metavar="SIGNATURES...", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="PROFILE", help="The profile to make or to complete.")
@click.option("--tf32", is_flag=True, help="Products of f32 may be rounded to TF32.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes that compile and check kernels.  [default: one for each processor but one, at most 12]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(files: tuple[str, ...], output: str, tf32: bool, jobs: int | None, quiet: bool) -> int:
    """Measure the operators in SIGNATURES, which `tensat-dl run --signatures` writes, on the GPU of this machine.

    Operators in PROFILE are not measured again. Files are read in turn, one operator of each, and PROFILE is
    written as it goes, so this can be cut short. An implementation that does not compile, runs out of memory or
    computes something wrong is left out and reported. See docs/gpu.md.
    """
    from dataclasses import replace
    from itertools import zip_longest

    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.cost.signature_file import ProfileJob, loads
    from tensat_dl.files import check_writable
    from tensat_dl.gpu.environment import this_gpu

    check_writable([output])
    check_outputs([output], files, "which")
    read = [loads(Path(name).read_text(encoding="utf-8", errors="replace"), name) for name in files]
    gpu = this_gpu(tf32)
    from tensat_dl.gpu.profiling import ProfileReport, number_of_checkers, profile
    from tensat_dl.gpu.workers import Worker
    from tensat_dl.report.progress import LiveProgress

    # The operators that matter most stand first in each file.
    in_turn = (job for jobs in zip_longest(*read) for job in jobs if job is not None)
    wanted = [ProfileJob(replace(j.signature, device=gpu.device), j.definition) for j in in_turn]
    checkers = [Worker("check", "cuda", tf32) for _ in range(jobs or number_of_checkers())]
    report = ProfileReport()
    with LiveProgress(quiet) as progress:
        progress.phase("profile")
        try:
            profile(
                wanted, Path(output), gpu.device, gpu.environment, checkers, Worker("time", "cuda", tf32),
                progress.measuring, report,
            )  # fmt: skip
        finally:
            if not quiet:
                print_report(report, output)
    return 0


def print_report(report: ProfileReport, output: str) -> None:
    """Prints the numbers of measurements, the fastest implementations, and the failures."""
    print(
        f"{report.measured:,} measured in {report.checking + report.timing:.0f} s ({report.checking:.0f} s of them "
        f"to compile and check), {report.known:,} known before: {output}"
    )
    if report.winners:
        print("fastest: " + ", ".join(f"{k} {n:,}" for k, n in Counter(report.winners).most_common()))
    for text in report.unmeasured:
        print(f"not measured: {text}", file=sys.stderr)
    failures = [(text, name, why) for text, failed in report.failed.items() for name, why in failed.items()]
    for text, name, why in failures[:SHOWN]:
        print(f"left out: {name or 'all'} for {text}: {why}", file=sys.stderr)
    if len(failures) > SHOWN:
        print(f"left out: {len(failures) - SHOWN:,} more", file=sys.stderr)
