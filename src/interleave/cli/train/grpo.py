"""`interleave train grpo`: a critic learns from what its refined prompts lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options as shared
from interleave.cli.train import options


def grpo(
    data: options.Data,
    model: options.Model = None,
    generator: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The model that draws refined prompts again.")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The model that marks what was drawn, or oracle.")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option(metavar="PACK", help="The words that the scorer is asked with.")
    ] = None,
    out: options.Out = None,
    config: options.RecipeName = None,
    epochs: options.Epochs = None,
    steps: options.Steps = None,
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
    """GRPO for a critic, with a format, an accuracy and a step-wise reward; prints the result's spec."""
    options.require_libraries()
    from interleave.training.recipes import load_recipe

    changed = options.changes(
        settings,
        model__name=model,
        model__lora_rank=lora_rank,
        training__epochs=epochs,
        training__steps=steps,
        training__device_batch=device_batch,
        training__learning_rate=learning_rate,
        training__seed=seed,
        training__workers=workers,
        reward__generator=generator,
        reward__scorer=scorer,
        reward__prompts=prompts,
    )
    recipe = load_recipe(config, task="grpo", changes=changed)
    from interleave.training.grpo import train_grpo
    from interleave.training.run import TrainingJob  # torch is loaded here, after a wrong recipe is refused

    folder = out or Path("trained") / "critic-grpo"
    job = TrainingJob(
        "grpo", recipe, data, folder, max_minutes, fall_back, trust_data, fail_on_leak, skip_bad
    )
    if check:
        from interleave.training.preflight import print_plan

        print_plan(job, launch)
        return 0
    return options.run(train_grpo, job)
