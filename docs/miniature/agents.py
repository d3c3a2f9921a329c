"""Makes the curves of planner and critic in docs/miniature.md.

The figures are those of the training that made the shipped weights. After a training of your own:
python docs/miniature/agents.py runs/mini      # reads its logs into agents-training.json first
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from chart import Series, chart

FOLDER = Path(__file__).parent
KEPT = FOLDER / "agents-training.json"
COPYING = {"planner": ("planner", "#2b5c8a"), "critic-sft": ("critic", "#a2442f")}
TRYING = {
    "reward": ("reward", "#23211d"),
    "judgement/accuracy_on_right": ("right pictures accepted", "#2f6b46"),
    "judgement/accuracy_on_wrong": ("wrong pictures refused", "#a2442f"),
    "reward/semantics": ("step-wise reward, semantics", "#2b5c8a"),
    "reward/quality": ("step-wise reward, quality", "#c8811a"),
}
SMOOTH = 5
"""A step of GRPO has few rows: each point is the mean of so many."""


def gather(trained: Path) -> dict[str, Any]:
    """The figures worth keeping of the logs of `mini train all`."""
    wanted = dict.fromkeys(COPYING, ("loss", "mean_token_accuracy")) | {"critic": tuple(TRYING)}
    logs = {
        name: [
            {key: round(line[key], 4) for key in ("step", *keys) if key in line}
            for line in map(json.loads, (trained / "train" / name / "log.jsonl").read_text().splitlines())
        ]
        for name, keys in wanted.items()
    }
    stages = json.loads((trained / "stages.json").read_bytes())
    return {"logs": logs, "seconds": {name: each["seconds"] for name, each in stages.items()}}


def copying(logs: dict[str, list[dict[str, float]]]) -> str:
    """How many tokens of an answer are right, and what the loss is, over the steps of copying."""
    series = []
    for name, (label, ink) in COPYING.items():
        lines = [line for line in logs[name] if "mean_token_accuracy" in line]
        right = [(line["step"], line["mean_token_accuracy"]) for line in lines]
        series.append(Series(f"{label}: tokens right", right, ink))
        loss = [(line["step"], line["loss"]) for line in lines]
        series.append(Series(f"{label}: loss", loss, ink, 1.5, dashed=True))
    return chart(series, across="steps", every=200, legend=(470, 110))


def trying(lines: list[dict[str, float]]) -> str:
    """The reward and its parts over the steps of GRPO."""
    series = []
    for key, (label, ink) in TRYING.items():
        found = [(line["step"], line[key]) for line in lines if key in line]
        means = [
            (found[end - 1][0], sum(value for _, value in found[end - SMOOTH : end]) / SMOOTH)
            for end in range(SMOOTH, len(found) + 1)
        ]
        series.append(Series(label, means, ink))
    return chart(series, across="steps", every=10, legend=(470, 190))


def main() -> int:
    if len(sys.argv) > 1:
        KEPT.write_text(json.dumps(gather(Path(sys.argv[1]))) + "\n", "utf-8")
    kept = json.loads(KEPT.read_text("utf-8"))
    (FOLDER / "agents-copying.svg").write_text(copying(kept["logs"]), "utf-8")
    (FOLDER / "agents-trying.svg").write_text(trying(kept["logs"]["critic"]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
