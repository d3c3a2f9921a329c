"""`interleave mini train|fresh|grow|grow-vocabulary|to-fp16|language|tasks`: models and data from scratch.

The agents are trained by a chain of `interleave` commands (`stages.py`, run by `chain.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave_mini.bench.task_file import FILE as TASKS
from interleave_mini.language.vocabulary import FILE as LANGUAGE
from miniature.cli.stages import SIZES, Chain

if TYPE_CHECKING:
    from miniature.cli.chain import Stage

Out = Annotated[Path, typer.Option(help="Output folder; repeating the command resumes.")]
Size = Annotated[
    str,
    typer.Option(
        help="full (the shipped models), table (for comparisons), fresh (from random weights), small "
        "(a quick pass on a GPU) or toy."
    ),
]
Generator = Annotated[
    str, typer.Option(metavar="SPEC", help="Generator for data and rewards.", show_default=True)
]
Shards = Annotated[int, typer.Option(min=1, help="Processes for collecting and scoring.")]
Workers = Annotated[int, typer.Option(min=0, help="Data loader processes per training.")]
ParallelStages = Annotated[int, typer.Option("--parallel-stages", min=1, help="Maximum concurrent stages.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Only = Annotated[bool, typer.Option("--dry-run", help="Print the commands without running them.")]


def generator(
    out: Annotated[Path, typer.Option(help="Output folder for checkpoints, log and pipeline.")],
    shape: Annotated[str, typer.Option(help="mini (the shipped model) or toy (for tests).")] = "mini",
    vae_minutes: Annotated[float, typer.Option(min=0, help="Minutes to train the VAE.")] = 10,
    flow_minutes: Annotated[float, typer.Option(min=0, help="Minutes to train the transformer.")] = 18.5,
    stop_after: Annotated[
        float | None,
        typer.Option(
            "--max-minutes", min=0, help="Stop the transformer after this many minutes; repeat to resume."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu… [default: a GPU if available]")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Data loader processes.")] = 0,
    evaluate: Annotated[
        int, typer.Option("--eval-items", min=1, help="Images per category in the evaluation.")
    ] = 200,
    start: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Start from this pipeline. [default: random weights]"),
    ] = None,
    tune_vae: Annotated[
        float, typer.Option("--tune-vae", min=0, help="Minutes to train the VAE of --start further.")
    ] = 0,
    rate: Annotated[
        float, typer.Option("--learning-rate", min=0, help="Peak learning rate of the transformer.")
    ] = 7e-4,
    vae_rate: Annotated[
        float, typer.Option("--vae-learning-rate", min=0, help="Peak learning rate of the VAE.")
    ] = 1.2e-3,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> int:
    """Train the generator, a small FLUX.2-klein, on scenes of the world; print the path of the pipeline."""
    from miniature.train.autoencoder import VaeTraining
    from miniature.train.flow import FlowTraining
    from miniature.train.generator import GeneratorTraining, train_generator

    settings = GeneratorTraining(
        out,
        shape,
        vae_minutes,
        flow_minutes,
        stop_after,
        device,
        workers,
        seed,
        evaluate,
        start,
        tune_vae,
        VaeTraining(rate=vae_rate),
        FlowTraining(rate=rate),
    )
    if not train_generator(settings):
        typer.echo("stopped: run the same command to resume", err=True)
        return 1
    typer.echo(f"use it with: --generator diffusers:{(out / 'pipeline').absolute()}", err=True)
    typer.echo(str(out / "pipeline"))
    return 0


def planner(
    out: Out,
    size: Size = "full",
    workers: Workers = 0,
    seed: Seed = 0,
    dry_run: Only = False,
) -> int:
    """Train the planner on exercises that never repeat, in stages of at most nine minutes on one H200."""
    chain = _chain(out, size, "mini", 1, workers, seed)
    return _run(chain.planner(), chain, 1, dry_run)


def critic(
    out: Out,
    size: Size = "full",
    generator: Generator = "mini",
    shards: Shards = 1,
    workers: Workers = 0,
    parallel_stages: ParallelStages = 1,
    seed: Seed = 0,
    dry_run: Only = False,
) -> int:
    """Train the critic: exercises, data from the grammar's seed, supervised fine-tuning, then GRPO."""
    chain = _chain(out, size, generator, shards, workers, seed)
    stages = [*chain.data(), *chain.critic_sft(), *chain.critic_grpo()]
    return _run(stages, chain, parallel_stages, dry_run)


def everything(
    out: Out,
    size: Size = "full",
    generator: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Generator to use, e.g. mini, instead of training one."),
    ] = None,
    shards: Shards = 1,
    workers: Workers = 0,
    parallel_stages: ParallelStages = 1,
    vlm_options: Annotated[
        str, typer.Option(metavar="KEY=VALUE&…", help="For learned agents in the table, e.g. batch=256.")
    ] = "",
    concurrency: Annotated[int, typer.Option(min=1, help="Concurrent tasks of the table.")] = 16,
    seed: Seed = 0,
    trainings: Annotated[
        int,
        typer.Option(
            min=1, help="Number of trainings of planner and critics, each with another seed (OUT/seed-N)."
        ),
    ] = 1,
    no_variants: Annotated[
        bool, typer.Option("--no-variants", help="Train only the shipped models, no ablations.")
    ] = False,
    no_table: Annotated[bool, typer.Option("--no-table", help="Train without evaluating.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="If a stage fails, finish independent stages.")
    ] = False,
    dry_run: Only = False,
) -> int:
    """Train all three models and the variants of the ablation, and fill the ablation table."""
    pipeline = (out / "generator-2" / "pipeline").absolute() if generator is None else None
    chain = replace(
        _chain(out, size, generator or f"diffusers:{pipeline}", shards, workers, seed),
        pipeline=pipeline,
        vlm_options=vlm_options,
        concurrency=concurrency,
    )
    learned = [
        chain.language(),
        *chain.data(),
        *chain.planner(),
        *chain.critic_sft(),
        *chain.critic_grpo(),
        *chain.graphs(),
        *(() if no_variants else chain.variants()),
    ]
    first = list(chain.generator_stages("mini" if size == "full" else "toy")) if pipeline else []
    if first:
        learned = [replace(each, after=each.after or (first[-1].name,)) for each in learned]
    trained = {each.name.removeprefix("agent-") for each in learned if each.name.startswith("agent-")}
    table = chain.table(trained)
    further = [each for n in range(1, trainings) for each in chain.again(n, with_table=not no_table)]
    if first:
        further = [replace(each, after=each.after or (first[-1].name,)) for each in further]
    stages = [*first, *learned, *further, *(() if no_table else table)]
    return _run(stages, chain, parallel_stages, dry_run, keep_going)


def trajectories(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained critic.")],
    out: Annotated[Path, typer.Option(help="Output folder for model and log.")],
    minutes: Annotated[float, typer.Option(min=0, help="Maximum training time in minutes.")] = 8,
    steps: Annotated[int | None, typer.Option(min=1, help="Maximum number of steps.")] = None,
    reward: Annotated[
        str,
        typer.Option(metavar="trajectory|step", help="Reward per whole story, or per verdict."),
    ] = "trajectory",
    stories: Annotated[int, typer.Option(min=1, help="Stories per step.")] = 32,
    samples: Annotated[int, typer.Option(min=2, help="Trajectories per story.")] = 8,
    scouts: Annotated[
        int,
        typer.Option(
            "--oversample",
            min=1,
            help="Stories drawn once per story kept, to find the most informative ones.",
        ),
    ] = 4,
    attempts: Annotated[int, typer.Option("--max-attempts", min=1, help="Maximum attempts per step.")] = 3,
    strays: Annotated[
        float,
        typer.Option("--wrong-step-rate", min=0, max=1, help="Share of first images that show another step."),
    ] = 0.1,
    temperature: Annotated[float, typer.Option(min=0.1, help="Sampling temperature of verdicts.")] = 1.0,
    rate: Annotated[float, typer.Option("--learning-rate", min=0, help="Peak learning rate.")] = 2e-5,
    hold: Annotated[
        float, typer.Option("--kl-weight", min=0, help="Weight of the divergence from the initial model.")
    ] = 0.05,
    generator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Generator; if repeated, each story uses one of them. [default: mini]",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu… [default: a GPU if available]")] = None,
    seed: Seed = 0,
) -> int:
    """Train a critic by GRPO over whole stories; print the path of the model. Repeating it resumes."""
    from interleave import ConfigurationError
    from miniature.train.trajectory_grpo import TrajectoryTraining, train_on_trajectories

    if reward not in ("trajectory", "step"):
        raise ConfigurationError(f"no reward named {reward!r}: choose trajectory or step")
    settings = TrajectoryTraining(
        kind="trajectory" if reward == "trajectory" else "step",
        stories=stories,
        samples=samples,
        scouts=scouts,
        max_attempts=attempts,
        strays=strays,
        temperature=temperature,
        rate=rate,
        hold=hold,
    )
    written = train_on_trajectories(
        model,
        out,
        minutes,
        settings=settings,
        generators=generator or ["mini"],
        steps=steps,
        device=device,
        seed=seed,
    )
    typer.echo(str(written))
    return 0


def fresh(
    shape: Annotated[str, typer.Argument(metavar="planner|critic|agent|toy")],
    out: Annotated[Path, typer.Option(help="Output folder of the model.")],
    seed: Seed = 0,
) -> int:
    """Write a model with random weights and the miniature's tokenizer, for training."""
    from miniature.train.agent_model import write_fresh_agent

    typer.echo(str(write_fresh_agent(out, shape, seed=seed)))
    return 0


def vision(
    fresh: Annotated[Path, typer.Argument(metavar="MODEL", help="Model from `mini fresh` or this command.")],
    out: Annotated[Path, typer.Option(help="Output folder for log and model.")],
    minutes: Annotated[float, typer.Option(min=0, help="Training time in minutes.")] = 5,
    generator: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Pipeline whose images are learned. [default: the shipped one]"),
    ] = None,
    exercises: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="Any of look, compare, check, verdict, audit, audit-plan, done, plan-SUITE, plan-worked, "
            "plan-wider, plan-frames, again and segment; a repeated name, or NAME×N, is more frequent.",
        ),
    ] = "look,compare,check,verdict",
    rate: Annotated[float, typer.Option("--learning-rate", min=0, help="Peak learning rate.")] = 1.5e-3,
    replays: Annotated[
        int, typer.Option(min=0, help="Maximum repetitions of a batch while a new one is made.")
    ] = 3,
    batch: Annotated[int, typer.Option(min=1, help="Exercises per step.")] = 256,
    dropout: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="Share of layer outputs left out, against memorising."),
    ] = 0.0,
    drawings: Annotated[
        int,
        typer.Option(
            "--generated-images", min=0, help="Images to generate first, for verdicts on real failures."
        ),
    ] = 0,
    examine: Annotated[
        int, typer.Option("--eval-items", min=0, help="Exercises in the final evaluation; 0 skips it.")
    ] = 2048,
    workers: Annotated[int, typer.Option(min=0, help="Data loader processes.")] = 0,
    device: Annotated[str | None, typer.Option(help="cuda, cpu… [default: a GPU if available]")] = None,
    seed: Seed = 0,
) -> int:
    """Train a model on exercises that never repeat: reading images of the world, planning requests.

    To continue from the written weights, pass the output model as MODEL.
    """
    from interleave_mini import WEIGHTS
    from miniature.train.vision_examples import exercises_named
    from miniature.train.vision_pretrain import VisionPretraining, pretrain_vision

    chosen = exercises_named(exercises.split(","))
    pretrain_vision(
        fresh,
        out,
        minutes,
        settings=VisionPretraining(
            exercises=chosen,
            batch_size=batch,
            rate=rate,
            replays=replays,
            dropout=dropout,
            workers=workers,
            eval_examples=examine,
            drawings=drawings,
        ),
        generator=generator or WEIGHTS / "generator",
        device=device,
        seed=seed,
    )
    typer.echo(str(out / "model"))
    return 0


def grow(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")],
    layers: Annotated[int, typer.Option(min=1, help="Number of layers of the copy.")],
    out: Annotated[Path, typer.Option(help="Output folder of the copy.")],
) -> int:
    """Copy a trained model with more layers; its answers stay the same until it is trained further."""
    from miniature.train.agent_model import grow as write_grown

    typer.echo(str(write_grown(model, out, layers)))
    return 0


def grow_vocabulary(
    model: Annotated[Path, typer.Argument(metavar="FROM", help="Folder of a trained planner or critic.")],
    out: Annotated[Path, typer.Argument(metavar="TO", help="Output folder of the copy.")],
) -> int:
    """Copy a trained planner or critic with tokens for more words; train it further to use them."""
    from miniature.train.agent_model import grow_vocabulary as write_grown

    typer.echo(str(write_grown(model, out)))
    return 0


def to_fp16(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of a trained model.")],
    out: Annotated[Path, typer.Option(help="Output folder of the copy.")],
) -> int:
    """Copy a trained model in half precision, the shipped format."""
    from miniature.train.agent_model import to_fp16 as write_fp16

    typer.echo(str(write_fp16(model, out)))
    return 0


def language(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file.")] = LANGUAGE,
) -> int:
    """Write what the runtime knows about the language, from the grammar; print the path."""
    from miniature.grammar.language_file import write_language

    write_language(out)
    typer.echo(str(out))
    return 0


def tasks(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file.")] = TASKS,
    items: Annotated[int, typer.Option(min=1, help="Tasks per suite.")] = 1200,
) -> int:
    """Sample the tasks of the benchmark from the grammar; print the path."""
    from interleave_mini.bench.task_file import write_tasks
    from miniature.grammar.benchmark import sampled

    write_tasks(out, sampled(items))
    typer.echo(str(out))
    return 0


def _chain(out: Path, size: str, generator: str, shards: int, workers: int, seed: int) -> Chain:
    from interleave import ConfigurationError
    from interleave.plugin import did_you_mean

    if size not in SIZES:
        raise ConfigurationError(f"no size named {size!r}. {did_you_mean(size, SIZES)}")
    return Chain(out, SIZES[size], generator, shards=shards, workers=workers, seed=seed)


def _run(stages: Iterable[Stage], chain: Chain, jobs: int, dry_run: bool, keep_going: bool = False) -> int:
    from interleave.plugin import backends, say
    from miniature.cli.chain import run_chain

    stages = list(stages)
    if dry_run:
        for stage in stages:
            typer.echo(stage.command_line)
        return 0
    backends.require_backend(chain.generator, "generator")
    threads = max(1, (os.cpu_count() or 1) // jobs)
    seconds = run_chain(
        stages,
        chain.out,
        concurrency=jobs,
        keep_going=keep_going,
        say=say,
        environment={"OMP_NUM_THREADS": str(threads), **_memory_settings()},
    )
    say(f"done: {len(seconds)} stages, {sum(seconds.values()):.0f} s of work")
    typer.echo(str(chain.out / "agents"))
    return 0


def _memory_settings() -> dict[str, str]:
    """Return allocator settings: stages share a GPU, and batches of many shapes fragment its memory."""
    name = "PYTORCH_CUDA_ALLOC_CONF"
    return {} if name in os.environ else {name: "expandable_segments:True"}
