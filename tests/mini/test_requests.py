"""Requests before any model runs: normalised to the planners' form, or refused with a reason."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from PIL import Image

from interleave.agents.planner import wanted_steps
from interleave.backends.registry import adapt_request, refuse_undrawable
from interleave.cli.request_input import build_request
from interleave.errors import InputError, UnknownWords
from interleave.request_files import read_markdown
from interleave.types import Part, Request, Text
from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.language.vocabulary import corrections, is_english
from interleave_mini.oracle import parse_request, refine_prompt
from interleave_mini.requests import accept_request, check_prompt, normalise_story
from interleave_mini.world.drawing import draw
from miniature.grammar.tasks import GO_ON, parse_task, sample_task

TITLE = "How a frog grows up, step by step, in four pictures"
TASK = parse_task([TITLE])
OURS = """# How a frog grows up, step by step, in four pictures

> The miniature's own small models took part.

## 1. Frog spawn

![There is some frog spawn.](0.png)

There is some green frog spawn in the meadow.

## 2. Tadpole

![A green tadpole hatches.](1.png)

*Not accepted by the critic; the best attempt is shown.*

A green tadpole hatches and swims about\\!
"""
CAPTIONS_ABOVE = """How a frog grows up, step by step, in four pictures

There is some green frog spawn in the meadow.

![](0.png)

A green tadpole hatches and swims about!

![](1.png)
"""
BARE = "# How a frog grows up, step by step, in four pictures\n\n![](0.png)\n![](1.png)\n"


def half_a_story(folder: Path, markdown: str, wish: str) -> Request:
    for number, step in enumerate(TASK.steps[:2]):
        draw(step.scene).save(folder / f"{number}.png")
    (folder / "story.md").write_text(markdown, "utf-8")
    return build_request([*read_markdown(folder / "story.md"), wish])


def shape(request: Request) -> list[str]:
    return [part.text if isinstance(part, Text) else "picture" for part in request.parts]


@pytest.mark.parametrize("markdown", [OURS, CAPTIONS_ABOVE], ids=["ours", "captions above"])
@pytest.mark.parametrize("wish", ["Go on, in two pictures", "What comes next?", *GO_ON])
def test_a_story_is_told_as_planners_know_it(tmp_path: Path, markdown: str, wish: str) -> None:
    begun = normalise_story(half_a_story(tmp_path, markdown, wish))
    assert shape(begun) == [
        TITLE,
        "Step 1: There is some green frog spawn in the meadow.",
        "picture",
        "Step 2: A green tadpole hatches and swims about!",
        "picture",
        wish,
    ]
    assert [step.name for step in parse_request(begun).steps] == [step.name for step in TASK.steps[2:]]


def test_images_without_words_go_on_too(tmp_path: Path) -> None:
    begun = accept_request(half_a_story(tmp_path, BARE, "Continue."), {}).as_read
    assert shape(begun) == [TITLE, "Step 1: ", "picture", "Step 2: ", "picture", "Continue."]


@pytest.mark.parametrize("wish", ["Go on, in three pictures", "now make it night", "AND THEN???"])
def test_the_planner_reads_a_wish_as_it_was_typed(tmp_path: Path, wish: str) -> None:
    assert shape(accept_request(half_a_story(tmp_path, OURS, wish), {}).as_read)[-1] == wish


@pytest.mark.parametrize("shouted", ["HOW A FROG GROWS UP!!!", "Show the phases of the moon!"])
def test_the_oracle_understands_who_shouts(shouted: str) -> None:
    assert parse_request(accept_request(Request.of(shouted), {})).steps


def test_what_is_no_story_stays_as_it_is(tmp_path: Path) -> None:
    image = draw(TASK.steps[0].scene)
    kept: list[list[str | Path | Image.Image | Part]] = [
        [TITLE],
        [image, "Paint the frog spawn blue."],
        ["A story like", image],
    ]
    for parts in kept:
        request = Request.of(parts)
        assert normalise_story(request) is request


def test_a_wish_after_a_story_without_captions_is_one_after_a_story() -> None:
    request = Request.of([TITLE, draw(TASK.steps[0].scene), "Paint the frog spawn blue."])
    assert shape(normalise_story(request)) == [TITLE, "Step 1: ", "picture", "Paint the frog spawn blue."]


@pytest.mark.parametrize("seed", range(4))
def test_the_form_planners_learn_stays_as_it_is(seed: int) -> None:
    from random import Random

    task: Task = sample_task("continue", Random(seed))
    request = task.request()
    assert normalise_story(request) is request


def test_only_the_wish_says_how_many_images_are_to_come(tmp_path: Path) -> None:
    assert wanted_steps(half_a_story(tmp_path, OURS, "Please continue from here."), 50) is None
    assert wanted_steps(half_a_story(tmp_path, OURS, "Go on, in two pictures"), 50) == 2
    assert wanted_steps(Request.of([TITLE, draw(TASK.steps[0].scene)]), 50) == 4


# Refused: words, images and requests from outside the world


@pytest.mark.parametrize("planner", ["oracle", "mini", "mini?device=cpu"])
@pytest.mark.parametrize("suite", SUITES)
def test_requests_of_the_world_are_taken_as_they_are(suite: str, planner: str) -> None:
    rng = Random(suite)
    for _ in range(5):
        request = sample_task(suite, rng).request()
        assert adapt_request(request, planner) is request


def test_a_foreign_word_is_named() -> None:
    with pytest.raises(InputError, match="does not know “unicorn”"):
        adapt_request(Request.of("Tell the story of a unicorn"), "oracle")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("frgo", "frog"),
        ("aple", "apple"),
        ("doog", "dog"),
        ("rabit", "rabbit"),
        ("yelow", "yellow"),
        ("balon", "balloon"),
    ],
)
def test_a_mistyped_word_with_one_candidate_is_corrected_for_the_planner_and_said(
    typed: str, meant: str
) -> None:
    found = adapt_request(Request.of(f"Tell the story of a {typed} cat"), "mini")
    assert found.text == f"Tell the story of a {typed} cat"
    assert found.as_read.text == f"Tell the story of a {meant} cat"
    assert found.reading is not None
    assert found.reading.notes == (f"read “{typed}” as “{meant}”",)


@pytest.mark.parametrize(
    "word", ["rots", "rotting", "fro", "fist", "juggles", "ripened", "boast", "coats", "grown"]
)
def test_a_real_word_is_never_corrected(word: str) -> None:
    assert is_english(word)
    assert corrections(f"The apple {word}") == {}


@pytest.mark.parametrize(
    "text",
    [
        "Mia has a dog and Tom has a cat",
        "Lucia the rabbit has a carrot",
        "Ravi's kite breaks",
        "Look, it is Mr. Potts with a dog",
        "Er, a dog, I think",
    ],
)
def test_a_name_is_neither_corrected_nor_refused_nor_left_out(text: str) -> None:
    request = accept_request(Request.of(text), {})
    assert request.reading is None


def test_a_name_with_an_apostrophe_is_no_word_that_is_left_out() -> None:
    told = accept_request(Request.of("Mila finds a kite. Then Mila's dog comes."), {})
    assert told.reading is not None
    assert told.reading.notes == ()


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("a cat nonchalantly sees three balls", ("nonchalantly",)),
        ("a drowsy cat dozes, and the dog yodels", ("drowsy", "yodels")),
        ("a cat with a hat", ()),
        ("Teach me step by step how to draw a snowman with a red hat.", ()),
        ("Show a wall of red blocks", ()),
        ("A duck named Quackers and a very nice little frog", ()),
    ],
)
def test_words_that_the_planner_has_not_learned_are_named(text: str, left_out: tuple[str, ...]) -> None:
    request = accept_request(Request.of(text), {})
    notes = request.reading.notes if request.reading else ()
    words = ", ".join(f"“{word}”" for word in left_out)
    assert notes == ((f"left out: {words}",) if left_out else ())


@pytest.mark.parametrize(
    ("text", "read", "notes"),
    [
        ("a cat and a vampire", "a cat and a man", ["no vampire here: a man instead"]),
        (
            "A unicorn and a zebra meet in the meadow",
            "A horse and a cow meet in the meadow",
            ["no unicorn here: a horse instead", "no zebra here: a cow instead"],
        ),
        (
            "Draw three swords and a frgo",
            "Draw three hammers and a frog",
            ["no swords here: hammers instead"],
        ),
    ],
)
def test_with_nearest_lacking_things_are_exchanged_and_said(text: str, read: str, notes: list[str]) -> None:
    request = accept_request(Request.of(text), {"nearest": "true"})
    assert request.text == text
    assert request.as_read.text == read
    assert request.reading is not None
    assert [note for note in request.reading.notes if note.startswith("no ")] == notes


def test_what_has_no_neighbour_is_refused_with_nearest_too() -> None:
    with pytest.raises(UnknownWords, match="does not know “xylograph”") as refused:
        accept_request(Request.of("a cat and a xylograph"), {"nearest": "true"})
    assert refused.value.nearest == {}


def test_a_prompt_is_refused_without_an_option_that_only_requests_have() -> None:
    with pytest.raises(UnknownWords, match="“unicorn”") as refused:
        check_prompt("a frog on a unicorn")
    assert "nearest" not in str(refused.value)


def test_a_request_in_another_language_is_refused_kindly() -> None:
    with pytest.raises(InputError, match="reads English only, and this looks like German: sorry!"):
        adapt_request(Request.of("Zeig mir bitte, wie ein Frosch wächst"), "mini")
    with pytest.raises(InputError, match="another language"):
        adapt_request(Request.of("カエルの成長を見せてください"), "mini")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (
            "A zebra and a unicorn meet",
            "Take horse for zebra and cow for unicorn with nearest=True. It can do “Draw a horse and",
        ),
        (
            "a turtle and a vampire",
            "It can do “Draw a turtle and a man, then make it night.” or “",
        ),
        ("how to do CPR", "It can do “"),
    ],
)
def test_a_refusal_keeps_the_things_of_the_request(text: str, instead: str) -> None:
    with pytest.raises(UnknownWords) as caught:
        accept_request(Request((Text(text),)), {})
    assert instead in str(caught.value)


def test_a_verb_is_not_the_thing_of_the_same_spelling() -> None:
    accept_request(Request((Text("Three trees grow up and bear red apples."),)), {})


@pytest.mark.parametrize(
    "text", ["I'm a baker. Draw a cake", "we are nurses: four pink cups", "I am a pilot, draw a plane"]
)
def test_what_people_say_of_themselves_is_not_asked_for(text: str) -> None:
    assert accept_request(Request.of(text), {}).text == text


def test_what_they_are_about_to_do_is() -> None:
    with pytest.raises(InputError, match="unicorn"):
        accept_request(Request.of("I'm drawing a unicorn"), {})


def test_an_abbreviation_is_no_mistyped_word() -> None:
    with pytest.raises(InputError, match="does not know “CPR”"):
        accept_request(Request((Text("how to do CPR"),)), {})


def test_a_foreign_image_is_named() -> None:
    photo = Image.linear_gradient("L").convert("RGB")
    drawn = sample_task("edit", Random(1)).request().images[0]
    with pytest.raises(InputError, match="image 2 is not of the miniature's world"):
        adapt_request(Request.of([drawn, photo, "What comes next? Finish it."]), "oracle")


@pytest.mark.parametrize(
    "text",
    [
        "Show me how a butterfly grows.",
        "my teacher wants a story about a turtle named Shelly",
        "A cat, chased by a dog, hides; then they play!",
        "SHOW A FROG!!!",
        "frog",
    ],
)
def test_known_words_are_never_refused_for_their_order(text: str) -> None:
    assert adapt_request(Request.of(text), "mini").text == text


def test_prompts_of_a_plan_with_foreign_words_are_refused_for_the_miniatures_generator_only() -> None:
    prompts = ["A meadow with a red cat.", "Add a giraffe on the right."]
    with pytest.raises(InputError, match="“giraffe”"):
        refuse_undrawable(prompts, "mini?steps=2")
    refuse_undrawable(prompts, "world")
    refuse_undrawable(prompts[:1], "mini")


@pytest.mark.parametrize("suite", ["story", "edit", "know"])
def test_true_prompts_short_and_exact_are_never_refused(suite: str) -> None:
    rng = Random(suite)
    for _ in range(40):
        for step in sample_task(suite, rng).steps:
            refuse_undrawable([step.prompt, refine_prompt(step.scene, step.before)], "mini")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("A ROBOT WITH AN UMBRELLA!! in the desert", "a robot with an umbrella!! in the desert"),
        ("BLACK DINOSAUR NEXT TO A VOLCANO!!!", "black dinosaur next to a volcano!!!"),
        ("A cat and I", "A cat and I"),
    ],
)
def test_words_in_capitals_are_read_small(typed: str, read: str) -> None:
    request = accept_request(Request.of(typed), {})
    assert (request.text, request.as_read.text) == (typed, read)
