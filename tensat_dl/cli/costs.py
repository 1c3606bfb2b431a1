"""``tensat-dl costs``: measurements of a profile beside the roofline's estimates."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("costs")
@click.argument("profile", metavar="PROFILE")
@click.option("--json", "json_path", metavar="FILE", help="Write the table as JSON.")
def command(profile: str, json_path: str | None) -> int:
    """Compare the measurements in PROFILE with the roofline of its device, and calibrate the roofline.

    The error is measured on every fifth operator, which the calibration leaves out.
    """
    from rich.console import Console
    from rich.table import Table

    from tensat_dl.cli.outputs import check_outputs
    from tensat_dl.cost import load_device, read_profile
    from tensat_dl.cost.calibrate import LEAST, by_operator, calibrate
    from tensat_dl.files import check_writable, write
    from tensat_dl.lang.program import load_program
    from tensat_dl.resources import rules

    if json_path is not None:
        check_writable([json_path])
        check_outputs([json_path], [profile], "which")
    found = read_profile(Path(profile))
    device, ops = load_device(found.device), load_program(str(rules() / "ops.tsr")).ops
    calibration = calibrate(ops, device, found)
    better = None if calibration is None else calibration.device
    rows = by_operator(ops, device, better, found)

    console = Console()
    print(f"{len(found.entries):,} operators measured on {device.title}")
    for what, facts in (("hardware", found.hardware), ("versions", found.versions)):
        print(f"{what}: {', '.join(f'{k} {v}' for k, v in sorted(facts.items()))}")
    table = Table("operator", "measured", "estimate / measured", "calibrated", "fastest")
    for op, count, before, after, winners in rows:
        names = ", ".join(f"{name or '?'} {n}" for name, n in sorted(winners.items(), key=lambda w: -w[1]))
        table.add_row(op, f"{count:,}", f"{before:.2f}", "" if after is None else f"{after:.2f}", names)
    console.print(table)
    if calibration is None:
        print(f"not calibrated: calibration needs at least {LEAST} operators of the library")
    else:
        c = calibration
        print(
            f"calibrated: launch {1e3 * c.device.launch_ms:.2f} us, {c.compute_share:.0%} of the peak rate, "
            f"{c.bandwidth_share:.0%} of the bandwidth"
        )
        for what, e in (("data sheet", c.before), ("calibrated", c.after)):
            print(
                f"held out ({e.count}), {what}: half of the estimates off by less than {e.median:.2f}x, "
                f"nine of ten by less than {e.ninth_decile:.2f}x"
            )
    if json_path is not None:
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
                **{
                    name: {"median": e.median, "ninth_decile": e.ninth_decile, "count": e.count}
                    for name, e in (("data_sheet", calibration.before), ("calibrated", calibration.after))
                },
            }
        write(json_path, json.dumps(data, indent=1) + "\n")
    return 0
