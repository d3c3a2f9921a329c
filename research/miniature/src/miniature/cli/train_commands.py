"""`interleave mini train|fresh|grow|halve|language|tasks`: the miniature's models and data from scratch.

The agents are trained by a chain of the product's own commands (`stages.py`, run by `chain.py`).
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

Out = Annotated[Path, typer.Option(help="Where everything goes; the same command on it goes on.")]
Size = Annotated[
    str,
    typer.Option(
        help="full (what is shipped), table (for comparisons), small (a look at everything on a GPU) or toy."
    ),
]
Generator = Annotated[
    str, typer.Option(metavar="SPEC", help="What draws for data and rewards.", show_default=True)
]
Shards = Annotated[int, typer.Option(min=1, help="Processes that collect and score.")]
Workers = Annotated[int, typer.Option(min=0, help="Processes that make batches, for each training.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Stages that may run at the same time.")]
Seed = Annotated[int, typer.Option(help="Seeds everything.")]
Only = Annotated[bool, typer.Option("--dry-run", help="Print the commands and do nothing.")]


def generator(
    out: Annotated[Path, typer.Option(help="Where checkpoints, log and the finished pipeline go.")],
    shape: Annotated[str, typer.Option(help="mini (what will be shipped) or toy (for a try).")] = "mini",
    vae_minutes: Annotated[float, typer.Option(min=0, help="Time for the picture encoder.")] = 10,
    flow_minutes: Annotated[float, typer.Option(min=0, help="Time for text encoder and transformer.")] = 18.5,
    stop_after: Annotated[
        float | None,
        typer.Option(min=0, help="Stop the second after so many minutes; run again to go on."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu…; by default a GPU if there is one.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that write examples.")] = 0,
    evaluate: Annotated[int, typer.Option(min=1, help="Pictures of each sort in the evaluation.")] = 200,
    start: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on from the weights of this pipeline. [default: from nothing]"),
    ] = None,
    rate: Annotated[float, typer.Option(min=0, help="The highest learning rate of the second.")] = 7e-4,
    seed: Annotated[int, typer.Option(help="Seeds everything.")] = 0,
) -> int:
    """Train the generator, a small FLUX.2-klein, on the world's own scenes; prints where the pipeline is."""
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
        flow=FlowTraining(rate=rate),
    )
    if not train_generator(settings):
        typer.echo("stopped: the same command goes on", err=True)
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
    """Train the planner by exercises that never repeat, in stages of at most nine minutes on one H200."""
    chain = _chain(out, size, "mini", 1, workers, seed)
    return _run(chain.planner(), chain, 1, dry_run)


def critic(
    out: Out,
    size: Size = "full",
    generator: Generator = "mini",
    shards: Shards = 1,
    workers: Workers = 0,
    at_once: AtOnce = 1,
    seed: Seed = 0,
    dry_run: Only = False,
) -> int:
    """Train the critic: exercises, data from the grammar's seed, supervised fine-tuning, then GRPO."""
    chain = _chain(out, size, generator, shards, workers, seed)
    stages = [*chain.data(), *chain.critic_sft(), *chain.critic_grpo()]
    return _run(stages, chain, at_once, dry_run)


def everything(
    out: Out,
    size: Size = "full",
    generator: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Use this generator, e.g. mini, instead of training one first."),
    ] = None,
    shards: Shards = 1,
    workers: Workers = 0,
    at_once: AtOnce = 1,
    vlm_options: Annotated[
        str, typer.Option(metavar="KEY=VALUE&…", help="For learned agents in the table, e.g. batch=256.")
    ] = "",
    concurrency: Annotated[int, typer.Option(min=1, help="Tasks of the table under way at once.")] = 16,
    seed: Seed = 0,
    trainings: Annotated[
        int,
        typer.Option(
            min=1, help="How often planner and critics are trained, each time with another seed (OUT/seed-N)."
        ),
    ] = 1,
    no_variants: Annotated[
        bool, typer.Option("--no-variants", help="Only what is shipped: no variants of the ablation.")
    ] = False,
    no_table: Annotated[bool, typer.Option("--no-table", help="Train, and measure nothing.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="When a stage fails, finish what does not need it.")
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
    return _run(stages, chain, at_once, dry_run, keep_going)


def trajectories(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained critic's folder.")],
    out: Annotated[Path, typer.Option(help="Where the model and the log go.")],
    minutes: Annotated[float, typer.Option(min=0, help="Ends after so long,")] = 8,
    steps: Annotated[
        int | None, typer.Option(min=1, help="or after so many steps, if that is earlier.")
    ] = None,
    reward: Annotated[
        str,
        typer.Option(
            metavar="trajectory|step", help="One for a whole story, or one for each verdict by itself."
        ),
    ] = "trajectory",
    stories: Annotated[int, typer.Option(min=1, help="Stories of a step.")] = 32,
    samples: Annotated[int, typer.Option(min=2, help="Trajectories of each story.")] = 8,
    scouts: Annotated[
        int,
        typer.Option(
            min=1, help="How many times as many stories are drawn once, to find those that teach most."
        ),
    ] = 4,
    attempts: Annotated[int, typer.Option(min=1, help="Pictures of a step at most.")] = 3,
    strays: Annotated[
        float, typer.Option(min=0, max=1, help="Share of first pictures that show another step.")
    ] = 0.1,
    temperature: Annotated[float, typer.Option(min=0.1, help="Of the verdicts that are sampled.")] = 1.0,
    rate: Annotated[float, typer.Option(min=0, help="The highest learning rate.")] = 2e-5,
    hold: Annotated[
        float, typer.Option(min=0, help="What moving away from the model of the start costs.")
    ] = 0.05,
    generator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="What draws; given several times, each story is drawn by one of them. [default: mini]",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu…; by default a GPU if there is one.")] = None,
    seed: Seed = 0,
) -> int:
    """Train a critic by GRPO over whole stories; prints where the model is. The same command goes on."""
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
    out: Annotated[Path, typer.Option(help="The folder of the model.")],
    seed: Seed = 0,
) -> int:
    """Write a model with random weights and the miniature's tokenizer, to train from."""
    from miniature.train.agent_model import write_fresh_agent

    typer.echo(str(write_fresh_agent(out, shape, seed=seed)))
    return 0


def vision(
    fresh: Annotated[
        Path, typer.Argument(metavar="MODEL", help="What `mini fresh`, or this command, has written.")
    ],
    out: Annotated[Path, typer.Option(help="Where the log and the finished model go.")],
    minutes: Annotated[float, typer.Option(min=0, help="Time to learn.")] = 5,
    generator: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The pipeline whose hand is looked at. [default: the one that ships]"
        ),
    ] = None,
    exercises: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="Of look, compare, check, verdict, audit, plan-SUITE and again; one named twice comes "
            "twice as often.",
        ),
    ] = "look,compare,check,verdict",
    rate: Annotated[float, typer.Option(min=0, help="The highest learning rate.")] = 1.5e-3,
    replays: Annotated[
        int, typer.Option(min=0, help="How often at most a batch is seen again while a new one is made.")
    ] = 3,
    batch: Annotated[int, typer.Option(min=1, help="Exercises a step.")] = 256,
    drawings: Annotated[
        int,
        typer.Option(
            min=0, help="Pictures that the generator draws first, for verdicts on its own failures."
        ),
    ] = 0,
    examine: Annotated[
        int, typer.Option(min=0, help="Exercises in the examination at the end; 0: none.")
    ] = 2048,
    workers: Annotated[int, typer.Option(min=0, help="Processes that make exercises.")] = 0,
    device: Annotated[str | None, typer.Option(help="cuda, cpu…; by default a GPU if there is one.")] = None,
    seed: Seed = 0,
) -> int:
    """Teach a model by exercises that never repeat: to look at images of the world, to plan requests.

    Another call goes on from the weights that it has written: MODEL is any folder of a model.
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
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model's folder.")],
    layers: Annotated[int, typer.Option(min=1, help="How many layers the copy has.")],
    out: Annotated[Path, typer.Option(help="The folder of the copy.")],
) -> int:
    """Copy a trained model with more layers; it answers as before until it is trained further."""
    from miniature.train.agent_model import grow as write_grown

    typer.echo(str(write_grown(model, out, layers)))
    return 0


def to_fp16(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A trained model's folder.")],
    out: Annotated[Path, typer.Option(help="The folder of the copy.")],
) -> int:
    """Copy a trained model in half precision, as it is shipped."""
    from miniature.train.agent_model import to_fp16 as write_fp16

    typer.echo(str(write_fp16(model, out)))
    return 0


def language(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where it goes.")] = LANGUAGE,
) -> int:
    """Gather what the runtime knows of the language from the grammar; prints where it is."""
    from miniature.grammar.language_file import write_language

    write_language(out)
    typer.echo(str(out))
    return 0


def tasks(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where they go.")] = TASKS,
    items: Annotated[int, typer.Option(min=1, help="How many tasks of each suite.")] = 1200,
) -> int:
    """Sample the tasks of the benchmark from the grammar; prints where they are."""
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


def _run(stages: Iterable[Stage], chain: Chain, at_once: int, dry_run: bool, keep_going: bool = False) -> int:
    from interleave.plugin import backends, say
    from miniature.cli.chain import run_chain

    stages = list(stages)
    if dry_run:
        for stage in stages:
            typer.echo(stage.command_line)
        return 0
    backends.require_backend(chain.generator, "generator")
    threads = max(1, (os.cpu_count() or 1) // at_once)
    seconds = run_chain(
        stages,
        chain.out,
        at_once=at_once,
        keep_going=keep_going,
        say=say,
        environment={"OMP_NUM_THREADS": str(threads), **_memory_settings()},
    )
    say(f"all done, {sum(seconds.values()):.0f} s of work in {len(seconds)} stages")
    typer.echo(str(chain.out / "agents"))
    return 0


def _memory_settings() -> dict[str, str]:
    """Stages share a GPU, and batches of many shapes leave gaps in the memory that each keeps for itself."""
    name = "PYTORCH_CUDA_ALLOC_CONF"
    return {} if name in os.environ else {name: "expandable_segments:True"}
