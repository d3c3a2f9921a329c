"""A byte-level tokenizer of a few hundred tokens with the special tokens of the Qwen models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interleave.backends.local.train_bpe import byte_level_bpe

SPECIAL = [
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


def tiny_tokenizer(
    pieces: Sequence[str] = (),
    *,
    context: int = 32_768,
    texts: Sequence[str] = CORPUS,
    merges: int = MERGES,
) -> Any:
    """A `Qwen2Tokenizer` that can write anything, and `texts` shortly; each of `pieces` is one token."""
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer

    core = byte_level_bpe([*texts] * 20, words=WORDS, vocabulary=BYTES + merges)
    core.add_special_tokens(SPECIAL)
    core.add_tokens([AddedToken(piece, normalized=False, special=False) for piece in pieces])
    return Qwen2Tokenizer(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        bos_token=None,
        additional_special_tokens=SPECIAL[1:],
        model_max_length=context,
        chat_template=CHAT_TEMPLATE,
    )


def vocabulary_size(tokenizer: Any) -> int:
    """Rows of an embedding for it, rounded up as models do."""
    return (len(tokenizer) + 63) // 64 * 64
