"""The miniature's language about images: what is written is read back as the very same scene."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from samples import OPERATIONS, possible, random_scene, scene_and, scene_with_gripper

from interleave_mini.language.descriptions import describe, parse_description
from interleave_mini.language.patterns import NotUnderstood, normalised
from interleave_mini.language.prompts import edit_prompt, is_exact, literal_scene, parse_prompt, scene_prompt
from interleave_mini.language.references import Style, find, find_position
from interleave_mini.language.sentences import SPEECH, parse_sentence, say, say_all
from interleave_mini.language.vocabulary import language
from interleave_mini.language.words import (
    POSITIONS,
    RELATIONS,
    UNCOUNTABLE,
    a,
    counted,
    described,
    described_many,
    listed,
    plural,
    sentence,
    with_article,
)
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, NOUNS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Recolour,
    Remove,
    Replace,
    apply_all,
)
from interleave_mini.world.scene import Gripper, Scene, Size, Thing

CAT, SMALL_CAT, BLUE_CAT = Thing("cat", "red"), Thing("cat", "red", Size.SMALL), Thing("cat", "blue")
DOG = Thing("dog", "brown")
EGG = Thing("hen", "red")
MANNERS = ("short", "exact", "random")


def said_in(style: str, rng: Random) -> dict[str, Any]:
    manners: dict[str, dict[str, Any]] = {"short": {}, "exact": {"exact": True}, "random": {"rng": rng}}
    return manners[style]


# Prompts


@pytest.mark.parametrize("style", MANNERS)
@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_prompt_for_an_edit_is_read_back(kind: type[Operation], style: str) -> None:
    rng = Random(f"{kind.__name__}/{style}")
    for _ in range(60):
        scene, operation = scene_and(kind, rng)
        prompt = edit_prompt([operation], scene, **said_in(style, rng))
        assert parse_prompt(prompt, scene) == operation.apply(scene), prompt


@pytest.mark.parametrize("style", MANNERS)
def test_a_prompt_for_several_edits_is_read_back(style: str) -> None:
    rng = Random(f"several/{style}")
    for _ in range(100):
        scene = now = random_scene(rng, least=2, most=5)
        operations = []
        for kind in rng.sample(OPERATIONS[:9], 3):
            if (operation := possible(kind, now, rng)) is not None:
                operations.append(operation)
                now = operation.apply(now)
        prompt = edit_prompt(operations, scene, **said_in(style, rng))
        assert parse_prompt(prompt, scene) == now, prompt


@pytest.mark.parametrize("style", MANNERS)
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_prompt_for_a_whole_scene_is_read_back(background: str, style: str) -> None:
    rng = Random(f"{background}/{style}")
    scenes = [random_scene(rng) for _ in range(12)] + [scene_with_gripper(rng) for _ in range(6)]
    for scene in (Scene(background), *scenes):
        scene = Scene(background, scene.cells, scene.gripper)
        prompt = scene_prompt(scene, **said_in(style, rng))
        assert parse_prompt(prompt, None) == scene, prompt


def test_every_noun_in_every_colour_can_be_asked_for() -> None:
    for noun, (kind, state) in NOUNS.items():
        for colour in COLOURS:
            scene = Scene.of("paper", {4: Thing(kind, colour, Size.LARGE, state)})
            assert parse_prompt(scene_prompt(scene), None) == scene, noun


def test_exact_prompts_say_what_must_stay_and_short_ones_do_not() -> None:
    scene = Scene.of("meadow", {3: CAT, 5: DOG})
    short, exact = (edit_prompt([Recolour(3, "blue")], scene, exact=exact) for exact in (False, True))
    assert short == "Paint the red cat blue."
    assert exact.endswith("Keep the large brown dog in the middle right and the meadow unchanged.")
    assert (is_exact(short), is_exact(exact)) == (False, True)
    assert is_exact(scene_prompt(scene, exact=True))
    assert not is_exact(scene_prompt(scene))


def test_capitals_and_spaces_do_not_matter() -> None:
    scene = Scene.of("meadow", {3: CAT})
    assert parse_prompt("  PAINT the  Red CAT blue ", scene).things == {3: BLUE_CAT}
    assert parse_prompt("a MEADOW with a red cat On The Left", None) == scene


@pytest.mark.parametrize(
    "prompt", ["", "   ", "Keep everything unchanged.", "Sing a song.", "Remove the dog."]
)
def test_a_prompt_that_asks_for_nothing_is_not_understood(prompt: str) -> None:
    with pytest.raises(NotUnderstood):
        parse_prompt(prompt, Scene.of("meadow", {3: CAT}))


def test_an_edit_without_an_image_is_not_understood() -> None:
    with pytest.raises(NotUnderstood):
        parse_prompt("Paint the red cat blue.", None)


# Phrasings


def phrasings(operation: Operation, scene: Scene, count: int = 400) -> set[str]:
    rng = Random(1)
    return {say(operation, scene, Style(rng=rng)) for _ in range(count)}


def test_positions_are_said_absolutely_and_relative_to_other_things() -> None:
    said = phrasings(Add(DOG, 5), Scene.of("meadow", {4: CAT}))
    assert any(" right of the" in each for each in said)
    assert any(" on the right" in each for each in said)


BESIDE_THE_MIDDLE = {
    "left of": 3,
    "to the left of": 3,
    "right of": 5,
    "to the right of": 5,
    "above": 1,
    "below": 7,
    "under": 7,
}


def test_every_relation_is_understood() -> None:
    assert set(BESIDE_THE_MIDDLE) == set(RELATIONS)
    for relation, cell in BESIDE_THE_MIDDLE.items():
        added = parse_prompt(f"Add a brown dog {relation} the red cat.", Scene.of("meadow", {4: CAT}))
        assert added.things == {4: CAT, cell: DOG}, relation


@pytest.mark.parametrize(("cell", "ways"), list(enumerate(POSITIONS)))
def test_every_position_is_understood(cell: int, ways: tuple[str, ...]) -> None:
    for words in ways:
        assert parse_sentence(f"Add a brown dog {words}", Scene("meadow")) == (Add(DOG, cell),)
        assert find_position(Scene("meadow"), words) == cell


def test_equal_things_in_a_row_are_counted() -> None:
    scene = Scene.of("meadow", {6: CAT, 7: CAT, 8: CAT})
    assert describe(scene) == "A meadow with three red cats in the bottom row."
    adding = [Add(CAT, 6), Add(CAT, 7)]
    assert say_all(adding, Scene("meadow")) == "Add two red cats in the bottom row."
    assert apply_all(
        parse_sentence("Add two red cats in the bottom row", Scene("meadow")), Scene("meadow")
    ) == (Scene.of("meadow", {6: CAT, 7: CAT}))


@pytest.mark.parametrize("noun", [noun for noun in NOUNS if noun not in UNCOUNTABLE])
def test_every_plural_is_read_back(noun: str) -> None:
    kind, state = NOUNS[noun]
    thing = Thing(kind, "pink", Size.SMALL, state)
    words = counted(3, thing)
    assert words == f"three small pink {plural(noun)}"
    assert described_many(words.removeprefix("three ")).thing() == thing


def test_steps_in_a_direction_are_said_and_understood() -> None:
    scene = Scene.of("meadow", {4: CAT})
    said = phrasings(Move(4, 1), scene)
    assert any("one step up" in each for each in said)
    assert all(parse_prompt(each, scene) == Scene.of("meadow", {1: CAT}) for each in said)
    with pytest.raises(NotUnderstood, match="no room"):
        parse_sentence("Move the red cat one step left", Scene.of("meadow", {3: CAT}))


@pytest.mark.parametrize("kind", OPERATIONS)
def test_every_operation_is_said_in_many_ways(kind: type[Operation]) -> None:
    scene, operation = scene_and(kind, Random(kind.__name__))
    said = phrasings(operation, scene, 150)
    assert len(said) >= 3
    assert all(apply_all(parse_sentence(each, scene), scene) == operation.apply(scene) for each in said)


def test_no_two_speeches_share_a_sentence() -> None:
    texts = [pattern.text for speech in SPEECH.values() for pattern in speech.patterns]
    assert len(texts) == len(set(texts))


def test_turning_into_a_later_stage_is_a_change_of_state_and_into_another_kind_a_replacement() -> None:
    scene = Scene.of("meadow", {4: EGG})
    assert parse_sentence("Turn the red egg into a red chick", scene) == (ChangeState(4, 1),)
    assert parse_sentence("Turn the red egg into a brown dog", scene) == (Replace(4, DOG),)


# References


def test_a_reference_that_fits_two_things_is_not_understood() -> None:
    scene = Scene.of("meadow", {0: CAT, 8: BLUE_CAT})
    with pytest.raises(NotUnderstood, match="more than one"):
        find(scene, "the cat")
    with pytest.raises(NotUnderstood, match="no thing"):
        find(scene, "the green cat")
    with pytest.raises(NotUnderstood, match="more than one"):
        parse_prompt("Remove the cat.", scene)
    assert find(scene, "the blue cat") == 8
    assert find(scene, "the cat at the top left") == 0


def test_references_say_as_much_as_they_need() -> None:
    assert Style().refer(Scene.of("sea", {0: CAT, 1: DOG}), 0) == "the red cat"
    assert Style().refer(Scene.of("sea", {0: CAT, 1: SMALL_CAT}), 1) == "the small red cat"
    assert Style().refer(Scene.of("sea", {0: CAT, 1: CAT}), 1) == "the red cat at the top"


def test_every_reference_finds_its_thing_and_no_other() -> None:
    rng = Random(2)
    for _ in range(200):
        scene = random_scene(rng, least=1)
        for cell in scene.things:
            for style in (Style(), Style(exact=True), Style(rng=rng)):
                assert find(scene, style.refer(scene, cell)) == cell


def test_a_reference_to_nothing_is_not_written() -> None:
    with pytest.raises(NotUnderstood):
        Style().refer(Scene("meadow"), 4)


# Descriptions


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_an_empty_scene_is_described_and_read_back(background: str) -> None:
    text = describe(Scene(background))
    assert text.startswith("An empty ")
    assert parse_description(text) == Scene(background)


@pytest.mark.parametrize("holds", [None, "red", "orange"])
def test_a_gripper_is_described_and_read_back(holds: str | None) -> None:
    scene = Scene.of("workbench", {6: Thing("block", "blue", Size.SMALL)}, Gripper(2, holds))
    text = describe(scene)
    assert ("an empty gripper" in text) == (holds is None)
    assert parse_description(text) == scene


def test_a_description_may_go_on_in_further_sentences() -> None:
    text = "In the meadow, there is a red cat on the left. There is a brown dog on the right. Nothing else."
    assert parse_description(text) == Scene.of("meadow", {3: CAT, 5: DOG})


@pytest.mark.parametrize(
    "text",
    [
        "A meadow with a red cat on the left and a brown dog on the left.",
        "A meadow with a wizard.",
        "A meadow with a red cat. It purrs.",
        "A red cat.",
        "",
    ],
    ids=["two in one place", "no such thing", "something else", "no place", "nothing"],
)
def test_what_is_no_description_is_not_understood(text: str) -> None:
    with pytest.raises(NotUnderstood):
        parse_description(text)


def test_a_gripper_where_a_thing_stands_is_not_understood() -> None:
    with pytest.raises(NotUnderstood):
        parse_description("A workbench with a red cat at the top and an empty gripper at the top.")


# What a painter makes of words it cannot follow


def test_the_literal_scene_shows_what_is_named() -> None:
    scene = literal_scene("Tell the story of a red cat and a dog in the desert", None)
    assert scene.background == "desert"
    assert set(scene.things.values()) == {CAT, DOG}


def test_the_literal_scene_stays_where_it_was() -> None:
    assert literal_scene("What comes next?", Scene.of("snow", {0: CAT})) == Scene("snow")
    somewhere = literal_scene("What comes next?", None)
    assert somewhere == literal_scene("what comes  next", None)
    assert not somewhere.things


def test_the_literal_scene_has_room_for_nine_things() -> None:
    names = " and ".join(f"a {colour} {noun}" for colour in COLOURS for noun in ("cat", "dog"))
    assert len(literal_scene(names, None).things) == 9


# Words


def test_articles_lists_and_plurals_are_english() -> None:
    assert [with_article(words) for words in ("egg", "cat", "orange cat")] == [
        "an egg",
        "a cat",
        "an orange cat",
    ]
    assert a(Thing("bread", "brown")) == "some brown bread"
    assert [listed(items) for items in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    many = {"teddy": "teddies", "bus": "buses", "snowman": "snowmen", "slice of cake": "slices of cake"}
    assert {noun: plural(noun) for noun in many} == many
    assert sentence("what is it?") == "What is it?"
    assert normalised(" a  cat . ") == "a cat"


def test_what_is_not_said_is_as_is_usual() -> None:
    assert described("cat").thing() == Thing("cat", "orange")
    assert described("tiny frog").thing() == Thing("frog", "green", Size.SMALL, 3)
    assert described("chick").thing(like=EGG) == Thing("hen", "red", Size.LARGE, 1)


def test_removing_and_travelling_are_said_plainly() -> None:
    scene = Scene.of("meadow", {3: CAT})
    assert say(Remove(3), scene) == "Remove the red cat."
    assert say(ChangeBackground("night"), scene) == "Change the background to the night sky."


# Muddled words


def muddled(text: str, rng: Random) -> str:
    """The text with a few of its words changed, left out, added or in another order."""
    words = text.split()
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                words[place] = rng.choice(sorted(language().trained))
            case 1:
                words.insert(place, rng.choice(sorted(language().trained)))
            case 2:
                rng.shuffle(words)
            case _:
                words[place : place + 1] = [] if len(words) > 1 else [""]
    return " ".join(words)


def test_muddled_prompts_are_understood_or_refused_but_never_break_the_reading() -> None:
    rng, outcomes = Random(11), {"understood": 0, "refused": 0}
    for _ in range(300):
        scene, operation = scene_and(rng.choice(OPERATIONS), rng)
        exact = rng.random() < 0.3
        for prompt in (edit_prompt([operation], scene, exact=exact), scene_prompt(scene, exact=exact)):
            wrong = muddled(prompt, rng)
            literal_scene(wrong, scene)
            try:
                parse_prompt(wrong, rng.choice([scene, None]))
                outcomes["understood"] += 1
            except (NotUnderstood, Impossible):
                outcomes["refused"] += 1
    assert outcomes["refused"] > 300


def test_only_the_block_that_is_held_can_be_put_down() -> None:
    held = Scene("workbench", gripper=Gripper(1, "blue"))
    down = parse_prompt("Put the blue block down on the left.", held)
    assert down.cells[3] == Thing("block", "blue", Size.SMALL)
    with pytest.raises(NotUnderstood, match="holds no red block"):
        parse_prompt("Put the red block down on the left.", held)
