"""Measures answers for GRPO alone: batches of 32 by our decoding, and by the library's `generate`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench
from gpu_training_answers import Script
from gpu_training_command import folder_size
from gpu_training_models import learner_for
from peft import get_peft_model
from transformers import StoppingCriteria, StoppingCriteriaList

from interleave.train.grpo import image_tokens
from interleave.train.inspection import open_rows
from interleave.train.recipes import TrainingJob, load_recipe
from interleave.train.rollouts import Rollouts

COPIES = 8


def measure(bench: Bench, folder: Path) -> None:
    """Measure groups of 8 answers by a model with an adapter, each prompt with two images."""
    groups = bench.options.prompts
    recipe = load_recipe(
        "single-gpu-lora-grpo",
        task="grpo",
        changes={"grpo.max_completion": 2 * bench.tokens, "grpo.rollout_batch": 1024, "model.name": "made"},
    )
    learner = learner_for(bench, recipe.model, folder / "model")
    model = get_peft_model(learner.model, learner.lora)
    tokenizer = learner.processor.tokenizer
    tokenizer.padding_side = "left"
    job = TrainingJob("grpo", recipe, folder / "rows", folder / "none", trust_data=True)
    rows = open_rows(job, lambda message: None).train
    started = time.perf_counter()
    prompts = [prompt_of(learner.processor, rows[number]) for number in range(groups)]
    preparing = time.perf_counter() - started
    rollouts = Rollouts(
        model.get_base_model(),
        recipe.grpo,
        suppressed=image_tokens(tokenizer),
        eos_ids=[tokenizer.eos_token_id],
        pad_id=tokenizer.pad_token_id,
    )
    bench.memory()
    with Script(folder / "model", bench.tokens).spoken():
        for time_ in ("first", "second"):
            _ours(bench, rollouts, prompts, time_, preparing)
    _adapter(bench, model, folder)
    _library(bench, model, prompts)


def _ours(bench: Bench, rollouts: Rollouts, prompts: list[Any], time_: str, preparing: float) -> None:
    ids = [prompt["input_ids"][0] for prompt in prompts]
    fields: dict[str, Any] = {
        name: torch.cat([prompt[name] for prompt in prompts]) for name in ("pixel_values", "image_grid_thw")
    }
    fields["mm_token_type_ids"] = [prompt["mm_token_type_ids"][0] for prompt in prompts]
    made: list[list[int]] = []
    with _timed(bench, rollouts.decoder, "_prefill", "_build_step") as spent:
        whole = bench.seconds(
            lambda: made.extend(rollouts.answers(ids, fields, [2] * len(ids), COPIES))  # type: ignore[arg-type]
        )
    tokens = sum(map(len, made))
    decoding = whole - sum(spent.values())
    bench.note(
        "rollouts",
        by="ours, compiled" if rollouts.compiled else "ours",
        time=time_,
        answers=len(made),
        seconds=whole,
        reading=spent["_prefill"],
        capturing=spent["_build_step"],
        decoding=decoding,
        preparing=preparing,
        tokens=tokens,
        tokens_a_second=tokens / whole,
        milliseconds_a_step=1000 * decoding / max(map(len, made)),
        question=len(ids[0]),
        different=len({tuple(each) for each in made}),
        gigabytes=bench.memory(),
    )


@contextmanager
def _timed(bench: Bench, owner: Any, *names: str) -> Iterator[dict[str, float]]:
    """Time methods, with the device synchronized."""
    spent = dict.fromkeys(names, 0.0)

    def timed(name: str) -> Any:
        method = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            bench.settle()
            started = time.perf_counter()
            done = method(*arguments, **options)
            bench.settle()
            spent[name] += time.perf_counter() - started
            return done

        return call

    for name in names:
        setattr(owner, name, timed(name))
    try:
        yield spent
    finally:
        for name in names:
            delattr(owner, name)


def _adapter(bench: Bench, model: Any, folder: Path) -> None:
    """Time saving the adapter, which another engine would need before each rollout."""
    out = folder / "adapter"
    spent = bench.seconds(lambda: model.save_pretrained(out))
    bench.note("adapter written", seconds=spent, megabytes=folder_size(out) / 1e6)


class _Clock(StoppingCriteria):  # type: ignore[misc]
    """Records the time of each token."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.times = bench, [time.perf_counter()]

    def __call__(self, input_ids: Any, scores: Any, **known: Any) -> Any:
        self.bench.settle()
        self.times.append(time.perf_counter())
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def _library(bench: Bench, model: Any, prompts: list[Any]) -> None:
    """Measure the same answers by the library, with few tokens each, because it is slow."""
    tokens = bench.options.library_tokens if not bench.options.toy else 6
    longest = max(len(prompt["input_ids"][0]) for prompt in prompts)
    inputs = {
        name: torch.tensor(
            [
                [0] * (longest - len(prompt[name][0])) + list(prompt[name][0])
                for prompt in prompts
                for _ in range(COPIES)
            ]
        )
        for name in ("input_ids", "attention_mask", "mm_token_type_ids")
    }
    for name in ("pixel_values", "image_grid_thw"):
        inputs[name] = torch.cat([prompt[name] for prompt in prompts for _ in range(COPIES)])
    inputs = {name: value.to(bench.device) for name, value in inputs.items()}
    model.eval()
    clock = _Clock(bench)
    work = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": True}
    with torch.no_grad(), torch.autocast(bench.device.type, torch.bfloat16, bench.dtype is torch.bfloat16):
        model.generate(**inputs, **work, stopping_criteria=StoppingCriteriaList([clock]))
    reading = clock.times[1] - clock.times[0]
    # the first tokens after prefill include setup
    later = clock.times[min(4, tokens - 2) :]
    each = (later[-1] - later[0]) / (len(later) - 1)
    bench.note(
        "rollouts",
        by="library",
        answers=COPIES * len(prompts),
        tokens_each=tokens,
        seconds=clock.times[-1] - clock.times[0],
        reading=reading,
        milliseconds_a_step=1000 * each,
        extrapolated_seconds=reading + bench.tokens * each,
        extrapolated_to=bench.tokens,
        gigabytes=bench.memory(),
    )


def prompt_of(processor: Any, row: Any) -> Any:
    from trl.data_utils import prepare_multimodal_messages

    messages = prepare_multimodal_messages(row["prompt"], images=list(row["images"]))
    made = processor.apply_chat_template(
        [messages], tokenize=True, add_generation_prompt=True, return_dict=True
    )
    return {
        name: torch.as_tensor(value) if name in ("pixel_values", "image_grid_thw") else value
        for name, value in made.items()
    }
