"""Answers for GRPO alone: ours by how many are written at once, and by the library's `generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench
from gpu_training_models import learner_for
from gpu_training_rows import KINDS
from peft import get_peft_model
from random_models import refusals, said_with

from interleave.training.grpo import picture_tokens
from interleave.training.inspection import open_rows
from interleave.training.recipes import load_recipe
from interleave.training.rollouts import Rollouts
from interleave.training.run import TrainingJob

COPIES = 8


def measure(bench: Bench, folder: Path) -> None:
    """Groups of 8 answers by a model with an adapter, each prompt with two pictures."""
    recipe = load_recipe(
        "single-gpu-lora-grpo",
        task="grpo",
        changes={"grpo.max_completion": 2 * bench.tokens, "grpo.rollout_batch": 1024, "model.name": "made"},
    )
    learner = learner_for(bench, recipe.model, folder / "model")
    model = get_peft_model(learner.model, learner.lora)
    base = model.get_base_model()
    tokenizer = learner.processor.tokenizer
    tokenizer.padding_side = "left"
    rows = open_rows(
        TrainingJob("grpo", recipe, folder / "rows", folder / "none"), lambda message: None
    ).train
    rollouts = Rollouts(
        base,
        recipe.grpo,
        suppressed=picture_tokens(tokenizer),
        eos_ids=[tokenizer.eos_token_id],
        pad_id=tokenizer.pad_token_id,
    )
    bench.memory()
    for groups in (1, 8) if not bench.options.toy else (1, 2):
        prompts = [_prompt(learner.processor, rows[number]) for number in range(groups)]
        ids = [prompt["input_ids"][0] for prompt in prompts]
        fields: dict[str, Any] = {
            name: torch.cat([prompt[name] for prompt in prompts])
            for name in ("pixel_values", "image_grid_thw")
        }
        fields["mm_token_type_ids"] = [prompt["mm_token_type_ids"][0] for prompt in prompts]
        if groups == 1:
            first = bench.seconds(lambda ids=ids, fields=fields: rollouts.answers(ids, fields, [2], COPIES))  # type: ignore[misc]
            bench.note("rollouts, first time", seconds=first)
        made: list[list[int]] = []
        spent = bench.seconds(
            lambda ids=ids, fields=fields, made=made, groups=groups: made.extend(  # type: ignore[misc]
                rollouts.answers(ids, fields, [2] * groups, COPIES)
            )
        )
        tokens = sum(map(len, made))
        bench.note(
            "rollouts",
            by="ours, compiled" if rollouts.compiled else "ours",
            answers=len(made),
            seconds=spent,
            tokens=tokens,
            tokens_a_second=tokens / spent,
            milliseconds_a_step=1000 * spent / max(map(len, made)),
            question=len(ids[0]),
            different=len({tuple(each) for each in made}),
            expected=_expected(bench, tokenizer, made),
            gigabytes=bench.memory(),
        )
    _library(bench, model, learner.processor, rows[0])


def _library(bench: Bench, model: Any, processor: Any, row: Any) -> None:
    """The same by the library, 8 answers, few tokens: it is slow."""
    prompt = _prompt(processor, row)
    tokens = 12
    inputs = {
        "input_ids": torch.tensor(prompt["input_ids"]).repeat(COPIES, 1),
        "attention_mask": torch.ones(COPIES, len(prompt["input_ids"][0]), dtype=torch.long),
        "mm_token_type_ids": torch.tensor(prompt["mm_token_type_ids"]).repeat(COPIES, 1),
        "pixel_values": torch.cat([prompt["pixel_values"]] * COPIES),
        "image_grid_thw": torch.cat([prompt["image_grid_thw"]] * COPIES),
    }
    inputs = {name: value.to(bench.device) for name, value in inputs.items()}
    model.eval()
    spent = {}
    with torch.no_grad(), torch.autocast(bench.device.type, enabled=bench.dtype is torch.bfloat16):
        for count in (2, tokens):
            work = {**inputs, "max_new_tokens": count, "min_new_tokens": count, "do_sample": True}
            spent[count] = bench.seconds(lambda work=work: model.generate(**work))  # type: ignore[misc]
    bench.note(
        "rollouts",
        by="library",
        answers=COPIES,
        milliseconds_a_step=1000 * (spent[tokens] - spent[2]) / (tokens - 2),
        reading=spent[2],
        gigabytes=bench.memory(),
    )


def _prompt(processor: Any, row: Any) -> Any:
    from trl.data_utils import prepare_multimodal_messages

    messages = prepare_multimodal_messages(row["prompt"], images=list(row["images"]))
    made = processor.apply_chat_template(
        [messages], tokenize=True, add_generation_prompt=True, return_dict=True
    )
    return {
        name: torch.as_tensor(value) if name in ("pixel_values", "image_grid_thw") else value
        for name, value in made.items()
    }


def _expected(bench: Bench, tokenizer: Any, made: list[list[int]]) -> int:
    """How many answers are one of those that the model was made to say."""
    pieces = refusals(bench.tokens, KINDS)
    known = {said_with(pieces, number) for number in range(KINDS)}
    return sum(tokenizer.decode(each[:-1]) in known for each in made)
