"""What no planner of the miniature is asked: requests with words or pictures from elsewhere."""

from __future__ import annotations

from random import Random

import pytest
from PIL import Image

from interleave.backends.registry import refuse_unsuitable
from interleave.errors import InputError
from interleave.mini.language.tasks import SUITES, sample_task
from interleave.types import Request


@pytest.mark.parametrize("suite", SUITES)
def test_requests_of_the_world_are_taken(suite: str) -> None:
    rng = Random(suite)
    for _ in range(5):
        refuse_unsuitable(sample_task(suite, rng).request(), "oracle")


def test_a_foreign_word_is_named() -> None:
    with pytest.raises(InputError, match="does not know “dragon”"):
        refuse_unsuitable(Request.of("Tell the story of a dragon"), "oracle")


def test_a_foreign_picture_is_named() -> None:
    photo = Image.linear_gradient("L").convert("RGB")
    drawn = sample_task("edit", Random(1)).request().pictures[0]
    with pytest.raises(InputError, match="picture 2 is not of the miniature's world"):
        refuse_unsuitable(Request.of([drawn, photo, "What comes next? Finish it."]), "oracle")
