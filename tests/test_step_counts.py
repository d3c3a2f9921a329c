"""How many steps a request asks for: what a teacher might write, and what must not be taken for a number."""

from __future__ import annotations

import pytest

from interleave.step_counts import first_number, named_step_count
from work import that_ends

NAMED = {
    "How a frog grows up, step by step, in four pictures": 4,
    "Explain the water cycle in 5 images.": 5,
    "IN FOUR PICTURES: the life of a bee": 4,
    "Tie a shoelace in four easy steps": 4,
    "in 3 quick and easy steps": 3,
    "in four\nbig  colourful pictures": 4,
    "in 4\u00a0pictures": 4,
    "In exactly 3 images, how a volcano erupts": 3,
    "in just two pictures": 2,
    "Everything in one picture": 1,
    "The seasons as four drawings": 4,
    "Split the recipe into 6 stages": 6,
    "in a series of 5 pictures": 5,
    "as a sequence of six images": 6,
    "in 6 black-and-white drawings": 6,
    "a picture book in 8 pages": 8,
    "a flip book in 12 frames": 12,
    "Make a 4-panel comic about brushing teeth": 4,
    "a 6 panel comic strip": 6,
    "Write a three-step guide to planting beans": 3,
    "a twenty-five-step recipe": 25,
    "A 5-page illustrated story": 5,
    "Show me five stages of the moon": 5,
    "Show us 3 steps": 3,
    "Draw 4 pictures of a growing plant": 4,
    "Draw four more pictures": 4,
    "Create seven illustrations of the planets": 7,
    "Give me 3 steps to calm down": 3,
    "Plan exactly 4 steps.": 4,
    "Use exactly four steps.": 4,
    "I want 5 pictures of the heart at work": 5,
    "I'd like six images": 6,
    "we need three drawings": 3,
    "Continue the story: show the next two steps": 2,
    "What happens in the next 3 pictures?": 3,
    "Describe the remaining two steps": 2,
    "Explain photosynthesis with four pictures": 4,
    "Tell the story of the fox using 6 panels": 6,
    "Draw a comic with 4 panels": 4,
    "Explain the water cycle to 7 year olds in 5 pictures": 5,
    "Describe these 5 pictures in 2 steps": 2,
    "in 4 pictures, so draw 4 images": 4,
    "in nineteen steps": 19,
    "in ninety-nine steps": 99,
    "in 250 steps": 250,
    "How to fold a crane (6 images)": 6,
    "Continue with two more steps": 2,
    "Continue for 3 more pictures": 3,
    "Please explain and show 4 images": 4,
    "I want you to draw 4 pictures of a fox": 4,
    "The frog's life — in 4 pictures": 4,
    "In four pictures: a frog hatches, then it grows legs": 4,
    "Explain the water cycle in 5 images and describe each step": 5,
    "Show 4 pictures from seed to tree": 4,
    "in four pictures as a comic": 4,
    "Draw 4 pictures in the style of Monet": 4,
    "The life of a frog, step by step, in one picture": 1,
    "Show one picture of a knot": 1,
    "Use 4 pictures to tell the story": 4,
    "The moon landing of 1969 in 3 pictures": 3,
    "A cake with 12 candles in 4 steps": 4,
    "Bake bread in 3 steps, with one picture each": 3,
    "Draw 4 pictures of the four seasons": 4,
    "For my 2 children: a story in six scenes": 6,
    "Give me exactly 3 steps, no more": 3,
}

NOT_NAMED = [
    "",
    "How a frog grows up",
    "How to bake bread for 3 people",
    "Mix 2 cups of flour with 3 eggs",
    "Describe these 5 pictures",
    "Put these 5 pictures in order",
    "Make the 3 pictures brighter",
    "What do my four drawings show?",
    "in 3 or 4 pictures",
    "in 3-4 pictures",
    "in 3–5 pictures",
    "in 3 to 5 steps",
    "in 3.5 steps",
    "in 1,000 steps",
    "in at most 4 pictures",
    "in 4 pictures at most",
    "in four or more pictures",
    "in four pictures or more",
    "in no more than 4 steps",
    "in about five pictures",
    "in up to 6 images",
    "as many as 5 pictures",
    "in 5 steps max",
    "in several pictures",
    "in a few steps",
    "in 0 pictures",
    "in -3 pictures",
    "in four pictures, or rather in five pictures",
    "Show one picture per step",
    "Draw one picture for each season",
    "Give two pictures each",
    "Make one image for every planet",
    "Draw a room with three pictures on the wall",
    "Draw a staircase with 12 steps",
    "A ladder using five steps",
    "A rocket with 3 stages",
    "How a 3-stage rocket works",
    "Explain how to solve two-step equations",
    "A 300-page book on a shelf",
    "Write three pages about bees",
    "Two step-by-step guides",
    "In 2024 pictures of the comet went around the world",
    "You will need 3 pictures, glue and scissors",
    "Explain how the 4 strokes of an engine work",
    "The three little pigs",
    "Show step 3 again",
    "in step 2 pictures appear",
    "The 7 stages of grief",
    "I have 4 pictures",
    "3 pictures",
    # a picture beside something else that is asked for
    "Show 1 image of the whole thing and then a step-by-step guide",
    "Show one picture of the finished cake, then explain how to bake it",
    "Draw 2 images of the cake, then show how to bake it",
    "Draw 3 pictures of a fox and draw a bear",
    "Give me 1 image of the result plus a tutorial",
    "Write a step-by-step guide and show 1 image of the result",
    "A recipe for bread, and show me 2 pictures of the loaf",
    "Show one image of the finished knot. List the steps too.",
    "Generate 1 image for the introduction and 3 for the steps",
    "Show 3 images of cats and 2 images of dogs",
    "Show 4 steps and a final image of the result",
    "Create 4 illustrations as well as a cover picture",
    "Draw 4 pictures in one image",
    "Draw one image of the whole machine, followed by a guide",
    # bounds, ranges and wishes
    "a 3 to 5 step guide",
    "a guide of 3 to 5 steps",
    "Give me 3 to 5 steps",
    "Show between 3 and 5 pictures",
    "Show at least 4 pictures",
    "Show no more than six images",
    "in fewer than 5 steps",
    "in 5+ steps",
    "in roughly 5 steps",
    "in 3 steps tops",
    "in 4 pictures or thereabouts",
    "in 4 steps if possible",
    "ideally in 4 steps",
    "preferably in four pictures",
    "maybe in 4 pictures",
    "Not in four pictures",
    "Don't show 4 images",
    "in two or three more pictures",
    # one after the other
    "Show one step at a time",
    "Explain it in one step at a time",
    # pictures that are there, and things in pictures
    "Use 2 images as a reference",
    "Use 2 pictures from my holiday",
    "Show 3 pictures that I sent you",
    "Show 2 pictures above each other",
    "Draw three pictures on the wall",
    "Paint two scenes on a vase",
    # years and quantities
    "The fashion of 1920 in pictures",
    "In 1900 pictures were rare",
    "Boil 3 eggs in 2 litres of water",
    "5 ways to peel a mango",
    "2 steps forward, 1 step back",
    # other languages
    "Wie ein Frosch wächst, in vier Bildern",
    "Wie ein Frosch wächst, in 4 Bildern",
    "Comment grandit une grenouille, en 4 images",
    "Cómo crece una rana en cuatro imágenes",
    "青蛙如何长大，用四张图",
    "カエルの成長を4枚の絵で",
    "Как растёт лягушка в 4 картинках",
]


@pytest.mark.parametrize("text", NAMED)
def test_a_number_of_steps_that_leaves_no_doubt_counts(text: str) -> None:
    assert named_step_count(text) == NAMED[text]


@pytest.mark.parametrize("text", NOT_NAMED)
def test_a_number_that_may_mean_something_else_does_not_count(text: str) -> None:
    assert named_step_count(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("the three little pigs", 3),
        ("Twenty-One frogs", 21),
        ("fourteen and four", 14),
        ("4-panel", 4),
        ("7.", 7),
        ("a 3rd 5", 5),
        ("2024", 2024),
        ("0", 0),
        ("٤ ضفادع", 4),
        ("ſix swans", 6),
        ("someone alone often weighs ten", 10),
    ],
)
def test_the_first_number_of_a_text_is_found_whatever_it_counts(text: str, number: int) -> None:
    assert first_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "no number", "3.14", "1,000,000", "2kg", "x2", "12345678", "someone", "fİve"]
)
def test_what_is_no_whole_number_is_not_found(text: str) -> None:
    assert first_number(text) is None


@pytest.mark.parametrize(
    "unit", ["explain ", "in ", "in 4 more ", "show me ", "3-step a b ", " ", "1", "in exactly "]
)
def test_a_request_longer_than_any_is_read_to_its_end(unit: str) -> None:
    """Four times the longest: work that grows with its square would take minutes."""
    text = unit * (4 * 65_536 // len(unit))
    with that_ends():
        named_step_count(text)
        first_number(text)
