"""Byte-level BPE, trained on some text: every string can be encoded, and similar text takes few tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def byte_level_bpe(texts: Iterable[str], *, words: str, vocabulary: int) -> Any:
    """A `Tokenizer` of at most `vocabulary` tokens; `words` is the pattern that splits a text first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        special_tokens=[],
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
