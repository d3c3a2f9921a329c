"""Steps as people list them: numbered, on separate lines, or divided by marks and arrows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from interleave_mini.language.words import NUMBERS, capitalised, one_of

WITH_HEADING, CAPITALISED = 0.3, 0.6
_NUMBERED = ("{}. ", "{}. ", "{}) ", "({}) ", "{}: ", "{} - ")
_NAMED = ("Step {}: ", "Step {}. ", "step {} - ", "Picture {}: ", "Frame {}: ", "Panel {}: ", "Image {}: ")
_BULLETS = ("- ", "* ", "• ")
_JOINTS = (
    *(". ", ". ", ". ", "; ", "; ", "\n", "\n", ".\n", " -> ", " → ", " => ", " > ", " | ", " / "),
    *(", then ", ". Then ", ", and then ", ". Now ", ". Next, ", ", next ", ". After that ", ", finally "),
)
_HEADINGS = (
    *(
        "Draw this:",
        "Steps:",
        "Sequence:",
        "Image sequence:",
        "Step by step:",
        "My steps:",
        "Please do this:",
    ),
    *("Storyboard:", "My own story:", "{} frames:", "Sequence of {} frames:", "{} pictures:", "{} images:"),
    *("A story in {} pictures:", "Draw these {} steps:", "Make {} pictures, one for each step:", "Plan:"),
)
_NUMBER = one_of((*NUMBERS, *map(str, range(10))))
_HEADING = re.compile(
    rf"\s*(?:{'|'.join(re.escape(each).replace(re.escape('{}'), _NUMBER) for each in _HEADINGS)})\s+",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"(?:^|(?<=[\s;]))(?:(?:step|picture|frame|panel|image|page) )?\(?([1-9])(?:[.):]| -) +", re.IGNORECASE
)
_LINE = re.compile(r"\s*\n\s*(?:[-*•] )?")
_LOOSE = " .,;!?\n"


def written_as_list(clauses: list[str], rng: Random) -> tuple[str, str]:
    """Return the steps as a list of a random kind, and its template, with `{n}` if it has their number."""
    if rng.random() < CAPITALISED:
        clauses = [capitalised(clause) for clause in clauses]
    chance = rng.random()
    if chance < 0.5:
        marks = rng.choice((_NUMBERED, _NAMED))
        mark, between = rng.choice(marks), rng.choice(("\n", "\n", " ", " ", ". ", "; ", ".\n"))
        text = between.join(f"{mark.format(place)}{clause}" for place, clause in enumerate(clauses, start=1))
    elif chance < 0.6:
        bullet = rng.choice(_BULLETS)
        text = "\n".join(bullet + clause for clause in clauses)
    else:
        text = _joined(clauses, rng.choice(_JOINTS))
    if rng.random() < 0.4:
        text += "."
    heading = rng.choice(_HEADINGS) if rng.random() < WITH_HEADING else ""
    if heading:
        number = rng.choice((str(len(clauses)), NUMBERS[len(clauses)]))
        text = f"{capitalised(heading.format(number))}{rng.choice((' ', chr(10)))}{text}"
    template = "list of {n}" if "{}" in heading else "list"
    return (text.lower() if rng.random() < 0.15 else text), template


def _joined(clauses: list[str], joint: str) -> str:
    """Join the steps; words for the end come only before the last."""
    if "final" not in joint:
        return joint.join(_after(joint, clauses))
    return joint.join((", then ".join(_after(joint, clauses[:-1])), *_after(joint, clauses)[-1:]))


def _after(joint: str, clauses: list[str]) -> list[str]:
    """Return the clauses, in lower case if they continue a sentence."""
    goes_on = joint.strip()[-1:].isalpha() or joint.strip() in ("Next,",) or joint.endswith(", ")
    return [clauses[0], *(each[:1].lower() + each[1:] if goes_on else each for each in clauses[1:])]


# Parsing


def pieces_of(text: str) -> Iterator[list[str]]:
    """Yield the steps of a text in every way in which it can be read as a list."""
    text = _HEADING.sub("", text, count=1).strip()
    marks = list(_MARK.finditer(text))
    if [int(mark[1]) for mark in marks] == [*range(1, len(marks) + 1)] and marks and not marks[0].start():
        ends = [*(mark.start() for mark in marks[1:]), len(text)]
        yield from _several(text[mark.end() : end] for mark, end in zip(marks, ends, strict=True))
    yield from _several(_LINE.split(text.removeprefix("- ").removeprefix("* ").removeprefix("• ")))
    flat = " ".join(text.split())
    for joint in sorted({*_JOINTS}, key=len, reverse=True):
        if joint.strip():
            yield from _several(re.split(re.escape(joint), flat, flags=re.IGNORECASE))
    yield from _several(re.split(r",? (?:and )?(?:then|finally|next) ", flat))


def _several(pieces: Iterator[str] | list[str]) -> Iterator[list[str]]:
    clean = [stripped for piece in pieces if (stripped := piece.strip(_LOOSE))]
    if len(clean) > 1:
        yield clean
