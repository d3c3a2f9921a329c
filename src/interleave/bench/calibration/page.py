"""The page of a calibration, its chart as a file, and its figures as JSON."""

from __future__ import annotations

from pathlib import Path

from interleave.bench.calibration.report import Calibration
from interleave.bench.statistics import Rate
from interleave.plugin import make_folder, render, write_atomic

PAGE_NAME, CHART_NAME, FIGURES_NAME = "calibration.html", "reliability.svg", "calibration.json"


def write_calibration(folder: Path, calibration: Calibration, command: str) -> Path:
    """Write page, chart and figures into a folder; return the page's path."""
    make_folder(folder)
    write_atomic(folder / FIGURES_NAME, calibration.model_dump_json(indent=1).encode() + b"\n")
    write_atomic(folder / CHART_NAME, render.as_file(reliability_chart(calibration)).encode())
    page = render.page_template("calibration.html.j2", package="interleave.bench.calibration").render(
        found=calibration,
        command=command,
        reliability=reliability_chart(calibration),
        trade=trade_chart(calibration),
        percent=percent,
        number=number,
    )
    write_atomic(folder / PAGE_NAME, page.encode())
    return folder / PAGE_NAME


def reliability_chart(calibration: Calibration) -> str:
    """Plot the share of right images over the critic's confidence, with intervals and the ideal diagonal."""
    bins = calibration.bins
    curves = [
        render.Curve(
            "critic",
            [(each.confidence, each.right) for each in bins],
            [each.low for each in bins],
            [each.high for each in bins],
        ),
        *(
            render.Curve(
                f"after {each.scaling.method} scaling", [(bin.confidence, bin.right) for bin in each.bins]
            )
            for each in calibration.scaled
        ),
    ]
    return render.square(
        curves, across="critic's confidence", up="share right", title="Reliability", diagonal=True
    )


def trade_chart(calibration: Calibration) -> str:
    """Plot misses over false alarms at every threshold, and mark the critic's verdict and the chosen one."""
    said, chosen = calibration.as_it_says, calibration.threshold.point
    curves = [
        render.Curve(
            "thresholds", [(each.false_alarms.share, each.misses.share) for each in calibration.points]
        ),
        render.Curve("critic's verdict", [(said.false_alarms.share, said.misses.share)]),
        render.Curve("chosen", [(chosen.false_alarms.share, chosen.misses.share)]),
    ]
    return render.square(curves, across="false alarms", up="misses", title="False alarms against misses")


def percent(rate: Rate) -> str:
    """Format a rate with its interval."""
    return f"{rate.share:.1%} ({rate.low:.1%} to {rate.high:.1%}, of {rate.of:,})"


def number(value: float) -> str:
    """Format a threshold with enough digits to tell it from 0 and 1."""
    return f"{value:.4g}" if 1e-4 < value < 1 - 1e-4 or value in (0.0, 1.0) else f"{value:.12g}"
