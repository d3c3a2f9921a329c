"""Requests composed from frames and told as stories, and steps of plans of any origin, for training data."""

from __future__ import annotations

from random import Random

from interleave_mini.bench.tasks import Step
from miniature.grammar.frames import sample_frame
from miniature.grammar.told_stories import sample_told_story
from miniature.train.retold_examples import retold_steps

STORIES = 0.3
"""Share of stories in somebody's own sentences; the others are frames."""
COMPOSED_STEPS = 0.4
"""Share of steps of composed requests among those of worked examples."""


def sample_composed_request(rng: Random) -> tuple[str, str, tuple[Step, ...]]:
    """Return topic, request and steps."""
    return sample_told_story(rng) if rng.random() < STORIES else sample_frame(rng)


def planned_steps(rng: Random) -> tuple[Step, ...]:
    """Return the steps of a worked example or of a composed request."""
    return sample_composed_request(rng)[2] if rng.random() < COMPOSED_STEPS else retold_steps(rng)
