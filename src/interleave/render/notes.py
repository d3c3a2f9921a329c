"""What readers are told about a run, in as few words as it takes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from interleave.text import count

_WORK = re.compile(r"(The (?:plan|verdicts|pictures)) comes? (?=from )")


def merged_notes(notes: Iterable[str]) -> str:
    """The notes of a run's models as one paragraph; what holds for several of them is said once."""
    by_statement: dict[str, list[str]] = {}
    for note in notes:
        work = _WORK.match(note)
        statement = note[work.end() :] if work else note
        by_statement.setdefault(statement, []).append(work[1] if work else "")
    return " ".join(_sentence(work, statement) for statement, work in by_statement.items())


def _sentence(work: list[str], statement: str) -> str:
    named = [each for each in work if each]
    if not named:
        return statement
    if len(named) == 1:
        verb = "comes" if named[0] == "The plan" else "come"
        return f"{named[0]} {verb} {statement}"
    *others, last = [named[0], *(each[:1].lower() + each[1:] for each in named[1:])]
    return f"{', '.join(others)} and {last} come {statement}"


def forced_note(forced: int) -> str:
    """How many steps show a picture that the critic did not accept."""
    if not forced:
        return ""
    them = "it is" if forced == 1 else "they are"
    return f"{count(forced, 'picture')} {'was' if forced == 1 else 'were'} not accepted; {them} marked."
