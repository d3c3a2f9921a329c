"""Requests before any model runs: normalised to the planners' form, or refused with a reason."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from PIL import Image

from interleave.agents.planner import wanted_steps
from interleave.backends.registry import adapt_request, refuse_undrawable
from interleave.cli.request_input import build_request
from interleave.errors import InputError
from interleave.request_files import read_markdown
from interleave.types import Part, Request, Text
from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.oracle import parse_request, refine_prompt
from interleave_mini.requests import accept_request, normalise_story
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
    begun = accept_request(half_a_story(tmp_path, BARE, "Continue."), {})
    assert shape(begun) == [TITLE, "Step 1: ", "picture", "Step 2: ", "picture", "Continue."]


@pytest.mark.parametrize("wish", ["Go on, in three pictures", "now make it night", "AND THEN???"])
def test_the_planner_reads_a_wish_as_it_was_typed(tmp_path: Path, wish: str) -> None:
    assert shape(accept_request(half_a_story(tmp_path, OURS, wish), {}))[-1] == wish


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
    with pytest.raises(InputError, match="does not know “dragon”"):
        adapt_request(Request.of("Tell the story of a dragon"), "oracle")


@pytest.mark.parametrize(("typed", "meant"), [("frgo", "frog"), ("rabit", "rabbit"), ("yelow", "yellow")])
def test_a_mistyped_word_with_one_candidate_is_corrected_and_said(
    typed: str, meant: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = adapt_request(Request.of(f"Tell the story of a {typed} cat"), "mini")
    assert found.text == f"Tell the story of a {meant} cat"
    assert f"“{typed}” as “{meant}”" in caplog.text


def test_a_request_in_another_language_is_refused_kindly() -> None:
    with pytest.raises(InputError, match="reads English only, and this looks like German: sorry!"):
        adapt_request(Request.of("Zeig mir bitte, wie ein Frosch wächst"), "mini")
    with pytest.raises(InputError, match="another language"):
        adapt_request(Request.of("カエルの成長を見せてください"), "mini")


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("A horse and a cow meet at the farm", "Try “A cat and a dog meet at the farm” or “"),
        ("A small bear walks through the forest", "Try “A small cat walks through the forest” or “"),
        ("how to fold a paper crane", "It can do “"),  # a paper car is as hard to fold
        ("A girl in a yellow raincoat", "It can do “"),  # a raincoat is no kind of book
    ],
)
def test_neighbours_stand_in_only_where_the_request_makes_sense_with_them(text: str, instead: str) -> None:
    with pytest.raises(InputError) as caught:
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
    with pytest.raises(InputError, match="dragon"):
        accept_request(Request.of("I'm drawing a dragon"), {})


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
