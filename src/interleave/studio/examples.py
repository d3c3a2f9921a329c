"""Requests to start from, for planners that take any."""

from __future__ import annotations

from interleave.studio.schemas import Example, Strictness

ANY = (
    "How a frog grows up, step by step, in four pictures",
    "Tell a bedtime story about a lighthouse keeper and a lost whale, in five pictures",
    "Show how to fold a paper boat, one picture for each fold",
    "Explain how a rainbow forms, in three pictures for children",
    "How to repot a house plant, step by step",
    "A cup of tea through one day, from morning to night, in four pictures",
)


def any_examples() -> list[Example]:
    return [Example(text=text) for text in ANY]


def strictness_within(most: int) -> list[Strictness]:
    """The choices for a profile whose steps may be drawn so often."""
    quick, normal = Strictness(name="quick", max_attempts=1), max(1, (most + 1) // 2)
    choices = [quick, Strictness(name="normal", max_attempts=normal)]
    choices.append(Strictness(name="strict", max_attempts=most))
    return [
        each for at, each in enumerate(choices) if not at or each.max_attempts > choices[at - 1].max_attempts
    ]
