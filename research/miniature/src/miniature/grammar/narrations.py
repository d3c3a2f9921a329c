"""Stories told in free sentences: a first scene, then events, with an image for each change.

The sentences are those of `narration.txt`, in the notation of the voices. Some of them change nothing ("They
were very happy.") and have no image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.references import find
from interleave_mini.language.words import POSITIONS, one_of
from interleave_mini.world.kinds import KINDS, NOUNS
from interleave_mini.world.operations import (
    Add,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Remove,
    thing_at,
)
from interleave_mini.world.scene import GRID, Scene, Thing
from miniature.grammar.edits.places import next_to, position
from miniature.grammar.edits.plain import (
    EDIT_GAPS,
    canonical,
    find_spoken_of,
    free_cell,
    only_thing,
    read_operation,
    refer,
    sample_operation,
    step_of,
    thing_spoken_of,
)
from miniature.grammar.gaps import AThing, ManyThings, SomeThings, kinds_of, usual
from miniature.grammar.natural_gaps import sample, write
from miniature.grammar.own_steps import BEGINNING_GAPS, beginning, read_beginning
from miniature.grammar.phrasings import GapUse, Phrasing
from miniature.grammar.voices import parse_voice

_FILE = "narration.txt"
_BEGINNING, _NOTHING, _OPENING, _CLOSING, _JOINT = "beginning", "nothing", "opening", "closing", "joint"
_EVENT = "edit "
"""Prefix of sections with sentences about a change."""
_OFTEN = {
    "add": 6,
    "remove": 4,
    "move": 4,
    "visit": 3,
    "paint": 2,
    "background": 2,
    "night": 2,
    "rise": 2,
    "return": 3,
}
"""Relative frequency of events; 1 if not listed. Events of a state share one."""
_LENGTHS = (1, 2, 2, 3, 3, 3, 4, 4, 5)
WITH_OPENING, WITH_CLOSING, CHANGES_NOTHING = 0.2, 0.12, 0.18
OF_ANIMALS, BY_NOUN_ALONE = 0.6, 0.6
"""Shares of stories that begin with animals, and of things called "the dog", not "the brown dog"."""
FULL_STOP, LOWER_CASE = 0.6, 0.12
"""Shares of sentences that end only with a full stop, and of stories without capitals."""
_ROWS_FROM = {"climb": -1, "hide": 1}
"""Row offsets: climbing on something leads to the row above it, hiding under it to the row below."""
_PRONOUNS = ("it", "he", "she")
_SKY = {"the sun": "sun", "the moon": "moon", "the stars": "star"}
_SKY_ORDER = (2, 1, 0)
_MARKS = ".!?… "
_TRIES = 60
_LONGEST_PART = 3
"""Maximum number of joints such as "and" in a part of a sentence, plus one."""
_MOST_PARTS, _MOST_SENTENCES = 12, 40
"""Maximum length of a sentence, and of a text; longer ones are not parsed."""
_ANIMALS: dict[str, Any] = {
    "things": SomeThings(kinds_of("animal"), 1, 3),
    "thing": AThing(kinds_of("animal")),
    "many": ManyThings(kinds_of("animal")),
}


@dataclass(frozen=True)
class _Events:
    """The sentences of one kind of event."""

    name: str
    lines: tuple[Phrasing, ...]


# Sampling


def sample_narration(rng: Random) -> tuple[str, tuple[Step, ...]]:
    """Return a story told in sentences, and its steps; raise `Impossible` if none is found."""
    for _ in range(_TRIES):
        try:
            return _sampled(rng)
        except InputError:  # no event makes sense in this scene
            continue
    raise Impossible("no story is found")


def _sampled(rng: Random) -> tuple[str, tuple[Step, ...]]:
    text, first = _sample_beginning(rng)
    sentences, steps = [text], [first]
    spoken_of = only_thing(first.scene)
    for _ in range(rng.choice(_LENGTHS)):
        if rng.random() < CHANGES_NOTHING:
            sentences.append(_sample_nothing(steps[-1].scene, rng))
        text, operation, spoken_of = _sample_event([step.scene for step in steps], spoken_of, rng)
        sentences.append(text)
        steps.append(step_of(operation, steps[-1].scene))
    if rng.random() < CHANGES_NOTHING:
        sentences.append(_sample_nothing(steps[-1].scene, rng))
    return _told(sentences, rng), tuple(steps)


def _sample_beginning(rng: Random) -> tuple[str, Step]:
    parts = rng.choice(_sections()[_BEGINNING]).chosen(rng)
    gaps = dict.fromkeys(part.name for part in parts if isinstance(part, GapUse))
    of_animals = rng.random() < OF_ANIMALS
    values = {
        name: sample((_ANIMALS.get(name) if of_animals else None) or BEGINNING_GAPS[name], rng)
        for name in gaps
    }
    text = "".join(
        part if isinstance(part, str) else write(BEGINNING_GAPS[part.name], values[part.name], part.form, rng)
        for part in parts
    )
    return text, beginning(**values)


def _sample_event(
    scenes: Sequence[Scene], spoken_of: int | None, rng: Random
) -> tuple[str, Operation, int | None]:
    """Return a sentence, what it changes, and the thing that "it" means after it."""
    scene = scenes[-1]
    for _ in range(_TRIES):
        events = _sample_events(rng)
        parts = rng.choice(events.lines).chosen(rng)
        said = frozenset(part.name for part in parts if isinstance(part, GapUse))
        try:
            operation, words = _sample_operation(events.name, said, scenes, rng, spoken_of)
            operation.apply(scene)
        except InputError:
            continue
        words = {name: _shortly(said_so, scene, rng) for name, said_so in words.items()}
        text = "".join(part if isinstance(part, str) else words[part.name] for part in parts)
        if words.get("ref") == "it" and rng.random() < 0.5:
            text = re.sub(r"\bit\b", rng.choice(_PRONOUNS), text, count=1)
        # "the cat meets a dog": the next "it" would be ambiguous
        ambiguous = isinstance(operation, Add) and "ref" in said
        return text, operation, None if ambiguous else thing_spoken_of(operation)
    raise Impossible("nothing can happen in this scene")


def _shortly(words: str, scene: Scene, rng: Random) -> str:
    """Return a thing by its noun alone if no other has it: "the dog" for "the brown dog"."""
    if not words.startswith("the ") or rng.random() >= BY_NOUN_ALONE:
        return words
    nouns = [thing.noun for thing in scene.things.values()]
    return next(
        (f"the {noun}" for noun in nouns if words.endswith(f" {noun}") and nouns.count(noun) == 1), words
    )


def _sample_events(rng: Random) -> _Events:
    events = _events()
    ordinary = [each for each in events if not each.name.startswith("state ")]
    of_states = [each for each in events if each.name.startswith("state ")]
    weights = [_OFTEN.get(each.name, 1) for each in ordinary]
    chosen = rng.choices([*ordinary, None], [*weights, 2])[0]
    return chosen or rng.choice(of_states)


def _sample_operation(
    name: str, said: frozenset[str], scenes: Sequence[Scene], rng: Random, spoken_of: int | None
) -> tuple[Operation, dict[str, str]]:
    scene = scenes[-1]
    match name.split():
        case ["return"]:
            cell, thing = next(_gone(scenes), (-1, None))
            if thing is None:
                raise Impossible("nothing is gone")
            return Add(thing, cell), {"gone": f"the {thing.noun}"}
        case ["rise"]:
            sky = rng.choice(list(_SKY))
            return _read_operation(name, {"sky": sky}, scene, None), {"sky": sky}
        case ["rain"]:
            return _read_operation(name, {}, scene, None), {}
        case ["eat"] | ["give"] | ["visit"] | ["climb"] | ["hide"]:
            cell, other = rng.sample(list(scene.things), 2) if len(scene.things) > 1 else (-1, -1)
            words = {"ref": refer(scene, cell, rng), "other": refer(scene, other, rng)}
            return _read_operation(name, words, scene, None), words
        case ["settle"]:
            operation, words = sample_operation("move", frozenset({"ref", "to"}), scene, rng, spoken_of)
            where = rng.choice(POSITIONS[operation.to]) if isinstance(operation, Move) else ""
            return operation, {**words, "where": where}
        case ["state", _]:
            cell = rng.choice(list(scene.things) or [-1])
            words = {"ref": refer(scene, cell, rng)} if "ref" in said else {}
            return _read_operation(name, words, scene, None), words
    operation, words = sample_operation(name, said, scene, rng, spoken_of)
    return operation, words


def _gone(scenes: Sequence[Scene]) -> Iterator[tuple[int, Thing]]:
    """Return things that are gone, the latest first, each with a free cell to return to."""
    there = {thing.kind for thing in scenes[-1].things.values()}
    for scene in reversed(scenes[:-1]):
        for cell, thing in scene.things.items():
            if thing.kind not in there:
                there.add(thing.kind)
                yield cell if scenes[-1].is_free(cell) else free_cell(scenes[-1]), thing


def _sample_nothing(scene: Scene, rng: Random) -> str:
    parts = rng.choice(_sections()[_NOTHING]).chosen(rng)
    cells = list(scene.things)
    if not cells and any(isinstance(part, GapUse) for part in parts):
        return "The end."
    return "".join(
        part if isinstance(part, str) else _shortly(refer(scene, rng.choice(cells), rng), scene, rng)
        for part in parts
    )


def _told(sentences: list[str], rng: Random) -> str:
    """Join the sentences as a person types them."""
    text = _capital(sentences[0].rstrip(_MARKS))
    for sentence in sentences[1:]:
        bare = sentence.rstrip(_MARKS)
        joint = ". " if rng.random() < FULL_STOP else _line(_JOINT, rng)
        if joint == ". ":
            text += rng.choice((". ", ". ", ". ", "! ", ".\n")) + _capital(bare)
        else:
            space = " " if joint[0].isalpha() else ""
            text += f"{space}{joint} {bare[:1].lower()}{bare[1:]}"
    text += "." if rng.random() < 0.8 else ""
    if rng.random() < WITH_OPENING:
        text = f"{_line(_OPENING, rng)} {text}"
    if rng.random() < WITH_CLOSING:
        text = f"{text.rstrip('.')}. {_line(_CLOSING, rng)}"
    return text.lower() if rng.random() < LOWER_CASE else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(section: str, rng: Random) -> str:
    return "".join(map(str, rng.choice(_sections()[section]).chosen(rng)))


@cache
def _sections() -> dict[str, tuple[Phrasing, ...]]:
    return parse_voice((files(__package__) / _FILE).read_text("utf-8"))


def narration_lines() -> tuple[str, ...]:
    """Return every line of the narration, in its notation."""
    return tuple(each.text for lines in _sections().values() for each in lines)


@cache
def _events() -> tuple[_Events, ...]:
    return tuple(
        _Events(name.removeprefix(_EVENT), lines)
        for name, lines in _sections().items()
        if name.startswith(_EVENT)
    )


# Parsing


def read_narration(text: str) -> tuple[Step, ...] | None:
    """Return the steps of a story told in sentences; `None` if it is not understood."""
    flat = " ".join(text.split())
    flat = re.sub(rf"^(?:{_any_of(_OPENING)}) ", "", flat, count=1, flags=re.IGNORECASE)
    flat = re.sub(rf"(?<=[.!?]) (?:{_any_of(_CLOSING)})$", "", flat, count=1, flags=re.IGNORECASE)
    sentences = [piece for each in re.split(r"(?<=[.!?…]) ", flat) if (piece := each.strip(_MARKS))]
    if not 0 < len(sentences) <= _MOST_SENTENCES:
        return None
    for _, end in reversed(_pieces(sentences[0])[:_LONGEST_PART]):
        first = read_beginning(sentences[0][:end], _sections()[_BEGINNING])
        if first is None:
            continue
        told = _Told([first], only_thing(first.scene))
        rest = _joint_within().sub("", sentences[0][end:], count=1)
        if all(map(told.goes_on, [*([rest] if rest else []), *sentences[1:]])):
            return tuple(told.steps) if len(told.steps) > 1 else None
    return None


def _pieces(sentence: str) -> list[tuple[int, int]]:
    """Return the bounds of the parts of a sentence, split at every word that continues a story."""
    joints = [(found.start(), found.end()) for found in _joint_within().finditer(sentence)]
    begins, ends = [0, *(end for _, end in joints)], [*(start for start, _ in joints), len(sentence)]
    return list(zip(begins, ends, strict=True))


@dataclass
class _Told:
    """A story as parsed so far."""

    steps: list[Step]
    spoken_of: int | None

    def goes_on(self, sentence: str) -> bool:
        """Read what a sentence changes, its longest parts first; `False` if it is not understood."""
        pieces, place = _pieces(sentence), 0
        if len(pieces) > _MOST_PARTS:
            return False
        while place < len(pieces):
            for last in range(min(place + _LONGEST_PART, len(pieces)), place, -1):
                part = sentence[pieces[place][0] : pieces[last - 1][1]]
                if self._is_read(part):
                    place = last
                    break
            else:
                return False
        return True

    def _is_read(self, part: str) -> bool:
        return any(map(self._happens, dict.fromkeys((part, _joint_before().sub("", part, count=1)))))

    def _happens(self, sentence: str) -> bool:
        scene = self.steps[-1].scene
        operation = _read_event(sentence, [step.scene for step in self.steps], self.spoken_of)
        if operation is None:
            return _changes_nothing(sentence)
        self.steps.append(step_of(operation, scene))
        self.spoken_of = thing_spoken_of(operation)
        return True


@cache
def _any_of(section: str) -> str:
    lines = sorted((each.text.rstrip(_MARKS + ":") for each in _sections()[section]), key=len, reverse=True)
    return "|".join(re.escape(line) + "[:.!?]*" for line in lines)


@cache
def _joint_within() -> re.Pattern[str]:
    """Return a pattern for words within a sentence before the next event: ", and then "."""
    joints = [each.text for each in _sections()[_JOINT] if not each.text.startswith(".")]
    inner = "|".join(re.escape(each) for each in sorted(joints, key=len, reverse=True))
    return re.compile(rf"(?:(?<=\w) |)(?:{inner}) ", re.IGNORECASE)


@cache
def _joint_before() -> re.Pattern[str]:
    """Return a pattern for words before an event at the beginning of a sentence: "At last "."""
    joints = [each.text.removeprefix(". ") for each in _sections()[_JOINT] if each.text.startswith(".")]
    return re.compile(rf"^{one_of(joints)} ", re.IGNORECASE)


def _read_event(sentence: str, scenes: Sequence[Scene], spoken_of: int | None) -> Operation | None:
    scene, text = scenes[-1], canonical(sentence)
    words = frozenset(re.findall(r"[^\W_]+", text.lower()))
    for events in _events():
        for phrasing in events.lines:
            if not phrasing.fixed_words <= words:
                continue
            regex, uses = _compiled_event(phrasing)
            if (found := regex.fullmatch(text)) is None:
                continue
            said = {use.name: found[group].lower() for group, use in uses.items() if found[group] is not None}
            if said.get("ref") in _PRONOUNS:
                said["ref"] = "it"
            try:
                operation = (
                    _read_return(said["gone"], scenes)
                    if "gone" in said
                    else _read_operation(events.name, said, scene, spoken_of)
                )
                operation.apply(scene)
            except InputError:
                continue
            return operation
    return None


def _read_operation(name: str, said: dict[str, str], scene: Scene, spoken_of: int | None) -> Operation:
    match name.split():
        case ["rise"]:
            return Add(usual(_SKY[said["sky"]]), _sky_cell(scene))
        case ["rain"]:
            return Add(usual("cloud"), _sky_cell(scene))
        case ["eat"] | ["give"] | ["visit"] | ["climb"] | ["hide"] as which:
            cell = find_spoken_of(scene, said["ref"], spoken_of)
            other = find(scene, said["other"])
            if cell == other:
                raise NotUnderstood("something cannot do this to itself")
            return _between_two(which[0], cell, other, scene)
        case ["settle"]:
            cell = find_spoken_of(scene, said["ref"], spoken_of)
            return Move(cell, position(scene.with_cell(cell, None), said["where"]))
        case ["state", kind]:
            return _next_state(kind, said, scene, spoken_of)
    return read_operation(name, said, scene, spoken_of)


def _read_return(words: str, scenes: Sequence[Scene]) -> Operation:
    for cell, thing in _gone(scenes):
        if words == f"the {thing.noun}":
            return Add(thing, cell)
    raise NotUnderstood("nothing of this name was there")


def _between_two(name: str, cell: int, other: int, scene: Scene) -> Operation:
    if name == "eat" and KINDS[thing_at(scene, other).kind].category not in ("food", "plant"):
        raise NotUnderstood("that is not eaten")
    if name in ("eat", "give"):
        return Remove(other)
    if name in _ROWS_FROM:
        beside = _in_the_next_row(scene, other, _ROWS_FROM[name])
    else:
        beside = next_to(scene.with_cell(cell, None), other)
    if beside is None or beside == cell:
        raise NotUnderstood("there is no room beside it")
    return Move(cell, beside)


def _in_the_next_row(scene: Scene, cell: int, rows: int) -> int | None:
    """Return the free cell `rows` below another; `None` if there is none."""
    wanted = cell + rows * GRID
    return wanted if 0 <= wanted < GRID * GRID and scene.is_free(wanted) else None


def _next_state(kind: str, said: dict[str, str], scene: Scene, spoken_of: int | None) -> Operation:
    cells = [cell for cell, thing in scene.things.items() if thing.kind == kind]
    cell = find_spoken_of(scene, said["ref"], spoken_of) if "ref" in said else cells[0] if cells else -1
    if cell not in cells:
        raise NotUnderstood(f"no {kind} is meant")
    state = thing_at(scene, cell).state + 1
    if state >= len(KINDS[kind].states):
        raise NotUnderstood("it cannot go on")
    return ChangeState(cell, state)


def _sky_cell(scene: Scene) -> int:
    return next((cell for cell in _SKY_ORDER if scene.is_free(cell)), free_cell(scene))


def _changes_nothing(sentence: str) -> bool:
    text = canonical(sentence)
    return any(_compiled_event(each)[0].fullmatch(text) for each in _sections()[_NOTHING])


@cache
def _compiled_event(phrasing: Phrasing) -> Any:
    gone = rf"the {one_of(NOUNS)}"
    gaps = {
        **EDIT_GAPS,
        "gone": gone,
        "sky": one_of(_SKY),
        "ref": rf"(?:{one_of(_PRONOUNS)}|{EDIT_GAPS['ref']})",
    }
    return Phrasing(phrasing.text.rstrip(_MARKS)).regex(lambda use: gaps[use.name])
