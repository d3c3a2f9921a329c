"""The critic exam: pairs of images, before and after an edit, that are known to be right or wrong.

A question is an image and an exact prompt. It has two pairs: in one the edit is done, in the other there is
one fault. A critic that does not look at the second image is right half of the time. The pairs follow from a
seed, and hold for any critic: nothing is drawn by a model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from interleave import InputError
from interleave.plugin import Value, make_folder, write_atomic
from interleave_mini.bench.random_scenes import free_cell
from interleave_mini.bench.wider_scenes import wider_operations, wider_scene
from interleave_mini.language.prompts import edit_prompt
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import (
    Add,
    ChangeState,
    Move,
    PutNew,
    Recolour,
    Replace,
    apply_all,
    thing_at,
)
from interleave_mini.world.scene import CELLS, Relation, Scene
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS, ALL_NOUNS

if TYPE_CHECKING:
    from PIL.Image import Image

RIGHT = "right"
PAIRS_NAME, IMAGES_NAME = "pairs.jsonl", "images"
DEFAULT_PAIRS = 2000
THINGS = (1, 6)
"""Fewest and most things before the edit."""
WRITING = ("SALE", "No. 7", "draft", "HELLO", "page 3", "(c) 1998", "open", "Fig. 2")
_OTHER_RELATION = 0.5
_TRIES = 400
_THREADS = 4


class Pair(Value):
    """A line of `pairs.jsonl`. Images are paths in its folder."""

    id: str
    prompt: str
    before: str
    after: str
    right: bool
    fault: str
    """`right`, or what is wrong."""


Change = Callable[[Scene, int, Random], Scene]
"""From the right scene and the spot of a changed thing to a wrong scene; raises if it finds none."""


def _another_thing(scene: Scene, spot: int, rng: Random) -> Scene:
    there = thing_at(scene, spot)
    kind, state = rng.choice([each for each in ALL_NOUNS.values() if each[0] != there.kind])
    return Replace(spot, replace(there.alone, kind=kind, state=state)).apply(scene)


def _another_number(scene: Scene, spot: int, rng: Random) -> Scene:
    """The thing is there twice."""
    return Add(thing_at(scene, spot), free_cell(scene, rng)).apply(scene)


def _another_colour(scene: Scene, spot: int, rng: Random) -> Scene:
    return Recolour(spot, rng.choice([*ALL_COLOURS])).apply(scene)


def _another_place(scene: Scene, spot: int, rng: Random) -> Scene:
    """In another cell; what is carried is sometimes on its carrier instead of in it, or the like."""
    thing = thing_at(scene, spot)
    if spot >= CELLS and rng.random() < _OTHER_RELATION:
        relation = rng.choice([*Relation])
        return PutNew(thing, relation, spot - CELLS).apply(scene.with_spot(spot, None))
    return Move(spot, free_cell(scene, rng)).apply(scene)


def _another_state(scene: Scene, spot: int, rng: Random) -> Scene:
    states = ALL_KINDS[thing_at(scene, spot).kind].states
    return ChangeState(spot, rng.randrange(len(states))).apply(scene)


SCENE_FAULTS: dict[str, Change] = {
    "thing": _another_thing,
    "number": _another_number,
    "colour": _another_colour,
    "place": _another_place,
    "state": _another_state,
}
FAULTS = (*SCENE_FAULTS, "writing", "nothing")
"""Faults of equal number: one in the changed thing, writing that nobody asked for, or no change at all."""


@dataclass(frozen=True)
class Question:
    """An edit of a scene, and a fault in its result."""

    number: int
    fault: str
    prompt: str
    before: Scene
    target: Scene
    wrong: Scene
    """The scene of the wrong image, before anything is written on it."""

    def pairs(self) -> tuple[Pair, Pair]:
        """Its right and its wrong pair."""
        return self._pair(RIGHT), self._pair(self.fault)

    def _pair(self, fault: str) -> Pair:
        identity = f"{self.number:04d}-{fault}"
        return Pair(
            id=identity,
            prompt=self.prompt,
            before=f"{IMAGES_NAME}/{self.number:04d}-before.png",
            after=f"{IMAGES_NAME}/{identity}.png",
            right=fault == RIGHT,
            fault=fault,
        )

    def images(self, seed: int) -> dict[str, Image]:
        """The images of its pairs, by their paths."""
        right, wrong = self.pairs()
        shown = draw(self.wrong)
        if self.fault == "writing":
            shown = with_writing(shown, Random(f"{seed}/{self.number}/writing"))
        return {right.before: draw(self.before), right.after: draw(self.target), wrong.after: shown}


def questions(seed: int, count: int) -> Iterator[Question]:
    """Questions with each fault in turn. The first ones are the same for every count."""
    return (_question(seed, number, FAULTS[number % len(FAULTS)]) for number in range(count))


def _question(seed: int, number: int, fault: str) -> Question:
    rng = Random(f"critic exam/{seed}/{number}")
    for _ in range(_TRIES):
        before = wider_scene(rng, rng.randint(*THINGS))
        operations = wider_operations(before, rng)
        if operations is None:
            continue
        target = apply_all(operations, before)
        wrong = _faulty(before, target, fault, rng)
        if wrong is not None:
            prompt = edit_prompt(operations, before, exact=True)
            return Question(number, fault, prompt, before, target, wrong)
    raise InputError(f"no question with the fault {fault!r} was found: the world has no such things")


def _faulty(before: Scene, target: Scene, fault: str, rng: Random) -> Scene | None:
    """The scene of the wrong image: with a fault in one of the things that the edit changed."""
    if fault not in SCENE_FAULTS:
        return before if fault == "nothing" else target
    was = {spot: thing.alone for spot, thing in before.everything.items()}
    changed = [spot for spot, thing in target.everything.items() if was.get(spot) != thing.alone]
    with suppress(InputError, IndexError):  # a thing that cannot be like that, or no free place
        wrong = SCENE_FAULTS[fault](target, rng.choice(changed), rng)
        return None if wrong in (target, before) else wrong
    return None


def with_writing(image: Image, rng: Random) -> Image:
    """The image with a word on it that nobody asked for."""
    from PIL import ImageDraw, ImageFont

    written = image.copy()
    pen, font = ImageDraw.Draw(written), ImageFont.load_default(size=rng.randint(20, 34))
    word = rng.choice(WRITING)
    _, _, width, height = pen.textbbox((0, 0), word, font=font)
    place = rng.uniform(4, image.width - width - 4), rng.uniform(4, image.height - height - 4)
    dark = rng.random() < 0.5
    ink, edge = ("black", "white") if dark else ("white", "black")
    pen.text(place, word, fill=ink, font=font, stroke_width=1, stroke_fill=edge)
    return written


# The folder


def write_pairs(folder: Path, seed: int, count: int) -> list[Pair]:
    """Write pairs with their images, a card and a licence; a folder of fewer pairs gets the others."""
    make_folder(folder / IMAGES_NAME)

    asked = list(questions(seed, count // 2))

    def draw_missing(question: Question) -> None:
        for name, image in question.images(seed).items():
            if not (folder / name).exists():
                image.save(folder / name)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(draw_missing, asked))
    pairs = [pair for question in asked for pair in question.pairs()]
    write_atomic(folder / PAIRS_NAME, pair_lines(pairs))
    write_atomic(folder / "README.md", card(pairs, seed).encode())
    write_atomic(folder / "LICENSE", LICENCE.encode())
    return pairs


def pair_lines(pairs: Sequence[Pair]) -> bytes:
    rows = [{**pair.model_dump(), "question": question_of(pair)} for pair in pairs]
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def read_pairs(folder: Path) -> list[Pair]:
    """The pairs of a folder that `write_pairs` wrote."""
    path = folder / PAIRS_NAME
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{folder} has no {PAIRS_NAME}: write it with --out, without --data") from error
    pairs = []
    for number, line in enumerate(lines, start=1):
        try:
            row = dict(json.loads(line))
            pairs.append(Pair.model_validate({name: row.get(name) for name in Pair.model_fields}))
        except (ValueError, TypeError) as error:  # pydantic's is a ValueError
            raise InputError(f"{path}: line {number} is not a pair with its texts and images") from error
        for name in (pairs[-1].before, pairs[-1].after):
            if Path(name).is_absolute() or ".." in Path(name).parts or not (folder / name).is_file():
                raise InputError(f"{path}: line {number}: no image {name!r} in the folder")
    return pairs


def edition(pairs: Sequence[Pair]) -> str:
    """A name of these pairs: equal prompts and faults in equal order have the same."""
    text = "\n".join(f"{pair.id}\t{pair.prompt}" for pair in pairs)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def question_of(pair: Pair) -> str:
    """The question to a model without a prompt pack: two images, answered with yes or no."""
    return (
        "The first image was edited, and the second image is the result. The edit asked for was:\n\n"
        f"{pair.prompt}\n\n"
        "Compare the images. Does the second image show exactly this edit, done completely, with nothing "
        "else changed or added? Answer with one word: yes or no."
    )


def card(pairs: Sequence[Pair], seed: int) -> str:
    """The data card."""
    of_each = sum(not pair.right for pair in pairs) // len(FAULTS)
    return f"""---
license: cc0-1.0
language: [en]
task_categories: [visual-question-answering]
size_categories: [1K<n<10K]
configs:
  - config_name: default
    data_files: [{{split: test, path: {PAIRS_NAME}}}]
---

# Critic exam

{len(pairs):,} pairs of images, before and after an edit, for critics: models that say whether an edit was
done. Drawn by InterleaveThinker's miniature world from seed {seed}; edition `{edition(pairs)}`. No model drew
or labelled anything, so every label is exact and no judge is needed.

Each question is an image of 256×256 pixels and a prompt that names things, sizes, colours, states and places,
and what must stay. It has two pairs: one is right, the other has one fault. A model that does not look at the
second image is right half of the time. The images show {len(ALL_KINDS)} kinds of things ({len(ALL_NOUNS)}
with their states) in {len(ALL_BACKGROUNDS)} places. In half of the questions one thing is on, in or under
another, or held by it.

| fault | the image after the edit shows | pairs |
|---|---|---|
| thing | another thing in place of the changed one | about {of_each} |
| number | the changed thing twice | about {of_each} |
| colour | the changed thing in another colour | about {of_each} |
| place | the changed thing elsewhere, or on its carrier instead of in it, and the like | about {of_each} |
| state | the changed thing in another state, such as broken or asleep | about {of_each} |
| writing | the right image with a word on it | about {of_each} |
| nothing | the image before, unchanged | about {of_each} |

`{PAIRS_NAME}` has one JSON object per line: `id`, `prompt`, `before` and `after` (paths), `right`, `fault`,
and `question`, which asks for yes or no.

Limits: one style of flat drawings, English prompts, few edits at a time. A good result here is necessary for
a critic of photographs, not sufficient. Seed 0 is for tests: do not train on it.

Licence: CC0 1.0. The images and texts are made by a program of the project and show nobody.
"""


LICENCE = """CC0 1.0 Universal

The InterleaveThinker authors have waived all copyright and related or neighbouring rights to this data set,
worldwide, under the CC0 1.0 Universal Public Domain Dedication:
https://creativecommons.org/publicdomain/zero/1.0/legalcode
"""
