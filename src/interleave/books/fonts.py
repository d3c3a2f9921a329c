"""Fonts for the characters of a book: those of typst, of this machine, and of the folder INTERLEAVE_FONTS.

Typst brings a serif for Latin, Greek, Cyrillic and Hebrew. Other characters take the fonts of this machine
that have the most of them, in the forms of the book's language. A character without a font is an error.
"""

from __future__ import annotations

import io
import os
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from interleave import InputError
from interleave.books.languages import Language
from interleave.plugin import count

if TYPE_CHECKING:
    from typst import FontInfo, Fonts

FONTS_VARIABLE = "INTERLEAVE_FONTS"
"""Variable with a folder of fonts that is searched too."""
ONLY_VARIABLE = "INTERLEAVE_ONLY_FONTS"
"""Variable that leaves out the fonts of the machine, for the same pages on every machine."""
MAIN = "Libertinus Serif"
"""Typst's own font for reading."""
OWN_CHARACTERS = Path(__file__).parent / "typst" / "libertinus-serif.txt"
"""Its characters as ranges, because its file is inside of the library; a test compares them with typst."""
SHOWN_MISSING = 12
NOT_EMBEDDED = 0x0302
"""Bits of a font that forbid to embed it, to divide it, or to embed more than bitmaps."""
_IGNORABLE = {
    0xAD,
    0x34F,
    0x61C,
    *range(0x200B, 0x2010),
    *range(0x2060, 0x2065),
    *range(0xFE00, 0xFE10),
    0xFEFF,
}
"""Characters without a shape: joiners, marks of direction, selectors of variants."""
INSTALL = (
    ("CJK", "Noto Serif CJK", "fonts-noto-cjk"),
    ("HIRAGANA", "Noto Serif CJK", "fonts-noto-cjk"),
    ("KATAKANA", "Noto Serif CJK", "fonts-noto-cjk"),
    ("HANGUL", "Noto Serif CJK", "fonts-noto-cjk"),
    ("ARABIC", "Noto Naskh Arabic", "fonts-noto-core"),
)
"""Scripts, the font to install, and its package of Debian and Ubuntu."""
_SYMBOLS = ("Noto Sans Symbols 2", "fonts-noto-core")
_EMOJI = ("Noto Emoji", "fonts-noto-core")
FORMS = {"ja": "JP", "ko": "KR", "zh-Hant": "TC", "zh-TW": "TC", "zh-HK": "HK", "zh": "SC"}
"""Ends of family names: characters of Han have other forms in each language."""


@dataclass(frozen=True)
class FontChoice:
    """The fonts for a book."""

    fonts: Fonts
    families: tuple[tuple[str, ...], ...]
    """Families for each language, in order of preference."""


def choose_fonts(texts: Sequence[tuple[Language, str]]) -> FontChoice:
    """Choose families that together have the characters of each text, or raise `InputError` naming a font."""
    fonts = installed_fonts()
    faces = [face for face in fonts.fonts() if face.path and _is_regular(face)]
    missing: set[str] = set()
    families = []
    for language, text in texts:
        wanted = {each for each in text if not each.isspace() and ord(each) not in _IGNORABLE}
        chosen, lacking = _fallbacks(wanted - own_characters(), faces, language)
        families.append((MAIN, *dict.fromkeys(face.family for face in chosen)))
        missing |= lacking
    if missing:
        raise InputError(missing_note(missing))
    return FontChoice(fonts, tuple(families))


@dataclass(frozen=True)
class EmbeddedFont:
    """A subset of a font, as WOFF, for the words in one language."""

    language: str
    name: str
    data: bytes


def embedded_fonts(texts: Iterable[tuple[Language, str]]) -> tuple[EmbeddedFont, ...]:
    """Return subsets of this machine's fonts for the characters that a reader's fonts may not have.

    Without the extra `[books]`, and for characters without a font, it is left to the reader's fonts.
    """
    wanted = {
        language: needed
        for language, text in texts
        if (needed := {each for each in text if each.isalpha()} - own_characters())
    }
    if not wanted or not all(map(find_spec, ("typst", "fontTools"))):
        return ()
    faces = [face for face in installed_fonts().fonts() if face.path and _is_regular(face)]
    made: list[EmbeddedFont] = []
    for language, characters in wanted.items():
        for face in _fallbacks(characters, faces, language)[0]:
            data = _subset(Path(face.path or ""), face.index, characters)
            made += [EmbeddedFont(language.tag, f"book-{len(made) + 1}", data)] if data else []
    return tuple(made)


def font_css(fonts: Sequence[EmbeddedFont], address: Callable[[EmbeddedFont], str]) -> str:
    """Return the rules that use these fonts, after those of the reader."""
    rules = [f'@font-face {{ font-family: "{each.name}"; src: url({address(each)}) }}' for each in fonts]
    for tag in dict.fromkeys(each.language for each in fonts):
        names = ", ".join(f'"{each.name}"' for each in fonts if each.language == tag)
        rules.append(f":lang({tag}) {{ font-family: Georgia, {names}, serif }}")
    return "".join(f"{rule}\n" for rule in rules)


def _subset(path: Path, number: int, characters: set[str]) -> bytes:
    """Return a font with these characters only; nothing if its licence bits forbid to embed or divide it."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    buffer = io.BytesIO()
    with TTFont(path, fontNumber=number, recalcTimestamp=False) as font:
        if "OS/2" in font and font["OS/2"].fsType & NOT_EMBEDDED:
            return b""
        subsetter = Subsetter(Options(layout_features=["*"], notdef_outline=True))
        subsetter.populate(text="".join(characters) + " \u200c\u200d", unicodes=[])
        subsetter.subset(font)
        font.flavor = "woff"
        font.save(buffer)
    return buffer.getvalue()


def installed_fonts() -> Fonts:
    """Return the fonts of typst, this machine and INTERLEAVE_FONTS."""
    from typst import Fonts

    folder = os.environ.get(FONTS_VARIABLE)
    return Fonts(
        include_system_fonts=not os.environ.get(ONLY_VARIABLE),
        include_embedded_fonts=True,
        font_paths=[folder] if folder else [],
    )


def missing_note(missing: Iterable[str]) -> str:
    """Return the problem of characters without a font, with the fonts to install."""
    lacking = sorted(missing)
    shown = ", ".join(f"{each} (U+{ord(each):04X})" for each in lacking[:SHOWN_MISSING])
    more = ", …" if len(lacking) > SHOWN_MISSING else ""
    wanted = dict.fromkeys(map(font_for, lacking))
    names = " and ".join(name for name, _ in wanted)
    packages = " ".join(dict.fromkeys(package for _, package in wanted))
    return (
        f"no font of this machine has {count(len(lacking), 'character')} of the book: {shown}{more}. "
        f"Install {names} (apt-get install {packages}), or put its file into a folder "
        f"and set {FONTS_VARIABLE} to it"
    )


def font_for(character: str) -> tuple[str, str]:
    """Return a font that has a character, and its package."""
    script = unicodedata.name(character, "").partition(" ")[0]
    for start, font, package in INSTALL:
        if script == start:
            return font, package
    if unicodedata.category(character) in ("So", "Sk") and ord(character) >= 0x1F000:
        return _EMOJI
    if not character.isalpha():
        return _SYMBOLS
    return f"Noto Sans {script.capitalize()}", "fonts-noto-core"


def _is_regular(face: FontInfo) -> bool:
    """Return whether a font is upright and of normal weight and width, or the only kind its file has."""
    return (
        face.style == "normal"
        and 300 <= face.weight <= 500
        and face.stretch == 1.0
        and "Mono" not in face.family
    )


def _fallbacks(
    wanted: set[str], faces: list[FontInfo], language: Language
) -> tuple[list[FontInfo], set[str]]:
    """Return fonts for characters, best coverage first, and the characters that none has."""
    if not wanted:
        return [], wanted
    covers = {
        place: covered
        for place, face in enumerate(faces)
        if (covered := wanted & characters_of(Path(face.path or ""), face.index))
    }
    chosen: list[FontInfo] = []
    missing = set(wanted)
    while missing and covers:
        best = max(covers, key=lambda place: (len(covers[place]), _liking(faces[place].family, language)))
        chosen.append(faces[best])
        missing -= covers[best]
        covers = {place: left for place, each in covers.items() if (left := each & missing)}
    return chosen, missing


def _liking(family: str, language: Language) -> tuple[bool, bool, str]:
    """Return a rank among fonts with the same characters: the language's own forms, then serifs."""
    form = next((end for tag, end in FORMS.items() if language.tag.startswith(tag)), "SC")
    return family.endswith(f" {form}"), "Serif" in family or "Naskh" in family, family


@lru_cache(maxsize=3000)
def characters_of(path: Path, number: int) -> frozenset[str]:
    """Return the characters that a font has outlines for; empty if it cannot be read."""
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with path.open("rb") as file, TTFont(file, fontNumber=number, lazy=True) as font:
            if "glyf" not in font and "CFF " not in font:  # bitmap glyphs, which a page cannot enlarge
                return frozenset()
            return frozenset(map(chr, font.getBestCmap() or ()))
    except (OSError, TTLibError, ValueError, KeyError, AssertionError):
        return frozenset()


@lru_cache(maxsize=1)
def own_characters() -> frozenset[str]:
    """Return the characters of typst's serif."""
    ranges = OWN_CHARACTERS.read_text("utf-8").split()
    pairs = (map(partial(int, base=16), each.split("-")) for each in ranges)
    return frozenset(chr(code) for first, last in pairs for code in range(first, last + 1))
