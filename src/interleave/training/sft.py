"""Supervised fine-tuning of a planner or a critic, on TRL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interleave.backends.qwen3_vl.unmasked_attention import unmasked_attention
from interleave.training.checkpointing import Watch, keeping, watching
from interleave.training.collator import SftCollator
from interleave.training.compile_layers import compiled_layers
from interleave.training.length_groups import LengthGroups, row_lengths
from interleave.training.logs import TrainingLog, logging_callback, say_on_stderr
from interleave.training.models import Learner, load_learner
from interleave.training.output_folder import Output
from interleave.training.recipes import Recipe
from interleave.training.run import (
    Orders,
    Rows,
    carry_out,
    is_first_process,
    open_rows,
    processes_now,
    taken,
    whole_batches,
)
from interleave.training.samples_page import sft_page


def train_sft(orders: Orders, say: Callable[[str], None] = say_on_stderr) -> str:
    """Train, from the start or from where it stopped; returns the spec of the result."""
    rows = open_rows(orders, say)
    output = Output(orders.out)
    if is_first_process():  # the others might see the folder half made
        output.check(orders.task, orders.recipe, rows.digest)
    if output.done:
        say("this training is done")
        return output.use
    say("loading the model…")
    learner = load_learner(orders.recipe.model, picture_cache_mb=orders.recipe.training.picture_cache_mb)
    with taken(output, orders, rows):
        watch = Watch(max_minutes=orders.max_minutes)
        trainer = sft_trainer(orders.recipe, learner, rows, output, watch, say)
        with compiled_layers(trainer.model, wanted=orders.recipe.training.compile):
            use = carry_out(trainer, output, watch, orders, learner)
    if trainer.accelerator.num_processes == 1:  # else its weights may be divided among them
        sft_page(trainer.model, learner.processor, rows.validation or rows.train, output.folder)
    return use


def sft_trainer(
    recipe: Recipe, learner: Learner, rows: Rows, output: Output, watch: Watch, say: Callable[[str], None]
) -> Any:
    """The trainer of a recipe."""
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    training = recipe.training
    accumulate = whole_batches(training.batch, training.device_batch, processes_now(), "a step")
    config = SFTConfig(
        **common_arguments(recipe, output, validating=rows.validation is not None),
        gradient_accumulation_steps=accumulate,
        save_steps=training.save_every,
        max_length=None,  # rows are never cut
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    collator = SftCollator(learner.processor, max_length=training.max_length, pad_to=training.pad_to)
    trainer = agent_trainer(keeping(SFTTrainer))(
        model=learner.model,
        args=config,
        train_dataset=rows.train,
        eval_dataset=rows.validation,
        processing_class=learner.processor,
        data_collator=collator,
        peft_config=learner.lora,
    )
    if training.group_by_length:
        once = training.device_batch * processes_now()
        trainer.sampler = LengthGroups(row_lengths(rows.train, collator), once, seed=training.seed)
    trainer.keep = training.keep
    trainer.say = say
    trainer.watch = watch
    add_callbacks(trainer, TrainerCallback, watch, TrainingLog(output.folder, say))
    return trainer


def agent_trainer(base: type) -> Any:
    """TRL's trainer, made for rows that are padded at their ends alone."""

    class AgentTrainer(base):  # type: ignore[misc]
        sampler: LengthGroups | None = None

        def _get_train_sampler(self, *arguments: Any) -> Any:
            return self.sampler or super()._get_train_sampler(*arguments)

        def compute_loss(self, *arguments: Any, **options: Any) -> Any:
            with unmasked_attention(self.model):
                return super().compute_loss(*arguments, **options)

    return AgentTrainer


def common_arguments(recipe: Recipe, output: Output, *, validating: bool) -> dict[str, Any]:
    """The arguments that both trainers share."""
    import torch

    training, cuda = recipe.training, torch.cuda.is_available()
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
        "gradient_checkpointing": recipe.model.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
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
        "report_to": "none",
        "disable_tqdm": True,
        "log_level": "error",
    }


def add_callbacks(trainer: Any, base: type, watch: Watch, log: TrainingLog) -> None:
    """Our own reporting and ending in place of the library's."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(watching(base)(watch))
    trainer.add_callback(logging_callback(base, log))
