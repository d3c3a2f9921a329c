"""Reasoning that contradicts itself: "there is a blue butterfly instead of a blue butterfly".

Weak critics write such sentences, and what they refuse with them is not judged at all. Only what cannot be
read otherwise is found: the same words, but for case and articles, on both sides of "instead of", as whole
phrases. "A small blue ball instead of a blue ball" names a difference; so does "a cat and a dog instead of a
dog", "a picture of a dog instead of a dog" and "a dog instead of a dog on the left".
"""

from __future__ import annotations

import re

_CONTRAST = re.compile(r"\b(?:instead of|rather than|in place of)\b|, not\b", re.IGNORECASE)
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[.;:!?,\n]")
_ENDS = frozenset(".;:!?\n")
_ARTICLES = frozenset(("a", "an", "the", "any", "another"))
_STARTS = """is are was were be been has have had shows show showing contains contain there there's it's now
still only drew drawn painted placed see sees became becomes got stays remains that but because so as"""
_BEFORE = frozenset(_STARTS.split())
"""Words after which a whole phrase begins: the phrase is then all that stands before "instead of"."""
_AFTER = frozenset(("but", "so", "because", "which", "while", "as", "therefore", "yet"))
"""Words that end a phrase, also after a comma; "and" may go on with what is missing."""
MAX_WORDS = 30
WINDOW = 400
"""Characters on either side that are read: a phrase is short, and reasoning may be long."""


def contradiction_in(reasoning: str) -> str | None:
    """The first phrase that is contrasted with itself, if there is one."""
    for contrast in _CONTRAST.finditer(reasoning):
        start, end = contrast.start() - WINDOW, contrast.end() + WINDOW
        before = ("\n" if start <= 0 else "") + reasoning[max(start, 0) : contrast.start()]
        after = reasoning[contrast.end() : end] + ("\n" if end >= len(reasoning) else "")
        wanted = _phrase_after(_tokens(after))
        if wanted and _ends_with_phrase(_tokens(before), wanted):
            return " ".join((*wanted, contrast[0].strip(", ").lower(), *wanted))
    return None


def _tokens(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text.lower()) if token not in _ARTICLES]


def _phrase_after(tokens: list[str]) -> list[str]:
    """The words up to the end of their clause; none where they go on after a comma."""
    for place, token in enumerate(tokens[:MAX_WORDS]):
        if token in _ENDS or token in _AFTER:
            return tokens[:place]
        if token == ",":
            ended = place + 1 < len(tokens) and tokens[place + 1] in _AFTER
            return tokens[:place] if ended else []
    return []


def _ends_with_phrase(tokens: list[str], phrase: list[str]) -> bool:
    """Whether the tokens end with these words, and these words are a whole phrase there."""
    start = len(tokens) - len(phrase)
    if start <= 0 or tokens[start:] != phrase:
        return False
    return tokens[start - 1] in _ENDS or tokens[start - 1] in _BEFORE
