"""A byte-level tokenizer learned from some text: it can write anything, and what it knows in few tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def byte_level_bpe(texts: Iterable[str], *, words: str, vocabulary: int) -> Any:
    """A `Tokenizer` of at most so many tokens; `words` is the expression that splits a text first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        special_tokens=[],
    )
    core.train_from_iterator(texts, trainer)
    return core
