"""What words of requests show, counted in the worked examples of the wider world.

A word counts if nearly all plans of requests with it show one of a few effects that other plans mostly lack.
`VERBS` names words of which this is expected: fewer examples do, and less telling effects.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from interleave_mini.language.effects import CLOSED, phrases_of, shown_by
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.language.vocabulary import WORD, Language, contexts_of_noun, forms_of
from interleave_mini.language.words import one_of
from interleave_mini.world.wider import ADJECTIVES, NIGHT
from miniature.grammar.tasks import sample_training_task
from miniature.grammar.worked_examples import LEARNED, parsed_examples

VERBS: dict[str, tuple[str, ...]] = {
    "sleeping": ("sleep slept asleep", "nap", "snore", "doze"),
    "no longer sleeping": ("wake woke awake wakened",),
    "happy": ("happy glad joyful delighted", "smile", "laugh", "cheer"),
    "sad": ("sad unhappy upset", "cry weep wept sob"),
    "wet": ("wet", "soak drench"),
    "dirty": ("dirty muddy filthy",),
    "no longer dirty": ("wash clean",),
    "broken": ("break broke broken", "crash smash shatter"),
    "no longer broken": ("repair fix mend",),
    "rotten": ("rot rotten mouldy",),
    "bitten": ("bite bit bitten nibble gnaw",),
    "removed": (
        *("eat ate eaten devour swallow", "vanish disappear", "remove delete", "steal stole stolen"),
        *("leave left", "gone"),
    ),
    "open": ("open", "unlock"),
    "no longer open": ("close shut",),
    "no longer open, closed from the start": ("closed",),
    "glowing": ("glow glowing", "shine", "lit"),
    "melting, melted, shrunk": ("melt melting melted thaw",),
    "wilted": ("wilt wither",),
    "popped": ("pop burst",),
    "erupting": ("erupt eruption",),
    "full": ("fill", "pour"),
    "rain, a cloud": ("rain rainy", "storm stormy thunderstorm"),
    "painted": ("repaint recolour recolor",),
    "grown": ("grow grew grown",),
    "shrunk": ("shrink shrank shrunk",),
    "swapped": ("swap",),
    "replaced": ("replace",),
    "held by": ("hold held", "carry", "give gave given", "hug", "catch caught grab"),
    "on": ("sit sat", "ride rode ridden", "climb", "wear wore worn", "perched"),
    "on, put down, added": ("stack",),
    "in": ("bathe",),
    "under": ("under beneath underneath",),
    "moved": (
        *("jump", "run ran", "walk", "drive drove", "fly flew flown", "swim swam", "roll", "crawl", "cross"),
        *("fall fell fallen", "drop", "sink sank sunk", "throw threw thrown", "kick", "push", "pull"),
    ),
    "elsewhere": ("travel",),
    "night": ("night midnight moonlight dusk nightfall", "dark"),
    "daybreak": ("sunrise dawn daybreak",),
    "egg": ("hatch", "lay laid"),
    "unlit": ("extinguish",),
    "opened": ("unwrap unpack",),
}
"""Effects, and verbs and adjectives for them; irregular forms, and words with the same effects, together."""
_UNTELLING = frozenset(("added", "moved", "raised", "lowered", "elsewhere", "put", CLOSED))
"""Effects that many plans have for other reasons: they count for verbs alone."""
_ANYTHING = frozenset(("rain", "storm", "egg"))
"""Effects that are asked for without their thing."""
_KINDS: dict[str, frozenset[str]] = {
    adjective: frozenset(kind for kind, words in ADJECTIVES.items() if adjective in words)
    for words in ADJECTIVES.values()
    for adjective in words
    if adjective and adjective not in _ANYTHING
}
"""The kinds that can be in a state."""
_MOST_EFFECTS = 6
_FEWEST, _FEWEST_OF_VERBS = 10, 4
"""Minimum number of examples with a word."""
_MISSES, _MOST_COMMON = 0.13, 0.6
"""Maximum share of plans of a word without its effects, and of all plans with them."""
_ELSEWHERE = 0.1
"""Maximum share of plans after a phrase for a place that show another one."""
_TASKS = 2000
_UNMEANT, _UNMEANT_OF_ALL, _UNMEANT_SHARE = 3, 5, 0.7
"""Minimum number of mentions in a context that ask for nothing, of one noun and of all; and their share."""
_FEWEST_OTHERWISE, _MOST_SHOWN = 4, 0.5
"""Minimum number of examples with a word and the one after it, and the share of them that show what the word
alone means, below which both together mean something else."""
_BEFORE_THINGS = frozenset(
    ("a", "an", "the", "this", "that", "my", "your", "his", "her", "its", "our", "their", "some", "one")
)
_TELLING = 10.0
"""Minimum logarithm of how much less likely the effects of a word were if it meant none."""


@dataclass(frozen=True)
class Example:
    """The requests of an example, their words and kinds, and what its plan shows."""

    requests: tuple[str, ...]
    words: frozenset[str]
    phrases: frozenset[str]
    """Its words with the word after each."""
    kinds: frozenset[str]
    shown: frozenset[str]
    places: frozenset[str]
    """Its backgrounds by day, and `night` for any at night."""
    drawn: frozenset[str]
    """The kinds in its images."""


def counted_examples(language: Language) -> list[Example]:
    """Return the worked examples of the wider world."""
    return [
        _example(each.requests, [prompt for prompt, _ in each.plan], language)
        for each in parsed_examples(*LEARNED[1:])
    ]


def sampled_examples(language: Language) -> list[Example]:
    """Return tasks of the grammar."""
    rng = Random(0)
    tasks = (sample_training_task("story", rng) for _ in range(_TASKS))
    return [_example((each.text,), [step.prompt for step in each.steps], language) for each in tasks]


def _example(requests: tuple[str, ...], prompts: list[str], language: Language) -> Example:
    found = [each for text in requests for each in WORD.finditer(text)]
    words = frozenset(form for each in found for form in forms_of(each[0]))
    phrases = frozenset(phrase for each in found for phrase in phrases_of(each))
    places, drawn, scene = set[str](), set[str](), None
    for prompt in prompts:
        scene = parse_prompt(prompt, scene)
        places.add(scene.background.removesuffix(NIGHT))
        places.update(["night"] * scene.background.endswith(NIGHT))
        drawn.update(thing.kind for thing in scene.everything.values())
        drawn.update(["robot"] * (scene.gripper is not None))
    kinds = language.kinds_in(" ".join(requests))
    return Example(requests, words, phrases, kinds, shown_by(prompts), frozenset(places), frozenset(drawn))


def contexts_of_unmeant(examples: Sequence[Example], language: Language) -> list[str]:
    """Return contexts of nouns after which the thing is mostly not drawn: "book about", "the circle of"."""
    asked, drawn = Counter[str](), Counter[str]()
    for each in examples:
        for text in each.requests:
            for found in language.thing.finditer(text):
                is_drawn = language.may_be(found[0].lower(), each.drawn)
                for context in contexts_of_noun(found, language.kind_of):
                    asked[context] += 1
                    drawn[context] += is_drawn
    return sorted(
        context
        for context, count in asked.items()
        if count - drawn[context] >= (_UNMEANT_OF_ALL if "_" in context else _UNMEANT)
        and drawn[context] <= (1 - _UNMEANT_SHARE) * count
    )


def vague_places(examples: Sequence[Example], phrases: Mapping[str, Sequence[str]]) -> list[str]:
    """Return phrases for places after which a tenth of the plans show another place."""
    places_of = defaultdict[str, set[str]](set)
    for place, some in phrases.items():
        for phrase in some:
            places_of[phrase].add(place)
    pattern = re.compile(rf"\b{one_of(places_of)}\b", re.IGNORECASE)
    shown, elsewhere = Counter[str](), Counter[str]()
    for each in examples:
        for phrase in {found.lower() for text in each.requests for found in pattern.findall(text)}:
            shown[phrase] += 1
            elsewhere[phrase] += places_of[phrase].isdisjoint(each.places)
    return sorted(phrase for phrase, count in elsewhere.items() if count > _ELSEWHERE * shown[phrase])


def effects_of_words(
    examples: Sequence[Example], things: frozenset[str], elsewhere: frozenset[str] = frozenset()
) -> list[dict[str, object]]:
    """Return words that are no things with the effects of which one must be shown, as in `language.json`.

    Words that are said elsewhere, too, count only if they are among `VERBS`.
    """
    having, with_word = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for number, example in enumerate(examples):
        for effect in example.shown:
            having[effect].add(number)
        for word in example.words:
            with_word[word].add(number)
    found: list[dict[str, object]] = []
    known = set[str]()
    for effect, together in ((effect, words.split()) for effect, some in VERBS.items() for words in some):
        meant = effect.split(", ")
        kinds = _KINDS.get(meant[0].removeprefix("no longer "), frozenset())
        where = {
            number
            for number in set().union(*(with_word[word] for word in together))
            if not kinds or kinds & examples[number].kinds
        }
        known.update(together)
        if shown := _effects(where, having, len(examples), meant):
            found.append({"shown": shown, "of": sorted(kinds), "words": " ".join(together)})
    for word in sorted(with_word.keys() - things - elsewhere):
        if len(with_word[word]) < _FEWEST or not known.isdisjoint(forms_of(word)):
            continue
        if shown := _effects(with_word[word], having, len(examples), []):
            found.append({"shown": shown, "of": [], "words": word})
    return found


def said_otherwise(examples: Sequence[Example], effects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return words with the word after them of which few plans show what the word alone means."""
    shown_for = {word: frozenset(each["shown"]) for each in effects for word in each["words"].split()}
    said, shown = Counter[str](), Counter[str]()
    for example in examples:
        for phrase in example.phrases:
            if phrase.partition(" ")[2] in _BEFORE_THINGS:  # "extinguish the": what follows decides
                continue
            if meant := shown_for.get(phrase.partition(" ")[0]):
                said[phrase] += 1
                shown[phrase] += not meant.isdisjoint(example.shown)
    return sorted(
        phrase
        for phrase, count in said.items()
        if count >= _FEWEST_OTHERWISE and shown[phrase] < _MOST_SHOWN * count
    )


def _effects(where: set[int], having: dict[str, set[int]], total: int, meant: list[str]) -> list[str]:
    """Return the few effects that nearly all of these examples have one of; empty if there are none."""
    if meant and len(where) < _FEWEST_OF_VERBS:
        return [] if meant[0] in _UNTELLING else meant
    possible = {
        effect
        for effect, some in having.items()
        if (_UNTELLING.intersection(meant) or effect not in _UNTELLING)
        and not effect.startswith("a ")
        and len(where & some) >= 2
        and len(where & some) / len(where) >= (1.4 if meant else 3) * len(some) / total
    }
    chosen = [*meant]
    left = where.difference(*(having.get(each, set()) for each in meant))
    while left and len(chosen) < _MOST_EFFECTS:
        best = max(
            sorted(possible),
            key=lambda each: len(left & having[each]) * math.log(total / len(having[each])),
            default="",
        )
        if len(left & having.get(best, set())) < max(2, 0.02 * len(where)):
            break
        chosen.append(best)
        left -= having[best]
    share = len(set().union(*(having.get(each, set()) for each in chosen))) / total
    allowed, most_common = (_MISSES, _MOST_COMMON) if meant else (_MISSES / 3, _MOST_COMMON / 2)
    if not chosen or len(left) > allowed * len(where) or share > most_common:
        return []
    telling = (len(where) - len(left)) * -math.log(share) - 2 * len(chosen) - 4 * len(left)
    return chosen if meant or telling >= _TELLING else []
