"""Runs a trainer from the last checkpoint until it is done, interrupted or fails."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from interleave import ConfigurationError, InterleaveError
from interleave.local.saved_models import make_loadable
from interleave.local.silence import quiet
from interleave.plugin import count, errors
from interleave.train import checkpoints
from interleave.train.checkpoints import refuse_other_processes
from interleave.train.inspection import TrainingRows, open_rows
from interleave.train.logs import LOG_NAME, reporters
from interleave.train.models import TrainableModel
from interleave.train.monitor import TrainingMonitor
from interleave.train.output_folder import OutputFolder, how_to_use
from interleave.train.publishing import TrainedModel, prepare_upload, upload, write_card
from interleave.train.recipes import Recipe, TrainingJob


class Interrupted(InterleaveError):
    """The user stopped the training; everything is saved."""


def run_training(
    trainer: Any,
    output: OutputFolder,
    monitor: TrainingMonitor,
    job: TrainingJob,
    learner: TrainableModel,
    rows: TrainingRows,
) -> str:
    """Train from the last checkpoint to the end; returns the spec of the result, raises if it stops early."""
    resume = output.resume_from(fall_back=job.fall_back)
    for folder in checkpoints.incomplete(output.checkpoints):
        trainer.say(f"skipping {folder}: it was not written completely")
    if resume is not None:
        refuse_other_processes(resume, trainer.accelerator.num_processes)
        checkpoints.refuse_other_model(resume, learner.folder)
        trainer.say(f"resuming from {resume}")
    with quiet(), _without_stale_names(), _on_signals(monitor), _readable_failures(output):
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if monitor.reason is not None:
        raise monitor.reason
    use = _finish(trainer, output, job, learner, rows)
    upload_result(job, output, trainer.say)
    return use


@contextmanager
def _without_stale_names() -> Iterator[None]:
    """Hide a deprecation warning of transformers about a name that TRL reads: users cannot act on it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        yield


def open_training(job: TrainingJob, say: Callable[[str], None]) -> tuple[TrainingRows, OutputFolder]:
    """Open the checked rows and the output folder of a training, which may already be done."""
    check_reports(job)
    rows = open_rows(job, say)
    output = OutputFolder(job.out)
    if is_main_process():  # another process might see an incomplete folder
        output.check(job.task, job.recipe, rows.digest)
    if output.done:
        say("this training is done")
        upload_result(job, output, say)
    return rows, output


def check_reports(job: TrainingJob) -> None:
    """Reject reporters and a repository that cannot be written to, before loading any model."""
    training = job.recipe.training
    reporters(training.report_to)
    if training.push_to and is_main_process():
        prepare_upload(training.push_to)


def upload_result(job: TrainingJob, output: OutputFolder, say: Callable[[str], None]) -> None:
    """Upload the result if the recipe names a repository."""
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
    """Return the contents of the result's model card."""
    log = output.folder / LOG_NAME
    return TrainedModel(
        job.task, job.recipe, learner.base, job.data.absolute(), len(rows.train), rows.digest, steps, log
    )


@contextmanager
def locked_output(output: OutputFolder, job: TrainingJob, rows: TrainingRows) -> Iterator[None]:
    """Lock the output folder for this training; the main process locks it for all."""
    if not is_main_process():
        yield
        return
    with output.open(job.task, job.recipe, rows.digest):
        yield


@contextmanager
def _on_signals(monitor: TrainingMonitor) -> Iterator[None]:
    """Save and stop after the current step on the first Ctrl-C or SIGTERM; stop immediately on the second."""

    def stop(number: int, frame: object) -> None:
        if monitor.reason is not None:
            raise KeyboardInterrupt
        monitor.stop(Interrupted("interrupted: the state is saved; run the same command to continue"))

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
    """Convert failures of the libraries into errors that say what to do."""
    try:
        yield
    except InterleaveError:
        raise
    except torch.OutOfMemoryError:
        raise errors.OutOfMemory(
            "the device ran out of memory. Lower training.device_batch or model.max_pixels, or set "
            f"model.gradient_checkpointing = true. {_where(output)}"
        ) from None
    except Exception as error:
        if "weights_only" in str(error) or "Weights only load failed" in str(error):
            raise ConfigurationError(
                f"a file of the checkpoint in {output.checkpoints} would run code when it is opened, "
                "which checkpoints of this program never do: do not use it. --fall-back tries an older one"
            ) from error
        raise


def _where(output: OutputFolder) -> str:
    last = output.resume_from(fall_back=True)
    return f"The last checkpoint is {last}" if last else "There is no checkpoint yet"


def whole_batches(total: int, device_batch: int, processes: int, what: str) -> int:
    """Return the number of batches that each device accumulates per optimizer step."""
    global_batch = device_batch * processes
    if total % global_batch:
        raise ConfigurationError(
            f"{what} of {total} does not divide into batches of {device_batch} (processes: {processes}): "
            f"choose a multiple of {global_batch}, or another training.device_batch"
        )
    return total // global_batch


def refuse_few_rows(recipe: Recipe, rows: int) -> None:
    """Reject fewer rows than one GRPO generation needs: there would be no step."""
    if rows < recipe.grpo.prompts:
        raise ConfigurationError(
            f"a generation needs {recipe.grpo.prompts} prompts, but the data has {count(rows, 'row')}: lower "
            "grpo.prompts"
        )


def world_size() -> int:
    """Return the number of processes set by the launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Return whether this process prints and writes for all."""
    return int(os.environ.get("RANK", "0")) == 0
