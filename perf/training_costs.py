"""Estimates the paper's training on one GPU: prints the tables of docs/how-to/training-costs.md.

Seconds come from perf/results/h200-training.json, epochs and answers from the recipes, rows from the paper.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from reproduction import CRITIC_ROWS, GPU_DOLLARS_AN_HOUR, GPUS, PLANNER_ROWS, RL_ROWS

from interleave.train.recipes import load_recipe

SFT = load_recipe("single-gpu-lora-sft", task="sft")
GRPO = load_recipe("single-gpu-lora-grpo", task="grpo")
ROWS = int((PLANNER_ROWS + CRITIC_ROWS) * SFT.training.epochs)
ANSWERS = int(RL_ROWS * GRPO.training.epochs * GRPO.grpo.samples)
IMAGES = ANSWERS // 2
"""Number of redraws; assumed: half of the answers."""
MEASURED = json.loads((Path(__file__).parent / "results" / "h200-training.json").read_text("utf-8"))


def found(what: str, field: str, per: str = "", **values: Any) -> list[float]:
    """Return a field of the measurements with these values, divided by the field `per`."""
    rows = [row for row in MEASURED if row["what"] == what]
    rows = [row for row in rows if all(row.get(name) == value for name, value in values.items())]
    return [row[field] / (row[per] if per else 1) for row in rows]


STEP = {"number": 2, "answers": 32, "drawn_by": "this process"}
WITHIN_80 = {"number": 1, "answers": 8, "checkpointing": True}
KEPT = found("sft, LoRA", "seconds", "rows", checkpointing=False)
WRITTEN = found("grpo step", "rollout", "answers", **STEP)
DRAWN = found("grpo step", "reward", "pictures", **STEP)
LEARNED = found("grpo step", "update", "answers", **STEP)
RECOMPUTED = found("sft, LoRA", "seconds", "rows", checkpointing=True)


def hours(times: int, seconds: list[float]) -> float:
    return times * mean(seconds) / 3600


SFT_HOURS = hours(ROWS, KEPT)
GRPO_HOURS = [hours(ANSWERS, WRITTEN), hours(IMAGES, DRAWN), hours(ANSWERS, LEARNED)]
ALL_HOURS = SFT_HOURS + sum(GRPO_HOURS)


def table() -> str:
    kept, written, drawn, learned = map(_seconds, (KEPT, WRITTEN, DRAWN, LEARNED))
    writing, drawing, learning = GRPO_HOURS
    rows = [
        (f"SFT with LoRA, {ROWS:,} rows of 2,830 tokens, activations kept", f"{kept} a row", SFT_HOURS),
        (f"GRPO: {ANSWERS:,} answers of 300 tokens written", f"{written} each, 32 in parallel", writing),
        (
            f"GRPO: {IMAGES:,} images drawn and scored (half of the answers)",
            f"{drawn} each, klein-9B not compiled, 8B scorer on the same card",
            drawing,
        ),
        (f"GRPO: {ANSWERS:,} answers learned from", f"{learned} each", learning),
    ]
    lines = ["| stage | from (first run, second run) | 1 H200 | 8 H200 |", "|---|---|--:|--:|"]
    lines += [f"| {stage} | {source} | {_both(time)} |" for stage, source, time in rows]
    return "\n".join([*lines, f"| all | | {ALL_HOURS:.0f} h | {ALL_HOURS / GPUS:.0f} h |"])


def changes() -> str:
    over_http = found("grpo step", "reward", "pictures", number=2, drawn_by="1 over HTTP")
    drawn_only = found("grpo step", "reward", "pictures", **WITHIN_80)
    all_weights = found("sft, all weights", "seconds", "rows")
    library = found("rollouts", "extrapolated_seconds", "answers", by="library")
    vllm = found("rollouts", "seconds", "answers", by="vLLM", time="second")
    (handed_over,) = found("adapter written", "seconds")
    writing, drawing, _ = GRPO_HOURS
    steps = RL_ROWS // GRPO.grpo.prompts
    rows = [
        (
            "SFT with LoRA, activations recomputed, 23 GB instead of 59 GB",
            f"{_seconds(RECOMPUTED)} a row",
            (hours(ROWS, RECOMPUTED), SFT_HOURS),
            "",
        ),
        (
            "SFT of all weights of the language model on one card, 87 GB",
            f"{_seconds(all_weights)} a row",
            (hours(ROWS, all_weights), SFT_HOURS),
            "",
        ),
        (
            "images drawn by a server over HTTP on the same card",
            f"{_seconds(over_http)} each, scored",
            (hours(IMAGES, over_http), drawing),
            "",
        ),
        (
            "images scored elsewhere, behind an API",
            f"{_seconds(drawn_only)} each, drawn",
            (hours(IMAGES, drawn_only), drawing),
            ", plus the cost of the calls",
        ),
        (
            "answers written by `generate` of transformers",
            f"{_seconds(library)} each, extrapolated",
            (hours(ANSWERS, library), writing),
            "",
        ),
        (
            "answers written by vLLM, **which is not connected**",
            f"{_seconds(vllm)} each without an adapter",
            (hours(ANSWERS, vllm), writing),
            f" at best, less the adapter handed over in {steps:,} steps ({handed_over:.2f} s each to write)",
        ),
    ]
    lines = ["| instead | basis | 1 H200 | 8 H200 |", "|---|---|---|--:|"]
    return "\n".join(
        lines + [f"| {a} | {b} | {_instead(*c)}{d} | {c[0] / GPUS:.1f} h |" for a, b, c, d in rows]
    )


def sentences() -> list[str]:
    """Return the sentences with figures between the tables."""
    parts = [("rollout", "answers"), ("reward", "pictures"), ("update", "answers")]
    measured = [found("grpo step", part, per, run="second", **WITHIN_80) for part, per in parts]
    write, draw, learn = map(mean, measured)
    within_80 = (ANSWERS * (write + learn) + IMAGES * draw) / 3600
    dollars = round(ALL_HOURS * GPU_DOLLARS_AN_HOUR, -1)
    return [
        f"At ${GPU_DOLLARS_AN_HOUR:.0f} for an hour of a GPU that is about ${dollars:.0f}.",
        f"Drawing and scoring are {100 * GRPO_HOURS[1] / sum(GRPO_HOURS):.0f} % of GRPO.",
        f"hides at most the time of the rollout, {GRPO_HOURS[0]:.1f} h",
        f"{write:.2f} s to write an answer, {draw:.2f} s to draw, {learn:.2f} s to learn from one",
        f"{within_80:.0f} h of GRPO on one card",
        f"and {mean(RECOMPUTED) / mean(KEPT):.2f} times the time.",
    ]


def _seconds(each: list[float]) -> str:
    runs = f" ({', '.join(f'{one:.3f}' for one in each)})" if len(each) > 1 else ""
    return f"{mean(each):.3f} s{runs}"


def _both(time: float) -> str:
    return f"{time:.1f} h | {time / GPUS:.1f} h"


def _instead(time: float, usual: float) -> str:
    return f"{time:.1f} h instead of {usual:.1f} h"


if __name__ == "__main__":
    print(table(), changes(), *sentences(), sep="\n\n")
