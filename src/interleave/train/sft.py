"""Supervised fine-tuning of a planner or a critic, on TRL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as arrow
import torch
from transformers import PrinterCallback
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextDecoderLayer, Qwen3VLVisionBlock
from trl import SFTConfig, SFTTrainer

from interleave.local.qwen3_vl.unmasked_attention import unmasked_attention
from interleave.train.checkpoints import CheckpointMixin
from interleave.train.collator import SftCollator
from interleave.train.inspection import TrainingRows
from interleave.train.logs import (
    PROJECT,
    LoggingCallback,
    TrainingLog,
    prepare_reporters,
    reporters,
    say_on_stderr,
)
from interleave.train.models import (
    TrainableModel,
    gather_output_layer,
    load_trainable_model,
    uncast_adapter_inputs,
)
from interleave.train.monitor import MonitorCallback, TrainingMonitor
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import Recipe, TrainingJob
from interleave.train.run import (
    locked_output,
    open_training,
    run_training,
    whole_batches,
    world_size,
)
from interleave.train.samples_page import sft_page

if TYPE_CHECKING:
    from numpy.typing import NDArray

Measure = Callable[[Any], "NDArray[np.int64]"]
"""Function that returns the length of each message part in an Arrow array."""
RECOMPUTING = (
    "activation_checkpointing" if hasattr(SFTConfig, "activation_checkpointing") else "gradient_checkpointing"
)
"""The trainer's argument for gradient checkpointing, by its new name if transformers has it."""
BATCHES_SORTED_TOGETHER = 16
"""Batches per sorting window: a larger one saves little padding and makes epochs more alike."""
TEXTS_PER_BATCH = 10_000


def train_sft(job: TrainingJob, say: Callable[[str], None] = say_on_stderr) -> str:
    """Train from the start or from the last checkpoint; returns the spec of the result."""
    rows, output = open_training(job, say)
    if output.done:
        return output.use
    say("loading the model…")
    learner = load_trainable_model(job.recipe.model, picture_cache_mb=job.recipe.training.picture_cache_mb)
    with locked_output(output, job, rows):
        monitor = TrainingMonitor(max_minutes=job.max_minutes)
        trainer = sft_trainer(job.recipe, learner, rows, output, monitor, say)
        with (
            compiled_layers(trainer.model, wanted=job.recipe.training.compile),
            uncast_adapter_inputs(trainer.model, wanted=trainer.args.bf16),
        ):
            use = run_training(trainer, output, monitor, job, learner, rows)
    if trainer.accelerator.num_processes == 1:  # with more, the weights may be sharded
        sft_page(trainer.model, learner.processor, rows.validation or rows.train, output.folder)
    return use


def sft_trainer(
    recipe: Recipe,
    learner: TrainableModel,
    rows: TrainingRows,
    output: OutputFolder,
    monitor: TrainingMonitor,
    say: Callable[[str], None],
) -> AgentTrainer:
    """Build TRL's trainer from a recipe."""
    training = recipe.training
    accumulate = whole_batches(training.batch, training.device_batch, world_size(), "a step")
    config = SFTConfig(
        **common_arguments(recipe, output, validating=rows.validation is not None),
        gradient_accumulation_steps=accumulate,
        save_steps=training.save_every,
        max_length=None,  # rows are never truncated
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    collator = SftCollator(learner.processor, max_length=training.max_length, pad_to=training.pad_to)
    trainer = AgentTrainer(
        model=learner.model,
        args=config,
        train_dataset=rows.train,
        eval_dataset=rows.validation,
        processing_class=learner.processor,
        data_collator=collator,
        peft_config=learner.lora,
    )
    if training.group_by_length:
        batch = training.device_batch * world_size()
        trainer.sampler = LengthGroupedSampler(row_lengths(rows.train, collator), batch, seed=training.seed)
    trainer.keep = training.keep
    trainer.say = say
    trainer.monitor = monitor
    add_callbacks(trainer, monitor, TrainingLog(output.folder, say))
    return trainer


class AgentTrainer(CheckpointMixin, SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with our sampler, and without an attention mask: rows are padded only at the end."""

    sampler: LengthGroupedSampler | None = None
    say: Callable[[str], None]

    def _get_train_sampler(self, *arguments: Any) -> Any:
        return self.sampler or super()._get_train_sampler(*arguments)

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        gather_output_layer(self.accelerator.unwrap_model(self.model))
        with unmasked_attention(self.model):
            return super().compute_loss(*arguments, **options)


def common_arguments(recipe: Recipe, output: OutputFolder, *, validating: bool) -> dict[str, Any]:
    """Return the arguments that both trainers share."""
    training, cuda = recipe.training, torch.cuda.is_available()
    prepare_reporters(training.report_to, output.folder)
    return {
        "output_dir": str(output.checkpoints),
        "num_train_epochs": training.epochs,
        "max_steps": training.steps or -1,
        "per_device_train_batch_size": training.device_batch,
        "learning_rate": training.learning_rate,
        "lr_scheduler_type": training.schedule,
        "warmup_steps": training.warmup,
        "weight_decay": training.weight_decay,
        "optim": training.optimizer,
        "adam_beta2": training.adam_beta2,
        "max_grad_norm": training.max_grad_norm,
        "seed": training.seed,
        "data_seed": training.seed,
        "bf16": cuda,
        "use_cpu": not cuda,
        "tf32": True if cuda else None,
        RECOMPUTING: recipe.model.gradient_checkpointing,
        f"{RECOMPUTING}_kwargs": {"use_reentrant": False},
        "save_strategy": "steps",
        "logging_steps": training.log_every,
        "logging_first_step": True,
        "eval_strategy": "steps" if validating else "no",
        "eval_steps": training.validate_every if validating else None,
        "dataloader_num_workers": training.workers,
        "dataloader_persistent_workers": training.workers > 0,
        "dataloader_prefetch_factor": 4 if training.workers else None,
        "dataloader_pin_memory": cuda,
        "remove_unused_columns": False,
        "report_to": reporters(training.report_to),
        "run_name": output.folder.name,
        "project": PROJECT,
        "disable_tqdm": True,
        "log_level": "error",
    }


def add_callbacks(trainer: Any, monitor: TrainingMonitor, log: TrainingLog) -> None:
    """Replace the library's printer by our callbacks for logging and stopping."""
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(MonitorCallback(monitor))
    trainer.add_callback(LoggingCallback(log))


class LengthGroupedSampler:
    """Shuffles rows every epoch so that the rows of a batch have similar lengths, which reduces padding.

    The order depends only on the seed and the epoch, so that a resumed training continues with the same rows.
    """

    def __init__(self, lengths: NDArray[np.int64], batch: int, *, seed: int) -> None:
        self.lengths = lengths
        self.batch = batch
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; the trainer calls this before each one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order(np.random.default_rng((self.seed, self.epoch))))

    def _order(self, random: np.random.Generator) -> list[int]:
        rows = random.permutation(len(self.lengths))
        window = self.batch * BATCHES_SORTED_TOGETHER
        windows = (rows[start : start + window] for start in range(0, len(rows), window))
        batches = [
            ordered[start : start + self.batch]
            for ordered in map(self._by_length, windows)
            for start in range(0, len(ordered), self.batch)
        ]
        rest = [batches.pop()] if len(rows) % self.batch else []  # only the last batch may be short
        shuffled = [batches[number] for number in random.permutation(len(batches))]
        return [int(row) for each in [*shuffled, *rest] for row in each]

    def _by_length(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[np.argsort(self.lengths[rows], kind="stable")]


def row_lengths(rows: Any, collator: SftCollator) -> NDArray[np.int64]:
    """Estimate the number of tokens of every row of a dataset without decoding its images.

    The text is tokenized. Every image counts as many tokens as the images of the row with the most images,
    the only row that is decoded.
    """
    lengths = _measured(rows, partial(_text_tokens, tokenizer=collator.tokenizer))
    images = _measured(rows, _image_count)
    most = int(images.argmax())
    if images[most]:
        seen = collator.lengths([rows[most]])[0] - lengths[most]
        lengths += images * seen // images[most]
    return lengths


def _measured(rows: Any, measure: Measure) -> NDArray[np.int64]:
    """Sum a measure over the message parts of every row."""
    lengths = np.zeros(rows.data.num_rows, np.int64)
    for name in ("prompt", "completion"):
        lengths += np.concatenate([_sums(chunk, measure) for chunk in rows.data.column(name).chunks])
    selected = rows._indices  # the indices of a selection; `flatten_indices` would copy all rows
    return lengths if selected is None else lengths[selected.column(0).to_numpy()]


def _sums(messages: Any, measure: Measure) -> NDArray[np.int64]:
    contents = arrow.struct_field(messages.values, "content")
    return _by_list(_by_list(measure(contents.values), contents), messages)


def _by_list(sizes: NDArray[np.int64], lists: Any) -> NDArray[np.int64]:
    before = np.concatenate([[0], np.cumsum(sizes)])
    ends: NDArray[np.int64] = before[lists.offsets.to_numpy()]
    return np.diff(ends)


def _text_tokens(parts: Any, tokenizer: Any) -> NDArray[np.int64]:
    texts = arrow.fill_null(arrow.struct_field(parts, "text"), "").to_pylist()
    counted: list[int] = []
    for start in range(0, len(texts), TEXTS_PER_BATCH):
        some = texts[start : start + TEXTS_PER_BATCH]
        found = tokenizer(some, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        counted.extend(map(len, found))
    # Tokenizer threads do not survive a fork: this silences the warning in every data-loader worker.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return np.array(counted, np.int64)


def _image_count(parts: Any) -> NDArray[np.int64]:
    is_image = arrow.fill_null(arrow.equal(arrow.struct_field(parts, "type"), "image"), False)
    numbers: NDArray[np.int64] = is_image.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


@contextmanager
def compiled_layers(model: Any, *, wanted: bool = True) -> Iterator[None]:
    """Compile the repeated layers of a Qwen3-VL model with dynamic shapes; weights and names stay.

    This helps small models, which are limited by memory traffic, not by arithmetic.
    """
    layers = _layers(model) if wanted else []
    for layer in layers:
        layer.compile(dynamic=True)
    try:
        yield
    finally:
        for layer in layers:  # generation would compile them again for every length
            layer._compiled_call_impl = None


def _layers(model: Any) -> list[Any]:
    kinds = (Qwen3VLTextDecoderLayer, Qwen3VLVisionBlock)
    return [module for module in model.modules() if isinstance(module, kinds)]
