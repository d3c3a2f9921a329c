"""The generator from nothing: tokenizer, VAE, flow, evaluation; a pipeline any diffusers user can load.

OUT/vae        the trained VAE                 OUT/flow.pt       everything needed to go on
OUT/samples    pictures drawn on the way
OUT/pipeline   the finished `Flux2KleinPipeline` in half precision
OUT/log.jsonl  losses and times                OUT/evaluation.json
A stage that is finished is not repeated; the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interleave.errors import ConfigurationError
from interleave.intervals import Estimate
from interleave_mini.reader import Reader
from interleave_mini.train.autoencoder import VaeTraining, readable_share, train_vae
from interleave_mini.train.evaluation import drawing_with, evaluate
from interleave_mini.train.flow import Examples, Flow, FlowTraining, seconds_spent, train_flow
from interleave_mini.train.latents import LatentSpace
from interleave_mini.train.model_parts import (
    SHAPES,
    build_pipeline,
    build_text_encoder,
    build_transformer,
    build_vae,
    save_pipeline,
)
from interleave_mini.train.quick_eval import Glance
from interleave_mini.train.timed_schedule import Clock, Log
from interleave_mini.train.tokenizer import language_tokenizer
from interleave_mini.world.drawing import TorchPainter


@dataclass(frozen=True)
class Orders:
    """What a user wants trained."""

    out: Path
    shape: str = "mini"
    vae_minutes: float = 10.0
    flow_minutes: float = 18.5
    stop_after: float | None = None
    """Minutes after which this session stops the flow, to go on later."""
    device: str | None = None
    workers: int = 0
    seed: int = 0
    evaluate: int = 200
    """Pictures of each sort in the final evaluation."""
    vae: VaeTraining = field(default_factory=VaeTraining)
    flow: FlowTraining = field(default_factory=FlowTraining)


def train_generator(orders: Orders) -> dict[str, Estimate]:
    """Train what is not trained yet, save the pipeline, and return what the evaluation found."""
    import torch

    if orders.shape not in SHAPES:
        raise ConfigurationError(f"no shape named {orders.shape!r}: choose one of {', '.join(SHAPES)}")
    torch.manual_seed(orders.seed)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = orders.device or ("cuda" if torch.cuda.is_available() else "cpu")
    shape = SHAPES[orders.shape]
    log = Log(orders.out / "log.jsonl")
    painter = TorchPainter(device)
    reader = Reader(device)
    tokenizer = language_tokenizer()
    vae = _vae_stage(orders, shape, painter, reader, log)
    text_encoder = build_text_encoder(shape, len(tokenizer)).to(device)
    transformer = build_transformer(shape).to(device)
    flow = Flow(shape, _space(vae, device), text_encoder, transformer, tokenizer.pad_token_id)
    state = orders.out / "flow.pt"
    clock = Clock(orders.flow_minutes, spent=seconds_spent(state), stop_after=orders.stop_after)
    how = replace(orders.flow, workers=orders.workers)
    # The seed moves on with the time spent: a second session does not repeat the examples of the first.
    examples = Examples(tokenizer, shape, how, orders.seed + int(clock.before))
    if not clock.is_over:
        glance = Glance(drawing_with(flow, tokenizer), reader, orders.out / "samples")
        average = train_flow(flow, examples, painter, clock, log, how, state, glance)
        average.swap()
        if not clock.is_over:  # to be continued
            return {}
    text_encoder.eval()
    transformer.eval()
    pipeline = build_pipeline(vae, text_encoder, tokenizer, transformer)
    save_pipeline(pipeline, shape, orders.out / "pipeline")
    found = evaluate(drawing_with(flow, tokenizer), reader, count=orders.evaluate, seed=orders.seed)
    for name, share in found.items():
        log.write(stage="evaluation", what=name, **share.model_dump())
    shares = {name: share.model_dump() for name, share in found.items()}
    (orders.out / "evaluation.json").write_text(json.dumps(shares, indent=1) + "\n", "utf-8")
    return found


def _vae_stage(orders: Orders, shape: Any, painter: TorchPainter, reader: Reader, log: Log) -> Any:
    from diffusers import AutoencoderKLFlux2

    folder, spent = orders.out / "vae", orders.out / "vae.json"
    is_there = (folder / "config.json").exists()
    vae = AutoencoderKLFlux2.from_pretrained(folder) if is_there else build_vae(shape)
    before = json.loads(spent.read_bytes())["seconds"] if is_there and spent.exists() else 0.0
    clock = Clock(orders.vae_minutes, spent=before)
    if is_there and (clock.is_over or (orders.out / "flow.pt").exists()):  # the flow is bound to its VAE
        return vae.to(painter.device).eval()
    train_vae(vae, painter, clock, log, orders.vae)
    share = readable_share(vae, painter, reader, count=5 * orders.evaluate)
    log.write(stage="vae", readable_after_round_trip=share)
    vae.save_pretrained(folder, safe_serialization=True)
    spent.write_text(json.dumps({"seconds": clock.spent}) + "\n", "utf-8")
    return vae


def _space(vae: Any, device: str) -> LatentSpace:
    import torch

    vae.requires_grad_(False)
    if not device.startswith("cuda"):
        return LatentSpace(vae)
    vae.to(memory_format=torch.channels_last)

    def encode(pictures: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return vae.encode(pictures.contiguous(memory_format=torch.channels_last)).latent_dist.mode()

    return LatentSpace(vae, encode=torch.compile(encode, dynamic=False))
