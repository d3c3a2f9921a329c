"""A topic: requests about one subject, and the one true story behind each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from interleave_mini.language.gaps import Gap
from interleave_mini.language.patterns import Pattern, filled
from interleave_mini.language.story import Story
from interleave_mini.language.words import NUMBERS, sentence
from interleave_mini.world.operations import Impossible

_TRIES = 200


@dataclass(frozen=True)
class Written:
    """A request in words, with what stands in its gaps."""

    text: str
    template: str
    values: dict[str, Any]
    story: Story


@dataclass(frozen=True)
class Topic:
    """One sub-category. `{n}` in a template is the number of the story's steps, as a word."""

    name: str
    gaps: Mapping[str, Gap]
    plot: Callable[..., Story]
    """What happens, from what stands in the gaps (as keyword arguments)."""
    templates: tuple[str, ...]
    alone: bool = False
    """Whether anything else in its scenes would make nonsense of it."""

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        regexes = {name: gap.regex for name, gap in self.gaps.items()}
        return tuple(
            Pattern(text.rstrip(".!?"), {**regexes, "n": "|".join(NUMBERS)}) for text in self.templates
        )

    def sample(self, rng: Random) -> Written:
        """A random request of this topic."""
        for _ in range(_TRIES):
            values = {name: gap.sample(rng) for name, gap in self.gaps.items()}
            try:
                story = self.plot(**values)
            except Impossible:
                continue
            return self._written(rng.choice(self.templates), values, story, rng)
        raise AssertionError(f"the topic {self.name!r} has no possible story")

    def _written(self, template: str, values: dict[str, Any], story: Story, rng: Random) -> Written:
        words = {name: gap.write(values[name], rng) for name, gap in self.gaps.items()}
        words["n"] = NUMBERS[len(story.steps)]
        return Written(sentence(filled(template, words)), template, values, story)

    def read(self, text: str) -> Written | None:
        """Parse a normalised request of this topic, with its story; None when no template matches."""
        for template, pattern in zip(self.templates, self.patterns, strict=True):
            if (words := pattern.read(text)) is None:
                continue
            values = {name: gap.read(words[name]) for name, gap in self.gaps.items() if name in words}
            if len(values) < len(self.gaps):
                raise AssertionError(f"{template!r} leaves gaps of the topic {self.name!r} open")
            try:
                story = self.plot(**values)
            except Impossible:
                continue
            if "n" in words and words["n"].lower() != NUMBERS[len(story.steps)]:
                continue
            return Written(text, template, values, story)
        return None
