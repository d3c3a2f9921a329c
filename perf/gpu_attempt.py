"""Measures an attempt at full size: drawing and judging an image, alone and in many trajectories.

    python perf/gpu_attempt.py --reference --alone --trajectories 1,8,32 --results results.json
    python perf/gpu_attempt.py --profile-run --results results.json
    python perf/gpu_attempt.py --table results.json
    python perf/gpu_attempt.py --toy --reference --alone --trajectories 1,3 --profile-run

Qwen3-VL-8B as critic and planner and FLUX.2-klein-9B run at full size with random weights on one CUDA device.
`--toy` runs the same code at toy size, on any machine. An attempt is an edit of a 1024×1024 image in 4 steps,
and a verdict of 300 tokens on the images before and after.

The reference path is the unmodified libraries: sequential calls of `generate` and the pipeline. Ours is what
`interleave generate` does. Each figure comes with the device's limit: arithmetic at the speed of a large
matrix product, and every weight read once per token at the speed of a copy, both measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch
from gpu_bench import GB, PLAN, PROMPT, STEPS, Bench
from gpu_command import KLEIN, measure_profile_run
from gpu_limits import Limits, image_work, limits_of, measure_ceilings
from gpu_loading import load_from_files
from gpu_parts import measure_drawing, measure_judging, measure_kernels
from gpu_products import measure_products
from gpu_question import conversation, write_question
from gpu_table import table
from PIL import Image
from random_models import REAL, TOY, build_klein, build_vlm, verdict, with_kept_sources
from stubs import plan_of

import interleave
from interleave.agents.critic import VlmCritic, critic_input, critic_messages
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import ImageRequest, Sampling
from interleave.config.specs import Spec
from interleave.local.batching import BatchQueue
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.fp8 import has_float8, round_language_model
from interleave.local.pipelines import CallSettings
from interleave.local.tiny.vlms import split_into_distinct
from interleave.local.transformers_vlm import LoadedModel, TransformersVlm
from interleave.types import ImagePart, Outcome, Request, Text

QWEN = "Qwen/Qwen3-VL-8B-Instruct"

# The reference path


class Reference:
    """The unmodified libraries: `generate` with one question, the pipeline with one image."""

    def __init__(self, bench: Bench, critic: tuple[Any, Any], klein: Any) -> None:
        self.bench = bench
        self.model, self.processor = critic
        self.klein = klein

    def draw(self, source: Image.Image, output_type: str = "pil") -> Any:
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
            output_type=output_type,
        )
        return made.images[0]

    def judge(self, before: Image.Image, after: Image.Image, tokens: int) -> int:
        inputs = self.inputs(before, after)
        written = self.model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        return int(written.shape[1] - inputs["input_ids"].shape[1])

    def inputs(self, before: Image.Image, after: Image.Image) -> Any:
        made = self.processor.apply_chat_template(
            conversation(before, after),
            tokenize=True,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        return made.to(self.bench.device, dtype=self.bench.dtype)


def measure_reference(bench: Bench, limits: Limits, reference: Reference) -> None:
    before = bench.image()
    after = reference.draw(before)
    reference.judge(before, after, 4)
    draw = statistics.median(bench.seconds(lambda: reference.draw(before)) for _ in range(3))
    tokens = bench.options.reference_tokens or bench.tokens
    written: list[int] = []
    whole = bench.seconds(lambda: written.append(reference.judge(before, after, tokens)))
    remark = None
    if tokens < bench.tokens:
        first = bench.seconds(lambda: reference.judge(before, after, 1))
        whole = first + (whole - first) / (tokens - 1) * (bench.tokens - 1)
        remark = f"its {bench.tokens} tokens at the pace of {tokens}"
    bench.note(
        "reference",
        draw=draw,
        judge=whole,
        attempt=draw + whole,
        tokens=written[0],
        remark=remark,
        milliseconds_per_token=1000 * whole / bench.tokens,
        attempts_per_hour=3600 / (draw + whole),
        limit=limits.alone(),
        gigabytes=bench.memory(),
    )


# Ours


@dataclass
class Ours:
    critic: TransformersVlm
    planner: TransformersVlm
    """If plans are given it is not called, but still occupies memory."""
    generator: DiffusersGenerator


@dataclass(frozen=True)
class Way:
    """A way to draw and to judge."""

    float8: bool = False
    critic8: bool = False
    """Whether planner and critic are in float8 too."""
    kv: bool = False
    """Whether to use FLUX.2 klein KV, which keeps the keys and values of its sources."""

    @property
    def words(self) -> str:
        words = {"klein KV": self.kv, "drawn in float8": self.float8, "judged in float8": self.critic8}
        return ", ".join(word for word, holds in words.items() if holds)


WAYS = {
    "bf16": Way(),
    "kv": Way(kv=True),
    "fp8": Way(float8=True),
    "kv-fp8": Way(float8=True, kv=True),
    "all-fp8": Way(float8=True, critic8=True),
    "all-kv-fp8": Way(float8=True, critic8=True, kv=True),
}
"""Ways in order: rounded weights stay rounded."""


def ours(bench: Bench, critic: LoadedModel, planner: LoadedModel, klein: Any, way: Way) -> Ours:
    """Wrap the models in the product's classes."""
    started = time.perf_counter()
    made = Ours(_vlm(bench, critic), _vlm(bench, planner), drawer(bench, klein, way))
    bench.note("prepared", seconds=time.perf_counter() - started, gigabytes=bench.memory())
    return made


def rounded_models(bench: Bench, loaded: tuple[LoadedModel, LoadedModel]) -> tuple[LoadedModel, LoadedModel]:
    """Round the decoders of critic and planner to float8 in place."""
    for each in loaded:
        each.queue._executor.submit(each.queue._free_memory).result()
        round_language_model(each.decoder.model)
    made = tuple(LoadedModel(each.decoder.model, each.decoder.processor) for each in loaded)
    bench.free()
    return made[0], made[1]


def drawer(bench: Bench, klein: Any, way: Way) -> DiffusersGenerator:
    settings = CallSettings(
        width=bench.size.side, height=bench.size.side, text_encoder_out_layers=bench.size.layers_shown
    )
    return DiffusersGenerator(
        spec=Spec("diffusers", KLEIN),
        options=DiffusersGenerator.Options(
            device=bench.device.type,
            batch=bench.options.draw_together,
            compile=bench.options.compile_drawing,
            quantization="fp8" if way.float8 else "none",
        ),
        pipeline=with_kept_sources(klein) if way.kv else klein,
        settings=settings,
    )


def vlm_options(bench: Bench) -> TransformersVlm.Options:
    options = bench.options
    how: dict[str, Any] = {"device": bench.device.type, "batch": options.judge_together}
    if options.compile is not None:
        how["compile"] = options.compile
    elif bench.device.type == "cpu":
        how["cache"] = "static"
    return TransformersVlm.Options(**how)


def _vlm(bench: Bench, loaded: LoadedModel) -> TransformersVlm:
    return TransformersVlm(spec=Spec("transformers", QWEN), options=vlm_options(bench), loaded=loaded)


def measure_alone(bench: Bench, limits: Limits, models: Ours, way: Way) -> None:
    """Measure single attempts: the first at a step, and another at the same step."""
    critic = VlmCritic(models.critic, load_pack("default"))
    outcomes: set[Outcome] = set()
    seeds = count(1)

    async def attempt(before: Image.Image) -> tuple[float, float]:
        started = time.perf_counter()
        after = await models.generator.generate(ImageRequest(PROMPT, next(seeds), (before,)))
        drawn = time.perf_counter()
        judged = await critic.judge(critic_input(PROMPT, PROMPT, (before,), after))
        outcomes.add(judged.outcome)
        return drawn - started, time.perf_counter() - drawn

    async def read(before: Image.Image) -> float:
        """Time a new question with a single output token."""
        messages = critic_messages(critic_input(PROMPT, PROMPT, (before,), before), load_pack("default"))
        started = time.perf_counter()
        await models.critic.complete(messages, Sampling(max_tokens=1))
        return time.perf_counter() - started

    first = [asyncio.run(attempt(bench.image())) for _ in range(2)]
    number = bench.options.attempts
    times = [asyncio.run(attempt(bench.image(1000 + each))) for each in range(number)]
    again = [asyncio.run(attempt(bench.image(1000 + number - 1))) for _ in range(number)]
    reading = statistics.median(asyncio.run(read(bench.image(2000 + each))) for each in range(3))
    decoder = models.critic.loaded.decoder
    draw, judge = (statistics.median(part) for part in zip(*times, strict=True))
    bench.note(
        "alone",
        draw=draw,
        judge=judge,
        attempt=draw + judge,
        again=statistics.median(map(sum, again)),
        again_judge=statistics.median(each[1] for each in again),
        limit=limits.alone(),
        read=reading,
        milliseconds_per_token=1000 * (judge - reading) / (bench.tokens - 1),
        outcomes=sorted(outcomes),
        remark=_how_drawn(models, way),
        first_attempts=[round(sum(each), 2) for each in first],
        each=[[round(part, 3) for part in each] for each in times + again],
        stepped=decoder.has_graph_decoder,
        steps=sorted(decoder._graph_decoder._steps) if decoder._graph_decoder else [],
        gigabytes=bench.memory(),
    )


def measure_trajectories(
    bench: Bench,
    limits: Limits,
    models: Ours,
    way: Way,
    count: int,
    reference: float | None,
    *,
    planned: bool = False,
) -> None:
    """Measure `count` concurrent trajectories, as `generate_many` runs them, with journal and images on disk.

    `planned`: the planner is called, and plans one step.
    """
    steps = 1 if planned else bench.options.steps
    if bench.options.warm_up and not planned:
        asyncio.run(_warm_up(bench, models, count))
    bench.memory()
    with _watched(models.generator.queue) as drawing, _watched(models.critic.loaded.queue) as judging:
        seconds = _run(bench, models, count, None if planned else steps)
    attempts = count * steps
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
        drawn_at_most=models.generator.queue.batch_limit,
        judging=judging.share(seconds),
        judged_together=judging.usual(),
        judged_at_most=models.critic.loaded.queue.batch_limit,
        within=bench.within,
        planner_asked=planned,
        remark=_how_drawn(models, way),
        gigabytes=bench.memory(),
    )


def _how_drawn(models: Ours, way: Way) -> str:
    compiled = models.generator._compiles_immediately()
    return ", ".join(filter(None, [way.words, "generator compiled from the start" if compiled else ""]))


async def _warm_up(bench: Bench, models: Ours, count: int) -> None:
    """Run one batch of images and one of verdicts, so that setup is not timed."""
    critic, before = VlmCritic(models.critic, load_pack("default")), bench.image()
    images = min(count, models.generator.queue.batch_limit)
    drawn = await asyncio.gather(
        *(models.generator.generate(ImageRequest(PROMPT, seed, (before,))) for seed in range(images))
    )
    seen = critic_input(PROMPT, PROMPT, (before,), drawn[0])
    await asyncio.gather(*(critic.judge(seen) for _ in range(count)))


def _run(bench: Bench, models: Ours, count: int, steps: int | None) -> float:
    """Return the seconds for `count` trajectories; if `steps` is None, the planner is called."""
    requests = [
        Request((Text(f"Number {number}: how this goes on"), ImagePart(bench.image(number))))
        for number in range(count)
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        summary = interleave.generate_many(
            requests,
            out=Path(folder) / "many",
            concurrency=count,
            profile="klein",  # its models are replaced by the given ones
            plan=None if steps is None else plan_of(steps),
            prompts="default",
            planner=models.planner,
            critic=models.critic,
            generator=models.generator,
        )
        seconds = time.perf_counter() - started
    if summary.done != count:
        raise SystemExit(f"not every trajectory finished: {summary}")
    return seconds


@dataclass
class Watch:
    """Busy time of a queue, and its batch sizes."""

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
        made = run(batch)  # a failed batch is repeated in parts
        watch.busy.append((started, time.perf_counter(), len(batch)))
        return made

    queue._run = watched  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        queue._run = run  # type: ignore[method-assign]


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    options = _options(arguments)
    if options.table:
        print(table(json.loads(options.table.read_text())))
        return []
    size = TOY if options.toy else REAL
    device = torch.device(options.device or ("cpu" if options.toy else "cuda"))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA device: --toy runs the same code at toy size on any machine")
    if options.memory and device.type == "cuda":
        _allow(options.memory)
    bench = Bench(
        options,
        size,
        device,
        torch.float32 if device.type == "cpu" else torch.bfloat16,
        options.tokens or (48 if options.toy else 300),
        within=options.memory,
    )
    counts = _numbers(options.trajectories) if options.trajectories else []
    if (
        options.reference
        or options.loading
        or options.alone
        or options.parts
        or options.kernels
        or options.planned
        or options.products
        or counts
    ):
        _measure_models(bench, counts)
        bench.free()
    if options.profile_run:
        measure_profile_run(bench)
    if bench.rows:
        print(table(bench.rows))
    if any(row["what"] == "failed" for row in bench.rows):
        raise SystemExit("some measurements failed: see the rows “failed”")
    return bench.rows


def _allow(gigabytes: float) -> None:
    """Limit torch to this much of the device's memory."""
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, gigabytes * GB / whole))


def _measure_models(bench: Bench, counts: Sequence[int]) -> None:
    ceilings = measure_ceilings(bench)
    critic, klein, loaded = _models(bench)
    reference = Reference(bench, critic, klein)
    question = reference.inputs(bench.image(), bench.image())["input_ids"].shape[1]
    work = image_work(bench, klein, kv=False)
    limits = limits_of(bench, ceilings, critic[0], work, question)
    rounded = limits_of(bench, ceilings, critic[0], work, question, float8=True)
    by_way = {  # before any weights are rounded
        way: replace(
            rounded if way.critic8 else limits,
            draw=image_work(bench, klein, kv=way.kv).seconds(ceilings, float8=way.float8),
        )
        for way in WAYS.values()
    }
    if bench.options.question:
        folder, size = bench.options.question, bench.size
        write_question(folder, size, bench.tokens, reference.processor, bench.image())
    if bench.options.reference:
        measure_reference(bench, limits, reference)
    if bench.options.products:
        _tried(bench, lambda: measure_products(bench))
    if not (
        bench.options.alone or bench.options.parts or bench.options.kernels or bench.options.planned or counts
    ):
        return
    if loaded is None:
        words = split_into_distinct(PLAN)
        planner = LoadedModel(*build_vlm(bench.size, bench.device, bench.dtype, words))
        loaded = (LoadedModel(*critic), planner)
    models: Ours | None = None
    latents = reference.draw(bench.image(), "latent").float()
    for name, way in WAYS.items():
        if name not in bench.options.drawing.split(","):
            continue
        first = models is None or (way.critic8 and not has_float8(critic[0]))
        if first and way.critic8:
            loaded = rounded_models(bench, loaded)
        models = (
            replace(models, generator=drawer(bench, klein, way))
            if models and not first
            else ours(bench, *loaded, klein, way)
        )
        together = bench.options.trajectories_by
        crowds = counts if together is None or name in together.split(",") else []
        watched = bench.options.kernels_by is None or name in bench.options.kernels_by.split(",")
        _measure_way(bench, by_way[way], models, way, crowds, judging=first, watched=watched)
        if way.float8 and not way.kv:
            rounded = reference.draw(bench.image(), "latent").float()
            bench.note("latents", apart=float((rounded - latents).norm() / latents.norm()))
        last = way
    if bench.options.planned and models:
        _measure_planned(bench, by_way[last], models, last)


def _models(bench: Bench) -> tuple[tuple[Any, Any], Any, tuple[LoadedModel, LoadedModel] | None]:
    """Return critic and generator; if loaded from files, also critic and planner as loaded."""
    started = time.perf_counter()
    if bench.options.loading:
        if bench.options.reference:
            raise SystemExit("--loading patches its models, but --reference needs unmodified ones")
        made = load_from_files(bench, vlm_options(bench))
        decoder = made.critic.decoder
        return (decoder.model, decoder.processor), made.klein, (made.critic, made.planner)
    critic = build_vlm(bench.size, bench.device, bench.dtype, verdict(bench.tokens))
    klein = build_klein(bench.size, bench.device, bench.dtype)
    bench.settle()
    bench.note("built", seconds=time.perf_counter() - started, gigabytes=bench.memory())
    return critic, klein, None


def _measure_planned(bench: Bench, limits: Limits, models: Ours, way: Way) -> None:
    """Measure trajectories that call the planner; last, because memory may be limited from here on."""
    limit = bench.options.planned_memory
    if limit:
        bench.within = limit
        for queue in (models.generator.queue, models.critic.loaded.queue, models.planner.loaded.queue):
            queue._executor.submit(queue._free_memory).result()
        bench.free()
        if bench.device.type == "cuda":
            _allow(limit)
    number = bench.options.planned
    rate = _reference_rate(bench)
    _tried(bench, lambda: measure_trajectories(bench, limits, models, way, number, rate, planned=True))


def _measure_way(
    bench: Bench,
    limits: Limits,
    models: Ours,
    way: Way,
    counts: Sequence[int],
    *,
    judging: bool,
    watched: bool,
) -> None:
    options = bench.options
    if options.alone:
        _tried(bench, lambda: measure_alone(bench, limits, models, way))
    if options.parts:
        for together in _numbers(options.draw_parts):
            _tried(
                bench,
                lambda n=together: measure_drawing(bench, models.generator, n, _how_drawn(models, way)),
            )
        for together in _numbers(options.judge_parts) if judging else []:
            _tried(bench, lambda n=together: measure_judging(bench, models.critic, n))
    reference = _reference_rate(bench)
    for number in counts:
        _tried(bench, lambda n=number: measure_trajectories(bench, limits, models, way, n, reference))
    for together in _numbers(options.kernels) if options.kernels and watched else []:
        _tried(bench, lambda n=together: measure_kernels(bench, models.generator, n, _how_drawn(models, way)))


def _tried(bench: Bench, measure: Callable[[], None]) -> None:
    """Measure and record a failure, so that the rest is still measured."""
    try:
        measure()
    except Exception as error:
        traceback.print_exc()
        bench.note("failed", error=repr(error)[:500])


def _numbers(listed: str) -> list[int]:
    return [int(each) for each in listed.split(",")]


def _reference_rate(bench: Bench) -> float | None:
    """Return the reference's attempts per hour, from this run or an earlier one."""
    path = bench.options.results
    before = json.loads(path.read_text()) if path and path.exists() else []
    rates = [row["attempts_per_hour"] for row in [*before, *bench.rows] if row["what"] == "reference"]
    return float(rates[-1]) if rates else None


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections = parser.add_argument_group("measurements")
    sections.add_argument("--reference", action="store_true", help="the unmodified libraries")
    sections.add_argument("--alone", action="store_true", help="ours, one attempt")
    sections.add_argument("--parts", action="store_true", help="ours, time by part")
    sections.add_argument("--trajectories", metavar="N,N", help="ours, N concurrently, e.g. 1,8,32")
    sections.add_argument("--loading", action="store_true", help="loading the models from files in memory")
    sections.add_argument("--products", action="store_true", help="large matrix products on a warm device")
    sections.add_argument("--kernels", metavar="N,N", help="device time by kernel while N images are drawn")
    sections.add_argument("--planned", type=int, metavar="N", help="N trajectories that call the planner")
    sections.add_argument("--profile-run", action="store_true", help="the whole command")
    sections.add_argument("--table", type=Path, metavar="FILE", help="print results as a table instead")
    parser.add_argument(
        "--drawing", default="bf16", metavar="WAY,WAY", help=f"ways to draw, of {', '.join(WAYS)} [bf16]"
    )
    parser.add_argument("--trajectories-by", metavar="WAY,WAY", help="ways to draw for --trajectories [all]")
    parser.add_argument("--attempts", type=int, default=3, help="single attempts to time [3]")
    parser.add_argument("--draw-parts", default="1,2,4", metavar="N,N", help="images together [1,2,4]")
    parser.add_argument("--judge-parts", default="1,8,32", metavar="N,N", help="verdicts together [1,8,32]")
    parser.add_argument(
        "--reference-tokens", type=int, metavar="N", help="time N tokens of the reference [all]"
    )
    parser.add_argument("--toy", action="store_true", help="toy size, on the CPU unless --device is given")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="[cuda; cpu with --toy]")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append all figures to this JSON file")
    parser.add_argument("--tokens", type=int, help="length of a verdict [300]")
    parser.add_argument("--steps", type=int, default=2, help="attempts per trajectory [2]")
    parser.add_argument("--no-warm-up", dest="warm_up", action="store_false", help="skip the warm-up round")
    parser.add_argument("--judge-together", type=int, default=32, metavar="N", help="verdicts per batch [32]")
    parser.add_argument("--draw-together", type=int, default=4, metavar="N", help="images per batch [4]")
    parser.add_argument("--compile-drawing", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=None, help="critic and planner"
    )
    parser.add_argument("--memory", type=float, metavar="GB", help="limit of the device's memory")
    parser.add_argument(
        "--planned-memory", type=float, metavar="GB", help="limit of the device's memory for --planned"
    )
    parser.add_argument(
        "--question", type=Path, metavar="DIR", help="write the critic's question here, for gpu_vllm.py"
    )
    parser.add_argument("--kernels-by", metavar="WAY,WAY", help="ways to draw for --kernels [all]")
    parser.add_argument("--requests", type=int, default=4, help="requests of the whole command [4]")
    parser.add_argument("--checkpoints", type=Path, metavar="DIR", help="folder for checkpoints")
    parser.add_argument("--weights", choices=("random", "sparse"), help="of checkpoints [random if they fit]")
    parser.add_argument(
        "--keep-runs", type=Path, metavar="DIR", help="copy the run folders of the command here"
    )
    options = parser.parse_args(arguments)
    wanted = (
        "reference",
        "loading",
        "alone",
        "parts",
        "kernels",
        "trajectories",
        "planned",
        "products",
        "profile_run",
    )
    wanted += ("table",)
    if not any(getattr(options, section) for section in wanted):
        parser.error("choose measurements, as in --reference --alone --trajectories 1,8,32")
    return options


if __name__ == "__main__":
    main()
