"""Byte-level BPE, read from `tokenizer.json`: exactly the tokens of the tokenizers library.

The library would bring twelve more packages, among them a client of a model hub. Its regular expressions
depend on Unicode's letters and numbers, and Python's tables differ between versions, so the classes that the
library has are in `weights/characters.json`. A test compares both on every character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from pathlib import Path

from interleave import ConfigurationError
from interleave_mini import WEIGHTS

WORDS = r" ?\p{L}+(?:[-'’]\p{L}+)*| ?\p{N}| ?[^\s\p{L}\p{N}]|\s+"
"""How the shipped tokenizers split a text before they merge bytes."""
CHARACTERS = WEIGHTS / "characters.json"


class BytePairEncoding:
    """Text ↔ tokens, as numbers."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_bytes())
        if content["normalizer"] or content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] != WORDS:
            raise ConfigurationError(
                f"{path} splits text in another way than this package does: reinstall interleavethinker-mini"
            )
        vocabulary: dict[str, int] = content["model"]["vocab"]
        self.added: dict[str, int] = {token["content"]: token["id"] for token in content["added_tokens"]}
        self.special = [token["content"] for token in content["added_tokens"] if token["special"]]
        self._ids = vocabulary | self.added
        bytes_of = {written: byte for byte, written in enumerate(byte_alphabet())}
        self._bytes = {
            number: bytes(map(bytes_of.__getitem__, token))
            for token, number in vocabulary.items()
            if token not in self.added  # a vocabulary with words added later has them, too
        }
        self._bytes |= {
            number: b"" if token in self.special else token.encode() for token, number in self.added.items()
        }
        self._byte_ids = [vocabulary[written] for written in byte_alphabet()]
        self._merges: dict[tuple[int | None, int | None], tuple[int, int]] = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(content["model"]["merges"])
        }
        longest_first = sorted(self.added, key=len, reverse=True)
        self._split_added = re.compile(f"({'|'.join(map(re.escape, longest_first))})").split

    def id_of(self, token: str) -> int | None:
        """Return the number of a token, or `None` if there is none."""
        return self._ids.get(token)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return list(self._encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return b"".join(self._bytes.get(number, b"") for number in ids).decode(errors="replace")

    def _encode(self, text: str) -> Iterator[int]:
        for part in self._split_added(text):
            if part in self.added:
                yield self.added[part]
            else:
                for word in word_pattern().findall(part):
                    yield from self._merge(word)

    def _merge(self, word: str) -> Iterator[int]:
        """Merge the bytes of a word, the pair of the lowest rank first and of equal ones the leftmost.

        A heap and links between neighbours: searching all pairs would take the square of a word's length.
        """
        ids: list[int | None] = [self._byte_ids[byte] for byte in word.encode()]
        end = len(ids)
        before, after = list(range(-1, end - 1)), list(range(1, end + 1))

        def merge_of(place: int) -> tuple[int, int] | None:
            if place < 0 or after[place] == end:
                return None
            return self._merges.get((ids[place], ids[after[place]]))

        waiting = [(found[0], place, found[1]) for place in range(end) if (found := merge_of(place))]
        heapify(waiting)
        while waiting:
            _, place, merged = heappop(waiting)
            found = merge_of(place)
            if found is None or found[1] != merged:
                continue  # one of the two was merged with another
            gone = after[place]
            ids[place], ids[gone] = merged, None
            after[place] = after[gone]
            if after[gone] < end:
                before[after[gone]] = place
            for changed in (before[place], place):
                if found := merge_of(changed):
                    heappush(waiting, (found[0], changed, found[1]))
        return (number for number in ids if number is not None)


@cache
def word_pattern() -> re.Pattern[str]:
    """Return `WORDS` in the syntax of `re`, which has no classes of Unicode."""
    classes = json.loads(CHARACTERS.read_bytes())
    letter, number, space = (classes[name] for name in ("letters", "numbers", "spaces"))
    return re.compile(
        f" ?[{letter}]+(?:[-'’][{letter}]+)*| ?[{number}]| ?[^{space}{letter}{number}]|[{space}]+"
    )


@cache
def byte_alphabet() -> list[str]:
    """Return the character that stands for each byte in a vocabulary: itself, if it is visible."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(0x100)]
