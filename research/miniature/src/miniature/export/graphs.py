"""Export of the miniature's models: graphs are written beside the safetensors files they refer to."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from interleave import ConfigurationError
from interleave.local.silence import quiet, quiet_diffusers
from miniature.export.linking import link_weights
from miniature.export.modules import (
    DecoderGraph,
    TextEncoderGraph,
    TransformerGraph,
    VaeDecoderGraph,
    VaeEncoderGraph,
    VisionGraph,
)

OPSET = 23
"""The first with RMSNormalization, of which a decode step has four a layer."""
VAE_OPSET = 18
"""The last in which a group norm is one that onnxruntime has a kernel for."""
AUTO = torch.export.Dim.AUTO


def export_agent(folder: Path) -> list[Path]:
    """Write `vision.onnx` and `decoder.onnx` of a planner or critic."""
    from transformers import AutoModelForImageTextToText

    with quiet():
        model = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        ).eval()
    text, vision = model.config.text_config, model.config.vision_config
    patch = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    patches = (torch.zeros(2, 24, patch), torch.zeros(24, 4).long(), torch.zeros(24, 4))
    # One tensor given twice would become one input.
    cosines, sines = torch.zeros(2, 1, 5, text.head_dim), torch.zeros(2, 1, 5, text.head_dim)
    keys = (2, text.num_key_value_heads, 7, text.head_dim)
    cache = [torch.zeros(keys) for _ in range(2 * text.num_hidden_layers)]
    return [
        _write(
            folder / "vision.onnx",
            VisionGraph(model),
            (*patches, torch.zeros(24, 2).long()),
            ({0: AUTO, 1: AUTO}, {0: AUTO}, {0: AUTO}, {0: AUTO}),
        ),
        _write(
            folder / "decoder.onnx",
            DecoderGraph(model),
            (torch.zeros(2, 5, text.hidden_size), cosines, sines, torch.zeros(2, 1, 1, 5, 12), cache),
            (
                {0: AUTO, 1: AUTO},
                {0: AUTO, 2: AUTO},
                {0: AUTO, 2: AUTO},
                {0: AUTO, 3: AUTO, 4: AUTO},
                [{0: AUTO, 2: AUTO}] * len(cache),
            ),
        ),
    ]


def export_generator(folder: Path) -> list[Path]:
    """Write the four graphs of the image model: text encoder, transformer, VAE encoder and decoder."""
    from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel
    from transformers import Qwen3ForCausalLM

    how: dict[str, Any] = {"local_files_only": True}
    with quiet(), quiet_diffusers():
        encoder = Qwen3ForCausalLM.from_pretrained(folder / "text_encoder", dtype=torch.float32, **how)
        transformer = Flux2Transformer2DModel.from_pretrained(
            folder / "transformer", torch_dtype=torch.float32, **how
        )
        vae = AutoencoderKLFlux2.from_pretrained(folder / "vae", torch_dtype=torch.float32, **how)
    layers = tuple(json.loads((folder / "interleave.json").read_bytes())["text_encoder_out_layers"])
    config = transformer.config
    words = torch.zeros(2, 9, config.joint_attention_dim)
    square = {0: AUTO, 2: AUTO, 3: AUTO}
    return [
        _write(
            folder / "text_encoder" / "text_encoder.onnx",
            TextEncoderGraph(encoder, layers),
            (torch.zeros(2, 9).long(), torch.zeros(2, 1, 9, 9)),
            ({0: AUTO, 1: AUTO}, {0: AUTO, 2: AUTO, 3: AUTO}),
        ),
        _write(
            folder / "transformer" / "transformer.onnx",
            TransformerGraph(transformer),
            (
                torch.zeros(2, 21, config.in_channels),
                words,
                torch.zeros(2),
                torch.zeros(30, 2 * config.attention_head_dim),
            ),
            ({0: AUTO, 1: AUTO}, {0: AUTO, 1: AUTO}, {0: AUTO}, {0: AUTO}),
        ),
        _write(
            folder / "vae" / "encoder.onnx",
            VaeEncoderGraph(vae),
            (torch.zeros(2, 3, 64, 96),),
            (square,),
            VAE_OPSET,
        ),
        _write(
            folder / "vae" / "decoder.onnx",
            VaeDecoderGraph(vae),
            (torch.zeros(2, config.in_channels, 4, 6),),
            (square,),
            VAE_OPSET,
        ),
    ]


def export_all(folder: Path) -> list[Path]:
    """Export one model, or the planner, critic and generator in the folder; return the files."""
    if (folder / "model_index.json").exists():
        return export_generator(folder)
    if (folder / "config.json").exists():
        return export_agent(folder)
    models = [folder / name for name in ("planner", "critic", "generator") if (folder / name).is_dir()]
    if not models:
        raise ConfigurationError(f"{folder} has no model, and no folder 'planner', 'critic' or 'generator'")
    return [path for model in models for path in export_all(model)]


def _write(
    path: Path, module: nn.Module, arguments: tuple[Any, ...], shapes: tuple[Any, ...], opset: int = OPSET
) -> Path:
    with torch.inference_mode(False), torch.no_grad(), _quiet_export():
        program = torch.onnx.export(
            module.eval(),
            arguments,
            dynamic_shapes=shapes,
            dynamo=True,
            optimize=False,  # it would store transposed copies of the weights
            opset_version=opset,
            verbose=False,
        )
    if program is None:
        raise RuntimeError(f"torch exported nothing for {path.name}")
    path.write_bytes(link_weights(program.model_proto, path.parent).SerializeToString(deterministic=True))
    return path


@contextmanager
def _quiet_export() -> Iterator[None]:
    """Silence what the exporter reports about itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
