"""Makes the curves of planner and critic in docs/explanation/miniature-results.md.

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
"""A step of GRPO has few rows: each point is the mean of this many."""


def gather(trained: Path) -> dict[str, Any]:
    """The figures worth keeping of the logs of `mini train all`."""
    wanted = dict.fromkeys(COPYING, ("loss", "mean_token_accuracy"))
    wanted |= dict.fromkeys(VARIANTS, (*PARTS, ACCEPTED, REFUSED))
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
    return chart(series, across="steps", every=400, legend=(470, 110))


def parts(lines: list[dict[str, float]]) -> str:
    """The reward and its parts over the steps of GRPO."""
    series = [Series(label, _smooth(lines, key), ink) for key, (label, ink) in PARTS.items()]
    return chart(series, across="steps", every=10, legend=(500, 175))


def variants(logs: dict[str, list[dict[str, float]]]) -> str:
    """What each training by GRPO does to the judgement: right pictures accepted, wrong ones refused."""
    series = []
    for name, (label, ink) in VARIANTS.items():
        series.append(Series(f"{label}: right accepted", _smooth(logs[name], ACCEPTED), ink))
        series.append(Series("wrong refused", _smooth(logs[name], REFUSED), ink, 1.5, dashed=True))
    return chart(series, across="steps", every=10, legend=(400, 110))


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
    (FOLDER / "agents-copying.svg").write_text(copying(kept["logs"]), "utf-8")
    (FOLDER / "agents-reward.svg").write_text(parts(kept["logs"]["critic"]), "utf-8")
    (FOLDER / "agents-variants.svg").write_text(variants(kept["logs"]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
