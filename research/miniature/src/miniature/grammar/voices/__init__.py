"""The voices: phrasings of requests by different people, one file each, written independently.

A file has sections: `= NAME` (several names, separated by semicolons, share lines), then one phrasing per
line in the notation of `phrasings.py`. A section is named after a topic, or is one of `openings`, `closings`,
`go on`, `describe`, `own steps` and `edit …`. Whole voices are held out from training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random

from miniature.grammar.phrasings import Phrasing

HELD_OUT = ("researcher", "parent")
"""Voices that training never sees."""
_SUFFIX = ".txt"


@dataclass(frozen=True)
class Voice:
    """Phrasings of one person."""

    name: str
    phrasings: Mapping[str, tuple[Phrasing, ...]]
    """Phrasings by section."""

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def held_out(self) -> bool:
        return self.name in HELD_OUT

    def section(self, name: str) -> tuple[Phrasing, ...]:
        return self.phrasings.get(name, ())

    def line(self, section: str, rng: Random) -> str:
        """Return a random sentence of a section without gaps; empty if the voice has none."""
        lines = self.section(section)
        return "".join(map(str, rng.choice(lines).chosen(rng))) if lines else ""


@cache
def voices() -> tuple[Voice, ...]:
    """Return all voices, by name."""
    folder = files(__package__)
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(_SUFFIX))
    return tuple(
        Voice(name.removesuffix(_SUFFIX), parse_voice((folder / name).read_text("utf-8"))) for name in names
    )


def parse_voice(text: str) -> dict[str, tuple[Phrasing, ...]]:
    """Return the phrasings of a voice by section."""
    found: dict[str, dict[str, Phrasing]] = {}
    sections: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("= "):
            sections = [name.strip() for name in line[2:].split(";")]
            continue
        phrasing = Phrasing(line.strip())
        for name in sections:
            found.setdefault(name, {})[phrasing.text] = phrasing
    return {name: tuple(lines.values()) for name, lines in found.items()}
