"""Formats results as a Markdown table with the device's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the results as a Markdown table, each figure with the device's limit."""
    lines = ["| what | measured | the device allows | of which |", "|---|---|---|---|"]
    for row in rows:
        kind = row["what"]
        if kind == "ceilings":
            versions = ", ".join(f"{name} {row[name]}" for name in ("torch", "transformers", "diffusers"))
            lines.insert(0, "")
            lines.insert(
                0,
                f"Measured {row['date']} on {row['device']}, Python {row['python']}, {versions}: "
                f"{row['terabytes_per_second']:.1f} TB/s, {row['teraflops']:.0f} Tflop/s.",
            )
        elif kind in ("reference", "alone"):
            name = "the reference path, one attempt" if kind == "reference" else "ours, one attempt alone"
            name += _remark(row)
            each = f"{row['milliseconds_per_token']:.1f} ms a token"
            lines.append(
                f"| {name} | {row['attempt']:.2f} s | {row['limit']:.2f} s | draw {row['draw']:.2f} s, "
                f"judge {row['judge']:.2f} s ({each}){_again(row)}; {row['gigabytes']:.0f} GB |"
            )
        elif kind == "trajectories":
            times = f", ×{row['times_reference']:.1f}" if row["times_reference"] else ""
            crowd = f"{row['trajectories']} trajector{'y' if row['trajectories'] == 1 else 'ies'}"
            within = f" within {row['within']:.0f} GB" if row.get("within") else ""
            within += ", the planner asked" if row.get("planner_asked") else ""
            lines.append(
                f"| attempts an hour, {crowd}{within}{_remark(row)} | "
                f"{row['attempts_per_hour']:,.0f}{times} | {row['limit_per_hour']:,.0f} | "
                f"drawing {row['drawing']:.0%} of the time, {row['drawn_together']:.1f} together; judging "
                f"{row['judging']:.0%}, {row['judged_together']:.1f} together; {row['gigabytes']:.0f} GB |"
            )
        elif kind == "loading":
            lines.append(
                f"| all weights from files in memory to the device | {row['seconds']:.1f} s | | "
                f"{row['gigabytes']:.0f} GB, {row['gigabytes_per_second']:.1f} GB/s{_ready(row)} |"
            )
        elif kind in ("drawing", "judging"):
            lines.append(_parts(row))
        elif kind == "profile-run":
            lines.append(_command(row))
    return "\n".join(lines)


def _ready(row: dict[str, Any]) -> str:
    return f"; decode steps compiled and captured after {row['ready']:.1f} s" if "ready" in row else ""


def _again(row: dict[str, Any]) -> str:
    return f", another attempt at the step {row['again']:.2f} s" if "again" in row else ""


def _command(row: dict[str, Any]) -> str:
    when = f"loading {row['loading']:.0f} s, working {row['working']:.0f} s; " if "loading" in row else ""
    return (
        f"| `interleave generate --profile klein`, {row['requests']} requests, {row['weights']} weights"
        f"{_remark(row)} | {row['seconds']:.0f} s | | "
        f"{when}{row['calls']} calls, {row['documents']} documents |"
    )


def _parts(row: dict[str, Any]) -> str:
    names = {
        "drawing": ("prompt", "sources", "denoising", "picture", "rest"),
        "judging": ("preparing", "looking", "reading"),
    }[row["what"]]
    parts = ", ".join(f"{name} {row[name]:.3f} s" for name in names)
    if "milliseconds_per_token" in row:
        parts += f", then {row['milliseconds_per_token']:.1f} ms a token for all together"
    thing = {"drawing": "an image", "judging": "a verdict"}[row["what"]]
    return f"| {thing}, {row['together']} together{_remark(row)} | {row['each']:.2f} s | | {parts} |"


def _remark(row: dict[str, Any]) -> str:
    return f", {row['remark']}" if row.get("remark") else ""
