"""Estimates the paper's whole path on 8 GPUs: prints the table of docs/how-to/reproduce-the-paper.md.

Hours follow from measurements on one H200 (docs/explanation/performance.md), from the recipes, and from the
numbers below, which are the paper's or assumptions. We have run nothing of this size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from interleave.train.recipes import TrainingPart, load_recipe

GPUS = 8
GPU_DOLLARS_AN_HOUR = 3.0
"""Price of an H200; assumed."""

# Measured on one H200.
SECONDS_A_IMAGE = 1.23
"""FLUX.2-klein-9B, an edit of 1024 × 1024 in 4 steps, compiled, four together."""
FLOPS = 790e12
"""Speed of a large matrix product in bf16."""
SECONDS_A_TOKEN = 0.080
"""Qwen3-VL-8B with the library's `generate`, as TRL calls it."""

# The paper's numbers.
REQUESTS = 40_000
PLANNER_ROWS, CRITIC_ROWS, RL_ROWS = 80_000, 112_000, 13_000
WEIGHTS, LANGUAGE_WEIGHTS = 8.77e9, 8.2e9
PLANNER = load_recipe("qwen3-vl-8b-sft-planner", task="sft")
CRITIC = load_recipe("qwen3-vl-8b-sft-critic", task="sft")
GRPO = load_recipe("qwen3-vl-8b-grpo", task="grpo")
PROMPTS, SAMPLES = GRPO.grpo.prompts, GRPO.grpo.samples

# Assumed.
STEPS, ATTEMPTS = 5, 1.5
"""Steps per plan, and attempts per step."""
UTILISATION = 0.35
"""Share of the device's peak arithmetic that a training reaches."""
PLANNER_TOKENS, CRITIC_TOKENS, PROMPT_TOKENS, REPLY_TOKENS = 3_000, 3_400, 2_900, 500
LONGEST_REPLY = 800
"""Tokens of the longest reply in a batch, which determines the decoding time."""
IMAGE_BYTES, RUN_BYTES = 1.5e6, 40e3
CALLS_A_SECOND = 8.5
"""128 concurrent calls of a model behind an API, 15 s each."""
TRAINING_GPUS = 4
"""GPUs for GRPO, which shares the node with the generator."""

# US dollars for a million tokens of gemini-2.5-pro, as in src/interleave/remote/prices.py.
READ, WRITTEN = 1.25, 10.0
PLAN_TOKENS, VERDICT_TOKENS, SCORE_TOKENS = (1_500, 1_500), (3_000, 1_000), (4_400, 1_500)
"""Input and output tokens (with thinking) of a plan, a verdict on two images, both scores of an attempt."""


@dataclass(frozen=True)
class Stage:
    """One stage: hours on the node, bytes it writes, dollars for models behind an API."""

    name: str
    hours: float
    bytes: float = 0.0
    calls: float = 0.0

    @property
    def gpu_dollars(self) -> float:
        return self.hours * GPUS * GPU_DOLLARS_AN_HOUR


def stages() -> list[Stage]:
    attempts = REQUESTS * STEPS * ATTEMPTS
    planner = PLANNER_ROWS * PLANNER.training.epochs
    critic = CRITIC_ROWS * CRITIC.training.epochs
    redraws = RL_ROWS * SAMPLES / 2  # half of the rows show a wrong image
    return [
        Stage(
            "collect",
            attempts * SECONDS_A_IMAGE / GPUS / 3600,
            attempts * IMAGE_BYTES + REQUESTS * RUN_BYTES,
            REQUESTS * dollars(PLAN_TOKENS) + attempts * dollars(VERDICT_TOKENS),
        ),
        Stage("score (no GPU)", attempts * 2 / CALLS_A_SECOND / 3600, 0, attempts * dollars(SCORE_TOKENS)),
        Stage("select, export (no GPU)", 0.2, 2e9),
        Stage(
            "SFT of the planner",
            sft_hours(planner * PLANNER_TOKENS),
            training_bytes(PLANNER.training, planner / PLANNER.training.batch),
        ),
        Stage(
            "SFT of the critic",
            sft_hours(critic * CRITIC_TOKENS),
            training_bytes(CRITIC.training, critic / CRITIC.training.batch),
        ),
        Stage(
            "GRPO of the critic",
            grpo_hours(),
            training_bytes(GRPO.training, RL_ROWS * GRPO.training.epochs / PROMPTS),
            redraws * dollars(SCORE_TOKENS),
        ),
    ]


def training_bytes(training: TrainingPart, steps: float) -> float:
    """Return a training's peak bytes on disk: before the oldest checkpoint goes, or with the saved model."""
    saved = math.ceil(steps / training.save_every)  # the last step is saved too
    checkpoint, model = WEIGHTS * 12, WEIGHTS * 4  # float32; a checkpoint also has both states of Adam
    return max(min(saved, training.keep + 1) * checkpoint, min(saved, training.keep) * checkpoint + model)


def dollars(tokens: tuple[int, int]) -> float:
    """Return the price of a call."""
    return (tokens[0] * READ + tokens[1] * WRITTEN) / 1e6


def sft_hours(tokens: float) -> float:
    """Return the hours of SFT: forward, backward and a repeated forward pass are 8 operations per weight."""
    return 8 * LANGUAGE_WEIGHTS * tokens / (GPUS * FLOPS * UTILISATION) / 3600


def grpo_hours() -> float:
    steps, replies = RL_ROWS // PROMPTS, PROMPTS * SAMPLES
    writing = LONGEST_REPLY * SECONDS_A_TOKEN
    drawing = replies / 2 * SECONDS_A_IMAGE / (GPUS - TRAINING_GPUS)  # half of the rows show a wrong image
    scoring = replies / 2 * 2 / CALLS_A_SECOND
    tokens = replies * (PROMPT_TOKENS + REPLY_TOKENS)
    learning = (
        10 * WEIGHTS * tokens / (TRAINING_GPUS * FLOPS * UTILISATION)
    )  # 2 of them for the reference model
    return steps * (writing + drawing + scoring + learning) / 3600


def table() -> str:
    lines = ["| stage | hours | disk | GPUs | API |", "|---|--:|--:|--:|--:|"]
    found = stages()
    for stage in found:
        gpus = 0 if "no GPU" in stage.name else stage.gpu_dollars
        lines.append(_line(stage.name, stage.hours, stage.bytes, gpus, stage.calls))
    on_gpus = [stage for stage in found if "no GPU" not in stage.name]
    lines.append(
        _line(
            "**all**",
            sum(stage.hours for stage in found),
            sum(stage.bytes for stage in found),
            sum(stage.gpu_dollars for stage in on_gpus),
            sum(stage.calls for stage in found),
        )
    )
    return "\n".join(lines)


def api_share() -> str:
    """Return the share of the cost of models behind an API."""
    found = stages()
    calls = sum(stage.calls for stage in found)
    gpus = sum(stage.gpu_dollars for stage in found if "no GPU" not in stage.name)
    return f"{100 * calls / (calls + gpus):.0f} % of the money"


def _line(name: str, hours: float, size: float, gpus: float, calls: float) -> str:
    gigabytes = f"{size / 1e9:,.0f} GB" if size else "–"
    money = [f"${round(each, -1):,.0f}" if each else "–" for each in (gpus, calls)]
    return f"| {name} | {hours:.1f} | {gigabytes} | {money[0]} | {money[1]} |"


if __name__ == "__main__":
    print(table(), api_share(), sep="\n\n")
