"""Samples distinct requests from a taxonomy, evenly over sub-categories, templates and words.

The same taxonomy, number and seed give the same requests. No word of a bank repeats before all have been
used, so that a small corpus uses every bank fully.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from interleave import InputError
from interleave.train.data.prompts.corpus import RequestRow, content_id
from interleave.train.data.prompts.near_duplicates import NearDuplicates, normalized
from interleave.train.data.prompts.taxonomy import (
    NUMBER,
    NUMBERS,
    SLOT,
    Key,
    SubCategory,
    Taxonomy,
    bank_of,
    fill,
)

MAX_MISSES = 600
"""Number of consecutive duplicate drafts after which a sub-category is exhausted."""
SAMPLE_DRAFTS = 20
"""Drafts per sub-category from which common word pairs are counted."""
BY_A_MODEL = "model"
"""Template name of a request written by a model."""


class ShuffledCycle:
    """Gives the words of a bank in random order, reshuffled after each pass."""

    def __init__(self, words: Sequence[str], rng: Random) -> None:
        self._words = list(words)
        self._rng = rng
        self._left: list[str] = []

    def take(self) -> str:
        if not self._left:
            self._left = self._words.copy()
            self._rng.shuffle(self._left)
        return self._left.pop()


def drafts(subcategory: SubCategory, seed: int) -> Iterator[tuple[str, str]]:
    """Yield templates and filled-in requests endlessly; duplicates occur."""
    rng = Random(f"{seed}/{subcategory.domain}/{subcategory.name}")
    templates = ShuffledCycle(subcategory.templates, rng)
    words = {slot: ShuffledCycle(words, rng) for slot, words in sorted(subcategory.banks.items())}
    words[NUMBER] = ShuffledCycle(NUMBERS, rng)
    while True:
        template = templates.take()
        slots = dict.fromkeys(bank_of(slot) for slot in SLOT.findall(template))
        yield template, fill(template, {slot: words[slot].take() for slot in slots})


@dataclass
class DuplicateCounts:
    """Numbers of duplicate drafts."""

    exact: int = 0
    near: int = 0


@dataclass
class RequestSampler:
    """Samples a corpus and counts the duplicate drafts."""

    taxonomy: Taxonomy
    seed: int = 0
    threshold: float | None = None
    """Similarity from which requests count as duplicates; None: only equal ones do."""
    model_requests: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    """Requests written by a model, used before any from templates."""
    duplicates: DuplicateCounts = field(default_factory=DuplicateCounts)

    def sample(self, items: int, progress: Callable[[int], None] = lambda sampled: None) -> list[RequestRow]:
        """Sample `items` distinct requests; raises `InputError` if the taxonomy yields fewer."""
        self._seen: set[str] = set()
        self._near = NearDuplicates(self.threshold, sample=self._sample()) if self.threshold else None
        samplers = {each.key: self._rows(each) for each in _round_robin_domains(self.taxonomy)}
        rows_by_key: dict[Key, list[RequestRow]] = {key: [] for key in samplers}
        while (missing := items - sum(map(len, rows_by_key.values()))) and samplers:
            for key, share in _shares(missing, list(samplers)).items():
                for _ in range(share):
                    row = next(samplers[key], None)
                    if row is None:
                        del samplers[key]
                        break
                    rows_by_key[key].append(row)
                progress(sum(map(len, rows_by_key.values())))
        if missing:
            raise InputError(
                f"this taxonomy yields {items - missing:,} different requests, not {items:,}: "
                "lower --items, allow more similarity with --near, or add words with --expand"
            )
        return _interleave(list(rows_by_key.values()))

    def _sample(self) -> Iterator[str]:
        for each in self.taxonomy.subcategories:
            for _, (_, text) in zip(range(SAMPLE_DRAFTS), drafts(each, self.seed), strict=False):
                yield text

    def _rows(self, subcategory: SubCategory) -> Iterator[RequestRow]:
        misses = 0
        for template, text in self._texts(subcategory):
            if misses == MAX_MISSES:
                return
            if not self._is_new(text):
                misses += 1
                continue
            misses = 0
            yield RequestRow(
                id=content_id("world", text),
                request=text,
                domain=subcategory.domain,
                subcategory=subcategory.name,
                template=template,
            )

    def _texts(self, subcategory: SubCategory) -> Iterator[tuple[str, str]]:
        for text in self.model_requests.get(subcategory.key, ()):
            yield BY_A_MODEL, text
        yield from drafts(subcategory, self.seed)

    def _is_new(self, text: str) -> bool:
        if (words := normalized(text)) in self._seen:
            self.duplicates.exact += 1
            return False
        self._seen.add(words)
        if self._near is not None and self._near.add(text) is not None:
            self.duplicates.near += 1
            return False
        return True


def _round_robin_domains(taxonomy: Taxonomy) -> list[SubCategory]:
    """Order sub-categories round-robin over domains, so that a small corpus covers all domains."""
    place: Counter[str] = Counter()
    order: dict[Key, int] = {}
    for each in taxonomy.subcategories:
        order[each.key] = place[each.domain]
        place[each.domain] += 1
    return sorted(taxonomy.subcategories, key=lambda each: order[each.key])


def _shares(items: int, keys: Sequence[Key]) -> dict[Key, int]:
    """Divide the items evenly over the keys; the remainder goes to the first keys."""
    each, more = divmod(items, len(keys))
    return {key: each + (place < more) for place, key in enumerate(keys)}


def _interleave(lists: Sequence[Sequence[RequestRow]]) -> list[RequestRow]:
    """Take one row of each list in turn, so that every prefix of a corpus is balanced."""
    longest = max(map(len, lists), default=0)
    return [rows[place] for place in range(longest) for rows in lists if place < len(rows)]
