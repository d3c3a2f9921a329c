"""A topic: requests about one subject, and the true story of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

from interleave_mini.language.patterns import GAP, Pattern, filled
from interleave_mini.language.words import NUMBERS, sentence
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import GRID, Size, Thing
from miniature.grammar.gaps import Gap
from miniature.grammar.story import Story

_TRIES, _SHORT = 200, 90


@dataclass(frozen=True)
class TopicRequest:
    """A request as text, with the values of its gaps and its story."""

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
    """Function from the values of the gaps, as keyword arguments, to the story."""
    templates: tuple[str, ...]
    often: int = 1
    """Frequency relative to the other topics of its domain."""
    alone: bool = False
    """Whether distractors would make it nonsensical."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of gaps that a request leaves out, if not their first value."""

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        regexes = {name: gap.regex for name, gap in self.gaps.items()}
        return tuple(
            Pattern(text.rstrip(".!?"), {**regexes, "n": "|".join(NUMBERS)}) for text in self.templates
        )

    def sample(self, rng: Random) -> TopicRequest:
        """Return a random request of this topic."""
        for _ in range(_TRIES):
            template = rng.choice(self.templates)
            said = GAP.findall(template)
            values = {
                name: gap.sample(rng) if name in said else self.defaults[name]
                for name, gap in self.gaps.items()
            }
            try:
                story = self.plot(**values)
            except Impossible:
                continue
            return self._written(template, values, story, rng)
        raise Impossible(f"the topic {self.name!r} has no possible story")

    def example(self) -> str:
        """Return a fixed plain request of this topic, with the usual values."""
        for seed in range(_TRIES):
            rng = Random(seed)
            written = self.sample(rng)
            things = [each for each in written.values.values() if isinstance(each, Thing)]
            if (
                all(thing.colour == KINDS[thing.kind].colour for thing in things)
                and len(written.text) < _SHORT
            ):
                return written.text
        return self.sample(Random(0)).text

    def _written(self, template: str, values: dict[str, Any], story: Story, rng: Random) -> TopicRequest:
        said = GAP.findall(template)
        words = {name: gap.write(values[name], rng) for name, gap in self.gaps.items() if name in said}
        words["n"] = NUMBERS[len(story.steps)]
        return TopicRequest(sentence(filled(template, words)), template, values, story)

    def read(self, text: str) -> TopicRequest | None:
        """Parse a normalised request of this topic, with its story; `None` if no template matches."""
        for template, pattern in zip(self.templates, self.patterns, strict=True):
            if (words := pattern.read(text)) is None:
                continue
            values = {
                name: gap.read(words[name]) if name in words else self.defaults[name]
                for name, gap in self.gaps.items()
            }
            try:
                story = self.plot(**values)
            except Impossible:
                continue
            if "n" in words and words["n"].lower() != NUMBERS[len(story.steps)]:
                continue
            return TopicRequest(text, template, values, story)
        return None


# Shared by many plots


def stage(thing: Thing, state: int) -> Thing:
    """Return the same thing at an earlier or later stage of its life."""
    return replace(thing, state=state)


def small(thing: Thing) -> Thing:
    return replace(thing, size=Size.SMALL)


def row(thing: Thing, count: int, first: int) -> dict[int, Thing]:
    """Return equal things in a row, from the left."""
    return {first + column: thing for column in range(count)}


def crowd(thing: Thing, count: int) -> dict[int, Thing]:
    """Return up to nine equal things, row by row from the left; up to six leave the top row free."""
    first = GRID if count <= 2 * GRID else 0
    return {first + place: thing for place in range(count)}


def hung_and_put(things: Sequence[Thing], high: Sequence[str]) -> dict[int, Thing]:
    """Place high things in the top row from the left, all others in the bottom row, in order."""
    hung = [thing for thing in things if thing.kind in high]
    put = [thing for thing in things if thing.kind not in high]
    if max(len(hung), len(put)) > GRID:
        raise Impossible("there is no room for so many things in one row")
    cells = {thing: cell for cell, thing in enumerate(hung)}
    cells |= {thing: 2 * GRID + cell for cell, thing in enumerate(put)}
    return {cells[thing]: thing for thing in things}


def different(*things: Thing) -> None:
    if len({thing.kind for thing in things}) < len(things):
        raise Impossible("the same kind of thing twice")
