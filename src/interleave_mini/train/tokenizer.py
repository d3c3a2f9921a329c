"""The generator's tokenizer: byte-level BPE that has learned the words of the language."""

from __future__ import annotations

from random import Random
from typing import Any

from interleave.backends.local.train_bpe import byte_level_bpe

PAD, END = "<|endoftext|>", "<|im_end|>"
PLAIN_TEMPLATE = "{%- for message in messages -%}{{- message['content'] -}}{%- endfor -%}"
"""A prompt and nothing else: every token of scaffold would be drawn with and say nothing."""
WORDS = r" ?\p{L}+(?:[-'’]\p{L}+)*| ?\p{N}| ?[^\s\p{L}\p{N}]|\s+"
_VOCABULARY = 1664
_SAMPLES = 4000


def language_tokenizer(*, vocabulary: int = _VOCABULARY, samples: int = _SAMPLES) -> Any:
    """A token for every common word of the language; it can write anything.

    Not a `Qwen2Tokenizer`: that class forgets, when it is loaded again, how this one splits words.
    """
    from transformers import PreTrainedTokenizerFast

    core = byte_level_bpe(_corpus(samples), words=WORDS, vocabulary=vocabulary)
    core.add_special_tokens([PAD, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        unk_token=None,
        bos_token=None,
        chat_template=PLAIN_TEMPLATE,
        padding_side="right",
    )


def _corpus(samples: int) -> list[str]:
    """Prompts as training sees them, and requests, which a system without a planner sends as they are."""
    from interleave_mini.language.tasks import SUITES, sample_task
    from interleave_mini.train.examples import sample_example

    rng = Random("tokenizer")
    prompts = [sample_example(rng).prompt for _ in range(samples)]
    requests = [sample_task(suite, rng).text for suite in SUITES[:4] for _ in range(samples // 16)]
    return prompts + requests
