"""The voices: their notation, their files, and the requests that come of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from interleave.errors import InputError
from interleave_mini.bench.tasks import SUITES
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.world.scene import Scene, Thing
from miniature.grammar.edits.plain import SECTIONS, read_edits, sample_edits
from miniature.grammar.natural import dressed, read_request, sample_request
from miniature.grammar.phrasings import GapUse, Phrasing
from miniature.grammar.story import shortened
from miniature.grammar.tasks import sample_task
from miniature.grammar.topics import DOMAINS
from miniature.grammar.voices import HELD_OUT, Voice, parse_voice, voices

TOPICS = [topic for topics in DOMAINS.values() for topic in topics]
SPECIAL = ("openings", "closings", "go on", "describe", "own steps")


# The notation


def test_a_phrasing_writes_and_parses_its_sentences() -> None:
    phrasing = Phrasing("how (does|did) {hero} grow[ up][ {place}]?")
    assert phrasing.gaps == {"hero", "place"}
    said = {
        "".join(part if isinstance(part, str) else f"<{part.name}>" for part in phrasing.chosen(Random(seed)))
        for seed in range(60)
    }
    assert len(said) == 8
    assert "how did <hero> grow up <place>?" in said
    patterns = {"hero": "an? frog", "place": "in the sea"}
    regex, uses = phrasing.regex(lambda use: patterns[use.name])
    found = regex.fullmatch("how does a frog grow up in the sea?")
    assert found is not None
    assert {use.name: found[group] for group, use in uses.items()} == {
        "hero": "a frog",
        "place": "in the sea",
    }


def test_gaps_have_forms_and_apostrophes_are_alike() -> None:
    phrasing = Phrasing("it's {the hero}")
    assert phrasing.parts == ("it's ", GapUse("hero", "the"))
    assert phrasing.regex(lambda use: "x")[0].fullmatch("it’s x")


@pytest.mark.parametrize("text", ["[open", "(a|b", "close]", "{gap", "a | b"])
def test_a_line_with_an_unmatched_bracket_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        _ = Phrasing(text).parts


# The files


def test_whole_voices_are_held_out_and_every_voice_has_words_for_everything() -> None:
    names = [voice.name for voice in voices()]
    assert len(names) >= 7
    assert set(HELD_OUT) < set(names)
    for voice in voices():
        for name in (*SECTIONS.values(), *SPECIAL):
            assert len(voice.section(name)) >= 8, (voice.name, name)
        has = [topic.name for topic in TOPICS if len(voice.section(topic.name)) >= 8]
        if voice.held_out:  # written before the latest sub-categories, and never read since
            assert len(has) >= 0.75 * len(TOPICS), voice.name
        else:
            assert len(has) == len(TOPICS), (voice.name, {topic.name for topic in TOPICS} - {*has})


def test_every_sub_category_has_many_phrasings_and_no_two_voices_share_many() -> None:
    for topic in TOPICS:
        lines = [each.text for voice in voices() for each in voice.section(topic.name)]
        assert len(lines) >= 60, topic.name
    shared = Counter(
        text
        for voice in voices()
        for text in {each.text.lower() for lines in voice.phrasings.values() for each in lines}
    )
    assert sum(count > 1 for count in shared.values()) < 0.02 * len(shared)


@pytest.mark.parametrize("voice", voices(), ids=lambda voice: voice.name)
def test_a_phrasing_uses_only_gaps_that_its_topic_has(voice: Voice) -> None:
    for topic in TOPICS:
        for phrasing in voice.section(topic.name):
            assert phrasing.gaps <= {*topic.gaps, "n"}, (topic.name, phrasing)


# Requests


@pytest.mark.parametrize("voice", voices(), ids=lambda voice: voice.name)
def test_the_truth_of_a_request_is_possible_and_read_back(voice: Voice) -> None:
    rng, misread, asked = Random(voice.name), 0, 0
    for topic in [topic for topic in TOPICS if voice.section(topic.name)][:: 5 if voice.held_out else 4]:
        written = sample_request(topic, voice, rng)
        assert written is not None, topic.name
        for step in written.story.steps:
            assert parse_prompt(step.prompt, step.before) == step.scene, (written.text, step.prompt)
            missing = [fact for fact in step.facts if not fact.is_said_in(step.caption)]
            assert not missing, (written.text, step.caption, missing)
        found = read_request(written.text)
        asked += 1
        misread += found is None or [step.scene for step in found.request.story.steps] != [
            step.scene for step in written.story.steps
        ]
    assert misread <= 0.1 * asked


def test_what_a_person_leaves_out_is_chosen() -> None:
    found = read_request("birthday time for a fish")
    task = sample_task("story", Random(1))
    assert task.steps
    if found is not None:  # a line of one voice
        assert found.topic.name == "a birthday"


def test_a_story_in_fewer_images_keeps_its_first_and_its_last() -> None:
    frog = next(topic for topic in TOPICS if topic.name == "a frog grows up")
    steps = tuple(frog.sample(Random(1)).story.steps)
    for count in (2, 3):
        short = shortened(steps, count)
        assert (len(short), short[0], short[-1].scene) == (count, steps[0], steps[-1].scene)
        assert all(parse_prompt(step.prompt, step.before) == step.scene for step in short)
    assert shortened(steps, 7) == steps


def test_plain_edits_in_a_row_follow_each_other() -> None:
    scene = Scene.of("meadow", {4: Thing("cat", "orange"), 0: Thing("sun", "yellow")})
    voice = next(voice for voice in voices() if not voice.held_out)
    for seed in range(20):
        texts, steps = sample_edits(scene, voice, Random(seed), 2)
        assert steps[1].before == steps[0].scene
        first = read_edits(texts[0], scene)
        assert first is None or first[0].scene == steps[0].scene, texts[0]


def test_a_request_is_dressed_in_many_ways() -> None:
    voice = Voice("v", parse_voice("= openings\nhello!\n= closings\nthanks\n"))
    said = {dressed("draw a cat.", voice, Random(seed), 3) for seed in range(400)}
    assert {"Draw a cat.", "Draw a cat", "hello! draw a cat"} <= said
    assert any("thanks" in text for text in said)
    assert any("three images" in text or "3 pictures" in text for text in said)
    assert "DRAW A CAT." in said


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_samples_the_same_from_the_same_seed(suite: str) -> None:
    assert sample_task(suite, Random(5)).parts == sample_task(suite, Random(5)).parts
