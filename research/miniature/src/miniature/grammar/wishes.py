"""What people say around a request: “show me how …”, “please …”, “3 images: …”, or hardly anything."""

from __future__ import annotations

import re
from random import Random

from interleave_mini.language.words import NUMBERS, capitalised

WRAPPED, HURRIED, LOWER, STOPPED = 0.36, 0.07, 0.45, 0.35
"""Shares of requests with words around them, without articles, in lower case, and with a full stop."""
PLAIN = "plain"
"""The form of a request that has nothing around it."""
_AROUND: dict[str, tuple[str, ...]] = {
    "": (
        *(
            "draw this: {}",
            "show me how {}",
            "i want to see how {}",
            "can you show how {}?",
            "please draw how {}",
        ),
        *("a story: {}", "tell me in images how {}", "make images where {}", "show that {}", "imagine: {}"),
        *(
            "draw it: {}",
            "please show how {}",
            "could you draw how {}?",
            "i'd like to see how {}",
            "{} please",
        ),
    ),
    "one": (
        *("a picture where {}", "an image where {}", "draw: {}", "draw a picture in which {}", "imagine: {}"),
        *(
            "please paint this: {}",
            "i want a picture where {}",
            "one image: {}",
            "show me that {}",
            "{} please",
        ),
        *("can you draw that {}?", "just one image: {}", "make an image where {}", "a drawing: {}"),
    ),
    "-": (
        *("draw {}", "show me {}", "a picture of {}", "can you draw {}?", "i'd like to see {}", "{} please"),
        *("please paint {}", "i want {}", "make {}", "could i have {}, please?", "show {}", "let me see {}"),
        *(
            "please draw {} for me",
            "can you make {} please",
            "i need an image of {}",
            "create {}",
            "an image of {}",
        ),
    ),
    "some": (
        *("draw {}", "show me {}", "images of {}", "can you draw {}?", "i'd like to see {}", "{} please"),
        *("please paint {}", "{}, step by step", "make {}", "show {}", "let me see {}", "a series: {}"),
        *("step by step: {}", "some images of {}", "{} in images", "please show {}", "tell me about {}"),
    ),
    "!": (
        *(
            "please {}",
            "can you {}?",
            "{} please",
            "could you {}, please?",
            "i want you to {}",
            "would you {}?",
        ),
        *("i'd like you to {}", "now {}", "just {}"),
    ),
    ">": (
        *("show me {}", "i want to see {}", "can you show me {}?", "explain {}", "please draw {}", "draw {}"),
        *("tell me {}", "could you show {}?", "a story about {}", "show {}", "i'd like to know {}"),
    ),
    "?": ("{}", "tell me: {}", "i wonder: {}"),
}
_BY_NUMBER = {("", True): "one", ("-", False): "some"}
"""Forms whose words depend on whether there is only one image."""
_NUMBERED = (
    "{n} images: {}",
    "in {n} images: {}",
    "{} ({n} images)",
    "{} in {n} images",
    "make {n} images: {}",
)
_ARTICLE = re.compile(r"\b(?:an?|the) (?=\w)", re.IGNORECASE)


def asked(words: str, form: str, steps: int, rng: Random) -> str:
    """Return a request with these words: as they are, or with others around them."""
    chance = rng.random()
    if "\n" in words:
        return words
    if chance < 0.02 and form in ("", "-") and ". " not in words:
        number = rng.choice((NUMBERS[steps], str(steps)))
        ways: tuple[str, ...] = _NUMBERED if steps > 1 else ("one image: {}", "1 image: {}")
        return _written(rng.choice(ways).replace("{n}", number).replace("{}", words), form, rng)
    if chance < WRAPPED and form != PLAIN and ". " not in words:
        around = _AROUND[_BY_NUMBER.get((form, steps == 1), form)]
        return _written(rng.choice(around).replace("{}", words), form, rng)
    if chance > 1 - HURRIED and form != "?":
        return _ARTICLE.sub("", words).rstrip(".?!").lower()
    return _written(words, form, rng)


def _written(words: str, form: str, rng: Random) -> str:
    if form == "?" and "?" not in words:
        words += "?" if rng.random() < 0.8 else ""
    elif words[-1:].isalnum() and form in ("", "!") and rng.random() < STOPPED:
        words += rng.choice((".", ".", ".", "!"))
    return words if rng.random() < LOWER else capitalised(re.sub(r"\bi\b", "I", words))
