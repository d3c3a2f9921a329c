"""Languages of a book: tags, directions, and the language of a text whose tag is unknown."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

RIGHT_TO_LEFT = {"ar", "arc", "ckb", "dv", "fa", "he", "ks", "ps", "sd", "ug", "ur", "yi"}
_OF_SCRIPT = {
    **{"ARABIC": "ar", "HEBREW": "he", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CJK": "zh"},
    **{"CYRILLIC": "ru", "GREEK": "el", "DEVANAGARI": "hi", "BENGALI": "bn", "TAMIL": "ta", "THAI": "th"},
    **{"ARMENIAN": "hy", "GEORGIAN": "ka", "ETHIOPIC": "am", "KHMER": "km", "LAO": "lo", "MYANMAR": "my"},
}
UNKNOWN = "und"


@dataclass(frozen=True)
class Language:
    """A language by its tag, such as `de` or `zh-Hans`; `und` if it is unknown."""

    tag: str
    is_rtl: bool

    @property
    def name(self) -> str:
        """The first part of the tag."""
        return self.tag.partition("-")[0]

    @property
    def direction(self) -> str:
        return "rtl" if self.is_rtl else "ltr"


def language_of(tag: str, text: str) -> Language:
    """Return the language `tag`; if it is empty, the one that the script of the text suggests."""
    tag = tag or guessed(text)
    if tag != UNKNOWN:
        return Language(tag, tag.partition("-")[0] in RIGHT_TO_LEFT)
    kinds = (unicodedata.bidirectional(character) for character in text)
    first = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return Language(tag, first != "L")


def guessed(text: str) -> str:
    """Return the tag of the commonest language of the text's script; `und` for Latin and unknown scripts."""
    scripts = [unicodedata.name(character, "").partition(" ")[0] for character in text if character.isalpha()]
    known = [_OF_SCRIPT[script] for script in scripts if script in _OF_SCRIPT]
    if "ja" in known:  # kana with Han characters
        return "ja"
    return max(set(known), key=known.count) if len(known) * 2 > len(scripts) else UNKNOWN
