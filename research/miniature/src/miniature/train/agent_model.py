"""Untrained planners and critics: small models of the Qwen3-VL class, with random weights."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from interleave import ConfigurationError
from interleave.local.processors import image_text_processor
from interleave.local.silence import quiet
from miniature.train.tokenizers import (
    agent_tokenizer,
    grown_content,
    words_of_the_examples,
    words_of_the_world,
)


@dataclass(frozen=True)
class AgentShape:
    """Sizes of an agent. An image of 256×256 pixels becomes 64 tokens."""

    hidden: int = 256
    feed_forward: int = 480
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    """Key and value heads; each serves two query heads."""
    vision_hidden: int = 128
    vision_layers: int = 3
    vision_heads: int = 4
    patch: int = 16
    side: int = 256
    context: int = 1536
    vocabulary: int = 2048
    samples: int = 3000
    """Tasks in the corpus of the tokenizer."""


PLANNER = AgentShape(layers=8, vision_layers=4, vocabulary=3072, samples=6000)
CRITIC = AgentShape(vision_hidden=160, vision_layers=4, vision_heads=5)
TOY = AgentShape(
    hidden=32,
    feed_forward=64,
    layers=2,
    heads=2,
    kv_heads=1,
    vision_hidden=32,
    vision_layers=1,
    vision_heads=2,
    vocabulary=600,
    samples=40,
)
SHAPES = {"planner": PLANNER, "critic": CRITIC, "agent": CRITIC, "toy": TOY}
ROWS_OF_WORDS = 32
"""The vocabulary is a multiple of this."""
_MERGE_SIZE = 2
"""Patches per side that are merged into one token."""


def write_fresh_agent(folder: Path, shape: str, *, seed: int = 0) -> Path:
    """Write a folder with a randomly initialised model and its processor."""
    from transformers import Qwen3VLForConditionalGeneration

    if shape not in SHAPES:
        raise ConfigurationError(f"no shape named {shape!r}: choose one of {', '.join(SHAPES)}")
    sizes = SHAPES[shape]
    tokenizer = agent_tokenizer(vocabulary=sizes.vocabulary, samples=sizes.samples, context=sizes.context)
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(agent_config(sizes, tokenizer))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with quiet():
        model.save_pretrained(folder)
        image_text_processor("qwen3_vl", tokenizer, _image_processor(sizes)).save_pretrained(folder)
    return folder


def agent_config(shape: AgentShape, tokenizer: Any) -> Any:
    """Return the configuration of the Qwen3-VL class with these sizes."""
    from transformers import Qwen3VLConfig

    def token(name: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(name))

    head = shape.hidden // shape.heads
    half = head // 2
    return Qwen3VLConfig(
        text_config={
            "vocab_size": -(-len(tokenizer) // ROWS_OF_WORDS) * ROWS_OF_WORDS,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.feed_forward,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": head,
            "max_position_embeddings": shape.context,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [half - 2 * (half // 3), half // 3, half // 3],
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": shape.vision_layers,
            "hidden_size": shape.vision_hidden,
            "intermediate_size": 4 * shape.vision_hidden,
            "num_heads": shape.vision_heads,
            "patch_size": shape.patch,
            "spatial_merge_size": _MERGE_SIZE,
            "temporal_patch_size": 1,
            "out_hidden_size": shape.hidden,
            "num_position_embeddings": (shape.side // shape.patch) ** 2,
            "deepstack_visual_indexes": [],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )


def _image_processor(shape: AgentShape) -> Any:
    """Return a processor that scales images to the training size and splits them into patches."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    area = {"shortest_edge": shape.side**2, "longest_edge": shape.side**2}  # areas, despite their names
    return Qwen2VLImageProcessorPil(
        patch_size=shape.patch,
        temporal_patch_size=1,
        merge_size=_MERGE_SIZE,
        size=area,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


def check_model_folder(folder: Path) -> None:
    """Raise `ConfigurationError` for a folder without a model: the library would look it up on the Hub."""
    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"{folder} is not a model folder: it has no config.json")


def grow(model: Path, out: Path, layers: int) -> Path:
    """Write a copy of a model with more layers, whose answers do not change until it is trained.

    A new layer is a copy of the one before it, with an output of zero added to the residual stream.
    """
    from transformers import AutoConfig, AutoModelForImageTextToText

    check_model_folder(model)
    with quiet():
        old = AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32)
        config = AutoConfig.from_pretrained(model)
    had = len(old.model.language_model.layers)
    if layers <= had:
        raise ConfigurationError(f"the model in {model} already has {had} layers")
    config.text_config.num_hidden_layers = layers
    new = type(old)(config).float()
    rest = {name: value for name, value in old.state_dict().items() if ".language_model.layers." not in name}
    new.load_state_dict(rest, strict=False)
    sources = [number * had // layers for number in range(layers)]
    for number, source in enumerate(sources):
        layer = new.model.language_model.layers[number]
        layer.load_state_dict(old.model.language_model.layers[source].state_dict())
        if number and sources[number - 1] == source:
            torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
            torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    new.generation_config = old.generation_config
    with quiet():
        new.save_pretrained(out)
    _copy_other_files(model, out)
    return out


def grow_vocabulary(model: Path, out: Path) -> Path:
    """Write a copy of a model with a token for each frequent word of the world and the worked examples.

    Old tokens keep their numbers. A new one starts as the mean of its old pieces, whose logits it can not
    exceed: answers stay the same where the question has no such word.
    """
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    check_model_folder(model)
    with quiet():
        grown = AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    words = dict.fromkeys((*words_of_the_world(), *words_of_the_examples()))
    content, pieces_of = grown_content(tokenizer, words)
    size = (max(pieces_of, default=len(tokenizer) - 1) // ROWS_OF_WORDS + 1) * ROWS_OF_WORDS
    grown.resize_token_embeddings(size, mean_resizing=False)
    embeddings = grown.get_input_embeddings().weight
    with torch.no_grad():
        for number, pieces in pieces_of.items():
            embeddings[number] = embeddings[pieces].mean(dim=0)
    with quiet():
        grown.save_pretrained(out)
    (out / "tokenizer.json").write_text(content, "utf-8")
    _copy_other_files(model, out)
    return out


def to_fp16(model: Path, out: Path) -> Path:
    """Write a copy of a trained model in half precision, with its other files."""
    from transformers import AutoModelForImageTextToText

    check_model_folder(model)
    with quiet():
        AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float16).save_pretrained(out)
    _copy_other_files(model, out)
    return out


def _copy_other_files(model: Path, out: Path) -> None:
    for each in sorted(model.iterdir()):
        if each.suffix in (".json", ".jinja") and not (out / each.name).exists():
            shutil.copy(each, out / each.name)
