"""The parts of the generator: FLUX.2-klein classes, small enough to ship in the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from interleave.local.pipelines import SETTINGS_FILE as SETTINGS_NAME
from interleave.local.pipelines import CallSettings
from interleave.local.silence import quiet


@dataclass(frozen=True)
class GeneratorShape:
    """Sizes of the parts. The default is the shipped model; `TOY` is for tests."""

    encoder_channels: tuple[int, ...] = (16, 32, 48, 64)
    decoder_channels: tuple[int, ...] = (24, 40, 64, 80)
    vae_layers: int = 1
    latent_channels: int = 12
    groups: int = 8
    text_hidden: int = 192
    text_layers: int = 3
    heads: int = 4
    head_dim: int = 64
    double_layers: int = 1
    single_layers: int = 6
    rope: tuple[int, int, int, int] = (8, 24, 24, 8)
    """Split of a head's dimensions between image number, row, column and word."""
    sequence: int = 80
    """Maximum tokens of a prompt; longer prompts are truncated."""
    steps: int = 4
    side: int = 256


TOY = GeneratorShape(
    encoder_channels=(8, 8, 8, 8),
    decoder_channels=(8, 8, 8, 8),
    latent_channels=4,
    groups=4,
    text_hidden=32,
    text_layers=3,
    heads=2,
    head_dim=16,
    single_layers=1,
    rope=(4, 4, 4, 4),
)
SHAPES = {"mini": GeneratorShape(), "toy": TOY}


def build_vae(shape: GeneratorShape) -> Any:
    from diffusers import AutoencoderKLFlux2

    count = len(shape.encoder_channels)
    return AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * count,
        up_block_types=("UpDecoderBlock2D",) * count,
        block_out_channels=shape.encoder_channels,
        decoder_block_out_channels=shape.decoder_channels,
        layers_per_block=shape.vae_layers,
        latent_channels=shape.latent_channels,
        norm_num_groups=shape.groups,
        sample_size=shape.side,
    )


def build_text_encoder(shape: GeneratorShape, vocabulary: int) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    heads = max(2, shape.text_hidden // 48)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=(vocabulary + 63) // 64 * 64,
            hidden_size=shape.text_hidden,
            intermediate_size=shape.text_hidden * 2,
            num_hidden_layers=shape.text_layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=shape.text_hidden // heads,
            max_position_embeddings=512,
            tie_word_embeddings=True,
        )
    )


def build_transformer(shape: GeneratorShape) -> Any:
    from diffusers import Flux2Transformer2DModel

    return Flux2Transformer2DModel(
        in_channels=4 * shape.latent_channels,
        num_layers=shape.double_layers,
        num_single_layers=shape.single_layers,
        attention_head_dim=shape.head_dim,
        num_attention_heads=shape.heads,
        joint_attention_dim=len(text_layers(shape)) * shape.text_hidden,
        timestep_guidance_channels=256,
        axes_dims_rope=list(shape.rope),
        guidance_embeds=False,
    )


def text_layers(shape: GeneratorShape) -> tuple[int, ...]:
    """Return the text encoder layers whose states condition the transformer: the last three."""
    return tuple(range(shape.text_layers - 2, shape.text_layers + 1))


def build_pipeline(vae: Any, text_encoder: Any, tokenizer: Any, transformer: Any) -> Any:
    """Build a diffusers pipeline from the parts."""
    from diffusers import FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline

    return Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT),
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        transformer=transformer,
        is_distilled=True,
    )


def load_parts(pipeline: Path, device: str) -> tuple[Any, Any, Any, Any]:
    """Load VAE, text encoder, tokenizer and transformer of a pipeline, in full precision."""
    from diffusers import Flux2KleinPipeline

    with quiet():
        parts = Flux2KleinPipeline.from_pretrained(pipeline, torch_dtype=torch.float32).to(device)
    return parts.vae.eval(), parts.text_encoder, parts.tokenizer, parts.transformer


SHIFT = 3.0
"""Timestep shift of flow matching, in training and inference: more steps at high noise."""


def save_pipeline(pipeline: Any, shape: GeneratorShape, folder: Path) -> None:
    """Save in half precision, together with the call settings; `from_pretrained` loads it.

    The origin of the parts and the prompt padding of training are not saved.
    """
    for part in (pipeline.vae, pipeline.transformer):
        part.register_to_config(_name_or_path="")
    pipeline.tokenizer.backend_tokenizer.no_truncation()
    pipeline.tokenizer.backend_tokenizer.no_padding()
    pipeline.to(torch.float16).save_pretrained(folder, safe_serialization=True, max_shard_size="12MB")
    pipeline.to(torch.float32)  # the next evaluation uses these fp16-rounded weights
    settings = CallSettings(
        num_inference_steps=shape.steps,
        guidance_scale=1.0,
        width=shape.side,
        height=shape.side,
        max_sequence_length=shape.sequence,
        text_encoder_out_layers=text_layers(shape),
        max_sources=2,
    )
    (folder / SETTINGS_NAME).write_text(settings.model_dump_json(indent=1) + "\n", "utf-8")
