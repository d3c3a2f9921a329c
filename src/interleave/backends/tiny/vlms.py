"""Toy-sized `Qwen3VLForConditionalGeneration` models and LoRA adapters for them.

All weights are random. Where an answer is wanted, embedding and output layer are made to fit each other so
that each piece of the answer is most likely to follow the one before it: such a model really decodes, token
by token, with real probabilities that depend on what it is shown, and says the same words in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from interleave.backends.local.silence import quiet
from interleave.backends.tiny.tokenizers import tiny_tokenizer, vocabulary_size

HIDDEN = 64
HEAD = 16
PIECE_CHARACTERS = 7
FITTING = 0.15
"""How strongly a piece is followed by the next one: enough to be first, not enough to be certain."""
PLAN = (
    "<think>Two steps.</think><answer>{'execution_plan': [{'step_number': 1, "
    "'instruction': 'A pond lies still', 'prompt': 'a green pond, watercolour'}, "
    "{'step_number': 2, 'instruction': 'Frogspawn drifts', "
    "'prompt': \"put some spawn near its shore\"}]}</answer>"
)
VERDICT = (
    "<think>Both pictures compared.</think>"
    '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
)
ANSWERS = {"planner": PLAN, "critic": VERDICT}


def build_tiny_vlm(folder: Path, *, answer: str | None = None, seed: int = 0) -> Path:
    """Write a toy model with its processor; without an `answer` it says random things and never ends."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    from interleave.backends.local.processors import image_text_processor

    pieces = split_into_distinct(answer) if answer else []
    tokenizer = tiny_tokenizer(pieces)
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(_config(tokenizer))
    if answer:
        _fit(model, tokenizer, ["\n", *pieces, tokenizer.eos_token])
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with quiet():
        model.save_pretrained(folder)
        image_text_processor("qwen3_vl", tokenizer, _image_processor()).save_pretrained(folder)
    return folder


def build_tiny_adapter(folder: Path, base: Path, *, seed: int = 1) -> Path:
    """Write a LoRA adapter with random weights for a toy model."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(seed)
    lora = LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with quiet():
        get_peft_model(AutoModelForImageTextToText.from_pretrained(base), lora).save_pretrained(folder)
    return folder


def split_into_distinct(text: str) -> list[str]:
    """Short pieces of a text that are all different, so that each has one successor."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + PIECE_CHARACTERS
        while text[start:end] in pieces and end < len(text):
            end += 1
        pieces.append(text[start:end])
        start = end
    return pieces


def _config(tokenizer: Any) -> Any:
    from transformers import Qwen3VLConfig

    def token(name: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(name))

    return Qwen3VLConfig(
        text_config={
            "vocab_size": vocabulary_size(tokenizer),
            "hidden_size": HIDDEN,
            "intermediate_size": 2 * HIDDEN,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": HEAD,
            "max_position_embeddings": 65_536,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": False,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=False,
    )


def _image_processor() -> Any:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    limits = {"shortest_edge": 64 * 64, "longest_edge": 128 * 128}  # areas, whatever their names say
    return Qwen2VLImageProcessorPil(patch_size=16, temporal_patch_size=2, merge_size=2, size=limits)


def _fit(model: Any, tokenizer: Any, chain: Sequence[str]) -> None:
    """Make each text of the chain, which is one token, most likely to be followed by the next."""
    import torch

    ids = [tokenizer.encode(text, add_special_tokens=False) for text in chain]
    if any(len(each) != 1 for each in ids):
        raise ValueError("each piece of an answer must be one token")
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    with torch.no_grad():
        embedding.normal_(std=1.0)
        for (before,), (after,) in pairwise(ids):
            head[after] = FITTING * embedding[before]
