"""Train a byte-level BPE: it encodes every string, and text like its training text in few tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def byte_level_bpe(texts: Iterable[str], *, words: str, vocabulary: int) -> Any:
    """Return a `Tokenizer` with at most `vocabulary` tokens; `words` is the regex that splits texts first."""
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
