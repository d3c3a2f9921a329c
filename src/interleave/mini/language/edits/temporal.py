"""What time does."""

from __future__ import annotations

from interleave.mini.language.edits.consequences import at_stage, one_stage, place_becomes
from interleave.mini.language.edits.edit import Edit

_GROWING = ("hen", "frog", "butterfly", "flower", "tree", "moon", "house")
_WEARING = ("candle", "snowman", "apple", "cake")

EDITS: tuple[Edit, ...] = (
    Edit(
        "temporal",
        "growing on",
        one_stage(_GROWING, 1),
        (
            "Time passes: show {ref} one stage further on.",
            "What does this picture look like when {ref} has come one stage further?",
        ),
        _GROWING,
    ),
    Edit(
        "temporal",
        "fully grown",
        at_stage(_GROWING, -1),
        (
            "Show the picture when {ref} has reached its last stage.",
            "A long time later {ref} has come to its end. Draw it.",
        ),
        _GROWING,
    ),
    Edit(
        "temporal",
        "looking back",
        one_stage((*_GROWING, *_WEARING), -1),
        (
            "Turn back time: show {ref} one stage earlier.",
            "How did this look when {ref} was one stage younger?",
        ),
        (*_GROWING, *_WEARING),
    ),
    Edit(
        "temporal",
        "burning down",
        one_stage(("candle",), 1),
        ("An hour later {ref} has burned on. Show it.",),
        ("candle",),
    ),
    Edit(
        "temporal",
        "nightfall",
        place_becomes("night"),
        ("Show the same scene after sunset.", "The stars come out. What do we see now?"),
    ),
)
