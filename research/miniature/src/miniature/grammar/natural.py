"""Requests in the voices of people, sampled and parsed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from interleave_mini.language.words import NUMBERS, one_of
from interleave_mini.world.operations import Impossible
from miniature.grammar import natural_gaps
from miniature.grammar.gaps import Gap, Maybe
from miniature.grammar.phrasings import MARKS, GapUse, Phrasing
from miniature.grammar.story import Story, in_images
from miniature.grammar.topics import DOMAINS
from miniature.grammar.topics.topic import Topic, TopicRequest
from miniature.grammar.voices import Voice, voices

_TRIES = 200
SHORTER, LONGER = 0.08, 0.06
"""Shares of requests that name fewer images than their story has, and more."""
WITH_OPENING, WITH_CLOSING, WITH_COUNT = 0.15, 0.15, 0.08
LOWER_CASE, WITHOUT_MARK, SHOUTED = 0.2, 0.3, 0.02
_COUNTED = (
    "in {} pictures",
    "in {} steps",
    "{} pictures",
    "in {} images",
    "{} steps please",
    "as {} panels",
    "n={}",
    "{} frames",
)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Understood:
    """A parsed request: its topic and the values of its gaps."""

    domain: str
    topic: Topic
    request: TopicRequest


# Sampling


def sample_request(topic: Topic, voice: Voice, rng: Random) -> TopicRequest | None:
    """Return a random request of a topic in this voice; `None` if the voice has no words for it."""
    phrasings = voice.phrasings.get(topic.name)
    if not phrasings:
        return None
    for _ in range(_TRIES):
        phrasing = rng.choice(phrasings)
        parts = phrasing.chosen(rng)
        said = {part.name for part in parts if isinstance(part, GapUse)}
        values = {
            name: natural_gaps.sample(gap, rng) if name in said else default
            for (name, gap), default in zip(topic.gaps.items(), defaults(topic), strict=True)
        }
        try:
            story = topic.plot(**values)
        except Impossible:
            continue
        whole, kinds = len(story.steps), _kinds(story)
        try:
            story.steps = list(in_images(tuple(story.steps), _wanted_steps(story, rng)))
        except Impossible:  # the gripper can do one thing at a time
            continue
        steps = len(story.steps)
        if steps < whole and _kinds(story) != kinds:
            continue  # a named thing would be in no image
        if steps > 1 and not all(step.operations for step in story.steps[1:]):
            continue
        words = (_written(part, topic.gaps, values, steps, rng) for part in parts)
        text = dressed("".join(words), voice, rng, None if "n" in said else steps, always=steps != whole)
        return TopicRequest(text, f"{voice.name}: {phrasing.text}", values, story)
    return None


def _kinds(story: Story) -> set[str]:
    """Return the kinds in any image of a story."""
    return {thing.kind for step in story.steps for thing in step.scene.cells if thing is not None}


def _written(
    part: str | GapUse, gaps: dict[str, Gap] | Any, values: dict[str, Any], steps: int, rng: Random
) -> str:
    if isinstance(part, str):
        return part
    if part.name == "n":
        return natural_gaps.number_in_words(steps, rng)
    return natural_gaps.write(gaps[part.name], values[part.name], part.form, rng)


def _wanted_steps(story: Story, rng: Random) -> int:
    """Return the number of images asked for: sometimes fewer or more than the story has."""
    steps, chance = len(story.steps), rng.random()
    if chance < SHORTER and steps > 2:
        return rng.randint(2, steps - 1)
    return steps + rng.randint(1, 3) if SHORTER <= chance < SHORTER + LONGER and steps > 1 else steps


@cache
def defaults(topic: Topic) -> tuple[Any, ...]:
    """Return the default of each gap of a topic, in order."""
    places: Counter[type] = Counter()
    found = []
    for name, gap in topic.gaps.items():
        kind = type(gap.gap if isinstance(gap, Maybe) else gap)
        chosen = topic.defaults.get(name, natural_gaps.default(gap, places[kind]))
        places[kind] += 1
        found.append(chosen)
    return tuple(found)


def dressed(text: str, voice: Voice, rng: Random, steps: int | None = None, *, always: bool = False) -> str:
    """Return a request as a person types it: with words before and after, in their case and punctuation.

    Sometimes it names the number of steps; with `always` it always does.
    """
    mark = text[-1:] if text[-1:] in MARKS else ""
    text = text.rstrip(MARKS) if mark else text
    if steps is not None and steps > 1 and (always or rng.random() < WITH_COUNT):
        tail = rng.choice(_COUNTED).format(natural_gaps.number_in_words(steps, rng))
        text = f"{text}{rng.choice((' ', ', '))}{tail}"
    if rng.random() < WITHOUT_MARK:
        mark = ""
    elif not mark and rng.random() < 0.5:
        mark = "."
    text = _capital(text) + mark
    if rng.random() < WITH_OPENING and (opening := voice.line("openings", rng)):
        text = f"{opening} {text}"
    if rng.random() < WITH_CLOSING and (closing := voice.line("closings", rng)):
        text = f"{text}{' ' if mark else rng.choice(('. ', ', ', ' - '))}{closing}"
    chance = rng.random()
    return text.upper() if chance < SHOUTED else text.lower() if chance < SHOUTED + LOWER_CASE else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# Parsing


def read_request(text: str) -> Understood | None:
    """Return the topic and story of a request in one of the voices; `None` if no phrasing matches."""
    for bare, steps in undressed(text):
        words = frozenset(word.lower() for word in _WORD.findall(bare))
        for domain, topic, phrasing in _candidates(words):
            found = phrasing.may_match(bare) and _matched(topic, phrasing, bare)
            if found and _tell(found.story, steps):
                return Understood(domain, topic, found)
    return None


@cache
def _all_phrasings() -> tuple[tuple[str, Topic, Phrasing], ...]:
    return tuple(
        (domain, topic, phrasing)
        for domain, topics in DOMAINS.items()
        for topic in topics
        for voice in voices()
        for phrasing in voice.phrasings.get(topic.name, ())
    )


def _candidates(words: frozenset[str]) -> Iterator[tuple[str, Topic, Phrasing]]:
    """Yield the phrasings whose fixed words all occur, those with the most fixed words first."""
    fitting = [each for each in _all_phrasings() if each[2].fixed_words <= words]
    yield from sorted(fitting, key=lambda each: -len(each[2].fixed_words))


def _matched(topic: Topic, phrasing: Phrasing, text: str) -> TopicRequest | None:
    regex, uses = _compiled(topic, phrasing)
    if (found := regex.fullmatch(text)) is None:
        return None
    said = {use.name: (words, use.form) for group, use in uses.items() if (words := found[group]) is not None}
    values = {
        name: natural_gaps.read(gap, *said[name]) if name in said else default
        for (name, gap), default in zip(topic.gaps.items(), defaults(topic), strict=True)
    }
    try:
        story = topic.plot(**values)
    except Impossible:
        return None
    if "n" in said and not _tell(story, _number(said["n"][0])):
        return None
    return TopicRequest(text, phrasing.text, values, story)


def _tell(story: Story, count: int | None) -> bool:
    """Tell a story in a number of images; `False` if that is impossible."""
    if count is not None:
        story.steps = list(in_images(tuple(story.steps), count))
    return count in (None, len(story.steps))


@cache
def _compiled(topic: Topic, phrasing: Phrasing) -> Any:
    def pattern(use: GapUse) -> str:
        if use.name == "n":
            return one_of([*NUMBERS, *map(str, range(10))])
        return natural_gaps.pattern(topic.gaps[use.name], use.form)

    return Phrasing(phrasing.text.rstrip(MARKS)).regex(pattern)


def _number(words: str) -> int:
    return int(words) if words.isdigit() else NUMBERS.index(words.lower())


_COUNT = one_of([*NUMBERS, *map(str, range(10))])
_COUNTED_TAILS = "|".join(
    form.replace("{}", f"(?P<n{place}>{_COUNT})") for place, form in enumerate(_COUNTED)
)
_COUNTED_TAIL = re.compile(rf",? (?:{_COUNTED_TAILS})$", re.IGNORECASE)


def undressed(text: str) -> Iterator[tuple[str, int | None]]:
    """Yield the request without words before and after it, and the number of steps that it names."""
    text = " ".join(text.split())
    begun = (text, _without_opening(text))
    for bare in dict.fromkeys((*begun, *map(_without_closing, begun))):
        bare = bare.rstrip(MARKS + " ,-")
        yield bare, None
        if tail := _COUNTED_TAIL.search(bare):
            number = next(value for value in tail.groupdict().values() if value)
            yield bare[: tail.start()], _number(number)


def _without_opening(text: str) -> str:
    return re.sub(rf"^(?:{any_of('openings')})[{MARKS}]* ", "", text, count=1, flags=re.IGNORECASE)


def _without_closing(text: str) -> str:
    return re.sub(rf" (?:{any_of('closings')})[{MARKS}]*$", "", text, count=1, flags=re.IGNORECASE)


@cache
def any_of(section: str) -> str:
    """Return a regular expression for all lines of a section without gaps, in all voices; longest first."""
    texts = [each.text.rstrip(MARKS) for voice in voices() for each in voice.section(section)]
    lines = [Phrasing(text).regex(lambda use: "")[0].pattern for text in texts]
    return "|".join(sorted(lines, key=len, reverse=True)) or "(?!)"
