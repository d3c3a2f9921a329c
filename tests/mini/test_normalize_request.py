"""Half a story in Markdown, as people have it, is a story the miniature's planners can go on with."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL.Image import Image

from interleave.agents.planner import wanted_steps
from interleave.cli.request_input import build_request, read_markdown
from interleave.errors import InputError
from interleave.types import Part, Request, Text
from interleave_mini.language.tasks import GO_ON, Task, read_task, sample_task
from interleave_mini.normalize_request import as_begun
from interleave_mini.oracle import suited, true_task
from interleave_mini.world import draw

TITLE = "How a frog grows up, step by step, in four pictures"
TASK = read_task([TITLE])
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
    for number, beat in enumerate(TASK.beats[:2]):
        draw(beat.scene).save(folder / f"{number}.png")
    (folder / "story.md").write_text(markdown, "utf-8")
    return build_request([*read_markdown(folder / "story.md"), wish])


def shape(request: Request) -> list[str]:
    return [part.text if isinstance(part, Text) else "picture" for part in request.parts]


@pytest.mark.parametrize("markdown", [OURS, CAPTIONS_ABOVE], ids=["ours", "captions above"])
@pytest.mark.parametrize("wish", ["Go on, in two pictures", "What comes next?", *GO_ON])
def test_a_story_is_told_as_planners_know_it(tmp_path: Path, markdown: str, wish: str) -> None:
    begun = as_begun(half_a_story(tmp_path, markdown, wish))
    assert shape(begun) == [
        TITLE,
        "Step 1: There is some green frog spawn in the meadow.",
        "picture",
        "Step 2: A green tadpole hatches and swims about!",
        "picture",
        GO_ON[0],
    ]
    assert [beat.name for beat in true_task(begun).beats] == [beat.name for beat in TASK.beats[2:]]


def test_pictures_without_words_go_on_too(tmp_path: Path) -> None:
    begun = suited(half_a_story(tmp_path, BARE, "Continue."), {})
    assert shape(begun) == [TITLE, "Step 1: ", "picture", "Step 2: ", "picture", GO_ON[0]]


def test_a_wish_for_more_steps_than_are_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this takes 2 steps, not 3"):
        suited(half_a_story(tmp_path, OURS, "Go on, in three pictures"), {})
    suited(half_a_story(tmp_path, OURS, "Go on, in two pictures"), {})


@pytest.mark.parametrize(
    ("shouted", "said"),
    [
        ("HOW A FROG GROWS UP!!!", "How a frog grows up."),
        ("Show the phases of the moon!", "Show the phases of the moon."),
    ],
)
def test_who_shouts_is_understood_all_the_same(shouted: str, said: str) -> None:
    assert suited(Request.of(shouted), {}).text == said


def test_what_is_no_story_stays_as_it_is(tmp_path: Path) -> None:
    picture = draw(TASK.beats[0].scene)
    kept: list[list[str | Path | Image | Part]] = [
        [TITLE],
        [picture, "Paint the frog spawn blue."],
        ["A story like", picture],
        [TITLE, picture, "Paint the frog spawn blue."],
    ]
    for parts in kept:
        request = Request.of(parts)
        assert as_begun(request) is request


@pytest.mark.parametrize("seed", range(4))
def test_the_form_planners_learn_stays_as_it_is(seed: int) -> None:
    from random import Random

    task: Task = sample_task("continue", Random(seed))
    request = task.request()
    assert as_begun(request) is request


def test_only_the_wish_says_how_many_pictures_are_to_come(tmp_path: Path) -> None:
    assert wanted_steps(half_a_story(tmp_path, OURS, "Please continue from here."), 50) is None
    assert wanted_steps(half_a_story(tmp_path, OURS, "Go on, in two pictures"), 50) == 2
    assert wanted_steps(Request.of([TITLE, draw(TASK.beats[0].scene)]), 50) == 4
