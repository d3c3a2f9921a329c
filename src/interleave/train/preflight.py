"""`--check`: prints the plan, its memory and the first batch as the model receives it, without training.

The number of parameters determines weights, gradients and optimizer states. Activations are estimated as in
Korthikanti et al. (2022, arXiv 2205.05198) for attention that stores no score matrix: 34 bytes per token,
hidden unit and layer in half precision; with gradient checkpointing, twice the input of every layer and one
full layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForImageTextToText
from trl.data_utils import prepare_multimodal_messages

from interleave import ConfigurationError
from interleave.local.checkpoints import check_settings, find_settings
from interleave.local.silence import quiet
from interleave.plugin import count, one_line, text
from interleave.train.collator import IGNORED, SftCollator
from interleave.train.grpo import check_reward
from interleave.train.inspection import TrainingRows, open_rows
from interleave.train.launch_files import LaunchFile, read_launch
from interleave.train.logs import reporters
from interleave.train.models import freeze, load_sized_processor, lora_config, model_source
from interleave.train.recipes import Recipe, TrainingJob
from interleave.train.rewards.samples import Sample
from interleave.train.run import refuse_few_rows, whole_batches, world_size

MOST_TEXT = 1200
ACTIVATION_BYTES = 34
ADAM_STATES = 2
GIB = 2**30
NO_WEIGHTS = " (without its weights, which training needs)"


def print_plan(job: TrainingJob, launch: Path | None = None, echo: Callable[[str], None] = print) -> None:
    """Print what a training would do; raises the errors that would stop it."""
    recipe = job.recipe
    reporters(recipe.training.report_to)
    if recipe.task == "grpo":
        check_reward(recipe)
    rows = open_rows(job, lambda message: None)
    source = model_source(recipe.model)
    folder = find_settings(source)
    weights = check_settings(folder, source)
    skeleton = _skeleton(folder)
    layers = {type(module).__name__ for module in skeleton.modules()}
    started = read_launch(launch, recipe, layers) if launch else None
    processes = started.processes if started else world_size()
    parameters = count_parameters(skeleton, recipe)
    processor = load_sized_processor(folder, source, recipe.model)
    batch = _SftBatch(job, rows, processor) if recipe.task == "sft" else _GrpoPrompt(job, rows, processor)
    memory = estimate_memory(
        recipe,
        parameters,
        tokens=batch.tokens,
        prompt=batch.prompt,
        shards=processes if started and started.sharded else 1,
        half=_on_gpu(started),
    )
    for line in (
        *_data_and_model(job, rows, parameters, f"{folder}{'' if weights else NO_WEIGHTS}"),
        *_schedule(recipe, len(rows.train), processes),
        *_memory(memory, batch.tokens, batch.rows),
        *(_launched(started) if started else ()),
        *batch.lines(),
    ):
        echo(line)
    if started and started.problems:
        raise ConfigurationError(f"{started.path} does not fit this training: {started.problems[0]}")


def _data_and_model(
    job: TrainingJob, rows: TrainingRows, parameters: ParameterCounts, folder: str
) -> Iterator[str]:
    inspection = rows.inspection
    learns = "critic" if job.task == "grpo" else job.task
    yield f"task        {learns}, by {job.recipe.task.upper()}"
    seen = f", {count(inspection.images, 'image')}, all checked" if inspection else ", not checked"
    yield f"rows        {count(len(rows.train), 'row')} in {rows.files.folder}{seen}"
    if rows.skipped:
        yield f"            {count(len(rows.skipped), 'row')} skipped: they cannot be used"
    if inspection and inspection.duplicates:
        yield f"            {count(inspection.duplicates, 'row')} with the same question as an earlier row"
    if inspection and inspection.leaked:
        held_out = len(rows.validation)
        yield f"            {inspection.leaked:,} of {held_out:,} validation rows are also training rows"
    share = parameters.learning / parameters.all
    yield f"model       {folder}"
    yield (
        f"            {parameters.all:,} parameters, {parameters.learning:,} trainable ({share:.1%})"
        + (f", LoRA of rank {job.recipe.model.lora_rank}" if job.recipe.model.lora_rank else "")
    )
    yield f"out         {job.out}"


def _schedule(recipe: Recipe, rows: int, processes: int) -> Iterator[str]:
    training, grpo = recipe.training, recipe.grpo
    if recipe.task == "sft":
        accumulate = whole_batches(training.batch, training.device_batch, processes, "a step")
        an_epoch = math.ceil(math.ceil(rows / training.device_batch / processes) / accumulate)
        steps = training.steps or math.ceil(an_epoch * training.epochs)
        yield (
            f"steps       {steps:,} of {training.batch} rows: {training.device_batch} per device × "
            f"{accumulate} × {processes} processes"
        )
        if training.batch > rows:
            yield f"            ! only {count(rows, 'row')}: every step uses all of them once"
    else:
        refuse_few_rows(recipe, rows)
        whole_batches(grpo.completions, training.device_batch, processes, "a generation")
        steps = training.steps or math.ceil(rows // grpo.prompts * grpo.updates * training.epochs)
        yield (
            f"steps       {steps:,}; each generation {grpo.prompts} prompts × {grpo.samples} answers, "
            f"{count(grpo.updates, 'update')}, {training.device_batch} per device × {processes} processes"
        )
        reward = recipe.reward
        yield f"reward      {reward.form}; generator {reward.generator}, scorer {reward.scorer}"
        yield (
            f"            at most {steps // grpo.updates * grpo.completions:,} images, "
            f"{reward.concurrency} concurrently, {reward.deadline:g} s each"
        )
    yield (
        f"learning    {training.learning_rate:g}, {training.schedule}, warm-up {training.warmup:g}, "
        f"decay {training.weight_decay:g}, seed {training.seed}"
    )
    yield f"saved       every {training.save_every:,} steps, the last {training.keep} kept"


def _memory(memory: MemoryEstimate, tokens: int, rows: int) -> Iterator[str]:
    parts = ", ".join(f"{name} {gib(size)}" for name, size in vars(memory).items() if size)
    yield f"memory      about {gib(memory.total)} on each device: {parts}"
    yield f"            activations estimated for the first batch ({count(rows, 'row')}, {tokens:,} tokens)"


def _launched(launch: LaunchFile) -> Iterator[str]:
    yield (
        f"launch      {launch.path}: {launch.kind}, {count(launch.nodes, 'node')}, "
        f"{launch.processes} processes" + (", weights sharded" if launch.sharded else "")
    )
    for problem in launch.problems:
        yield f"            ✗ {problem}"


class _SftBatch:
    """The first batch of supervised fine-tuning, collated as in training."""

    def __init__(self, job: TrainingJob, rows: TrainingRows, processor: Any) -> None:
        training = job.recipe.training
        taken = [rows.train[index] for index in range(min(training.device_batch, len(rows.train)))]
        self.batch = SftCollator(processor, max_length=training.max_length, pad_to=training.pad_to)(taken)
        self.first, self.processor = taken[0], processor
        self.rows, self.tokens = len(taken), int(self.batch["input_ids"].numel())
        self.prompt = int(self.batch["input_ids"].shape[1])

    def lines(self) -> Iterator[str]:
        there = self.batch["attention_mask"][0].bool()  # without padding
        labels, ids = self.batch["labels"][0][there], self.batch["input_ids"][0][there]
        learned = int((self.batch["labels"] != IGNORED).sum())
        shapes = ", ".join(f"{name} {'×'.join(map(str, value.shape))}" for name, value in self.batch.items())
        yield ""
        yield f"first batch {shapes}"
        yield f"            {learned:,} of {self.tokens:,} tokens are learned; row {self.first.get('id')!r}:"
        for learns, run in groupby(range(len(ids)), key=lambda place: bool(labels[place] != IGNORED)):
            places = list(run)
            text = decoded(self.processor, ids[places[0] : places[-1] + 1])
            yield f"--- {'LEARNED' if learns else 'masked'}, {len(places)} tokens"
            yield shortened(text)


class _GrpoPrompt:
    """The first row of GRPO, as the model receives it."""

    def __init__(self, job: TrainingJob, rows: TrainingRows, processor: Any) -> None:
        recipe = job.recipe
        self.row, self.processor = rows.train[0], processor
        self.sample = Sample.of_row(self.row)
        messages = prepare_multimodal_messages(self.row["prompt"], images=list(self.row["images"]))
        self.ids = processor.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)[0]
        self.prompt = len(self.ids)
        self.rows = recipe.training.device_batch
        self.tokens = self.rows * (self.prompt + recipe.grpo.max_completion)

    def lines(self) -> Iterator[str]:
        sample = self.sample
        yield ""
        label = "right" if sample.success else "wrong"
        yield (
            f"first row   {sample.id!r}: labelled {label}, semantics {sample.previous.semantics:g}, quality "
            f"{sample.previous.quality:g}; a redraw starts from {count(len(sample.sources), 'image')}"
        )
        yield f"            planned: {one_line(sample.planned_prompt)}"
        yield f"--- masked, {self.prompt} tokens"
        yield shortened(decoded(self.processor, self.ids))
        yield "--- LEARNED: its answer"


def decoded(processor: Any, ids: Any) -> str:
    """Return tokens as text; those of an image are counted, not shown."""
    token = processor.image_token_id if hasattr(processor, "image_token_id") else None
    pieces = []
    for image, run in groupby([int(each) for each in ids], key=lambda each: each == token):
        places = list(run)
        pieces.append(f"⟨image: {len(places)} tokens⟩" if image else processor.tokenizer.decode(places))
    return "".join(pieces)


def shortened(tokens: str) -> str:
    if len(tokens) > MOST_TEXT:
        half = MOST_TEXT // 2
        tokens = f"{tokens[:half]} […{len(tokens) - MOST_TEXT:,} characters…] {tokens[-half:]}"
    return text.visible(tokens)


def _skeleton(folder: Path) -> Any:
    """Build the model without weights, on the meta device, to count its parameters."""
    with quiet(), torch.device("meta"):
        return AutoModelForImageTextToText.from_config(
            AutoConfig.from_pretrained(folder, local_files_only=True)
        )


def _on_gpu(launch: LaunchFile | None) -> bool:
    return launch is not None or torch.cuda.is_available()


@dataclass(frozen=True)
class ParameterCounts:
    """Sizes of a model that determine its memory."""

    all: int
    learning: int
    layers: int
    hidden: int
    kv_width: int
    """KV cache elements per token and layer."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on one device, by use."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    generation: int
    reference: int

    @property
    def total(self) -> int:
        return sum(vars(self).values())


def estimate_memory(
    recipe: Recipe,
    parameters: ParameterCounts,
    *,
    tokens: int,
    prompt: int,
    shards: int = 1,
    half: bool = True,
) -> MemoryEstimate:
    """Estimate the peak memory of one device.

    `tokens` is the size of one batch in one forward pass, `prompt` that of the longest question. `shards` is
    the number of devices that weights are sharded over, `half` whether arithmetic is in half precision.
    """
    stored = 4 if recipe.model.weights == "float32" else 2
    width = ACTIVATION_BYTES * (1 if half else 2)
    layer = tokens * parameters.hidden * width
    kept_inputs = tokens * parameters.hidden * 2 * (1 if half else 2) * parameters.layers
    all_layers = layer * parameters.layers
    activations = kept_inputs + layer if recipe.model.gradient_checkpointing else all_layers
    grpo = recipe.task == "grpo"
    reference = (
        parameters.all * stored // shards if grpo and recipe.grpo.kl and not recipe.model.lora_rank else 0
    )
    return MemoryEstimate(
        weights=parameters.all * stored // shards,
        gradients=parameters.learning * stored // shards,
        optimizer=parameters.learning * stored * ADAM_STATES // shards,
        activations=activations,
        generation=_kv_cache_bytes(recipe, parameters, prompt, shards, half) if grpo else 0,
        reference=reference,
    )


def _kv_cache_bytes(recipe: Recipe, parameters: ParameterCounts, prompt: int, shards: int, half: bool) -> int:
    """Return the KV cache size of all answers that a device generates concurrently."""
    answers = recipe.grpo.completions // shards
    tokens = prompt + recipe.grpo.max_completion
    return answers * tokens * parameters.layers * parameters.kv_width * (2 if half else 4)


def count_parameters(model: Any, recipe: Recipe) -> ParameterCounts:
    """Return the sizes of a model; on the meta device it needs no weights."""
    text = model.config.get_text_config()
    everything = sum(weights.numel() for weights in model.parameters())
    freeze(model, recipe.model)
    if (lora := lora_config(recipe.model)) is not None:
        model = get_peft_model(model, lora)
        everything = sum(weights.numel() for weights in model.parameters())
    learning = sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return ParameterCounts(
        everything, learning, text.num_hidden_layers, text.hidden_size, 2 * text.num_key_value_heads * head
    )


def gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"
