"""Plots the curves of GRPO in docs/explanation/miniature-results.md.

The data are from the trainings of the table on that page. After your own training:
python docs/miniature/agents.py runs/table      # first reads its logs into agents-training.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from chart import Series, chart

FOLDER = Path(__file__).parent
KEPT = FOLDER / "agents-training.json"
PARTS = {
    "reward/format": ("form", "#6d675e"),
    "reward/accuracy": ("accuracy", "#2f6b46"),
    "reward": ("reward", "#23211d"),
    "reward/semantics": ("step-wise: semantics", "#2b5c8a"),
    "reward/quality": ("step-wise: quality", "#c8811a"),
}
VARIANTS = {
    "critic": ("full reward", "#23211d"),
    "critic-no-step": ("without the step-wise reward", "#2b5c8a"),
    "critic-no-accuracy": ("without the accuracy reward", "#a2442f"),
}
ACCEPTED = "judgement/accuracy_on_right"
REFUSED = "judgement/accuracy_on_wrong"
SMOOTH = 8
"""Steps averaged per point, because a step of GRPO has few rows."""


def gather(trained: Path) -> dict[str, Any]:
    """Extract the plotted figures from the logs of `mini train all`."""
    keys = ("step", *PARTS, ACCEPTED, REFUSED)
    logs = {
        name: [
            {key: round(line[key], 4) for key in keys if key in line}
            for line in map(json.loads, (trained / "train" / name / "log.jsonl").read_text().splitlines())
        ]
        for name in VARIANTS
    }
    stages = json.loads((trained / "stages.json").read_bytes())
    return {"logs": logs, "seconds": {name: each["seconds"] for name, each in stages.items()}}


def parts(lines: list[dict[str, float]]) -> str:
    """Plot the reward and its parts over the steps of GRPO."""
    series = [Series(label, _smooth(lines, key), ink) for key, (label, ink) in PARTS.items()]
    return chart(series, across="steps", every=10, legend=(500, 175))


def variants(logs: dict[str, list[dict[str, float]]]) -> str:
    """Plot the effect of each GRPO training on judgement: right images accepted, wrong ones refused."""
    series = []
    for name, (label, ink) in VARIANTS.items():
        series.append(Series(f"{label}: right accepted", _smooth(logs[name], ACCEPTED), ink))
        series.append(Series("wrong refused", _smooth(logs[name], REFUSED), ink, 1.5, dashed=True))
    return chart(series, across="steps", every=10, legend=(70, 163))


def _smooth(lines: list[dict[str, float]], key: str) -> list[tuple[float, float]]:
    found = [(line["step"], line[key]) for line in lines if key in line]
    return [
        (found[end - 1][0], sum(value for _, value in found[end - SMOOTH : end]) / SMOOTH)
        for end in range(SMOOTH, len(found) + 1)
    ]


def main() -> int:
    if len(sys.argv) > 1:
        KEPT.write_text(json.dumps(gather(Path(sys.argv[1]))) + "\n", "utf-8")
    kept = json.loads(KEPT.read_text("utf-8"))
    (FOLDER / "agents-reward.svg").write_text(parts(kept["logs"]["critic"]), "utf-8")
    (FOLDER / "agents-variants.svg").write_text(variants(kept["logs"]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
