"""What no planner of the miniature is asked: requests with words or pictures from elsewhere, or no sense."""

from __future__ import annotations

from random import Random

import pytest
from PIL import Image

from interleave.backends.registry import adapt_request, refuse_undrawable
from interleave.errors import InputError
from interleave.types import Request
from interleave_mini.language.tasks import SUITES, sample_task
from interleave_mini.oracle import refined


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


@pytest.mark.parametrize(("typed", "meant"), [("forg", "frog"), ("dgo", "dog"), ("bleu", "blue")])
def test_a_mistyped_word_is_taken_for_something_to_draw(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"Did you mean “{meant}” for “{typed}”"):
        adapt_request(Request.of(f"Tell the story of a {typed}"), "mini")


def test_a_foreign_picture_is_named() -> None:
    photo = Image.linear_gradient("L").convert("RGB")
    drawn = sample_task("edit", Random(1)).request().pictures[0]
    with pytest.raises(InputError, match="picture 2 is not of the miniature's world"):
        adapt_request(Request.of([drawn, photo, "What comes next? Finish it."]), "oracle")


@pytest.mark.parametrize(
    "request_", ["Draw a robot", "frog", "?", "Show the phases of the moon in five pictures."]
)
def test_known_words_that_make_no_request_are_refused_with_two_that_read_like_it(request_: str) -> None:
    with pytest.raises(InputError, match=r"no such request .*Requests it knows read like “.+” or “.+”"):
        adapt_request(Request.of(request_), "mini")


def test_a_planner_told_to_guess_takes_known_words_and_no_others() -> None:
    request = Request.of("Draw a robot")
    assert adapt_request(request, "mini?guess=true") is request
    with pytest.raises(InputError, match="“dragon”"):
        adapt_request(Request.of("Draw a dragon"), "mini?guess=true")


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
        for beat in sample_task(suite, rng).beats:
            refuse_undrawable([beat.prompt, refined(beat.scene, beat.before)], "mini")
