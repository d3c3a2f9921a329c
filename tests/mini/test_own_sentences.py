"""Stories in people's own sentences: one step for each, with the sentence as its caption."""

from __future__ import annotations

import pytest

from interleave.types import Plan, PlanStep, Request
from interleave_mini.language.own_sentences import own_sentences, split_sentences
from interleave_mini.requests import accept_request


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Bear sleeps. It is 3.50 p.m. today.", ["Mr. Bear sleeps.", "It is 3.50 p.m. today."]),
        ("The frog waits... and waits. Then it hops!", ["The frog waits... and waits.", "Then it hops!"]),
        ("“Hello!” says the cat. “Who are you?”", ["“Hello!” says the cat.", "“Who are you?”"]),
        ("A cat sits\nA dog comes", ["A cat sits", "A dog comes"]),
        ('"Stop." "Why?" J. R. Cat runs.', ['"Stop."', '"Why?"', "J. R. Cat runs."]),
        ("", []),
    ],
)
def test_sentences_are_split_where_they_end(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


STORY = ["A cat sits in the meadow.", "A dog comes.", "They play with a ball!"]


@pytest.mark.parametrize(
    "text",
    [
        " ".join(STORY),
        "\n".join(STORY),
        f"Please illustrate this story: {' '.join(STORY)}",
        f"Can you draw my story? {' '.join(STORY)}",
        f"{' '.join(STORY)} Please make three pictures.",
        "The new friend\n" + "\n".join(STORY),
        "# The new friend\n\n" + "\n".join(STORY),
        "\n".join(f"{number}. {each}" for number, each in enumerate(STORY, start=1)),
        "My story:\n" + "\n".join(f"- {each}" for each in STORY),
        " ".join(f"{number}) {each}" for number, each in enumerate(STORY, start=1)),
        "\n".join(f"Step {number}: {each}" for number, each in enumerate(STORY, start=1)),
    ],
)
def test_a_story_is_told_sentence_by_sentence(text: str) -> None:
    found = own_sentences(text)
    assert found is not None
    assert list(found.sentences) == STORY


@pytest.mark.parametrize(
    "text",
    [
        "Draw a cat. Then make it blue.",
        "A tiny seedling becomes a tree. Show it over the years.",
        "Who wins the race, a fish or a hen? The first one wins it.",
        "I'm a baker. Draw a cake",
        "How a frog grows up, step by step, in four pictures",
        "a cat and a dog",
        "A cat sits here, and then a dog comes. Night falls over them.",
        "1. Draw a cat\n2. Make it blue",
        "A cat in the meadow. For second graders.",
        "",
    ],
)
def test_other_requests_are_left_to_the_planner(text: str) -> None:
    assert own_sentences(text) is None


def test_the_planner_reads_a_list_and_the_captions_are_the_users_words() -> None:
    request = accept_request(Request.of("A frgo sits in the meadow. Mia, a dog, comes!"), {})
    assert request.as_read.text == "1. A frog sits in the meadow\n2. Mia, a dog, comes"
    reading = request.reading
    assert reading is not None
    made = reading.applied_to(plan(2))
    assert [step.text for step in made.steps] == ["A frgo sits in the meadow.", "Mia, a dog, comes!"]
    assert made.notes == ("read “frgo” as “frog”",)
    assert [step.text for step in reading.applied_to(plan(3)).steps] == ["ours 1", "ours 2", "ours 3"]


def plan(steps: int) -> Plan:
    numbers = range(1, steps + 1)
    return Plan(
        steps=tuple(PlanStep(number=each, prompt="a cat", caption=f"ours {each}") for each in numbers)
    )
