"""The notation of phrasings: one line writes and parses many sentences.

`{hero}` is a gap, `{the hero}` the same gap in another form; `[words]` may be left out, and one of
`(these|those)` is chosen. They nest: "how (does|did) {hero} grow[ up][ {place}]".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TypeAlias

from interleave import InputError

_TOKEN = re.compile(r"\{(?P<gap>[^{}]*)\}|(?P<mark>[\[\]()|])|(?P<text>[^{}\[\]()|]+)")
_RUN = re.compile(r"[\w\0]+")
_WORD = re.compile(r"[^\W_]+")
MARKS = ".!?…"
"""Possible ends of a sentence."""


@dataclass(frozen=True)
class GapUse:
    """A gap in a phrasing: its name, and the form of its words ("the", "many" …)."""

    name: str
    form: str = ""


@dataclass(frozen=True)
class Choice:
    """A choice between sequences, one of which may be empty."""

    ways: tuple[tuple[Part, ...], ...]


Part: TypeAlias = str | GapUse | Choice
Sequence_: TypeAlias = tuple[Part, ...]


class Phrasing:
    """A line of the notation."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def parts(self) -> Sequence_:  # parsed on first use: most lines are not needed to read a request
        return _Parser(self.text).sequence(until="")[0]

    def __repr__(self) -> str:
        return f"Phrasing({self.text!r})"

    @cached_property
    def gaps(self) -> frozenset[str]:
        """Names of all gaps, including optional ones."""
        return frozenset(part.name for part in _all_parts(self.parts) if isinstance(part, GapUse))

    @cached_property
    def fixed_words(self) -> frozenset[str]:
        """The words, in lower case, that every sentence of this phrasing has outside of gaps."""
        # a word next to a gap or a choice may continue there
        whole = "".join(part if isinstance(part, str) else "\0" for part in self.parts)
        alone = set(_RUN.findall(whole))
        return frozenset(word.lower() for word in _WORD.findall(whole) if word in alone)

    @cached_property
    def _fixed_texts(self) -> tuple[str, ...]:
        """The texts that every sentence of this phrasing has, in order; empty ones where sentences vary."""
        return tuple(_alike(part).rstrip(MARKS) if isinstance(part, str) else "" for part in self.parts)

    def may_match(self, text: str) -> bool:
        """Return whether a text, without its final punctuation, has the fixed texts of this phrasing.

        This is a cheap test: the regular expression of a phrasing is slow to compile.
        """
        text, at = _alike(text), 0
        if not (text.startswith(self._fixed_texts[0]) and text.endswith(self._fixed_texts[-1])):
            return False
        for fixed in self._fixed_texts:
            at = text.find(fixed, at) + len(fixed)
            if at < len(fixed):
                return False
        return True

    def chosen(self, rng: Random) -> tuple[str | GapUse, ...]:
        """Return one sentence: texts and gaps in order, with every choice made."""
        return tuple(_chosen(self.parts, rng))

    def regex(self, patterns: Callable[[GapUse], str]) -> tuple[re.Pattern[str], Mapping[str, GapUse]]:
        """Return a regular expression for all sentences, and the gap behind each of its groups."""
        uses: dict[str, GapUse] = {}

        def written(parts: Sequence_) -> str:
            return "".join(map(piece, parts))

        def piece(part: Part) -> str:
            if isinstance(part, str):
                return _flexible(part)
            if isinstance(part, GapUse):
                group = f"g{len(uses)}"
                uses[group] = part
                return f"(?P<{group}>{patterns(part)})"
            return f"(?:{'|'.join(map(written, part.ways))})"

        return re.compile(written(self.parts), re.IGNORECASE), uses


def _alike(text: str) -> str:
    """Return the text in lower case, with straight apostrophes."""
    return text.lower().replace("’", "'")


def _flexible(text: str) -> str:
    """Return the text as a regular expression that matches straight and curly apostrophes."""
    return re.sub("['’]", "['’]", re.escape(text))


def _chosen(parts: Sequence_, rng: Random) -> Iterator[str | GapUse]:
    for part in parts:
        if isinstance(part, Choice):
            yield from _chosen(rng.choice(part.ways), rng)
        else:
            yield part


def _all_parts(parts: Sequence_) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Choice):
            for way in part.ways:
                yield from _all_parts(way)


class _Parser:
    """Parses one line by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_TOKEN.finditer(text))
        if sum(len(token[0]) for token in self.tokens) != len(text):
            raise InputError(f"{text!r}: a brace without its partner")
        self.at = 0

    def sequence(self, *, until: str) -> tuple[Sequence_, ...]:
        """Parse the alternatives up to a closing bracket, separated by "|"."""
        ways: list[list[Part]] = [[]]
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token["gap"] is not None:
                *form, name = token["gap"].split()
                ways[-1].append(GapUse(name, " ".join(form)))
            elif token["text"] is not None:
                ways[-1].append(token["text"])
            elif token["mark"] == "[":
                ways[-1].append(Choice(((), *self.sequence(until="]"))))
            elif token["mark"] == "(":
                ways[-1].append(Choice(self.sequence(until=")")))
            elif token["mark"] == "|" and until:
                ways.append([])
            elif token["mark"] == until:
                return tuple(map(tuple, ways))
            else:
                raise InputError(f"{self.text!r}: {token['mark']!r} without its partner")
        if until:
            raise InputError(f"{self.text!r}: no {until!r} at the end")
        return tuple(map(tuple, ways))
