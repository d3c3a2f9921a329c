"""`interleave train`: supervised fine-tuning and GRPO for planner and critic."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import did_you_mean

if TYPE_CHECKING:
    from interleave.train.recipes import Task, TrainingJob

app = typer.Typer(help="Train a planner or a critic.", no_args_is_help=True)

ROLES = ("planner", "critic", "agent")
NEEDED = ("torch", "transformers", "trl", "datasets", "pyarrow", "accelerate", "peft")

SETTINGS = {
    "model": "model.name",
    "lora_rank": "model.lora_rank",
    "epochs": "training.epochs",
    "steps": "training.steps",
    "batch": "training.batch",
    "device_batch": "training.device_batch",
    "learning_rate": "training.learning_rate",
    "seed": "training.seed",
    "workers": "training.workers",
    "report_to": "training.report_to",
    "push_to": "training.push_to",
    "generator": "reward.generator",
    "scorer": "reward.scorer",
    "prompts": "reward.prompts",
}
"""Options of the commands, and the settings of a recipe that they change."""

Data = Annotated[
    Path, typer.Option("--data", metavar="DIR|FILE", help="An export for TRL, or one of its parquet files.")
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="ORG/NAME|DIR", help="The model to start from.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The output folder; run the command again to continue."),
]
RecipeName = Annotated[
    str | None,
    typer.Option("--config", metavar="NAME|FILE.toml", help="A recipe; see `interleave train recipes`."),
]
Epochs = Annotated[float | None, typer.Option(min=0, help="Passes over the data.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Stop after this many steps instead.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Rows per step, over all devices.")]
DeviceBatch = Annotated[int | None, typer.Option(min=1, help="Rows per forward pass of a device.")]
LearningRate = Annotated[float | None, typer.Option(min=0, help="The peak learning rate.")]
LoraRank = Annotated[
    int | None, typer.Option(min=0, help="Train a LoRA adapter of this rank; 0: all weights.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seeds the order of rows and all sampling.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that decode images and make batches.")]
MaxMinutes = Annotated[float | None, typer.Option(min=0, help="Save and stop after this many minutes.")]
ReportTo = Annotated[
    list[str] | None,
    typer.Option(
        "--report-to",
        metavar="NAME",
        help="Also log to wandb, trackio, mlflow, …, which you install. Repeatable.",
    ),
]
PushTo = Annotated[
    str | None,
    typer.Option(
        "--push-to", metavar="ORG/NAME", help="Upload the result to the Hub; a new repository is private."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PART.KEY=VALUE", help="Any other setting, e.g. training.warmup=0.1."),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Print the plan, its memory and the first batch; train nothing."),
]
Launch = Annotated[
    Path | None,
    typer.Option("--launch", metavar="FILE", help="With --check: a launch file to check against the plan."),
]
FallBack = Annotated[
    bool, typer.Option("--fall-back", help="Continue from an older checkpoint if the last is broken.")
]
TrustData = Annotated[bool, typer.Option("--trust-data", help="Do not check every row first.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip rows that cannot be used.")]
FailOnLeak = Annotated[
    bool, typer.Option("--fail-on-leak", help="Refuse data whose validation rows are also trained on.")
]


@app.callback()
def _train() -> None:
    """Train a planner or a critic."""


@app.command()
def sft(
    role: Annotated[
        str,
        typer.Argument(metavar="|".join(ROLES), help="What to train; agent is one model for both roles."),
    ],
    data: Data,
    model: Model = None,
    out: Out = None,
    config: RecipeName = None,
    epochs: Epochs = None,
    steps: Steps = None,
    batch: Batch = None,
    device_batch: DeviceBatch = None,
    learning_rate: LearningRate = None,
    lora_rank: LoraRank = None,
    seed: Seed = None,
    workers: Workers = None,
    max_minutes: MaxMinutes = None,
    report_to: ReportTo = None,
    push_to: PushTo = None,
    settings: Set = None,
    check: Check = False,
    launch: Launch = None,
    fall_back: FallBack = False,
    trust_data: TrustData = False,
    skip_bad: SkipBad = False,
    fail_on_leak: FailOnLeak = False,
) -> int:
    """Supervised fine-tuning of a planner or a critic; prints the spec that loads the result."""
    given = locals()
    if role not in ROLES:
        raise ConfigurationError(f"no role named {role!r} can be trained. {did_you_mean(role, ROLES)}")
    _require_libraries()
    from interleave.train.recipes import TrainingJob, load_recipe
    from interleave.train.sft import train_sft

    recipe = load_recipe(config, task="sft", changes=_changes(given))
    folder = out or Path("trained") / f"{role}-sft"
    job = TrainingJob(
        cast("Task", role), recipe, data, folder, max_minutes, fall_back, trust_data, fail_on_leak, skip_bad
    )
    return _check(job, launch) if check else _run(train_sft, job)


@app.command()
def grpo(
    data: Data,
    model: Model = None,
    generator: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The model that draws refined prompts again.")
    ] = None,
    scorer: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The model that scores the images, or oracle.")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option(metavar="PACK", help="The prompt pack of the rows and the scorer.")
    ] = None,
    out: Out = None,
    config: RecipeName = None,
    epochs: Epochs = None,
    steps: Steps = None,
    device_batch: DeviceBatch = None,
    learning_rate: LearningRate = None,
    lora_rank: LoraRank = None,
    seed: Seed = None,
    workers: Workers = None,
    max_minutes: MaxMinutes = None,
    report_to: ReportTo = None,
    push_to: PushTo = None,
    settings: Set = None,
    check: Check = False,
    launch: Launch = None,
    fall_back: FallBack = False,
    trust_data: TrustData = False,
    skip_bad: SkipBad = False,
    fail_on_leak: FailOnLeak = False,
) -> int:
    """GRPO for a critic, with a format, an accuracy and a step-wise reward; prints the result's spec."""
    given = locals()
    _require_libraries()
    from interleave.train.grpo import train_grpo
    from interleave.train.recipes import TrainingJob, load_recipe

    recipe = load_recipe(config, task="grpo", changes=_changes(given))
    folder = out or Path("trained") / "critic-grpo"
    job = TrainingJob(
        "grpo", recipe, data, folder, max_minutes, fall_back, trust_data, fail_on_leak, skip_bad
    )
    return _check(job, launch) if check else _run(train_grpo, job)


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this recipe in full.")] = None,
) -> int:
    """List the recipes that come with the package, or show one."""
    import tomllib

    from interleave.train.recipes import shipped_recipes

    known = shipped_recipes()
    if name is None:
        for each, path in known.items():
            typer.echo(f"{each:<26} {tomllib.loads(path.read_text('utf-8')).get('description', '')}")
        return 0
    if name not in known:
        raise ConfigurationError(f"no recipe named {name!r}. {did_you_mean(name, known)}")
    typer.echo(known[name].read_text("utf-8").rstrip())
    return 0


def _changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line changes in a recipe; an option takes precedence over --set."""
    from interleave.train.recipes import parse_changes

    changes = parse_changes(given["settings"] or [])
    return changes | {key: given[name] for name, key in SETTINGS.items() if given.get(name) is not None}


def _require_libraries() -> None:
    """Refuse to train without the libraries, and set their environment variables before they are imported."""
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise MissingDependency(
                f"training needs the package {package!r}, which is not installed. "
                'Install it with: pip install "interleavethinker[train]"'
            )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forked after it has been used


def _check(job: TrainingJob, launch: Path | None) -> int:
    from interleave.train.preflight import print_plan

    print_plan(job, launch)
    return 0


def _run(train: Callable[[TrainingJob, Callable[[str], None]], str], job: TrainingJob) -> int:
    """Train, with the result's spec on stdout and everything else on stderr; returns the exit code."""
    from interleave.train.logs import say_on_stderr
    from interleave.train.run import Interrupted, is_main_process

    first = is_main_process()
    try:
        spec = train(job, say_on_stderr if first else _discard)
    except Interrupted as error:
        print(f"interleave: {error}", file=sys.stderr)
        return 128 + signal.SIGINT
    if first:
        print(spec)
    return 0


def _discard(message: str) -> None:
    """Drop a message: of several processes only the first prints."""
