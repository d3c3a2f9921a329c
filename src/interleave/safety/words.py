"""`words:FILE.toml`: refuses texts with certain words and phrases.

    [refuse]
    violence = ["gun*", "blood", "stabbing*"]       # a topic, named in the refusal, and its words
    [allow]
    fine = ["blood orange", "glue gun"]         # phrases in which such a word is meant otherwise

Whole words are found, in any case, with or without accents. A word that ends with `*` is also found with any
ending. A rule reads texts only: images are checked by their prompts.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL.Image import Image

from interleave import ConfigurationError
from interleave.plugin import files

MOST_WORDS = 20_000


class WordRules:
    """The rules of a file."""

    def __init__(self, path: str) -> None:
        rules = _read(path)
        self.topics = {topic: _pattern(words) for topic, words in rules["refuse"].items() if words}
        self.allowed = _pattern(word for words in rules["allow"].values() for word in words)
        if not self.topics:
            raise ConfigurationError(f"safety=words:{path}: [refuse] has no words")

    async def problem(self, subject: str, text: str, images: Sequence[Image]) -> str | None:
        """Return the first word that a rule refuses, and its topic."""
        return self.problem_with(text)

    def problem_with(self, text: str) -> str | None:
        plain = self.allowed.sub(" ", _plain(text)) if self.allowed.pattern else _plain(text)
        for topic, pattern in self.topics.items():
            if found := pattern.search(plain):
                return f"{found[0]!r} is about {topic}"
        return None


def _read(path: str) -> dict[str, dict[str, list[str]]]:
    try:
        rules = files.parse_toml(files.read_text(Path(path)))
    except FileNotFoundError:
        raise ConfigurationError(
            f"safety=words:{path}: no such file. Name a TOML file with [refuse]"
        ) from None
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"safety=words:{path}: cannot be read ({files.why(error)})") from None
    if unknown := [key for key in rules if key not in ("refuse", "allow")]:
        raise ConfigurationError(f"safety=words:{path}: no table [{unknown[0]}]: use [refuse] and [allow]")
    tables = {key: rules.get(key, {}) for key in ("refuse", "allow")}
    for key, table in tables.items():
        if not isinstance(table, dict) or not all(map(_is_list_of_words, table.values())):
            raise ConfigurationError(f"safety=words:{path}: [{key}] needs lists of words, each with a topic")
    if sum(len(words) for table in tables.values() for words in table.values()) > MOST_WORDS:
        raise ConfigurationError(f"safety=words:{path}: more than {MOST_WORDS:,} words")
    return tables


def _is_list_of_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word.strip(" *") for word in value)


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of the words; an empty one for none."""
    known = sorted({_plain(word).strip() for word in words}, key=len, reverse=True)
    found = "|".join(re.escape(word.rstrip("*")) + (r"\w*" if word.endswith("*") else "") for word in known)
    return re.compile(rf"(?<!\w)(?:{found})(?!\w)" if found else "")


def _plain(text: str) -> str:
    """Return a text in lower case, without accents, with single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(each for each in decomposed if not unicodedata.combining(each)).split())
