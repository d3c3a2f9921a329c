"""Text and pictures of a Markdown file, in order, found in one pass: the work grows as the text does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from interleave.errors import InputError

_MARK = re.compile(r"\\.|!\[|[\[\]]|\n[ \t]*+\n")
"""What begins or ends the description of a picture; a blank line ends everything."""
_TARGET = re.compile(
    r"""\( \s*+
        (?: <(?P<bracketed> [^<>\n]++ )>
          | (?P<bare> (?: [^\n<>()\]"'] | \](?!\() | (?<!\s)["'] | \([^\n<>()]*+\) )++ ) )
        \s*+ (?: "[^"\n]*+" | '[^'\n]*+' )? \s*+ \)""",
    re.VERBOSE,
)
"""What follows the description: a path, in pointed brackets or not, and a title that is not looked at.

Nothing is tried twice (all repetitions are possessive), and it never reads past the next picture, so that
pictures which are none cost no more than text.
"""
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}+:)?//|(?:data|file):", re.IGNORECASE)


def read_parts(path: Path, text: str) -> Iterator[str | Path]:
    """The texts and the pictures of a document; pictures are files in its folder or below."""
    for position, piece in enumerate(_pieces(text)):
        if position % 2:
            yield _picture(path, piece)
        elif piece.strip():
            yield piece.strip()


def _pieces(text: str) -> Iterator[str]:
    """Text, path, text, path, …, text."""
    opened: list[int | None] = []
    done = at = 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        match mark.group():
            case "![":
                opened.append(mark.start())
            case "[":
                opened.append(None)
            case "]":
                start = opened.pop() if opened else None
                if start is not None and start >= done and (target := _TARGET.match(text, at)):
                    yield text[done:start]
                    yield target["bracketed"] or target["bare"].strip()
                    done = at = target.end()
            case blank if blank[0] == "\n":
                opened.clear()
    yield text[done:]


def _picture(path: Path, name: str) -> Path:
    """The file that a document means, where spaces may be written as %20."""
    shown = f"{path} shows the picture {name[:80]!r}"
    if _ADDRESS.match(name):
        raise InputError(f"{shown}: pictures must be files, nothing is fetched from the web")
    try:
        written, decoded = path.parent / name, path.parent / unquote(name)
        picture = decoded if decoded.exists() and not written.exists() else written
        folder, place, exists = path.parent.resolve(), picture.resolve(), picture.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL, links that go in circles
        raise InputError(f"{shown}, which cannot be read ({error})") from None
    if not place.is_relative_to(folder):
        raise InputError(
            f"{shown}, which is not in its folder {str(folder)!r}: copy it there, "
            f"or give it with --image {str(place)!r}"
        )
    if not exists:
        raise InputError(f"{shown}, and there is no such file beside it")
    return picture
