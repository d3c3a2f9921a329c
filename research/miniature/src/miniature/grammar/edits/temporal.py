"""What time does."""

from __future__ import annotations

from miniature.grammar.edits.edit import Edit, at_stage, one_stage, place_becomes

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
            "What comes after this stage of {ref}? Show it.",
            "Let {ref} come one stage further.",
            "Show {ref} when it has come one stage further on.",
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
            "What becomes of {ref} in the end?",
            "Show {ref} in its last stage.",
            "Draw {ref} when it has come to its last stage.",
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
            "What was {ref} one stage before this?",
            "Go back in time until {ref} is one stage younger.",
            "How did {ref} look one stage earlier?",
        ),
        (*_GROWING, *_WEARING),
    ),
    Edit(
        "temporal",
        "burning down",
        one_stage(("candle",), 1),
        (
            "An hour later {ref} has burned on. Show it.",
            "What does {ref} look like when it has burned for an hour?",
            "Let {ref} burn for another hour.",
            "Time passes, and {ref} burns on. Draw what is left.",
            "Show {ref} when it has burned on for an hour.",
        ),
        ("candle",),
    ),
    Edit(
        "temporal",
        "nightfall",
        place_becomes("night"),
        (
            "Show the same scene after sunset.",
            "The stars come out. What do we see now?",
            "What does this place look like at night?",
            "The sun has gone down. Show the same place.",
            "Show the same scene when the stars come out.",
        ),
    ),
)
