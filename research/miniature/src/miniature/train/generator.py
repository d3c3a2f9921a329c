"""Training of the generator from scratch: tokenizer, VAE, flow, evaluation; saved as a diffusers pipeline.

OUT/vae        the trained VAE                 OUT/flow.pt       everything needed to resume
OUT/samples    images drawn during training
OUT/pipeline   the finished `Flux2KleinPipeline` in half precision
OUT/log.jsonl  losses and times                OUT/evaluation.json
A finished stage is not repeated; the same command resumes a stopped one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from interleave import ConfigurationError
from interleave_mini.intervals import Estimate
from interleave_mini.reader import Reader
from interleave_mini.world.drawing import TorchPainter
from miniature.train.autoencoder import LatentSpace, VaeTraining, readable_share, train_vae
from miniature.train.evaluation import QuickEval, draw_function, evaluate
from miniature.train.flow import Examples, Flow, FlowTraining, seconds_spent, train_flow
from miniature.train.generator_model import (
    SHAPES,
    build_pipeline,
    build_text_encoder,
    build_transformer,
    build_vae,
    load_parts,
    save_pipeline,
)
from miniature.train.tokenizers import generator_tokenizer, grown_tokenizer, words_of_the_world
from miniature.train.training_loop import Log, TimedSchedule

ENCODED = 96
"""Images per encoder batch: a divisor of all batch sizes."""


@dataclass(frozen=True)
class GeneratorTraining:
    """Settings of a training run."""

    out: Path
    shape: str = "mini"
    vae_minutes: float = 10.0
    flow_minutes: float = 18.5
    stop_after: float | None = None
    """Minutes after which this session stops the flow; run again to resume."""
    device: str | None = None
    workers: int = 0
    seed: int = 0
    evaluate: int = 200
    """Images per category in the final evaluation."""
    start: Path | None = None
    """Pipeline to start from: its weights, and its tokenizer with tokens for new words of the world."""
    tune_vae: float = 0.0
    """Minutes to train the VAE of `start` further."""
    vae: VaeTraining = field(default_factory=VaeTraining)
    flow: FlowTraining = field(default_factory=FlowTraining)


def train_generator(settings: GeneratorTraining) -> dict[str, Estimate]:
    """Run the unfinished stages, save the pipeline, return the evaluation; {} if stopped early."""
    if settings.shape not in SHAPES:
        raise ConfigurationError(f"no shape named {settings.shape!r}: choose one of {', '.join(SHAPES)}")
    torch.manual_seed(settings.seed)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    shape = SHAPES[settings.shape]
    log = Log(settings.out / "log.jsonl")
    painter = TorchPainter(device)
    reader = Reader(device)
    vae, text_encoder, tokenizer, transformer = (
        _started_parts(settings, settings.start, painter, reader, log)
        if settings.start
        else _fresh_parts(settings, shape, painter, reader, log)
    )
    flow = Flow(shape, _space(vae, device), text_encoder, transformer, tokenizer.pad_token_id)
    state = settings.out / "flow.pt"
    schedule = TimedSchedule(
        settings.flow_minutes, spent=seconds_spent(state), stop_after=settings.stop_after
    )
    flow_settings = replace(settings.flow, workers=settings.workers)
    # The time spent is added to the seed: a second session must not repeat the examples of the first.
    examples = Examples(tokenizer, shape, flow_settings, settings.seed + int(schedule.before))
    if not schedule.is_over:
        quick_eval = QuickEval(draw_function(flow, tokenizer), reader, settings.out / "samples")
        average = train_flow(flow, examples, painter, schedule, log, flow_settings, state, quick_eval)
        average.swap()
    text_encoder.eval()
    transformer.eval()
    pipeline = build_pipeline(vae, text_encoder, tokenizer, transformer)
    save_pipeline(pipeline, shape, settings.out / "pipeline")
    if not schedule.is_over:
        return {}
    found = evaluate(draw_function(flow, tokenizer), reader, count=settings.evaluate, seed=settings.seed)
    for name, share in found.items():
        log.write(stage="evaluation", what=name, **share.model_dump())
    shares = {name: share.model_dump() for name, share in found.items()}
    (settings.out / "evaluation.json").write_text(json.dumps(shares, indent=1) + "\n", "utf-8")
    return found


def _fresh_parts(
    settings: GeneratorTraining, shape: Any, painter: TorchPainter, reader: Reader, log: Log
) -> tuple[Any, Any, Any, Any]:
    """Return the parts, untrained except for the VAE."""
    tokenizer, device = generator_tokenizer(), painter.device
    vae = _vae_stage(settings, build_vae(shape), painter, reader, log)
    text_encoder = build_text_encoder(shape, len(tokenizer)).to(device)
    return vae, text_encoder, tokenizer, build_transformer(shape).to(device)


def _started_parts(
    settings: GeneratorTraining, start: Path, painter: TorchPainter, reader: Reader, log: Log
) -> tuple[Any, Any, Any, Any]:
    """Return the parts of a trained pipeline, with a token for every word of the world."""
    vae, text_encoder, tokenizer, transformer = load_parts(start, str(painter.device))
    if settings.tune_vae:
        tuned = replace(settings, vae_minutes=settings.tune_vae)
        vae = _vae_stage(tuned, vae, painter, reader, log)
    tokenizer, pieces_of = grown_tokenizer(tokenizer, words_of_the_world())
    text_encoder.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64, mean_resizing=False)
    embeddings = text_encoder.get_input_embeddings().weight
    with torch.no_grad():
        for number, pieces in pieces_of.items():
            embeddings[number] = embeddings[pieces].mean(dim=0)
    return vae, text_encoder, tokenizer, transformer


def _vae_stage(
    settings: GeneratorTraining, untrained: Any, painter: TorchPainter, reader: Reader, log: Log
) -> Any:
    from diffusers import AutoencoderKLFlux2

    folder, spent = settings.out / "vae", settings.out / "vae.json"
    is_there = (folder / "config.json").exists()
    vae = AutoencoderKLFlux2.from_pretrained(folder) if is_there else untrained
    before = json.loads(spent.read_bytes())["seconds"] if is_there and spent.exists() else 0.0
    schedule = TimedSchedule(settings.vae_minutes, spent=before)
    if is_there and (
        schedule.is_over or (settings.out / "flow.pt").exists()
    ):  # a flow works only with its own VAE
        return vae.to(painter.device).eval()
    train_vae(vae, painter, schedule, log, settings.vae)
    share = readable_share(vae, painter, reader, count=5 * settings.evaluate)
    log.write(stage="vae", readable_after_round_trip=share)
    vae.save_pretrained(folder, safe_serialization=True)
    spent.write_text(json.dumps({"seconds": schedule.spent}) + "\n", "utf-8")
    return vae


def _space(vae: Any, device: str) -> LatentSpace:
    vae.requires_grad_(False)
    if not device.startswith("cuda"):
        return LatentSpace(vae)
    vae.to(memory_format=torch.channels_last)

    def encode(images: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return vae.encode(images.contiguous(memory_format=torch.channels_last)).latent_dist.mode()

    compiled = torch.compile(encode, dynamic=False)
    # Batches differ in size, and each size would be recompiled.
    return LatentSpace(vae, encode=lambda images: torch.cat([*map(compiled, images.split(ENCODED))]))
