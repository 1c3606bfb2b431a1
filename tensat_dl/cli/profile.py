"""``tensat-dl profile``: measure operators on the GPU of this machine."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tensat_dl.gpu.profiling import Report

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

    What PROFILE has is not measured again. An implementation that does not compile, runs out of memory or computes
    something wrong is left out and reported. See docs/gpu.md.
    """
    from dataclasses import replace

    from tensat_dl.cost.signature_file import Job, loads
    from tensat_dl.files import check_writable
    from tensat_dl.gpu.environment import this_gpu

    check_writable([output])
    read = [job for name in files for job in loads(Path(name).read_text(encoding="utf-8"), name)]
    gpu = this_gpu(tf32)
    from tensat_dl.gpu.profiling import number_of_checkers, profile
    from tensat_dl.gpu.workers import Worker
    from tensat_dl.report.progress import Progress

    wanted = [Job(replace(j.signature, device=gpu.device), j.definition) for j in read]
    checkers = [Worker("check", "cuda", tf32) for _ in range(jobs or number_of_checkers())]
    with Progress(quiet) as progress:
        progress.phase("profile")
        report = profile(
            wanted, Path(output), gpu.device, gpu.environment, checkers, Worker("time", "cuda", tf32),
            progress.measuring,
        )  # fmt: skip
    if not quiet:
        print_report(report, output)
    return 0


def print_report(report: Report, output: str) -> None:
    """What was measured, what won, and what failed."""
    print(f"{report.measured:,} measured, {report.known:,} known before: {output}")
    if report.winners:
        print("fastest: " + ", ".join(f"{k} {n:,}" for k, n in Counter(report.winners).most_common()))
    for text in report.unmeasured:
        print(f"not measured: {text}", file=sys.stderr)
    failures = [(text, name, why) for text, failed in report.failed.items() for name, why in failed.items()]
    for text, name, why in failures[:SHOWN]:
        print(f"left out: {name or 'all'} for {text}: {why}", file=sys.stderr)
    if len(failures) > SHOWN:
        print(f"left out: {len(failures) - SHOWN:,} more", file=sys.stderr)
