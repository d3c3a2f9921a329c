"""Stories in sentences of one's own: sampled, and read back as the same steps."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from interleave_mini.world.kinds import KINDS
from miniature.grammar import narrations
from miniature.grammar.narrations import read_narration, sample_narration

SAMPLED = 120
LEAST_READ = 0.7
"""Some things are called by names and adjectives that only the planner reads."""


def prompts_of(text: str) -> list[str]:
    steps = read_narration(text)
    assert steps is not None, text
    return [step.prompt for step in steps]


def test_most_narrations_are_read_back_and_none_as_something_else_often() -> None:
    rng, read, otherwise = Random(7), 0, 0
    for _ in range(SAMPLED):
        text, steps = sample_narration(rng)
        found = read_narration(text)
        same = found is not None and [step.scene for step in found] == [step.scene for step in steps]
        read += same
        otherwise += found is not None and not same
    assert read >= LEAST_READ * SAMPLED
    assert otherwise <= 0.05 * SAMPLED


def test_every_step_of_a_narration_follows_from_the_one_before() -> None:
    rng = Random(3)
    for _ in range(SAMPLED):
        _, (first, *rest) = sample_narration(rng)
        before = first.scene
        for step in rest:
            assert step.before == before
            assert step.scene != before
            before = step.scene


@pytest.mark.parametrize(
    ("text", "prompts"),
    [
        (
            "There is a cat and a tree. The cat climbs on the tree. Now the cat is gone. "
            "The cat comes back again.",
            [
                "A meadow with an orange cat on the left and a green tree on the right.",
                "Move the orange cat to the top right.",
                "Remove the orange cat.",
                "Add an orange cat at the top right.",
            ],
        ),
        (
            "Once upon a time there was a duck in the pond. One day a frog came along. They were very happy. "
            "Then it got dark.",
            [
                "The sea with a yellow duck in the middle.",
                "Add a green frog on the right.",
                "Change the background to the night sky.",
            ],
        ),
        (
            "My story: a dog was sitting in the garden. It starts to rain and then the dog goes home",
            [
                "A meadow with a brown dog in the middle.",
                "Add a blue cloud at the top right.",
                "Remove the brown dog.",
            ],
        ),
        (
            "There was a cat and a banana. The cat eats the banana. She turns purple.",
            [
                "A meadow with an orange cat on the left and a yellow banana on the right.",
                "Remove the yellow banana.",
            ],
        ),
    ],
)
def test_a_story_is_read(text: str, prompts: list[str]) -> None:
    if "She" in text:  # nobody was spoken of last but what is gone
        assert read_narration(text) is None
        text = text.replace("She", "The cat")
        prompts = [*prompts, "Paint the orange cat purple."]
    assert prompts_of(text) == prompts


def test_only_what_has_states_goes_on_to_the_next_one() -> None:
    assert len(KINDS["snowman"].states) > 1
    assert prompts_of("There is a snowman. The snowman melts.")[1] == (
        "Turn the blue snowman into a blue melting snowman."
    )
    assert read_narration("There is a ball. The ball hatches.") is None


def test_what_is_no_story_is_not_read() -> None:
    for text in ("", "Hello.", "The weather is fine. It rains.", "There is a cat."):
        assert read_narration(text) is None


def test_narrations_are_the_same_in_every_process() -> None:
    """The order of a set of words differs from process to process; what is sampled must not."""
    code = (
        "from random import Random; from miniature.grammar.narrations import sample_narration as s\n"
        "rng = Random(5); print([s(rng)[0] for _ in range(40)])"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("count", [40, 400])
def test_a_sentence_of_many_parts_takes_no_more_time_than_a_short_one(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    look = narrations._read_event
    monkeypatch.setattr(narrations, "_read_event", lambda *seen: looks.append(seen) or look(*seen))
    assert read_narration("There was a cat. " + "the cat is happy and " * count + "the cat sleeps.") is None
    assert read_narration("There was a cat. " + "The cat is happy. " * count + "Nothing.") is None
    assert len(looks) < 100
