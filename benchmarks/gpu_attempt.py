"""What an attempt costs at real size: a picture drawn and judged, alone and with many trajectories at once.

    python benchmarks/gpu_attempt.py --reference --alone --trajectories 1,8,32 --results results.json
    python benchmarks/gpu_attempt.py --profile-run --results results.json
    python benchmarks/gpu_attempt.py --table results.json
    python benchmarks/gpu_attempt.py --toy --reference --alone --trajectories 1,3 --profile-run

Qwen3-VL-8B as critic and planner and FLUX.2-klein-9B, of their real sizes with random weights, on one CUDA
device; `--toy` is the same code at toy size, on any machine. An attempt is an edit of a 1024×1024 picture in
4 steps, and a verdict of 300 tokens on the pictures before and after.

The reference path is the libraries as they come: `generate` and the pipeline, one call after another. Ours is
what `interleave generate` does. Beside each figure stands what the device allows: arithmetic at the speed of
a large product of matrices, and every weight read once for each token at the speed of a copy; both are
measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from random_models import REAL, TOY, Size, build_klein, build_vlm, verdict, write_hub
from stubs import plan_of

import interleave
from interleave.agents.critic import VlmCritic, critic_input, critic_messages
from interleave.agents.prompts.library import load_pack
from interleave.backends.generators.diffusers import DiffusersGenerator
from interleave.backends.local.batching import BatchQueue
from interleave.backends.local.settings import CallSettings
from interleave.backends.protocols import ImageRequest, Sampling
from interleave.backends.tiny.vlms import PLAN, split_into_distinct
from interleave.backends.vlms.transformers import TransformersVlm
from interleave.types import Outcome, Picture, Request, Text

PLANNER = "InterleaveThinker/InterleaveThinker-Planner-8B"
CRITIC = "InterleaveThinker/InterleaveThinker-Critic-8B"
KLEIN = "black-forest-labs/FLUX.2-klein-9B"
STEPS = 4
PROMPT = "the frog has grown hind legs; keep the pond, the light and the style as they are"
GB = 1e9
CHECKPOINTS_GB = 56


@dataclass
class Bench:
    """What is measured, how, and what has been found."""

    options: argparse.Namespace
    size: Size
    device: torch.device
    dtype: torch.dtype
    tokens: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    def note(self, what: str, **figures: Any) -> None:
        rounded = {
            key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()
        }
        row = {"what": what, **rounded}
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        if self.options.results:
            _append(self.options.results, row)

    def picture(self, seed: int = 0) -> Image.Image:
        generator = torch.Generator().manual_seed(seed)
        coarse = torch.randint(0, 256, (16, 16, 3), generator=generator, dtype=torch.uint8)
        return Image.fromarray(coarse.numpy()).resize((self.size.side, self.size.side))

    def settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object]) -> float:
        self.settle()
        started = time.perf_counter()
        work()
        self.settle()
        return time.perf_counter() - started

    def memory(self) -> float:
        """The most gigabytes held since the last time this was asked."""
        if self.device.type != "cuda":
            return 0.0
        most = torch.cuda.max_memory_reserved() / GB
        torch.cuda.reset_peak_memory_stats()
        return most


# What the device allows


@dataclass(frozen=True)
class Ceilings:
    bytes_per_second: float
    operations_per_second: float


def measure_ceilings(bench: Bench) -> Ceilings:
    """The speed of a copy and of a product of large matrices, the better of several."""
    real = bench.size is REAL
    block = torch.zeros(2**31 if real else 2**22, dtype=torch.uint8, device=bench.device)
    other = torch.empty_like(block)
    copying = min(bench.seconds(lambda: other.copy_(block)) for _ in range(6))
    side = 8192 if real else 256
    left = torch.randn(side, side, dtype=bench.dtype, device=bench.device)

    def multiply() -> None:
        for _ in range(10):
            torch.mm(left, left)

    multiplying = min(bench.seconds(multiply) for _ in range(4)) / 10
    found = Ceilings(2 * block.numel() / copying, 2 * side**3 / multiplying)
    bench.note(
        "ceilings",
        device=torch.cuda.get_device_name() if bench.device.type == "cuda" else platform.machine(),
        terabytes_per_second=found.bytes_per_second / 1e12,
        teraflops=found.operations_per_second / 1e12,
        python=platform.python_version(),
        date=str(date.today()),
        **{name: version(name) for name in ("torch", "transformers", "diffusers")},
    )
    return found


@dataclass(frozen=True)
class Limits:
    """Seconds that the parts of an attempt take at least."""

    draw: float
    read: float
    weights: float
    """Reading all weights for the tokens of one verdict, however many verdicts are written at once,"""
    context: float
    """and the keys and values of one of them."""

    def alone(self) -> float:
        return self.draw + self.read + self.weights + self.context

    def together(self, trajectories: int) -> float:
        """Per attempt: arithmetic and memory can be busy at the same time."""
        if trajectories == 1:
            return self.alone()
        return max(self.draw + self.read, self.weights / trajectories + self.context)


def limits_of(bench: Bench, ceilings: Ceilings, critic: Any, klein: Any, question: int) -> Limits:
    """From the weights of the models; `question` is how many tokens the critic reads."""
    size, text = bench.size, bench.size.text
    canvas = (size.side // 16) ** 2
    words, image = 512, 2 * canvas  # the picture that is drawn and the one it starts from
    both = [(name, each.numel()) for name, each in klein.transformer.named_parameters() if "blocks." in name]
    single = sum(count for name, count in both if name.startswith("single"))
    of_words = sum(count for name, count in both if "context" in name or "add" in name)
    of_image = sum(count for _, count in both) - single - of_words
    blocks = size.drawer["num_layers"] + size.drawer["num_single_layers"]
    inner = size.drawer["num_attention_heads"] * size.drawer["attention_head_dim"]
    step = 2 * (single * (words + image) + of_words * words + of_image * image)
    step += 4 * (words + image) ** 2 * inner * blocks
    encoded = 2 * words * sum(each.numel() for each in klein.text_encoder.model.layers.parameters())
    layers = critic.model.language_model.layers
    per_token = sum(each.numel() for each in layers.parameters())
    reading = 2 * per_token * question + 2 * question**2 * text["hidden_size"] * text["num_hidden_layers"]
    tower = sum(each.numel() for each in critic.model.visual.blocks.parameters())
    looking = 2 * (2 * tower * canvas + 4 * canvas**2 * size.vision["hidden_size"] * size.vision["depth"])
    wide = bench.dtype.itemsize
    weights = wide * (per_token + critic.lm_head.weight.numel())
    kept = 2 * wide * text["num_key_value_heads"] * text["head_dim"] * text["num_hidden_layers"]
    found = Limits(
        draw=(STEPS * step + encoded) / ceilings.operations_per_second,
        read=(reading + looking) / ceilings.operations_per_second,
        weights=bench.tokens * weights / ceilings.bytes_per_second,
        context=bench.tokens * kept * (question + bench.tokens / 2) / ceilings.bytes_per_second,
    )
    bench.note(
        "limits",
        draw=found.draw,
        read=found.read,
        weights=found.weights,
        context=found.context,
        question_tokens=question,
        weights_gigabytes=weights / GB,
        draw_teraflop=(STEPS * step + encoded) / 1e12,
    )
    return found


# The reference path


class Reference:
    """The libraries as they come: `generate` with one question, the pipeline with one picture."""

    def __init__(self, bench: Bench, critic: tuple[Any, Any], klein: Any) -> None:
        self.bench = bench
        self.model, self.processor = critic
        self.klein = klein

    def draw(self, source: Image.Image) -> Image.Image:
        side = self.bench.size.side
        made = self.klein(
            image=[source],
            prompt=PROMPT,
            width=side,
            height=side,
            num_inference_steps=STEPS,
            guidance_scale=1.0,
            text_encoder_out_layers=self.bench.size.layers_shown,
            generator=torch.Generator().manual_seed(0),
        )
        image: Image.Image = made.images[0]
        return image

    def judge(self, before: Image.Image, after: Image.Image, tokens: int) -> int:
        inputs = self.inputs(before, after)
        written = self.model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        return int(written.shape[1] - inputs["input_ids"].shape[1])

    def inputs(self, before: Image.Image, after: Image.Image) -> Any:
        seen = critic_input(PROMPT, PROMPT, (before,), after)
        conversation = [
            {
                "role": message.role,
                "content": [
                    {"type": "text", "text": part.text}
                    if isinstance(part, Text)
                    else {"type": "image", "image": part.image}
                    for part in message.parts
                ],
            }
            for message in critic_messages(seen, load_pack("default"))
        ]
        made = self.processor.apply_chat_template(
            conversation, tokenize=True, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        return made.to(self.bench.device, dtype=self.bench.dtype)


def measure_reference(bench: Bench, limits: Limits, reference: Reference) -> None:
    before = bench.picture()
    after = reference.draw(before)
    reference.judge(before, after, 4)
    draw = statistics.median(bench.seconds(lambda: reference.draw(before)) for _ in range(3))
    written: list[int] = []
    whole = bench.seconds(lambda: written.append(reference.judge(before, after, bench.tokens)))
    bench.note(
        "reference",
        draw=draw,
        judge=whole,
        attempt=draw + whole,
        tokens=written[0],
        milliseconds_per_token=1000 * whole / written[0],
        attempts_per_hour=3600 / (draw + whole),
        limit=limits.alone(),
        gigabytes=bench.memory(),
    )


# Ours


@dataclass
class Ours:
    critic: TransformersVlm
    planner: TransformersVlm
    """It is asked nothing, and takes its memory."""
    generator: DiffusersGenerator


def ours(bench: Bench, critic: tuple[Any, Any], planner: tuple[Any, Any], klein: Any, lane: str) -> Ours:
    """The product's own classes around the models."""
    options = bench.options
    how: dict[str, Any] = {"device": bench.device.type, "lane": lane}
    if options.compile is not None:
        how["compile"] = options.compile
    elif bench.device.type == "cpu":
        how["cache"] = "static"
    settings = CallSettings(
        width=bench.size.side, height=bench.size.side, text_encoder_out_layers=bench.size.layers_shown
    )
    started = time.perf_counter()
    made = Ours(
        TransformersVlm.of(*critic, TransformersVlm.Options(batch=options.judge_together, **how)),
        TransformersVlm.of(*planner, TransformersVlm.Options(batch=2, **how)),
        DiffusersGenerator.of(
            klein,
            DiffusersGenerator.Options(
                device=bench.device.type,
                lane=lane,
                batch=options.draw_together,
                compile=options.compile_drawing,
            ),
            model=KLEIN,
            settings=settings,
        ),
    )
    bench.note("prepared", lane=lane, seconds=time.perf_counter() - started, gigabytes=bench.memory())
    return made


def measure_alone(bench: Bench, limits: Limits, models: Ours) -> None:
    """One attempt with nobody else there."""
    critic = VlmCritic(models.critic, load_pack("default"))
    before = bench.picture()
    outcomes: set[Outcome] = set()

    async def attempt() -> tuple[float, float]:
        started = time.perf_counter()
        after = await models.generator.generate(ImageRequest(PROMPT, 0, (before,)))
        drawn = time.perf_counter()
        judged = await critic.judge(critic_input(PROMPT, PROMPT, (before,), after))
        outcomes.add(judged.outcome)
        return drawn - started, time.perf_counter() - drawn

    async def read() -> float:
        """The question read, and a single token written."""
        messages = critic_messages(critic_input(PROMPT, PROMPT, (before,), before), load_pack("default"))
        started = time.perf_counter()
        await models.critic.complete(messages, Sampling(max_tokens=1))
        return time.perf_counter() - started

    first = [asyncio.run(attempt()) for _ in range(2)]
    times = [asyncio.run(attempt()) for _ in range(3)]
    reading = statistics.median(asyncio.run(read()) for _ in range(3))
    decoder = models.critic.loaded.decoder
    draw, judge = (statistics.median(part) for part in zip(*times, strict=True))
    bench.note(
        "alone",
        draw=draw,
        judge=judge,
        attempt=draw + judge,
        limit=limits.alone(),
        goal=5.5,
        read=reading,
        milliseconds_per_token=1000 * (judge - reading) / (bench.tokens - 1),
        outcomes=sorted(outcomes),
        first_attempts=[round(sum(each), 2) for each in first],
        stepped=decoder.can_step,
        steps=sorted(decoder._stepper._steps) if decoder._stepper else [],
        gigabytes=bench.memory(),
    )


def measure_trajectories(
    bench: Bench, limits: Limits, models: Ours, count: int, reference: float | None
) -> None:
    """So many trajectories at once, as `generate_many` runs them, journal and pictures on disk."""
    steps = bench.options.steps
    if bench.options.warm_up:
        asyncio.run(_warm_up(bench, models, count))
    bench.memory()
    with _watched(models.generator.queue) as drawing, _watched(models.critic.loaded.queue) as judging:
        seconds = _run(bench, models, count, steps)
    attempts = sum(size for _, _, size in drawing.busy)
    per_hour = 3600 * attempts / seconds
    bench.note(
        "trajectories",
        trajectories=count,
        attempts=attempts,
        seconds=seconds,
        seconds_per_attempt=seconds / attempts,
        attempts_per_hour=per_hour,
        limit_per_hour=3600 / limits.together(count),
        times_reference=per_hour / reference if reference else None,
        drawing=drawing.share(seconds),
        drawn_together=drawing.usual(),
        drawn_at_most=models.generator.queue.most,
        judging=judging.share(seconds),
        judged_together=judging.usual(),
        judged_at_most=models.critic.loaded.queue.most,
        lane=models.critic.options.lane,
        gigabytes=bench.memory(),
    )


async def _warm_up(bench: Bench, models: Ours, count: int) -> None:
    """Everything once that a first time sets up: a batch of pictures, and as many verdicts at once."""
    critic, before = VlmCritic(models.critic, load_pack("default")), bench.picture()
    pictures = min(count, models.generator.queue.most)
    drawn = await asyncio.gather(
        *(models.generator.generate(ImageRequest(PROMPT, seed, (before,))) for seed in range(pictures))
    )
    seen = critic_input(PROMPT, PROMPT, (before,), drawn[0])
    await asyncio.gather(*(critic.judge(seen) for _ in range(count)))


def _run(bench: Bench, models: Ours, count: int, steps: int) -> float:
    requests = [
        Request((Text(f"Number {number}: how this goes on"), Picture(bench.picture(number))))
        for number in range(count)
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        summary = interleave.generate_many(
            requests,
            out=Path(folder) / "many",
            concurrency=count,
            plan=plan_of(steps),
            prompts="default",
            critic=models.critic,
            generator=models.generator,
        )
        seconds = time.perf_counter() - started
    if summary.done != count:
        raise SystemExit(f"not every trajectory came to its end: {summary}")
    return seconds


@dataclass
class Watch:
    """When a queue worked, and on how many calls together."""

    busy: list[tuple[float, float, int]] = field(default_factory=list)

    def share(self, seconds: float) -> float:
        return sum(end - start for start, end, _ in self.busy) / seconds

    def usual(self) -> float:
        return statistics.mean(size for _, _, size in self.busy)


@contextmanager
def _watched(queue: BatchQueue[Any, Any]) -> Iterator[Watch]:
    watch, run = Watch(), queue._run

    def watched(batch: Sequence[Any]) -> Any:
        started = time.perf_counter()
        try:
            return run(batch)
        finally:
            watch.busy.append((started, time.perf_counter(), len(batch)))

    queue._run = watched  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        queue._run = run  # type: ignore[method-assign]


# The whole command


def measure_profile_run(bench: Bench) -> None:
    """`interleave generate --profile klein`, in a process of its own, on checkpoints as if downloaded."""
    home, weights = _place_for_checkpoints(bench)
    try:
        words = {PLANNER: split_into_distinct(PLAN), CRITIC: verdict(bench.tokens)}
        writing = bench.seconds(
            lambda: write_hub(
                home, bench.size, words=words, klein=KLEIN, weights=weights, device=bench.device
            )
        )
        _free(bench)
        requests = home / "requests.jsonl"
        count = bench.options.requests
        requests.write_text(
            "".join(json.dumps({"request": f"Number {number}: a pond"}) + "\n" for number in range(count))
        )
        arguments = ["generate", "--requests", str(requests), "--out", str(home / "many")]
        arguments += ["--profile", "klein", "--concurrency", str(count), "--gallery", "--json"]
        begun, started = time.time(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "interleave", *arguments],
            env={**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - started
        if done.returncode:
            raise SystemExit(f"the command failed ({done.returncode}):\n{done.stderr[-6000:]}")
        summary = json.loads(done.stdout.splitlines()[-1])
        documents = len(list((home / "many").rglob("document.html")))
        told = [
            json.loads(line)["time"]
            for journal in (home / "many").rglob("journal.jsonl")
            for line in journal.read_text("utf-8").splitlines()
        ]
        bench.note(
            "profile-run",
            command="interleave generate --requests … --profile klein",
            weights=weights,
            writing=writing,
            seconds=seconds,
            loading=min(told) - begun,
            working=max(told) - min(told),
            requests=count,
            done=summary["done"],
            calls=summary["calls"],
            documents=documents,
            journals=len(list((home / "many").rglob("journal.jsonl"))),
        )
        if bench.options.keep_runs:
            shutil.copytree(home / "many", bench.options.keep_runs, dirs_exist_ok=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _place_for_checkpoints(bench: Bench) -> tuple[Path, Any]:
    """A folder, and whether there is room in it for random weights; files of zeros need none."""
    if bench.options.checkpoints:
        bench.options.checkpoints.mkdir(parents=True, exist_ok=True)
    places = [bench.options.checkpoints] if bench.options.checkpoints else [Path("/dev/shm"), None]
    rooms = [
        (shutil.disk_usage(place or tempfile.gettempdir()).free, place)
        for place in places
        if place is None or place.is_dir()
    ]
    free, place = max(rooms, key=lambda room: room[0])
    enough = bench.size is TOY or free > CHECKPOINTS_GB * GB
    weights = bench.options.weights or ("random" if enough else "sparse")
    return Path(tempfile.mkdtemp(prefix="interleave-", dir=place)), weights


def _free(bench: Bench) -> None:
    gc.collect()
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()


# The results


def _append(path: Path, row: dict[str, Any]) -> None:
    rows = json.loads(path.read_text()) if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([*rows, row], indent=1) + "\n")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The results as a table for a page: each figure beside what the device allows."""
    lines = ["| what | measured | the device allows | of which |", "|---|---|---|---|"]
    for row in rows:
        kind = row["what"]
        if kind == "ceilings":
            versions = ", ".join(f"{name} {row[name]}" for name in ("torch", "transformers", "diffusers"))
            lines.insert(0, "")
            lines.insert(
                0,
                f"Measured {row['date']} on {row['device']}, Python {row['python']}, {versions}: "
                f"{row['terabytes_per_second']:.1f} TB/s, {row['teraflops']:.0f} Tflop/s.",
            )
        elif kind in ("reference", "alone"):
            name = "the reference path, one attempt" if kind == "reference" else "ours, one attempt alone"
            each = f"{row['milliseconds_per_token']:.1f} ms a token"
            lines.append(
                f"| {name} | {row['attempt']:.2f} s | {row['limit']:.2f} s | draw {row['draw']:.2f} s, "
                f"judge {row['judge']:.2f} s ({each}); {row['gigabytes']:.0f} GB |"
            )
        elif kind == "trajectories":
            times = f", ×{row['times_reference']:.1f}" if row["times_reference"] else ""
            lines.append(
                f"| attempts an hour, {row['trajectories']} trajectories ({row['lane']} lane) | "
                f"{row['attempts_per_hour']:,.0f}{times} | {row['limit_per_hour']:,.0f} | "
                f"drawing {row['drawing']:.0%} of the time, {row['drawn_together']:.1f} together; judging "
                f"{row['judging']:.0%}, {row['judged_together']:.1f} together; {row['gigabytes']:.0f} GB |"
            )
        elif kind == "profile-run":
            lines.append(
                f"| `interleave generate --profile klein`, {row['requests']} requests, "
                f"{row['weights']} weights | {row['seconds']:.0f} s | | "
                f"loading {row['loading']:.0f} s; {row['calls']} calls in {row['working']:.0f} s, "
                f"{row['documents']} documents |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    options = _options(arguments)
    if options.table:
        print(table(json.loads(options.table.read_text())))
        return []
    size = TOY if options.toy else REAL
    device = torch.device(options.device or ("cpu" if options.toy else "cuda"))
    if options.memory and device.type == "cuda":
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory * GB / whole))
    bench = Bench(
        options,
        size,
        device,
        torch.float32 if device.type == "cpu" else torch.bfloat16,
        options.tokens or (48 if options.toy else 300),
    )
    counts = [int(each) for each in options.trajectories.split(",")] if options.trajectories else []
    if options.reference or options.alone or counts:
        _measure_models(bench, counts)
        _free(bench)
    if options.profile_run:
        measure_profile_run(bench)
    if bench.rows:
        print(table(bench.rows))
    return bench.rows


def _measure_models(bench: Bench, counts: Sequence[int]) -> None:
    ceilings = measure_ceilings(bench)
    started = time.perf_counter()
    critic = build_vlm(bench.size, bench.device, bench.dtype, verdict(bench.tokens))
    klein = build_klein(bench.size, bench.device, bench.dtype)
    bench.settle()
    bench.note("built", seconds=time.perf_counter() - started, gigabytes=bench.memory())
    reference = Reference(bench, critic, klein)
    question = reference.inputs(bench.picture(), bench.picture())["input_ids"].shape[1]
    limits = limits_of(bench, ceilings, critic[0], klein, question)
    if bench.options.reference:
        measure_reference(bench, limits, reference)
    if bench.options.alone or counts:
        planner = build_vlm(bench.size, bench.device, bench.dtype, split_into_distinct(PLAN))
        for lane in bench.options.lane.split(","):
            models = ours(bench, critic, planner, klein, lane)
            if bench.options.alone:
                measure_alone(bench, limits, models)
            for count in counts:
                measure_trajectories(bench, limits, models, count, _reference_rate(bench))
            for vlm in (models.critic, models.planner):
                vlm.loaded.decoder.forget()


def _reference_rate(bench: Bench) -> float | None:
    """Attempts an hour of the reference, from this run or one before it."""
    path = bench.options.results
    before = json.loads(path.read_text()) if path and path.exists() else []
    rates = [row["attempts_per_hour"] for row in [*before, *bench.rows] if row["what"] == "reference"]
    return float(rates[-1]) if rates else None


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections = parser.add_argument_group("what is measured")
    sections.add_argument("--reference", action="store_true", help="the libraries as they come")
    sections.add_argument("--alone", action="store_true", help="ours, one attempt")
    sections.add_argument("--trajectories", metavar="N,N", help="ours, so many at once, e.g. 1,8,32")
    sections.add_argument("--profile-run", action="store_true", help="the whole command")
    sections.add_argument("--table", type=Path, metavar="FILE", help="print results as a table instead")
    parser.add_argument("--toy", action="store_true", help="toy size, on the CPU unless --device says else")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="[cuda; cpu with --toy]")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append all figures to this JSON file")
    parser.add_argument("--tokens", type=int, help="how long a verdict is [300]")
    parser.add_argument("--steps", type=int, default=2, help="attempts of each trajectory [2]")
    parser.add_argument(
        "--no-warm-up", dest="warm_up", action="store_false", help="no round before the timed one"
    )
    parser.add_argument("--lane", default="shared", help="shared, own, or both with a comma [shared]")
    parser.add_argument("--judge-together", type=int, default=32, metavar="N", help="verdicts at once [32]")
    parser.add_argument("--draw-together", type=int, default=4, metavar="N", help="pictures at once [4]")
    parser.add_argument("--compile-drawing", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=None, help="critic and planner"
    )
    parser.add_argument("--memory", type=float, metavar="GB", help="use no more of the device's memory")
    parser.add_argument("--requests", type=int, default=4, help="requests of the whole command [4]")
    parser.add_argument("--checkpoints", type=Path, metavar="DIR", help="where checkpoints are written")
    parser.add_argument(
        "--weights", choices=("random", "sparse"), help="of checkpoints [random where they fit]"
    )
    parser.add_argument(
        "--keep-runs", type=Path, metavar="DIR", help="copy the run folders of the command here"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
