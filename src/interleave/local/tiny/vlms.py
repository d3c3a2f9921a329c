"""Tiny `Qwen3VLForConditionalGeneration` models, their tokenizer, and LoRA adapters for them.

All weights are random. For a fixed reply, the output layer is fitted to the embedding so that each piece of
the reply is the most likely successor of the piece before it. Such a model decodes token by token, with
probabilities that depend on its input, and always gives that reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from interleave.local.silence import quiet
from interleave.local.train_bpe import byte_level_bpe

HIDDEN = 64
HEAD = 16
PIECE_CHARACTERS = 7
FIT_STRENGTH = 0.15
"""Makes the next piece the most likely, but not certain."""
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

SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
CORPUS = [
    "a cat on a mat, a red house by the blue lake, draw the picture again and keep everything else as it is",
    "the same words again and again, a very long corridor, step by step, cat number one two three",
    '{"execution_plan": [{"step_number": 1, "prompt": "a"}], "previous_step_success": true}',
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
]
BYTES, MERGES = 256, 160
WORDS = r"'\p{L}+|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' -}}
{%- if message['content'] is string -%}{{- message['content'] -}}
{%- else -%}{%- for part in message['content'] -%}
{%- if part['type'] == 'image' -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- else -%}{{- part['text'] -}}{%- endif -%}
{%- endfor -%}{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""


def build_tiny_vlm(folder: Path, *, answer: str | None = None, seed: int = 0) -> Path:
    """Write a tiny model with its processor; without an `answer` its reply is random and never ends."""
    import torch
    from transformers import Qwen3VLForConditionalGeneration

    from interleave.local.processors import image_text_processor

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
    """Write a LoRA adapter with random weights for a tiny model."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(seed)
    lora = LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with quiet():
        get_peft_model(AutoModelForImageTextToText.from_pretrained(base), lora).save_pretrained(folder)
    return folder


def split_into_distinct(text: str) -> list[str]:
    """Split a text into short, distinct pieces, so that each has one successor."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + PIECE_CHARACTERS
        while text[start:end] in pieces and end < len(text):
            end += 1
        pieces.append(text[start:end])
        start = end
    return pieces


def tiny_tokenizer(
    pieces: Sequence[str] = (),
    *,
    context: int = 32_768,
    texts: Sequence[str] = CORPUS,
    merges: int = MERGES,
) -> Any:
    """Return a `Qwen2Tokenizer` for any text, with few tokens for `texts` and one for each of `pieces`."""
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer

    core = byte_level_bpe([*texts] * 20, words=WORDS, vocabulary=BYTES + merges)
    core.add_special_tokens(SPECIAL_TOKENS)
    core.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return Qwen2Tokenizer(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        bos_token=None,
        additional_special_tokens=SPECIAL_TOKENS[1:],
        model_max_length=context,
        chat_template=CHAT_TEMPLATE,
    )


def vocabulary_size(tokenizer: Any) -> int:
    """Return the number of embedding rows, a multiple of 64 as in released models."""
    return (len(tokenizer) + 63) // 64 * 64


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

    limits = {"shortest_edge": 64 * 64, "longest_edge": 128 * 128}  # areas in pixels, despite the names
    return Qwen2VLImageProcessorPil(patch_size=16, temporal_patch_size=2, merge_size=2, size=limits)


def _fit(model: Any, tokenizer: Any, chain: Sequence[str]) -> None:
    """Make each text of the chain, one token each, the most likely successor of the one before."""
    import torch

    ids = [tokenizer.encode(text, add_special_tokens=False) for text in chain]
    if any(len(each) != 1 for each in ids):
        raise ValueError("each piece of an answer must be one token")
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    with torch.no_grad():
        embedding.normal_(std=1.0)
        for (before,), (after,) in pairwise(ids):
            head[after] = FIT_STRENGTH * embedding[before]
