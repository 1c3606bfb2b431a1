"""``tensat-dl profile``: measures operators on GPUs; and ``costs``: measurements beside the
roofline's estimates."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from tensat_dl.cli.options import json_option, quiet_option, where_options

if TYPE_CHECKING:
    from tensat_dl.cost.device import Device
    from tensat_dl.cost.profile import Profile
    from tensat_dl.cost.roofline import Calibration, OfOperator
    from tensat_dl.gpu.profiling import ProfileReport

#: Failures that are listed one by one.
SHOWN = 20


@click.command("profile")
@click.argument("files", metavar="SIGNATURES...", nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="PROFILE", help="The profile to make or to complete.")
@click.option(
    "--merge", "merging", is_flag=True, help="Put partial profiles together, in place of SIGNATURES."
)
@click.option("--tf32", is_flag=True, help="Products of f32 may be rounded to TF32.")
@click.option(
    "--checkers",
    type=click.IntRange(1),
    metavar="N",
    help="Processes for each GPU that compile and check.  [default: one for each processor but one, at most 12]",
)
@where_options("one for each GPU, which is the most")
@quiet_option
def profile(
    files: tuple[str, ...],
    output: str,
    merging: bool,
    tf32: bool,
    checkers: int | None,
    jobs: int | None,
    ray: str | None,
    quiet: bool,
) -> int:
    """Measure the operators in SIGNATURES, which `tensat-dl run --signatures` writes, on the GPUs of this machine or
    of a cluster.

    Operators in PROFILE are not measured again. Files are read in turn, one operator of each, and PROFILE is
    written as it goes, so this can be cut short. An implementation that does not compile, runs out of memory or
    computes something wrong is left out and reported. See docs/gpu.md.

    With --merge, the files are profiles that were measured in parts: of one GPU and one set of versions, or they are
    refused.
    """
    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.cost.application import loads
    from tensat_dl.cost.profile import merge
    from tensat_dl.jobs.run import Where

    check_outputs([output], files)
    if merging:
        found = merge(Path(output), [Path(name) for name in files])
        if not quiet:
            print(f"{output}: {len(found.entries):,} operators")
        return 0
    read = [loads(Path(name).read_text(encoding="utf-8", errors="replace"), name) for name in files]
    if ray is None:
        from tensat_dl.gpu.this_gpu import this_gpu

        this_gpu(tf32)  # raises the error about a GPU that is not there
    from tensat_dl.gpu.profiling import ProfileReport, work_on_gpus
    from tensat_dl.gpu.profiling import profile as measure
    from tensat_dl.report.terminal import LiveProgress

    # The operators that matter most stand first in each file.
    wanted = [job for several in zip_longest(*read) for job in several if job is not None]
    report = ProfileReport()
    with LiveProgress(quiet) as progress:
        progress.phase("profile")
        try:
            work = work_on_gpus(tf32, checkers)
            measure(wanted, Path(output), Where(jobs, ray), work, progress.measuring, report)
        finally:
            if not quiet:
                _print_report(report, output)
    for lost in report.lost:
        print(f"not measured: {lost}", file=sys.stderr)
    return 1 if report.lost else 0


def _print_report(report: ProfileReport, output: str) -> None:
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


@click.command("costs")
@click.argument("path", metavar="PROFILE")
@json_option("Write the table as JSON.")
def costs(path: str, json_path: str | None) -> int:
    """Compare the measurements in PROFILE with the roofline of its device, and calibrate the roofline.

    The error is measured on every fifth operator, which the calibration leaves out.
    """
    from tensat_dl.cli.outputs import check_outputs, write_json
    from tensat_dl.cost import load_device, read_profile
    from tensat_dl.cost.roofline import by_operator, calibrate
    from tensat_dl.lang.library import library_operators

    check_outputs([json_path], [path])
    found = read_profile(Path(path))
    device, ops = load_device(found.device), library_operators()
    calibration = calibrate(ops, device, found)
    better = None if calibration is None else calibration.device
    rows = by_operator(ops, device, better, found)
    _print_costs(found, device, rows, calibration, sys.stderr if json_path == "-" else sys.stdout)
    write_json(json_path, _costs_to_json(found, rows, calibration), indent=1)
    return 0


def _print_costs(
    found: Profile,
    device: Device,
    rows: Sequence[OfOperator],
    calibration: Calibration | None,
    out: TextIO,
) -> None:
    """The table, and how far the roofline is off."""
    from rich.console import Console
    from rich.table import Table

    from tensat_dl.cost.roofline import LEAST

    print(f"{len(found.entries):,} operators measured on {device.title}", file=out)
    for what, facts in (("hardware", found.hardware), ("versions", found.versions)):
        print(f"{what}: {', '.join(f'{k} {v}' for k, v in sorted(facts.items()))}", file=out)
    table = Table("operator", "measured", "estimate / measured", "calibrated", "fastest")
    for op, count, before, after, winners in rows:
        names = ", ".join(f"{name or '?'} {n}" for name, n in winners.most_common())
        table.add_row(op, f"{count:,}", f"{before:.2f}", "" if after is None else f"{after:.2f}", names)
    Console(file=out).print(table)
    if calibration is None:
        print(f"not calibrated: calibration needs at least {LEAST} operators of the library", file=out)
    else:
        c = calibration
        print(
            f"calibrated: launch {1e3 * c.device.launch_ms:.2f} us, {c.compute_share:.0%} of the peak rate, "
            f"{c.bandwidth_share:.0%} of the bandwidth",
            file=out,
        )
        for what, e in (("data sheet", c.before), ("calibrated", c.after)):
            print(
                f"held out ({e.count}), {what}: half of the estimates off by less than {e.median:.2f}x, "
                f"nine of ten by less than {e.ninth_decile:.2f}x",
                file=out,
            )


def _costs_to_json(
    found: Profile, rows: Sequence[OfOperator], calibration: Calibration | None
) -> dict[str, object]:
    data: dict[str, object] = {
        "device": found.device,
        "hardware": dict(found.hardware),
        "versions": dict(found.versions),
        "operators": [
            {"op": op, "count": n, "estimate": before, "calibrated": after, "fastest": winners}
            for op, n, before, after, winners in rows
        ],
    }
    if calibration is not None:
        data["calibration"] = {
            "launch_ms": calibration.device.launch_ms,
            "compute_share": calibration.compute_share,
            "bandwidth_share": calibration.bandwidth_share,
            "data_sheet": asdict(calibration.before),
            "calibrated": asdict(calibration.after),
        }
    return data
