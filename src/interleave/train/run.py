"""Running a trainer: from the last checkpoint, until it is done, interrupted or broken."""

from __future__ import annotations

import math
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from interleave import ConfigurationError, InterleaveError, LimitReached
from interleave.local.saved_models import make_loadable
from interleave.local.silence import quiet
from interleave.plugin import count, errors
from interleave.train import checkpoints
from interleave.train.checkpoints import refuse_other_processes
from interleave.train.hub import prepare_upload, upload
from interleave.train.logs import LOG_NAME
from interleave.train.model_card import TrainedModel, write_card
from interleave.train.models import TrainableModel
from interleave.train.output_folder import OutputFolder, how_to_use
from interleave.train.recipes import Recipe
from interleave.train.reporting import reporters
from interleave.train.rows import Task

if TYPE_CHECKING:
    from interleave.train.inspection import TrainingRows

MOST_BAD_STEPS = 3


@dataclass(frozen=True)
class TrainingJob:
    """What the user asked for: a recipe, its data, the output folder and how to treat both."""

    task: Task
    recipe: Recipe
    data: Path
    out: Path
    max_minutes: float | None = None
    fall_back: bool = False
    """Resume from an older checkpoint where the last one is broken."""
    trust_data: bool = False
    """Skip the check of every row."""
    fail_on_leak: bool = False
    """Refuse data whose validation rows are also trained on."""
    skip_bad: bool = False
    """Leave out rows that cannot be used."""

    def __post_init__(self) -> None:
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ConfigurationError(
                f"--max-minutes {self.max_minutes:g} leaves no time to learn: write more"
            )


class Interrupted(InterleaveError):
    """The user stopped the training; everything is saved."""


class TrainingBroken(InterleaveError):
    """The training diverged: its gradients are not finite any more."""


def run_training(
    trainer: Any,
    output: OutputFolder,
    monitor: TrainingMonitor,
    job: TrainingJob,
    learner: TrainableModel,
    rows: TrainingRows,
) -> str:
    """Train from the last checkpoint to the end; returns the spec of the result, or raises why it stopped."""
    resume = output.resume_from(fall_back=job.fall_back)
    for folder in checkpoints.incomplete(output.checkpoints):
        trainer.say(f"{folder} was cut off while it was written: passed over")
    if resume is not None:
        refuse_other_processes(resume, trainer.accelerator.num_processes)
        checkpoints.refuse_other_model(resume, learner.folder)
        trainer.say(f"going on from {resume}")
    with quiet(), _without_stale_names(), _on_signals(monitor), _readable_failures(output):
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if monitor.reason is not None:
        raise monitor.reason
    use = _finish(trainer, output, job, learner, rows)
    upload_result(job, output, trainer.say)
    return use


@contextmanager
def _without_stale_names() -> Iterator[None]:
    """Hide what transformers says to TRL about a name that TRL still reads: no user can change it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        yield


def check_reports(job: TrainingJob) -> None:
    """Refuse reporters and a repository that cannot be written to, before anything is loaded."""
    training = job.recipe.training
    reporters(training.report_to)
    if training.push_to and is_main_process():
        prepare_upload(training.push_to)


def upload_result(job: TrainingJob, output: OutputFolder, say: Callable[[str], None]) -> None:
    """Upload the result where the user asked for it."""
    repository = job.recipe.training.push_to
    if repository and is_main_process():
        say(f"uploaded to {upload(output.model, repository)}")


def _finish(
    trainer: Any, output: OutputFolder, job: TrainingJob, learner: TrainableModel, rows: TrainingRows
) -> str:
    adapter = learner.lora is not None
    with quiet(), checkpoints.reporting_disk_errors(output.model):
        trainer.save_model(str(output.model))
    (output.model / "training_args.bin").unlink(missing_ok=True)  # a pickle, and not needed
    use = how_to_use(output.model, learner.base, adapter=adapter)
    if trainer.accelerator.is_main_process:
        with checkpoints.reporting_disk_errors(output.model):
            make_loadable(output.model, learner.folder)
            write_card(output.model, _facts(trainer.state.global_step, output, job, learner, rows))
        output.finish(steps=trainer.state.global_step, note=use)
    return use


def _facts(
    steps: int, output: OutputFolder, job: TrainingJob, learner: TrainableModel, rows: TrainingRows
) -> TrainedModel:
    """What the card of the result tells."""
    log = output.folder / LOG_NAME
    return TrainedModel(
        job.task, job.recipe, learner.base, job.data.absolute(), len(rows.train), rows.digest, steps, log
    )


@contextmanager
def locked_output(output: OutputFolder, job: TrainingJob, rows: TrainingRows) -> Iterator[None]:
    """Lock the output folder for this training; the main process does, for all."""
    if not is_main_process():
        yield
        return
    with output.open(job.task, job.recipe, rows.digest):
        yield


@contextmanager
def _on_signals(monitor: TrainingMonitor) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM saves and stops after the current step; the second stops at once."""

    def stop(number: int, frame: object) -> None:
        if monitor.reason is not None:
            raise KeyboardInterrupt
        monitor.stop(Interrupted("interrupted: the state is saved, the same command goes on"))

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            before[number] = signal.signal(number, stop)
        except ValueError:  # not in the main thread
            break
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _readable_failures(output: OutputFolder) -> Iterator[None]:
    """Turn failures of the libraries into errors that say what to do."""
    try:
        yield
    except InterleaveError:
        raise
    except torch.OutOfMemoryError:
        raise errors.OutOfMemory(
            "the device ran out of memory in one batch; nothing was cut. Set training.device_batch lower, "
            f"model.gradient_checkpointing = true or model.max_pixels lower. {_where(output)}"
        ) from None
    except Exception as error:
        if "weights_only" in str(error) or "Weights only load failed" in str(error):
            raise ConfigurationError(
                f"a file of the checkpoint in {output.checkpoints} wants to run code when it is opened, "
                "which no checkpoint of ours does: do not use it. --fall-back tries an older one"
            ) from error
        raise


def _where(output: OutputFolder) -> str:
    last = output.resume_from(fall_back=True)
    return f"The last checkpoint is {last}" if last else "There is no checkpoint yet"


class TrainingMonitor:
    """Checks the gradients of every step, and decides when to stop."""

    def __init__(self, *, max_minutes: float | None = None, cycle: int = 1) -> None:
        self.cycle = cycle
        """Steps that belong together: training stops, and is saved, only between cycles."""
        self.ends_at = math.inf if max_minutes is None else time.monotonic() + 60 * max_minutes
        self.bad_steps = 0
        self.skipped = 0
        """Steps that left the weights as they were."""
        self.reason: InterleaveError | None = None
        """Why training stopped before its end."""

    def stop(self, reason: InterleaveError) -> None:
        """Stop after the current cycle, with everything saved."""
        self.reason = self.reason or reason

    def before_update(self, model: Any) -> None:
        """Skip the update where gradients are not finite, or all zero.

        An optimizer skips weights without a gradient: neither momentum nor weight decay moves them.
        """
        size = gradient_size(model)
        self.bad_steps = 0 if math.isfinite(size) else self.bad_steps + 1
        if size and math.isfinite(size):
            return
        self.skipped += 1
        for weights in model.parameters():
            weights.grad = None
        if self.bad_steps >= MOST_BAD_STEPS:
            self.stop(
                TrainingBroken(
                    f"the gradient was not a number in {self.bad_steps} steps running; they were skipped and "
                    "the state is saved. Start again from it with a lower training.learning_rate"
                )
            )

    def after_step(self, step: int, control: Any) -> None:
        if self.reason is None and time.monotonic() >= self.ends_at:
            self.stop(LimitReached("stopped at --max-minutes: the same command goes on"))
        if self.reason is not None and step % self.cycle == 0:
            control.should_save = True
            control.should_training_stop = True


class MonitorCallback(TrainerCallback):  # type: ignore[misc]
    """Lets the monitor see every step of the trainer."""

    def __init__(self, monitor: TrainingMonitor) -> None:
        self.monitor = monitor

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.monitor.before_update(known["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.monitor.after_step(state.global_step, control)


def gradient_size(model: Any) -> float:
    """The sum of all gradient norms over all processes; not finite when one of them is not."""
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    if not gradients:
        return 0.0
    size = torch.stack([norm.to(gradients[0].device) for norm in torch._foreach_norm(gradients)]).sum()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        size = size.to_local() if hasattr(size, "to_local") else size
        torch.distributed.all_reduce(size)
    return float(size)


def whole_batches(total: int, device_batch: int, processes: int, what: str) -> int:
    """How many batches each device accumulates for one step of the optimizer."""
    at_once = device_batch * processes
    if total % at_once:
        raise ConfigurationError(
            f"{what} of {total} cannot be made of batches of {device_batch} (processes: {processes}): "
            f"choose a multiple of {at_once}, or another training.device_batch"
        )
    return total // at_once


def refuse_few_rows(recipe: Recipe, rows: int) -> None:
    """Refuse fewer rows than one generation of GRPO takes: there would be no step at all."""
    if rows < recipe.grpo.prompts:
        raise ConfigurationError(
            f"a generation takes {recipe.grpo.prompts} prompts, and there are {count(rows, 'row')}: set "
            "grpo.prompts lower"
        )


def world_size() -> int:
    """How many processes train together, as the launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this is the process that prints and writes for all."""
    return int(os.environ.get("RANK", "0")) == 0
