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
        ("A dog came. it was sad. Then it ran.", ["A dog came.", "it was sad.", "Then it ran."]),
        (
            "“Stop.” the cat said. At 5 p.m. the dog came.",
            ["“Stop.” the cat said.", "At 5 p.m. the dog came."],
        ),
        ('"Stop." "Why?" J. R. Cat runs.', ['"Stop."', '"Why?"', "J. R. Cat runs."]),
        ("", []),
    ],
)
def test_sentences_are_split_where_they_end(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Mum asks me. I say no. She stays.", 3),
        ("He reads a book.\nA fox comes in.\nThey read on together.", 3),
        ("The lion lets the mouse go. The mouse is grateful. The sky just turned red.", 3),
        ("In the morning the cat wakes. On Monday it rains. Every evening she sleeps.", 3),
        ("The robot woke up. He was alone in the city. He cried.", 3),
        ("We have a fire. We have a guitar. We have each other.", 3),
        ("I wanted to paint the wall. The paint fell on the dog. Now mum is red.", 3),
        ("Winter poem. The pond is white. The tree is bare.", 2),
        ("my hamster escaped\ni looked under the table\nhe was eating cheese there", 3),
        ("1. Take an empty bucket.\n2. Fill it with water.\n3. Bring it to the flower.", 3),
        ("I am a fisherman's son. I get seasick. My father is patient. Could you draw that?", 3),
        ("Please illustrate: Mr Miller has bought a donkey. It does not want to walk.", 2),
        ("mia has a red balloon. she is happy. the balloon pops. mia is sad", 4),
        ("i had a blue kite on the beach. it got broken.\nmy dad gave me a red one.", 3),
    ],
)
def test_no_sentence_of_a_story_is_joined_or_dropped(text: str, count: int) -> None:
    found = own_sentences(text)
    assert found is not None
    assert len(found.sentences) == count
    assert all(each in text for each in found.sentences)


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
        "a hen. it lays something. surprise, it's an egg",
        "a red fish on the left. a green turtle next to it. one boat at the top.",
        "draw a cat. make it sad. it is in the garden.",
        "heyy it is me again. three images: a cat is on a bed. a dog comes. it is night",
        "A cat in the meadow. For second graders.",
        "A red rocket is in the snow. Nothing more.",
        "A butterfly sits under a balloon. My daughter just turned four.",
        "Hmm, a picture in the forest, with a duck. We'd be ever so grateful.",
        "A pink carrot stays there from the first picture to the last. Fill a purple cup.",
        "Counting to six with purple elephants, one picture each. The children are six years old.",
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
