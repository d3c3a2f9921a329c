"""The options that both ways of training share, and what a user chose of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interleave.errors import MissingDependency

if TYPE_CHECKING:
    from interleave.training.run import TrainingJob

NEEDED = ("torch", "transformers", "trl", "datasets", "pyarrow", "accelerate", "peft")

Data = Annotated[
    Path, typer.Option("--data", metavar="DIR|FILE", help="An export for TRL, or one of its parquet files.")
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="ORG/NAME|DIR", help="The model to start from.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where everything goes; the same command on it goes on."),
]
RecipeName = Annotated[
    str | None,
    typer.Option("--config", metavar="NAME|FILE.toml", help="A recipe; see `interleave train recipes`."),
]
Epochs = Annotated[float | None, typer.Option(min=0, help="How often each row is seen.")]
Steps = Annotated[int | None, typer.Option(min=1, help="End after so many steps instead.")]
Batch = Annotated[int | None, typer.Option(min=1, help="Rows a step, over all devices.")]
DeviceBatch = Annotated[int | None, typer.Option(min=1, help="Rows a device computes at once.")]
LearningRate = Annotated[float | None, typer.Option(min=0, help="Of the optimizer.")]
LoraRank = Annotated[int | None, typer.Option(min=0, help="Train an adapter of this rank; 0: the weights.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seeds the order of rows and everything drawn.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that decode pictures and make batches.")]
MaxMinutes = Annotated[
    float | None, typer.Option(min=0, help="Stop, saved, after so many minutes; the same command goes on.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PART.KEY=VALUE", help="Any other setting, e.g. training.warmup=0.1."),
]
Check = Annotated[
    bool,
    typer.Option("--check", help="Print the plan, the memory it needs and the first batch; train nothing."),
]
Launch = Annotated[
    Path | None,
    typer.Option("--launch", metavar="FILE", help="With --check: a launch file to check against the plan."),
]
FallBack = Annotated[
    bool, typer.Option("--fall-back", help="Go on from an older checkpoint when the last one is broken.")
]
TrustData = Annotated[bool, typer.Option("--trust-data", help="Do not look at every row first.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave rows out that cannot be used.")]
FailOnLeak = Annotated[
    bool, typer.Option("--fail-on-leak", help="Refuse data whose validation rows are also trained on.")
]


def changes(settings: list[str] | None, **chosen: Any) -> dict[str, Any]:
    """What the command line changes in a recipe: `training__batch=64` means `training.batch`."""
    from interleave.training.recipes import parse_changes

    said = {name.replace("__", "."): value for name, value in chosen.items() if value is not None}
    return {**parse_changes(settings or []), **said}


def require_libraries() -> None:
    """Say what to install where something is missing, and let nobody phone home."""
    import importlib.util

    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise MissingDependency(
                f"training needs the package {package!r}, which is not installed. "
                'Install it with: pip install "interleavethinker[train]"'
            )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # workers are forked after it has been used


def run(train: Callable[[TrainingJob, Callable[[str], None]], str], job: TrainingJob) -> int:
    """Train in front of a user: the spec of the result on stdout, the rest on stderr; the exit code."""
    from interleave.training.logs import say_on_stderr
    from interleave.training.run import Interrupted, is_main_process

    main = is_main_process()
    try:
        use = train(job, say_on_stderr if main else _silence)
    except Interrupted as error:
        print(f"interleave: {error}", file=sys.stderr)
        return 128 + signal.SIGINT
    if main:
        print(use)
    return 0


def _silence(message: str) -> None:
    """What other processes of a training say: the first speaks for all."""
