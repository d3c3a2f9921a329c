"""Builds models of the real architectures with random weights, in memory or as checkpoints; no downloads.

Their results are meaningless, but take exactly as long as those of trained models. They can generate a given
text: embedding and output layer are matched so that each piece of it is most likely followed by the next.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from interleave.local.pipelines import SETTINGS_FILE
from interleave.local.processors import image_text_processor
from interleave.local.silence import quiet, quiet_diffusers
from interleave.local.tiny.vlms import split_into_distinct, tiny_tokenizer

CERTAINTY = 80.0
"""Logit margin of the next piece over everything else."""
SPREAD = 0.02
PROMPTS = Path(__file__).parents[1] / "src" / "interleave" / "agents" / "prompts" / "default"
REVISION = "0123456789abcdef0123456789abcdef01234567"
Weights = Literal["random", "sparse"]
Piece = str | list[str]
"""A piece of a text; a list holds equally likely alternatives."""


@dataclass(frozen=True)
class Size:
    """The architectures at one size."""

    name: str
    text: dict[str, Any]
    vision: dict[str, Any]
    rotation: list[int]
    """Number of a head's frequencies for time, height and width."""
    side: int
    """of images"""
    drawer: dict[str, Any]
    encoder: dict[str, Any]
    images: dict[str, Any]
    """Settings of the image decoder."""
    layers_shown: tuple[int, ...]
    """Layers of the text encoder that the drawer receives."""


REAL = Size(
    "real",
    text={  # Qwen3-VL-8B
        "vocab_size": 151_936,
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    vision={
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    },
    rotation=[24, 20, 20],
    side=1024,
    drawer={  # FLUX.2-klein-9B
        "in_channels": 128,
        "num_layers": 8,
        "num_single_layers": 24,
        "attention_head_dim": 128,
        "num_attention_heads": 32,
        "joint_attention_dim": 12_288,
        "axes_dims_rope": [32, 32, 32, 32],
    },
    encoder={  # Qwen3-8B
        "vocab_size": 151_936,
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    images={"latent_channels": 32},
    layers_shown=(9, 18, 27),
)
TOY = Size(
    "toy",
    text={
        "vocab_size": 8192,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
    },
    vision={
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 2,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [0],
    },
    rotation=[4, 2, 2],
    side=64,
    drawer={
        "in_channels": 16,
        "num_layers": 1,
        "num_single_layers": 1,
        "attention_head_dim": 16,
        "num_attention_heads": 2,
        "joint_attention_dim": 48,
        "axes_dims_rope": [4, 4, 4, 4],
    },
    encoder={
        "vocab_size": 8192,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
    },
    images={
        "latent_channels": 4,
        "block_out_channels": (8, 8, 8, 8),
        "layers_per_block": 1,
        "norm_num_groups": 4,
    },
    layers_shown=(1, 2, 3),
)


def verdict(tokens: int, *, accepted: bool = True) -> list[str]:
    """Return a verdict in pieces, `tokens` long including its end."""
    prompt = "" if accepted else "the same once more, larger"
    said = json.dumps({"previous_step_success": accepted, "refine_prompt": prompt})
    tail = split_into_distinct(f"</think><answer>{said}</answer>")
    return ["<think>", *(f" {number:06d}" for number in range(tokens - len(tail) - 2)), *tail]


def refusals(tokens: int, kinds: int) -> list[Piece]:
    """Return a refusal, about `tokens` long, whose prompt ends with one of `kinds` words."""
    said = '</think><answer>{"previous_step_success": false, "refine_prompt": "the same once more, '
    tail: list[Piece] = [
        *split_into_distinct(said),
        [f"word{number:04d}" for number in range(kinds)],
        '"}</answer>',
    ]
    return ["<think>", *(f" {number:06d}" for number in range(tokens - len(tail) - 2)), *tail]


def said_with(pieces: Sequence[Piece], number: int = 0) -> str:
    """Join pieces to a text; `number` selects among alternatives."""
    return "".join(each if isinstance(each, str) else each[number % len(each)] for each in pieces)


def build_vlm(
    size: Size, device: torch.device, dtype: torch.dtype, pieces: Sequence[Piece], *, taught: bool = True
) -> tuple[Any, Any]:
    """Build a model on its device that generates these pieces, and its processor.

    If not `taught`, it only has their tokens in its vocabulary.
    """
    from transformers import Qwen3VLForConditionalGeneration

    tokenizer = _tokenizer([text for piece in pieces for text in _texts(piece)])
    with _made_on(device, dtype):
        model = Qwen3VLForConditionalGeneration(_vlm_config(size, tokenizer)).eval()
    fill_randomly(model, size)
    with torch.no_grad():
        head, embedding = model.lm_head.weight, model.get_input_embeddings().weight
        _teach(embedding.data, head.data, _chain(tokenizer, pieces) if taught else [])
    _end_with(model.generation_config, tokenizer)
    return model, _processor(size, tokenizer)


def fill_randomly(model: Any, size: Size, but: Sequence[str] = ()) -> None:
    """Fill all matrices of a model with random numbers, except those whose name contains a word in `but`."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim > 1 and not any(word in name for word in but):
                weights.normal_(std=_spread(name, size))


def write_settings(folder: Path, size: Size, pieces: Sequence[Piece]) -> None:
    """Write a model folder without weights: configuration and processor."""
    tokenizer = _tokenizer([text for piece in pieces for text in _texts(piece)])
    config = _vlm_config(size, tokenizer)
    config.architectures = ["Qwen3VLForConditionalGeneration"]
    with quiet():
        config.save_pretrained(folder)
        _processor(size, tokenizer).save_pretrained(folder)


def build_klein(size: Size, device: torch.device, dtype: torch.dtype) -> Any:
    """Build a FLUX.2 klein pipeline on its device."""
    with _made_on(device, dtype):
        parts = _klein_parts(size)
    pipeline = _klein()(**parts, **_klein_rest())
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def with_kept_sources(pipeline: Any) -> Any:
    """Return FLUX.2 klein KV with the same weights; it computes sources only in the first step."""
    from diffusers import Flux2KleinKVPipeline

    made = Flux2KleinKVPipeline(**pipeline.components)
    made.set_progress_bar_config(disable=True)
    return made


def write_hub(
    home: Path,
    size: Size,
    *,
    words: dict[str, Sequence[str]],
    klein: str,
    weights: Weights,
    device: torch.device,
) -> None:
    """Write checkpoints into a Hub cache, as if downloaded; `words` maps models to their texts.

    The models with words share the file of their layers. `sparse`: layers are zeros, in sparse files that
    take no disk space.
    """
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    layers: Path | None = None
    for name, pieces in words.items():
        layers = _write_vlm(_snapshot(home, name), size, pieces, layers, Writer(size, weights, device, dtype))
    _write_klein(_snapshot(home, klein), size, Writer(size, weights, device, dtype))


@dataclass(frozen=True)
class Writer:
    """Writes tensors of given shapes to a safetensors file without holding all of them in memory."""

    size: Size
    weights: Weights
    device: torch.device
    dtype: torch.dtype

    def write(self, path: Path, shapes: dict[str, Any], fixed: dict[str, torch.Tensor] | None = None) -> None:
        names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64"}
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        place = 0
        for name, like in shapes.items():
            dtype = self.dtype if like.is_floating_point() else like.dtype
            end = place + like.numel() * dtype.itemsize
            header[name] = {"dtype": names[dtype], "shape": list(like.shape), "data_offsets": [place, end]}
            place = end
        encoded = json.dumps(header).encode()
        encoded += b" " * (-len(encoded) % 8)
        with path.open("wb") as file:
            file.write(len(encoded).to_bytes(8, "little") + encoded)
            begin = file.tell()
            file.truncate(begin + place)
            for name, like in shapes.items():
                values = (fixed or {}).get(name)
                values = self._values(name, like) if values is None else values
                if values is not None:
                    file.seek(begin + header[name]["data_offsets"][0])
                    file.write(_bytes(values))

    def _values(self, name: str, like: Any) -> torch.Tensor | None:
        """Return the values to write, or None for zeros."""
        if not like.is_floating_point():
            return None
        if name.endswith("running_var") or (like.ndim == 1 and "norm" in name and name.endswith("weight")):
            return torch.ones(like.shape, dtype=self.dtype)
        if like.ndim < 2 or self.weights == "sparse":
            return None
        made = torch.empty(like.shape, dtype=self.dtype, device=self.device)
        return made.normal_(std=_spread(name, self.size))


def _write_vlm(folder: Path, size: Size, pieces: Sequence[str], layers: Path | None, writer: Writer) -> Path:
    """Write one model; returns the file of its layers, for others to share."""
    from transformers import Qwen3VLForConditionalGeneration

    tokenizer = _tokenizer(pieces)
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(_vlm_config(size, tokenizer))
    model.config.dtype = writer.dtype
    shapes = model.state_dict()
    words = [name for name in shapes if name.startswith("lm_head") or "embed_tokens" in name]
    files = {"layers": "model-00001-of-00002.safetensors", "words": "model-00002-of-00002.safetensors"}
    if layers is None:
        writer.write(folder / files["layers"], {name: shapes[name] for name in shapes if name not in words})
    else:
        os.link(layers, folder / files["layers"])
    made = {
        name: torch.empty(shapes[name].shape, dtype=writer.dtype, device=writer.device).normal_(std=SPREAD)
        for name in words
    }
    embedding = next(made[name] for name in words if "embed_tokens" in name)
    _teach(embedding, made["lm_head.weight"], _chain(tokenizer, pieces))
    writer.write(folder / files["words"], {name: shapes[name] for name in words}, made)
    index = {name: files["words" if name in words else "layers"] for name in shapes}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    _end_with(model.generation_config, tokenizer)
    with quiet():
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        _processor(size, tokenizer).save_pretrained(folder)
    return folder / files["layers"]


def _write_klein(folder: Path, size: Size, writer: Writer) -> None:
    with torch.device("meta"):
        parts = _klein_parts(size)
    files = {
        "transformer": "diffusion_pytorch_model.safetensors",
        "vae": "diffusion_pytorch_model.safetensors",
        "text_encoder": "model.safetensors",
    }
    rest = _klein_rest()
    for name, part in parts.items():
        (folder / name).mkdir()
        # the image decoder is small, and zeros would make it divide by zero
        random = replace(writer, weights="random") if name == "vae" else writer
        random.write(folder / name / files[name], part.state_dict())
        with quiet(), quiet_diffusers():
            if name == "text_encoder":
                part.config.architectures = [type(part).__name__]
                part.config.dtype = writer.dtype
                part.config.save_pretrained(folder / name)
            else:
                part.save_config(folder / name)
    with quiet_diffusers():
        rest["tokenizer"].save_pretrained(folder / "tokenizer")
        rest["scheduler"].save_pretrained(folder / "scheduler")
        _klein()(**parts, **rest).save_config(folder)
    call = {"width": size.side, "height": size.side, "text_encoder_out_layers": size.layers_shown}
    (folder / SETTINGS_FILE).write_text(json.dumps(call))


def folder_of(home: Path, name: str) -> Path:
    """Return the folder of a Hub model in the cache."""
    return home / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / REVISION


def _snapshot(home: Path, name: str) -> Path:
    folder = folder_of(home, name)
    folder.mkdir(parents=True)
    refs = folder.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text(REVISION)
    return folder


def _vlm_config(size: Size, tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    def token(name: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(name))

    return Qwen3VLConfig(
        text_config={
            **size.text,
            "max_position_embeddings": 262_144,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5_000_000.0,
                "mrope_section": size.rotation,
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": False,
        },
        vision_config={
            **size.vision,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": size.text["hidden_size"],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=False,
    )


def _processor(size: Size, tokenizer: Any) -> Any:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    images = Qwen2VLImageProcessorPil(
        patch_size=16,
        temporal_patch_size=2,
        merge_size=2,
        size={"shortest_edge": 64 * 64, "longest_edge": max(size.side, 128) ** 2},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    return image_text_processor("qwen3_vl", tokenizer, images)


def _tokenizer(pieces: Sequence[str] = ()) -> Any:
    """Build a tokenizer with the words of our prompts, so that they have realistic lengths."""
    texts = [path.read_text("utf-8") for path in sorted(PROMPTS.glob("*.md"))]
    return tiny_tokenizer(pieces, texts=texts, merges=4000, context=262_144)


def _klein() -> Any:
    from diffusers import Flux2KleinPipeline

    return Flux2KleinPipeline


def _klein_parts(size: Size) -> dict[str, Any]:
    from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel
    from transformers import Qwen3Config, Qwen3ForCausalLM

    encoder = Qwen3Config(**size.encoder, max_position_embeddings=40_960, tie_word_embeddings=False)
    return {
        "transformer": Flux2Transformer2DModel(**size.drawer, guidance_embeds=False).eval(),
        "vae": AutoencoderKLFlux2(**size.images).eval(),
        "text_encoder": Qwen3ForCausalLM(encoder).eval(),
    }


def _klein_rest() -> dict[str, Any]:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    return {"tokenizer": _tokenizer(), "scheduler": scheduler, "is_distilled": True}


def _texts(piece: Piece) -> list[str]:
    return [piece] if isinstance(piece, str) else piece


def _chain(tokenizer: Any, pieces: Sequence[Piece]) -> list[list[int]]:
    """Return the possible tokens at each position of a text, from the token before it to its end."""
    texts = [_texts(piece) for piece in ("\n", *pieces, tokenizer.eos_token)]
    ids = [[tokenizer.encode(text, add_special_tokens=False) for text in place] for place in texts]
    every = [tokens for place in ids for tokens in place]
    if any(len(each) != 1 for each in every) or len({each[0] for each in every}) < len(every):
        raise ValueError("each piece must be one token, and all must differ")
    return [[tokens[0] for tokens in place] for place in ids]


def _teach(embedding: torch.Tensor, head: torch.Tensor, chain: Sequence[Sequence[int]]) -> None:
    """Make the next token of a chain the most likely one after each token."""
    embedding.normal_(std=1.0)
    for before, after in pairwise(chain):
        embedding[list(before)] = embedding[before[0]].clone()  # all alternatives have the same successor
        said = CERTAINTY / embedding.shape[1] * embedding[before[0]]
        # alternatives differ slightly, so that there is something to learn
        head[list(after)] = said + (head[list(after)] if len(after) > 1 else 0)


def _spread(name: str, size: Size) -> float:
    """Return the standard deviation of weights: small for residual outputs, so that states do not grow."""
    adds = name.endswith(("o_proj.weight", "down_proj.weight")) and "language_model" in name
    return SPREAD / (2 * size.text["num_hidden_layers"]) ** 0.5 if adds else SPREAD


def _end_with(generation: Any, tokenizer: Any) -> None:
    generation.eos_token_id = tokenizer.eos_token_id
    generation.pad_token_id = tokenizer.pad_token_id


def _bytes(values: torch.Tensor) -> np.ndarray[Any, Any]:
    return values.contiguous().cpu().flatten().view(torch.uint8).numpy()


@contextmanager
def _made_on(device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Create tensors on the device, where eight billion numbers take a second."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            yield
    finally:
        torch.set_default_dtype(before)
