"""Measures whether training waits for Python: rows and steps per second, and the parts of a GRPO step.

    python perf/training.py                          # small, anywhere
    python perf/training.py --rows 512 --steps 20    # on a GPU, at the size of the miniature's training

A Qwen3-VL of 4–5 million parameters with random weights is trained on rows as `data export` writes them: a
critic's two images of 256 pixels, or a planner's words. If the library has its own implementation, both are
timed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from interleave.agents.critic import CriticInput, critic_input, critic_messages
from interleave.agents.planner import planner_messages
from interleave.agents.prompts import PromptPack, load_pack
from interleave.agents.replies import render_plan, render_verdict
from interleave.backends.protocols import Message
from interleave.images import encode_png
from interleave.local.processors import image_text_processor, load_processor
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.local.silence import quiet
from interleave.local.tiny.vlms import tiny_tokenizer, vocabulary_size
from interleave.train.collator import SftCollator
from interleave.train.grpo import train_grpo
from interleave.train.recipes import RewardPart, TrainingJob, load_recipe
from interleave.train.rewards.core import RewardCore
from interleave.train.rewards.redraws import load_redrawer
from interleave.train.rewards.samples import Case, Sample
from interleave.train.rows import decode_rows
from interleave.train.shared_memory_images import share_images
from interleave.types import ImagePart, Outcome, Request, Text, Verdict
from interleave_mini.oracle import judge_attempt, score_attempt
from interleave_mini.reader import BatchedReader, shared_reader
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake
from miniature.grammar.tasks import sample_task

SIDE = 256
Row = dict[str, Any]
WORDS = PromptPack(
    "a few words",
    {
        **load_pack().texts,
        "critic": "{{before}}{{after}}{{planned_prompt}} | {{prompt}}",
        "planner_text": "plan: {{request}}",
    },
)


def main() -> None:
    arguments = options()
    folder = Path(tempfile.mkdtemp(prefix="training-"))
    model = build(folder / "model")
    attempts = [attempt(Random(number), right=number % 2 == 0) for number in range(min(arguments.rows, 32))]
    critic = repeated([critic_row(seen) for seen in attempts], arguments.rows)
    planner = repeated([planner_row(Random(number)) for number in range(32)], arguments.rows)
    figures = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "collator": {"two images": collating(model, critic), "text": collating(model, planner)},
        "sft": learning(model, critic, arguments.steps),
        "grpo": answering(model, folder, attempts, arguments),
        "reward": rewarding(attempts, arguments),
    }
    print(json.dumps(figures, indent=2))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=16, help="rows per batch of SFT")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=4, help="prompts per step of GRPO")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16, help="tokens per answer")
    parser.add_argument("--generator", default="world", help="generator of the reward")
    return parser.parse_args()


def build(folder: Path) -> Path:
    """Build an untrained model of the miniature's size."""
    tokenizer = tiny_tokenizer()
    token = tokenizer.convert_tokens_to_ids
    text = {
        "vocab_size": vocabulary_size(tokenizer),
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [12, 10, 10],
            "mrope_interleaved": True,
        },
    }
    vision = {
        "depth": 4,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_heads": 4,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 256,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [1],
    }
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    size = {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE}
    images = Qwen2VLImageProcessorPil(patch_size=16, size=size)
    with quiet():
        model.save_pretrained(folder)
        image_text_processor("qwen3_vl", tokenizer, images).save_pretrained(folder)
    return folder


def attempt(rng: Random, *, right: bool) -> CriticInput:
    """Return the first step of a story, drawn right or wrong."""
    task = sample_task("story", rng)
    prompt = task.plan().steps[0].prompt or ""
    scene = task.steps[0].scene
    return critic_input(prompt, prompt, (), draw(scene if right else with_mistake(scene, rng)))


def critic_row(seen: CriticInput) -> Row:
    return row_of(critic_messages(seen, WORDS), render_verdict(judge_attempt(seen)))


def planner_row(rng: Random) -> Row:
    task = sample_task("story", rng)
    return row_of(planner_messages(Request((Text(task.text),)), WORDS), render_plan(task.plan()))


def row_of(messages: Sequence[Message], answer: str) -> Row:
    parts = [part for message in messages for part in message.parts]
    content = [{"type": "image"} if isinstance(part, ImagePart) else text_part(part.text) for part in parts]
    return {
        "prompt": [{"role": "user", "content": content}],
        "completion": [{"role": "assistant", "content": [text_part(answer)]}],
        "images": [stored(part) for part in parts if isinstance(part, ImagePart)],
    }


def text_part(text: str) -> Row:
    return {"type": "text", "text": text}


def stored(part: ImagePart) -> Row:
    return {"bytes": encode_png(part.image), "path": None}


def repeated(rows: list[Row], count: int) -> list[Row]:
    return [rows[number % len(rows)] for number in range(count)]


def decoded(rows: list[Row]) -> list[Row]:
    columns = decode_rows({name: [row[name] for row in rows] for name in rows[0]}, folder=Path())
    return [{name: columns[name][number] for name in columns} for number in range(len(rows))]


def load(folder: Path, *, ours: bool) -> tuple[Any, Any]:
    with quiet():
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
    processor = load_processor(folder, "qwen3_vl")
    if ours:
        batch_vision(model)
        assert use_uint8_pixels(model, processor)
    return model, processor


def collating(folder: Path, rows: list[Row]) -> dict[str, float]:
    """Measure the rows per second of one process: decoding and collating."""
    library, ours = (SftCollator(load(folder, ours=each)[1]) for each in (False, True))
    share_images(0)
    figures = {"decoding": len(rows) / seconds(lambda: decoded(rows))}
    share_images(512)
    decoded(rows)
    figures["decoding, shared"] = len(rows) / seconds(lambda: decoded(rows))
    ready = decoded(rows)
    figures["batch, library"] = len(rows) / seconds(lambda: library(ready))
    figures["batch, ours"] = len(rows) / seconds(lambda: ours(ready))
    return {name: round(figure) for name, figure in figures.items()}


def learning(folder: Path, rows: list[Row], steps: int) -> dict[str, float]:
    """Measure the steps per second on one batch: forward, backward and optimizer."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    figures: dict[str, float] = {"rows a step": len(rows)}
    for name, ours in (("library", False), ("ours", True)):
        model, processor = load(folder, ours=ours)
        model.to(device).train()
        optimizer = torch.optim.AdamW(model.parameters(), fused=device == "cuda")
        batch = SftCollator(processor)(decoded(rows))
        inputs = {key: value.to(device) for key, value in batch.items()}

        def step(model: Any = model, inputs: Any = inputs, optimizer: Any = optimizer) -> None:
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                loss = model(**inputs, use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        figures[f"parameters (M), {name}"] = round(sum(each.numel() for each in model.parameters()) / 1e6, 2)
        figures[f"steps a second, {name}"] = round(1 / seconds(step, times=steps), 3)
    return figures


def answering(
    folder: Path, work: Path, attempts: list[CriticInput], arguments: argparse.Namespace
) -> dict[str, float]:
    """Measure a GRPO step and its parts with the command's trainer."""
    count = max(arguments.prompts, len(attempts))
    rows = [rl_row(f"rl/{number}", attempts[number % len(attempts)]) for number in range(count)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), work / "critic_rl.parquet")
    changes = {
        "model.name": str(folder),
        "training.steps": arguments.steps,
        "training.device_batch": min(128, arguments.prompts * arguments.samples),
        "training.log_every": 1,
        "grpo.prompts": arguments.prompts,
        "grpo.samples": arguments.samples,
        "grpo.max_completion": arguments.tokens,
        "reward.generator": arguments.generator,
        "reward.scorer": "oracle",
    }
    recipe = load_recipe(None, task="grpo", changes=changes)
    out = work / "out"
    train_grpo(TrainingJob("grpo", recipe, work, out, trust_data=True), say=lambda message: None)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "time/generate" in line]
    names = ("time/generate", "time/reward", "time/update", "step_time")
    return {name: round(steps[-1][name], 3) for name in names if name in steps[-1]}


def rewarding(attempts: list[CriticInput], arguments: argparse.Namespace) -> dict[str, float]:
    """Measure the rewards of a step in which every answer needs a redraw."""
    part = RewardPart(generator=arguments.generator, scorer="oracle", concurrency=512)
    redraws = load_redrawer(part.generator, part.scorer, load_pack(part.prompts))
    rows = [rl_row(seen.prompt, seen) | {"success": False} for seen in attempts]
    groups = [Sample.of_row(row) for row in repeated(rows, arguments.prompts)]
    samples = [sample for sample in groups for _ in range(arguments.samples)]
    answers = [refusal(sample.planned_prompt, number) for number, sample in enumerate(samples)]
    core = RewardCore(redraws, part.weights, concurrency=part.concurrency)
    asyncio.run(core.score_all(samples[:1], answers[:1], step=1))  # builds the reader's templates
    started = time.perf_counter()
    results = asyncio.run(core.score_all(samples, answers, step=2))
    spent = time.perf_counter() - started
    images = [seen.after for seen in attempts]
    plain = seconds(lambda: [shared_reader().read(image) for image in images], times=1)
    batched = BatchedReader()
    asyncio.run(batched.read_all(images[:1]))
    started = time.perf_counter()
    asyncio.run(batched.read_all(images[1:]))
    return {
        "answers": len(samples),
        "redrawn": sum(result.case is Case.REDRAWN for result in results),
        "seconds": round(spent, 3),
        "images read a second, one by one": round(len(images) / plain),
        "images read a second, together": round((len(images) - 1) / (time.perf_counter() - started)),
    }


def refusal(prompt: str, number: int) -> str:
    """Return a refusal with a unique prompt, so that no redraw is cached."""
    refined = prompt + " " * number
    return render_verdict(Verdict(outcome=Outcome.REJECTED, reasoning="No.", refined_prompt=refined + "."))


def rl_row(name: str, seen: CriticInput) -> Row:
    scores = score_attempt(seen)
    asked = row_of(critic_messages(seen, WORDS), "")
    return {
        "id": name,
        "prompt": asked["prompt"],
        "images": asked["images"],
        "planned_prompt": seen.planned_prompt,
        "used_prompt": seen.prompt,
        "sources": [],
        "success": bool(judge_attempt(seen).accepted),
        "semantics": scores.semantics,
        "quality": scores.quality,
    }


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """Return the seconds of one call, without the first."""
    work()
    settle()
    started = time.perf_counter()
    for _ in range(times):
        work()
    settle()
    return (time.perf_counter() - started) / times


def settle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
