"""`interleave train sft`: learn from answers that were right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from interleave.cli import options as shared
from interleave.cli.train import options
from interleave.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from interleave.training.rows import Task

ROLES = ("planner", "critic", "agent")


def sft(
    role: Annotated[
        str,
        typer.Argument(metavar="|".join(ROLES), help="Who learns; agent is one model for both jobs."),
    ],
    data: options.Data,
    model: options.Model = None,
    out: options.Out = None,
    config: options.RecipeName = None,
    epochs: options.Epochs = None,
    steps: options.Steps = None,
    batch: options.Batch = None,
    device_batch: options.DeviceBatch = None,
    learning_rate: options.LearningRate = None,
    lora_rank: options.LoraRank = None,
    seed: options.Seed = None,
    workers: options.Workers = None,
    max_minutes: options.MaxMinutes = None,
    settings: options.Set = None,
    check: options.Check = False,
    launch: options.Launch = None,
    fall_back: options.FallBack = False,
    trust_data: options.TrustData = False,
    skip_bad: options.SkipBad = False,
    fail_on_leak: options.FailOnLeak = False,
    debug: shared.Debug = False,
) -> int:
    """Supervised fine-tuning of a planner or a critic; prints the spec that loads the result."""
    if role not in ROLES:
        raise ConfigurationError(f"nobody named {role!r} can learn. {did_you_mean(role, ROLES)}")
    options.require_libraries()
    from interleave.training.recipes import load_recipe

    changed = options.changes(
        settings,
        model__name=model,
        model__lora_rank=lora_rank,
        training__epochs=epochs,
        training__steps=steps,
        training__batch=batch,
        training__device_batch=device_batch,
        training__learning_rate=learning_rate,
        training__seed=seed,
        training__workers=workers,
    )
    recipe = load_recipe(config, task="sft", changes=changed)
    from interleave.training.run import TrainingJob  # torch is loaded here, after a wrong recipe is refused
    from interleave.training.sft import train_sft

    folder = out or Path("trained") / f"{role}-sft"
    job = TrainingJob(
        cast("Task", role), recipe, data, folder, max_minutes, fall_back, trust_data, fail_on_leak, skip_bad
    )
    if check:
        from interleave.training.preflight import print_plan

        print_plan(job, launch)
        return 0
    return options.run(train_sft, job)
