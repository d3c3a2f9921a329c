"""Half a picture story, as people have it, in the form in which the miniature's planners know it.

They know a request, then for each picture that is there already “Step 1: …” and the picture, then a wish to
go on. A document of one's own has a title, headings and captions, above its pictures or below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from interleave.types import Part, Picture, Request, Text
from interleave_mini.language.tasks import GO_ON

_BESIDES = re.compile(r"^\s{0,3}(#{1,6}\s.*|>.*|---+|\*.*\*|Step \d+:?)\s*$", re.MULTILINE)
"""Headings, notes and marks of a document: no words about a picture."""
_LEAD = re.compile(r"^\s*(?:#{1,6}\s+)?")
_ESCAPED = re.compile(r"\\(?=[^\w\s])")
_STEP = re.compile(r"^\s*step \d+:", re.IGNORECASE)
_ON = re.compile(
    r"\b(go on|goes on|carry on|continue|continues|next|rest|remaining|missing|finish|finished|end)\b",
    re.IGNORECASE,
)


def as_begun(request: Request) -> Request:
    """The same story in that form; a request that is no story with pictures stays as it is."""
    told = [part for part in request.parts if isinstance(part, Picture) or part.text.strip()]
    if len(told) < 3:
        return request
    first, *story, wish = told
    if not isinstance(first, Text) or not isinstance(wish, Text) or not _ON.search(wish.text):
        return request
    pictures = [part for part in story if isinstance(part, Picture)]
    if not pictures or (isinstance(story[0], Text) and _STEP.match(story[0].text)):
        return request  # it is no story, or in that form
    title, *words = _LEAD.sub("", _plain(first.text)).strip().split("\n", 1)
    captions = _captions([Text("\n".join(words)), *story])
    begun: list[Part] = [Text(title.strip())]
    for number, (caption, picture) in enumerate(zip(captions, pictures, strict=True), start=1):
        begun += [Text(f"Step {number}: {caption}"), picture]
    return Request((*begun, Text(GO_ON[0])))


def calmly(request: Request) -> Request:
    """Words without shouting: planners have learned sentences in small letters with one full stop."""
    words = request.text.removesuffix("\n").rstrip("!?.")
    said = f"{words}." if "!" in request.text[len(words) :] else request.text
    if request.pictures or not (said != request.text or said.isupper()):
        return request
    return Request.of(said.capitalize() if said.isupper() else said)


def _captions(story: Sequence[Part]) -> list[str]:
    """What is said about each picture: above it, if the first has words above it, else below."""
    texts = [""]
    for is_picture, some in groupby(story, lambda part: isinstance(part, Picture)):
        if is_picture:
            texts += [""] * len(list(some))
        else:
            said = "\n".join(part.text for part in some if isinstance(part, Text))
            texts[-1] = " ".join(_BESIDES.sub("", _plain(said)).split())
    return texts[:-1] if texts[0] else texts[1:]


def _plain(text: str) -> str:
    """Markdown as it reads: without the backslashes that keep signs from being markup."""
    return _ESCAPED.sub("", text)
