"""Worksheets: one word of each sentence becomes a blank, and all of them stand in a list of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from interleave.books.book import BookPage, Words
from interleave.books.languages import Language
from interleave.books.lettering import em_width

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
SHORTEST = 3
UNSPACED = {"zh", "ja", "th", "lo", "km", "my"}
"""Languages without spaces between words."""
_LABELS = {
    "en": ("Name", "Date", "Words", "Answers"),
    "de": ("Name", "Datum", "Wörter", "Lösungen"),
    "fr": ("Nom", "Date", "Mots", "Réponses"),
    "es": ("Nombre", "Fecha", "Palabras", "Respuestas"),
    "it": ("Nome", "Data", "Parole", "Soluzioni"),
    "pt": ("Nome", "Data", "Palavras", "Respostas"),
    "nl": ("Naam", "Datum", "Woorden", "Antwoorden"),
    "pl": ("Imię", "Data", "Słowa", "Odpowiedzi"),
    "ru": ("Имя", "Дата", "Слова", "Ответы"),
    "uk": ("Ім’я", "Дата", "Слова", "Відповіді"),
    "tr": ("Ad", "Tarih", "Kelimeler", "Cevaplar"),
    "ar": ("الاسم", "التاريخ", "الكلمات", "الأجوبة"),
    "he": ("שם", "תאריך", "מילים", "תשובות"),
    "zh": ("姓名", "日期", "词语", "答案"),
    "ja": ("なまえ", "ひづけ", "ことば", "こたえ"),
    "ko": ("이름", "날짜", "낱말", "정답"),
}


def sheet_words(language: Language) -> dict[str, str]:
    """Return the printed words of a worksheet in a language; in English if it is not known."""
    labels = _LABELS.get(language.name, _LABELS["en"])
    return dict(zip(("name", "date", "words", "answers"), labels, strict=True))


def blanked(page: BookPage) -> list[list[str | dict[str, float]]]:
    """Return the text of a page in each language as strings and one blank, a width in ems."""
    return [_blanked(each) for each in page.words]


def bank_of(pages: Sequence[BookPage]) -> list[str]:
    """Return the missing words of the first language, once each, in an order that tells nothing."""
    words = {each.text[slice(*place)] for page in pages if (place := _missing(each := page.words[0]))}
    return sorted(words, key=lambda word: sha256(word.encode()).digest())


def _blanked(words: Words) -> list[Any]:
    place = _missing(words)
    if place is None:
        return [words.text]
    before, missing, after = words.text[: place[0]], words.text[slice(*place)], words.text[place[1] :]
    return [part for part in (before, {"width": max(4.0, em_width(missing) * 1.5)}, after) if part]


def _missing(words: Words) -> tuple[int, int] | None:
    """Return the place of the word to leave out: the longest, or the last two characters between marks."""
    found = [match.span() for match in _WORD.finditer(words.text)]
    if words.language.name in UNSPACED:
        long = [(end - 2, end) for start, end in found if end - start >= 4]
        return long[-1] if long else None
    long = [(start, end) for start, end in found if end - start >= SHORTEST]
    return max(long, key=lambda span: (span[1] - span[0], span[0])) if len(found) > 1 and long else None
