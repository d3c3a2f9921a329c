"""Carrying a training out: where it goes on from, how it ends, and what is left of it."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave.backends.local.checkpoints import find_model
from interleave.backends.local.silence import quiet
from interleave.backends.qwen3_vl.uint8_pixels import use_uint8_processor
from interleave.errors import ConfigurationError, InterleaveError, OutOfMemory
from interleave.text import count
from interleave.training import checkpoints
from interleave.training.checkpointing import Watch, refuse_other_processes
from interleave.training.collator import SftCollator, too_long
from interleave.training.models import Learner, load_eyes, model_source
from interleave.training.output_folder import ROWS, Output, how_to_use
from interleave.training.recipes import Recipe
from interleave.training.rows import Inspection, RowFiles, Task, bad_rows, find_rows, inspect_rows, read_rows
from interleave.training.shared_memory_images import share_pictures


@dataclass(frozen=True)
class Orders:
    """What a user asked for."""

    task: Task
    recipe: Recipe
    data: Path
    out: Path
    max_minutes: float | None = None
    fall_back: bool = False
    """Go on from an older checkpoint where the last one is broken."""
    trust_data: bool = False
    """Do not look at every row first."""
    fail_on_leak: bool = False
    """Refuse data whose validation rows are also trained on."""
    skip_bad: bool = False
    """Leave rows out that cannot be used."""

    def __post_init__(self) -> None:
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ConfigurationError(
                f"--max-minutes {self.max_minutes:g} leaves no time to learn: write more"
            )


@dataclass(frozen=True)
class Rows:
    """The rows of a training, looked through."""

    files: RowFiles
    train: Any
    validation: Any
    inspection: Inspection | None
    skipped: tuple[int, ...] = ()
    """Rows of the files that are left out."""

    @property
    def digest(self) -> str:
        """What is learned from, in short: the files, and what is left out of them."""
        if not self.skipped:
            return self.files.digest
        return hashlib.sha256(f"{self.files.digest} without {self.skipped}".encode()).hexdigest()


class Interrupted(InterleaveError):
    """The user stopped the training; everything is saved."""


def open_rows(orders: Orders, say: Callable[[str], None]) -> Rows:
    """Find the rows, and look at every one of them before anything is loaded."""
    files, held_out = find_rows(orders.data, orders.task)
    training = orders.recipe.training
    share_pictures(training.picture_cache_mb)
    train = read_rows(files, orders.task, cache=orders.out / ROWS)
    validation = None
    if held_out is not None and training.validate_every:
        validation = read_rows(held_out, orders.task, limit=training.validation_rows)
    if orders.trust_data and orders.skip_bad:
        raise ConfigurationError("--skip-bad looks at every row and --trust-data at none: choose one")
    if orders.trust_data:
        return Rows(files, train, validation, None)
    say(f"looking at {count(len(train), 'row')}…")
    inspection = inspect_rows(
        train, orders.task, folder=files.folder, validation=validation, workers=training.workers
    )
    bad = {**inspection.bad, **_too_long(orders, train, inspection.bad)}
    bad_validation = inspection.bad_validation
    if held_out is not None and validation is not None:
        bad_validation = {**bad_validation, **_too_long(orders, validation, bad_validation)}
        validation = _usable(validation, held_out, bad_validation, orders, say)
    train = _usable(train, files, bad, orders, say)
    if inspection.duplicates:
        say(f"{count(inspection.duplicates, 'row')} like an earlier one, pictures and all")
    if inspection.leaked and validation is not None:
        message = f"{inspection.leaked:,} of {len(validation):,} validation rows are also trained on"
        if orders.fail_on_leak:
            raise ConfigurationError(f"{message}: export again with another split, or drop --fail-on-leak")
        say(f"{message}: their score says nothing about new ones")
    return Rows(files, train, validation, inspection, tuple(sorted(bad)))


def _too_long(orders: Orders, rows: Any, bad: Mapping[int, str]) -> dict[int, str]:
    """Rows for supervised fine-tuning with more tokens than the recipe allows."""
    recipe = orders.recipe
    if recipe.task != "sft" or recipe.training.max_length is None:
        return {}
    source = model_source(recipe.model)
    processor = load_eyes(find_model(source), source, recipe.model)
    use_uint8_processor(processor)
    collator = SftCollator(processor)
    return too_long(rows, bad, collator, recipe.training)


def _usable(
    rows: Any, files: RowFiles, bad: Mapping[int, str], orders: Orders, say: Callable[[str], None]
) -> Any:
    """The rows without the bad ones, if the user wants that; else a refusal that names them."""
    if not bad:
        return rows
    if not orders.skip_bad or len(bad) == len(rows):
        raise bad_rows(rows, files, bad)
    first = min(bad)
    say(f"{count(len(bad), 'row')} left out (the first: {files.place(first)}, {bad[first]})")
    return rows.select([index for index in range(len(rows)) if index not in bad])


def whole_batches(total: int, device_batch: int, processes: int, what: str) -> int:
    """How many batches a device computes for one step of the optimizer."""
    once = device_batch * processes
    if total % once:
        raise ConfigurationError(
            f"{what} of {total} cannot be made of batches of {device_batch} (processes: {processes}): "
            f"choose a multiple of {once}, or another training.device_batch"
        )
    return total // once


def refuse_few_rows(recipe: Recipe, rows: int) -> None:
    """GRPO answers whole batches of prompts only: with fewer rows than one there would be no step at all."""
    if rows < recipe.grpo.prompts:
        raise ConfigurationError(
            f"a generation takes {recipe.grpo.prompts} prompts, and there are {count(rows, 'row')}: set "
            "grpo.prompts lower"
        )


def processes_now() -> int:
    """How many processes train together, as their launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this process speaks and writes for all that train together."""
    return int(os.environ.get("RANK", "0")) == 0


@contextmanager
def taken(output: Output, orders: Orders, rows: Rows) -> Iterator[None]:
    """The folder is this training's, from here to its end; one process takes it for all."""
    if not is_first_process():
        yield
        return
    with output.open(orders.task, orders.recipe, rows.digest):
        yield


def carry_out(trainer: Any, output: Output, watch: Watch, orders: Orders, learner: Learner) -> str:
    """Train from where it stopped to the end; returns how the result is used, or raises why there is none."""
    resume = output.resume_from(fall_back=orders.fall_back)
    for half in checkpoints.half_written(output.checkpoints):
        trainer.say(f"{half} was cut off while it was written: passed over")
    if resume is not None:
        refuse_other_processes(resume, trainer.accelerator.num_processes)
        checkpoints.same_model(resume, learner.folder)
        trainer.say(f"going on from {resume}")
    with quiet(), _on_signals(watch), _clear_failures(output):
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if watch.reason is not None:
        raise watch.reason
    return _finish(trainer, output, learner)


def _finish(trainer: Any, output: Output, learner: Learner) -> str:
    adapter = learner.lora is not None
    with quiet(), checkpoints.storing(output.model):
        trainer.save_model(str(output.model))
    (output.model / "training_args.bin").unlink(missing_ok=True)  # a pickle, and nobody needs it
    use = how_to_use(output.model, learner.base, adapter=adapter)
    if trainer.accelerator.is_main_process:
        output.finish(steps=trainer.state.global_step, note=use)
    return use


@contextmanager
def _on_signals(watch: Watch) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops after the step under way, saved; the second stops at once."""

    def stop(number: int, frame: object) -> None:
        if watch.reason is not None:
            raise KeyboardInterrupt
        watch.stop(Interrupted("interrupted: the state is saved, the same command goes on"))

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
def _clear_failures(output: Output) -> Iterator[None]:
    """Failures of the libraries in words that say what to do."""
    import torch

    try:
        yield
    except InterleaveError:
        raise
    except torch.OutOfMemoryError:
        raise OutOfMemory(
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


def _where(output: Output) -> str:
    last = output.resume_from(fall_back=True)
    return f"The last checkpoint is {last}" if last else "There is no checkpoint yet"
