"""Worked examples varied together with their plans: other places, colours, positions, people, own sentences.

A planner that meets the same requests again and again learns them by heart. What a variation adds to the
words stands in the plan, too, so that only a request which is read can be planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.descriptions import describe, parse_description
from interleave_mini.language.vocabulary import language
from interleave_mini.language.words import ALL_PLACES, NUMBERS, POSITIONS, capitalised, one_of, plural, within
from interleave_mini.world.scene import GRID, Scene
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS, ALL_NOUNS, NIGHT_OF
from miniature.grammar.language_file import vocabulary
from miniature.grammar.lexicon import everyday_words
from miniature.grammar.lists_of_steps import written_as_list
from miniature.train.new_words import exchanged_words, has_word
from miniature.train.wider_requests import further_step

Plan = tuple[tuple[str, str], ...]
Varied = tuple[str, Plan]

FURTHER_WISHES = 0.12
"""Share of examples that one or two plain wishes follow."""
_LONGEST_PLAN = 6
_END = " .!?"
_JOINTS = (". Then ", ". then ", ", then ", " and then ", ". ", "\n", ". After that ", ", ")
_COUNTED = ("{}, {} pictures", "{} in {} images", "{} ({} panels)", "{}, {} frames", "{}, in {} steps")
_NUMBERED = re.compile(
    rf"\d|\b(?:{one_of(NUMBERS)}|pictures?|images?|frames?|panels?|steps?|scenes?)\b", re.IGNORECASE
)
_TIMED = re.compile(r"night|day|dark|moon|sun|star|evening|morning|sleep|bed|light|dream|noon", re.IGNORECASE)
_MOVES_ON = re.compile(r"Change the background|Night falls|Day breaks")
_SMALL_WORDS = re.compile(r"\b(?:the|an?|is|are|please|some|his|her|my|their)\b ", re.IGNORECASE)
_WOMAN_FOR_MAN = {
    **{"boy": "girl", "man": "woman", "dad": "mum", "daddy": "mummy", "father": "mother", "papa": "mama"},
    **{"grandpa": "grandma", "granddad": "granny", "grandfather": "grandmother", "brother": "sister"},
    **{"son": "daughter", "uncle": "aunt", "husband": "wife", "king": "queen", "prince": "princess"},
    **{"wizard": "witch", "he": "she", "him": "her", "his": "her", "himself": "herself"},
}


def varied(request: str, plan: Plan, rng: Random) -> Varied:
    """Return other words with another plan, if one of the variations fits; the same otherwise."""
    for vary in rng.choices(list(_VARIATIONS), list(_VARIATIONS.values()), k=2):
        with suppress(InputError):  # of an exchange of words before this
            if made := vary(request, plan, rng):
                return made
    return request, plan


def with_further_wishes(request: str, steps: tuple[Step, ...], rng: Random) -> tuple[str, tuple[Step, ...]]:
    """Return the request with one or two plain wishes at its end, and steps for them."""
    wished = request.rstrip(_END)
    for _ in range(rng.choice((1, 1, 2))):
        if len(steps) >= _LONGEST_PLAN or request.endswith("?"):
            break
        try:
            step, wish = further_step(steps[-1].scene, rng)
        except (InputError, IndexError):
            break
        joint = rng.choice(_JOINTS)
        wished += joint + (capitalised(wish) if joint == ". " else wish)
        first = replace(steps[0], name="The beginning") if len(steps) == 1 else steps[0]
        steps = (first, *steps[1:], step)
    return (wished, steps) if wished != request.rstrip(_END) else (request, steps)


def _as_own_sentences(request: str, plan: Plan, rng: Random) -> Varied | None:
    """Tell the captions as somebody's own sentences, if they name everything that is seen."""
    captions = [caption for _, caption in plan]
    told = " ".join(captions)
    if len(plan) < 2 or not all(has_word(told, *_nouns_for(kind)) for kind in _kinds(plan)):
        return None
    if rng.random() < 0.5:
        return rng.choice((" ", " ", "\n")).join(captions), plan
    return written_as_list([caption.rstrip(_END) for caption in captions], rng)[0], plan


def _elsewhere(request: str, plan: Plan, rng: Random) -> Varied | None:
    """Name another place, if the request names none and the plan stays where it is."""
    said = f"{request} {' '.join(caption for _, caption in plan)}"
    if _PLACED.search(said) or any(_MOVES_ON.search(prompt) for prompt, _ in plan):
        return None
    place = rng.choice(ALL_BACKGROUNDS[:_DAYTIME])
    words = rng.choice((within(place), *ALL_PLACES[place].others))
    if place in NIGHT_OF and not _TIMED.search(said) and rng.random() < 0.3:
        place, words = NIGHT_OF[place], f"{words} at night"
    return _added(request, words, rng), _in_scene(plan, lambda scene: replace(scene, background=place))


def _at_night(request: str, plan: Plan, rng: Random) -> Varied | None:
    said = f"{request} {' '.join(caption for _, caption in plan)}"
    if _TIMED.search(said) or any(_MOVES_ON.search(prompt) for prompt, _ in plan):
        return None
    background = parse_description(plan[0][0]).background
    if background not in NIGHT_OF:
        return None
    night = NIGHT_OF[background]
    return _added(request, "at night", rng), _in_scene(plan, lambda scene: replace(scene, background=night))


def _added(request: str, words: str, rng: Random) -> str:
    if rng.random() < 0.3:
        return f"{words}{rng.choice((': ', ', ', ' '))}{request}"
    mark = request[len(request.rstrip(_END)) :]
    return f"{request.rstrip(_END)}{rng.choice((' ', ' ', ', '))}{words}{mark}"


def _in_scene(plan: Plan, change: Callable[[Scene], Scene]) -> Plan:
    """Change the first image; the prompts of the others stay."""
    (prompt, caption), *others = plan
    return (describe(change(parse_description(prompt))), caption), *others


def _in_a_colour(request: str, plan: Plan, rng: Random) -> Varied | None:
    """Name another colour for something whose colour the request leaves open."""
    prompts = " ".join(prompt for prompt, _ in plan)
    captions = " ".join(caption for _, caption in plan)
    for kind in rng.sample(found := sorted(_kinds(plan)), len(found)):
        named = re.findall(rf"\b({one_of(_nouns_for(kind))})\b", request, re.IGNORECASE)
        coloured = {each[0] for each in re.findall(_coloured(kind), prompts)}
        free = [each for each in ALL_COLOURS if not has_word(f"{request} {prompts}", each)]
        if len(named) != 1 or len(coloured) != 1 or not free or has_word(captions, *coloured):
            continue
        if re.search(rf"\b(?:{one_of(_COLOURS)}) (?:\w+ )?{re.escape(named[0])}\b", request, re.IGNORECASE):
            continue
        colour = rng.choice(free)
        request = exchanged_words(request, {named[0].lower(): f"{colour} {named[0].lower()}"})
        return request, _in_prompts(plan, _coloured(kind), colour)
    return None


def _in_prompts(plan: Plan, coloured: str, colour: str) -> Plan:
    """Give things of a colour and a noun that match this pattern another colour."""
    named = {found for prompt, _ in plan for found in re.findall(coloured, prompt)}
    exchanged = {f"{old} {noun}": f"{colour} {noun}" for old, noun in named}
    return tuple((exchanged_words(prompt, exchanged), caption) for prompt, caption in plan)


def _at_a_position(request: str, plan: Plan, rng: Random) -> Varied | None:
    """Say where something is at first, and put it there."""
    scene = parse_description(plan[0][0])
    kinds = [thing.kind for thing in scene.everything.values()]
    free = [cell for cell in range(GRID * GRID) if scene.cells[cell] is None]
    chosen = [(cell, thing) for cell, thing in scene.things.items() if kinds.count(thing.kind) == 1]
    if has_word(request, *_SIDES) or not chosen or not free:
        return None
    cell, thing = rng.choice(chosen)
    named = [noun for noun in _nouns_for(thing.kind) if has_word(request, noun)]
    if not named:
        return None
    to = rng.choice(free)
    where = rng.choice(POSITIONS[to])
    noun = max(named, key=len)
    said = rng.choice((f"the {noun} {where}", f"with the {noun} {where}", f"the {noun} is {where}"))
    mark = rng.choice((", ", " - "))
    cells = list(scene.cells)
    cells[cell], cells[to] = None, thing
    moved = replace(scene, cells=tuple(cells))
    return f"{request.rstrip(_END)}{mark}{said}", _in_scene(plan, lambda _: moved)


def _of_a_woman(request: str, plan: Plan, rng: Random) -> Varied | None:
    """Speak of a girl or woman instead of the only boy or man."""
    kinds = _kinds(plan)
    (other,) = kinds & {"boy", "man"} if len(kinds & {"boy", "man"}) == 1 else (None,)
    said = " ".join([request, *(caption for _, caption in plan)])
    if (
        other is None
        or kinds & {"girl", "woman", "baby"}
        or has_word(said, *_WOMAN_FOR_MAN.values(), "i", "my")
    ):
        return None
    coloured = set(re.findall(_coloured(other), " ".join(prompt for prompt, _ in plan)))
    if len({colour for colour, _ in coloured}) != 1 or not has_word(said, *_WOMAN_FOR_MAN):
        return None
    if any(has_word(said, noun) for noun in _nouns_for(other) if noun not in _WOMEN_FOR_MEN):
        return None
    new = _WOMAN_FOR_MAN[other]
    colours = {ALL_KINDS[other].colour: ALL_KINDS[new].colour}
    if has_word(request, *(colour for colour, _ in coloured)):
        colours = {}
    exchanged = {
        f"{colour} {noun}": f"{colours.get(colour, colour)} {noun.removesuffix(other)}{new}"
        for colour, noun in coloured
    }
    return (
        exchanged_words(request, _WOMEN_FOR_MEN),
        tuple((exchanged_words(p, exchanged), exchanged_words(c, _WOMEN_FOR_MEN)) for p, c in plan),
    )


def _with_a_count(request: str, plan: Plan, rng: Random) -> Varied | None:
    if len(plan) < 2 or _NUMBERED.search(request):
        return None
    number = rng.choice((str(len(plan)), NUMBERS[len(plan)]))
    if rng.random() < 0.3:
        return f"{number} {rng.choice(('pictures', 'images', 'frames'))}: {request}", plan
    return rng.choice(_COUNTED).format(request.rstrip(_END), number), plan


def _as_a_telegram(request: str, plan: Plan, rng: Random) -> Varied | None:
    short = _SMALL_WORDS.sub("", request)
    return (short.lower() if rng.random() < 0.5 else short, plan) if short.strip() else None


def _with_an_adjective(request: str, plan: Plan, rng: Random) -> Varied | None:
    """Describe something by a word that no image shows: a hissing snake is a snake."""
    named = [noun for kind in sorted(_kinds(plan)) for noun in _nouns_for(kind) if has_word(request, noun)]
    if not named:
        return None
    noun = rng.choice(named)
    return exchanged_words(request, {noun: f"{rng.choice(_adjectives())} {noun}"}), plan


_VARIATIONS = {
    _as_own_sentences: 3,
    _elsewhere: 4,
    _at_night: 1,
    _in_a_colour: 6,
    _at_a_position: 2,
    _of_a_woman: 3,
    _with_an_adjective: 3,
    _with_a_count: 1,
    _as_a_telegram: 1,
}
"""Variations, and how often each is tried."""
_DAYTIME = ALL_BACKGROUNDS.index(next(iter(NIGHT_OF.values())))
_ADJECTIVE = re.compile(r"^[a-z]{3,}(?:ing|ful|ous|est|less|able|ish|ive|ic|al|y)$")
_COLOURS = (*ALL_COLOURS, *language().colours)
_WOMEN_FOR_MEN = {**_WOMAN_FOR_MAN, **{plural(m): plural(w) for m, w in _WOMAN_FOR_MAN.items() if len(m) > 3}}
_SIDES = (
    "left",
    "right",
    "top",
    "bottom",
    "middle",
    "centre",
    "corner",
    "between",
    "above",
    "below",
    "beside",
    "next",
)
_PLACES = {
    *(phrase for place in ALL_PLACES.values() for phrase in (place.within, *place.others)),
    *(phrase for phrases in language().place_phrases.values() for phrase in phrases),
    *(noun for nouns in language().place_nouns.values() for noun in nouns),
    *(noun.split()[-1] for noun in language().empty_places),
    *(
        "home",
        "outside",
        "inside",
        "woods",
        "pond",
        "hill",
        "shop",
        "school",
        "house",
        "field",
        "water",
        "kitchen",
    ),
}
_PLACED = re.compile(rf"\b(?:{one_of(_PLACES)})\b", re.IGNORECASE)


def _kinds(plan: Plan) -> set[str]:
    """Return the kinds of all things that prompts name."""
    return {ALL_NOUNS[noun][0] for prompt, _ in plan for _, noun in re.findall(_ANY_COLOURED, prompt)}


_ANY_COLOURED = re.compile(rf"\b({one_of(ALL_COLOURS)}) ({one_of(ALL_NOUNS)})\b")


@cache
def _coloured(kind: str) -> str:
    """Return a pattern of a colour and a noun of this kind."""
    nouns = [noun for noun, (of, _) in ALL_NOUNS.items() if of == kind]
    return rf"\b({one_of(ALL_COLOURS)}) ({one_of(nouns)})\b"


@cache
def _nouns_for(kind: str) -> tuple[str, ...]:
    """Return the nouns of requests for a kind, in the singular."""
    nouns = [noun for noun, (of, _) in ALL_NOUNS.items() if of == kind]
    return *nouns, *(noun for noun, of in language().nouns.items() if ALL_NOUNS.get(of, ("",))[0] == kind)


@cache
def _adjectives() -> tuple[str, ...]:
    """Return everyday words that look like adjectives and that no request has."""
    return tuple(sorted(word for word in everyday_words() - vocabulary() if _ADJECTIVE.search(word)))
