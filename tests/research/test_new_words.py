"""Words exchanged in a request and its plan: alike in both, with their articles, and only where true."""

from __future__ import annotations

import re
from random import Random

import pytest

from interleave.agents.replies import render_plan
from interleave_mini.world.kinds import COLOURS, NOUNS
from interleave_mini.world.scene import Scene, Thing
from miniature.grammar.language_file import vocabulary
from miniature.grammar.tasks import sample_training_task
from miniature.train import new_words
from miniature.train.new_words import with_new_words

WORD = re.compile(r"[^\W\d_]+")
A_RED_BALL = Scene.of("meadow", {4: Thing("ball", "red")})
SAMPLES = 150


@pytest.fixture
def one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every exchange is for this word."""
    monkeypatch.setattr(new_words, "_new_words", lambda: ("anvil",))


def words(text: str) -> list[str]:
    return WORD.findall(text)


def test_the_same_word_comes_in_request_and_plan_with_its_article(one_word: None) -> None:
    text, answer = "Draw a red car. Red it stays.", "A red car. Add a red car at the top."
    scene = Scene.of("city", {4: Thing("car", "red")})
    found = {with_new_words(text, answer, [scene], Random(seed)) for seed in range(20)}
    assert found == {
        ("Draw an anvil car. Anvil it stays.", "An anvil car. Add an anvil car at the top."),
        ("Draw a red anvil. Red it stays.", "A red anvil. Add a red anvil at the top."),
    }


def test_an_article_loses_its_n_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_words, "_new_words", lambda: ("trumpet",))
    scene = Scene.of("city", {4: Thing("frog", "orange")})
    said = with_new_words("An orange frog wakes up.", "Draw an orange frog.", [scene], Random(0))
    assert said == ("A trumpet frog wakes up.", "Draw a trumpet frog.")


def test_a_colour_that_two_things_of_an_image_have_stays(one_word: None) -> None:
    """The plan gives the other one its usual colour, which the request never names."""
    both = Scene.of("meadow", {3: Thing("ball", "red"), 4: Thing("apple", "red")})
    text, answer = "A red ball lies beside an apple.", "Draw a red ball and a red apple."
    for seed in range(20):
        _, plan = with_new_words(text, answer, [A_RED_BALL, both], Random(seed))
        assert "red apple" in plan


def test_a_thing_whose_colour_is_not_said_keeps_its_noun(one_word: None) -> None:
    """Its usual colour would be that of a thing that nobody knows."""
    text, answer = "A ball rolls by.", "Draw a red ball."
    assert with_new_words(text, answer, [A_RED_BALL], Random(0)) == (text, answer)


def test_a_thing_that_changes_its_state_keeps_its_noun(one_word: None) -> None:
    scene = Scene.of("meadow", {4: Thing("frog", "blue", state=0)})
    found = {
        with_new_words("A blue tadpole.", "Draw a blue tadpole.", [scene], Random(seed)) for seed in range(9)
    }
    assert found == {("An anvil tadpole.", "Draw an anvil tadpole.")}


def test_new_words_are_none_of_the_world() -> None:
    assert not set(new_words._new_words()) & vocabulary()
    assert len(new_words._new_words()) > 100


def test_of_real_requests_nothing_but_the_exchanged_words_changes() -> None:
    rng = Random(5)
    changed = 0
    for _ in range(SAMPLES):
        task = sample_training_task("story", rng)
        text, answer = task.text, render_plan(task.plan())
        scenes = [step.scene for step in task.steps]
        new_text, new_answer = with_new_words(text, answer, scenes, rng)
        text, answer, new_text, new_answer = map(in_single_words, (text, answer, new_text, new_answer))
        exchanged = exchanges(text, new_text)
        assert exchanges(answer, new_answer).items() <= exchanged.items(), "the plan has words of its own"
        for old, new in exchanged.items():
            assert not re.search(rf"\b{old}\b", new_answer), "the plan still has the old word"
            assert old not in COLOURS or all(uses(old, scene) <= 1 for scene in scenes)
            assert_articles(new_text, new)
            assert_articles(new_answer, new)
        changed += bool(exchanged)
    assert changed > SAMPLES / 4


def in_single_words(text: str) -> str:
    """The text in lower case, with "icecream" for "ice cream"."""
    text = text.lower()
    for noun in NOUNS:
        text = text.replace(noun, noun.replace(" ", ""))
    return text


def exchanges(text: str, new: str) -> dict[str, str]:
    """The words of a text that are others now; articles apart."""
    pairs = zip(words(text), words(new), strict=True)
    return {old: now for old, now in pairs if old != now and {old, now} != {"a", "an"}}


def uses(colour: str, scene: Scene) -> int:
    return sum(thing.colour == colour for thing in scene.things.values())


def assert_articles(text: str, word: str) -> None:
    for article in re.findall(rf"\b(an?) {word}\b", text, re.IGNORECASE):
        assert (article.lower() == "an") == (word[0] in "aeiou")
