"""Fonts of this machine that have the characters of a text.

No fonts are shipped. A few well-known fonts are preferred for reading. For characters that they lack, the
other fonts that cover the most of them are chosen. Characters that no font has are reported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FONTS_VARIABLE = "INTERLEAVE_FONTS"
"""Variable with a folder of fonts that is searched before all others."""
READING = (
    *("NotoSerif-Regular", "DejaVuSerif", "LiberationSerif-Regular", "FreeSerif", "Georgia", "georgia"),
    *("Times New Roman", "times", "NotoSans-Regular", "DejaVuSans", "LiberationSans-Regular", "FreeSans"),
    *("Arial", "arial", "Arial Unicode"),
)
"""File names of fonts for reading, in order of preference."""
BOLD = {"Regular": "Bold", "DejaVuSerif": "DejaVuSerif-Bold", "DejaVuSans": "DejaVuSans-Bold"}
KINDS = (".ttf", ".otf", ".ttc")
MOST_FONTS = 3000
MOST_FALLBACKS = 12


@dataclass(frozen=True)
class FontFile:
    """A font in a file; a collection has several."""

    path: Path
    number: int = 0


@dataclass(frozen=True)
class FontChoice:
    """The fonts for a text."""

    main: FontFile | None
    """`None` if the machine has no font for reading; the built-in font of PDF readers is then used."""
    bold: FontFile | None
    others: tuple[FontFile, ...]
    missing: frozenset[str]
    """Characters without a font."""


def choose_fonts(text: str) -> FontChoice:
    """Choose fonts that together cover the characters of a text, as far as possible on this machine."""
    wanted = {character for character in text if not character.isspace()}
    files = list(font_files())
    by_name = {path.stem: path for path in reversed(files)}
    known = (by_name[name] for name in READING if name in by_name)
    main = next((FontFile(path) for path in known if characters_of(path, 0)), None)
    if main is None:
        return _without_reading_font(wanted, files)
    bold = FontFile(by_name[name]) if (name := _bold_name(main)) in by_name else None
    others, missing = _fallbacks(wanted - characters_of(main.path, 0), files)
    return FontChoice(main, bold, tuple(others), frozenset(missing))


_BUILT_IN = frozenset(bytes(range(32, 256)).decode("latin-1"))


def _without_reading_font(wanted: set[str], files: list[Path]) -> FontChoice:
    """Choose the built-in font of PDF readers if it suffices or there is no other, else fallbacks."""
    others, missing = ([], set[str]()) if wanted <= _BUILT_IN else _fallbacks(wanted, files)
    if not others:
        return FontChoice(None, None, (), frozenset(wanted - _BUILT_IN))
    return FontChoice(others[0], None, tuple(others[1:]), frozenset(missing))


def _bold_name(main: FontFile) -> str:
    name = main.path.stem
    return name.replace("-Regular", "-Bold") if "-Regular" in name else BOLD.get(name, f"{name} Bold")


def _fallbacks(missing: set[str], files: list[Path]) -> tuple[list[FontFile], set[str]]:
    """Return fonts for the missing characters, best coverage first, and the characters still missing."""
    if not missing:
        return [], missing
    covers = {
        font: covered
        for path in files
        for font, characters in _fonts_of(path)
        if (covered := missing & characters)
    }
    chosen: list[FontFile] = []
    while missing and covers and len(chosen) < MOST_FALLBACKS:
        best = max(covers, key=lambda font: (len(covers[font]), _is_plain(font), str(font.path)))
        chosen.append(best)
        missing = missing - covers[best]
        covers = {font: left for font, each in covers.items() if (left := each & missing)}
    return chosen, missing


def _is_plain(font: FontFile) -> bool:
    name = font.path.stem.lower()
    return not any(style in name for style in ("bold", "italic", "oblique", "mono", "light", "condensed"))


def _fonts_of(path: Path) -> Iterator[tuple[FontFile, frozenset[str]]]:
    number = 0
    while characters := characters_of(path, number):
        yield FontFile(path, number), characters
        number += 1
        if path.suffix.lower() != ".ttc":
            return


def font_files() -> Iterator[Path]:
    """Yield the font files of this machine, those in INTERLEAVE_FONTS first."""
    found = 0
    for folder in _folders():
        for root, _, names in os.walk(folder):
            for name in sorted(names):
                if name.lower().endswith(KINDS) and (found := found + 1) <= MOST_FONTS:
                    yield Path(root, name)


def _folders() -> Iterable[Path]:
    if own := os.environ.get(FONTS_VARIABLE):
        yield Path(own)
    try:
        home = Path.home()
    except RuntimeError:
        home = Path("/nonexistent")
    if sys.platform == "darwin":
        yield from (home / "Library/Fonts", Path("/Library/Fonts"), Path("/System/Library/Fonts"))
    elif sys.platform == "win32":
        yield Path(os.environ.get("WINDIR", r"C:\Windows")) / "Fonts"
    else:
        yield from (home / ".local/share/fonts", home / ".fonts")
        yield from (Path("/usr/local/share/fonts"), Path("/usr/share/fonts"))


@lru_cache(maxsize=MOST_FONTS)
def characters_of(path: Path, number: int) -> frozenset[str]:
    """Return the characters that a font has outlines for; empty if it cannot be read."""
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with path.open("rb") as file, TTFont(file, fontNumber=number, lazy=True) as font:
            if "glyf" not in font and "CFF " not in font:  # bitmap glyphs, which a PDF cannot embed
                return frozenset()
            return frozenset(map(chr, font.getBestCmap() or ()))
    except (OSError, TTLibError, ValueError, KeyError, AssertionError):
        return frozenset()
