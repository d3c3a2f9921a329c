"""Requests written from a taxonomy: evenly over its sub-categories, templates and words, each one different.

The same taxonomy, number and seed give the same requests. Words are dealt like cards: none comes twice before
all have come once, so that a small corpus has seen every bank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from interleave.data.prompts.corpus import RequestRow, content_id
from interleave.data.prompts.near_duplicates import NearDuplicates, plain
from interleave.data.prompts.taxonomy import NUMBER, NUMBERS, SLOT, Key, SubCategory, Taxonomy, bank_of, fill
from interleave.errors import InputError

TRIES = 600
"""So many drafts in a row that are nothing new, and a sub-category counts as exhausted."""
SAMPLED = 20
"""Drafts of each sub-category from which the common pairs of words are learnt."""
BY_A_MODEL = "model"
"""The template of a request that a model has written whole."""


class Deck:
    """Deals the words of a bank in random order, again and again."""

    def __init__(self, words: Sequence[str], rng: Random) -> None:
        self._words = list(words)
        self._rng = rng
        self._left: list[str] = []

    def deal(self) -> str:
        if not self._left:
            self._left = self._words.copy()
            self._rng.shuffle(self._left)
        return self._left.pop()


def drafts(subcategory: SubCategory, seed: int) -> Iterator[tuple[str, str]]:
    """Templates and the requests written with them, without end; some may come again."""
    rng = Random(f"{seed}/{subcategory.domain}/{subcategory.name}")
    templates = Deck(subcategory.templates, rng)
    decks = {slot: Deck(words, rng) for slot, words in sorted(subcategory.banks.items())}
    decks[NUMBER] = Deck(NUMBERS, rng)
    while True:
        template = templates.deal()
        slots = dict.fromkeys(bank_of(slot) for slot in SLOT.findall(template))
        yield template, fill(template, {slot: decks[slot].deal() for slot in slots})


@dataclass
class Refusals:
    """Drafts that were nothing new."""

    exact: int = 0
    near: int = 0


@dataclass
class Writer:
    """Writes a corpus; `refused` says how many drafts were too like another."""

    taxonomy: Taxonomy
    seed: int = 0
    threshold: float | None = None
    """How alike two requests may be; None where only equal ones are too alike."""
    offered: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    """Whole requests that a model has written, taken before any from templates."""
    refused: Refusals = field(default_factory=Refusals)

    def write(self, items: int, progress: Callable[[int], None] = lambda written: None) -> list[RequestRow]:
        """So many different requests; raises `InputError` when the taxonomy has not so many."""
        self._seen: set[str] = set()
        self._near = NearDuplicates(self.threshold, sample=self._sample()) if self.threshold else None
        writers = {each.key: self._rows_of(each) for each in _domains_in_turn(self.taxonomy)}
        written: dict[Key, list[RequestRow]] = {key: [] for key in writers}
        while (missing := items - sum(map(len, written.values()))) and writers:
            for key, share in _shares(missing, list(writers)).items():
                for _ in range(share):
                    row = next(writers[key], None)
                    if row is None:
                        del writers[key]
                        break
                    written[key].append(row)
                progress(sum(map(len, written.values())))
        if missing:
            raise InputError(
                f"this taxonomy yields {items - missing:,} different requests, not {items:,}: "
                "ask for that many with --items, allow more likeness with --near, or add words with --expand"
            )
        return _in_turn(list(written.values()))

    def _sample(self) -> Iterator[str]:
        for each in self.taxonomy.subcategories:
            for _, (_, text) in zip(range(SAMPLED), drafts(each, self.seed), strict=False):
                yield text

    def _rows_of(self, subcategory: SubCategory) -> Iterator[RequestRow]:
        in_vain = 0
        for template, text in self._texts(subcategory):
            if in_vain == TRIES:
                return
            if not self._is_new(text):
                in_vain += 1
                continue
            in_vain = 0
            yield RequestRow(
                id=content_id("world", text),
                request=text,
                domain=subcategory.domain,
                subcategory=subcategory.name,
                template=template,
            )

    def _texts(self, subcategory: SubCategory) -> Iterator[tuple[str, str]]:
        for text in self.offered.get(subcategory.key, ()):
            yield BY_A_MODEL, text
        yield from drafts(subcategory, self.seed)

    def _is_new(self, text: str) -> bool:
        if (words := plain(text)) in self._seen:
            self.refused.exact += 1
            return False
        self._seen.add(words)
        if self._near is not None and self._near.add(text) is not None:
            self.refused.near += 1
            return False
        return True


def _domains_in_turn(taxonomy: Taxonomy) -> list[SubCategory]:
    """The first sub-category of every domain, then the second of each: a small corpus has all domains too."""
    place: Counter[str] = Counter()
    order: dict[Key, int] = {}
    for each in taxonomy.subcategories:
        order[each.key] = place[each.domain]
        place[each.domain] += 1
    return sorted(taxonomy.subcategories, key=lambda each: order[each.key])


def _shares(items: int, keys: Sequence[Key]) -> dict[Key, int]:
    """The items dealt out evenly; the first ones get one more where it does not come out even."""
    each, more = divmod(items, len(keys))
    return {key: each + (place < more) for place, key in enumerate(keys)}


def _in_turn(lists: Sequence[Sequence[RequestRow]]) -> list[RequestRow]:
    """One of each in turn, so that any first part of a corpus is balanced too."""
    longest = max(map(len, lists), default=0)
    return [rows[place] for place in range(longest) for rows in lists if place < len(rows)]


def coverage(rows: Sequence[RequestRow]) -> Counter[Key]:
    """How many requests each sub-category has."""
    return Counter((row.domain or "", row.subcategory or "") for row in rows)
