"""Requests and plans from files: Markdown documents and plan files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from interleave import files
from interleave.agents.replies import PLAN_KEYS, parse_plan
from interleave.batches.requests import RawPart, raw_parts, without_repeats
from interleave.errors import InputError, ReplyError, first_problem
from interleave.runs.plan_file import moved_assets, numbered_steps
from interleave.text import one_line
from interleave.types import Plan

MAX_FILE_BYTES = 4_000_000
VAGUE_NAMES = ("plan", "plans", "steps", "p", "stdin")
"""Names of plan files that do not describe the plan."""

_MARK = re.compile(r"\\.|!\[|[\[\]]|\n[ \t]*+\n")
"""The start or end of an image's description. A blank line ends all open descriptions."""
_TARGET = re.compile(
    r"""\( \s*+
        (?: <(?P<bracketed> [^<>\n]++ )>
          | (?P<bare> (?: [^\n<>()\]"'] | \](?!\() | (?<!\s)["'] | \([^\n<>()]*+\) )++ ) )
        \s*+ (?: "[^"\n]*+" | '[^'\n]*+' )? \s*+ \)""",
    re.VERBOSE,
)
"""The path after a description, with or without angle brackets, and a title, which is ignored.

All repetitions are possessive, so there is no backtracking, and a match never reads past the next image:
reading time is linear in the length of the file.
"""
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}+:)?//|(?:data|file):", re.IGNORECASE)


def read_markdown(path: str | Path) -> list[str | Path]:
    """Return the text and the image paths of a Markdown file, in order, as parts of a request.

    Add the wish to them: `generate([*read_markdown("story.md"), "Continue the story in three images"])`.
    Images must be files in the document's folder or below it. Raises `InputError` for other images.
    """
    path = Path(path)
    parts: list[str | Path] = []
    for place, piece in enumerate(_split_at_images(_read_text(path))):
        if place % 2:
            parts.append(_image(path, piece))
        elif piece.strip():
            parts.append(piece.strip())
    return parts


def read_plan(path: str | Path) -> Plan:
    """Return the plan in a file, such as one that `interleave plan --json` printed and a person edited.

    Steps are numbered by position. Raises `InputError` if the file is not a plan.
    """
    return read_plan_file(Path(path))[0]


def _split_at_images(text: str) -> Iterator[str]:
    """Yield text, path, text, path, …, text."""
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


def _image(path: Path, name: str) -> Path:
    """Return the image file that a document names. Spaces may be written as %20."""
    shown = f"{path} shows the image {name[:80]!r}"
    if _ADDRESS.match(name):
        raise InputError(f"{shown}: images must be files, nothing is fetched from the web")
    try:
        written, decoded = path.parent / name, path.parent / unquote(name)
        image = decoded if decoded.exists() and not written.exists() else written
        folder, place, exists = path.parent.resolve(), image.resolve(), image.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # name too long, a NUL, a loop of links
        raise InputError(f"{shown}, which cannot be read ({error})") from None
    if not place.is_relative_to(folder):
        raise InputError(
            f"{shown}, which is outside its folder {str(folder)!r}: copy it there, "
            f"or add {str(place)!r} to the request yourself"
        )
    if not exists:
        raise InputError(f"{shown}, which does not exist")
    return image


def read_plan_file(path: Path) -> tuple[Plan, list[RawPart]]:
    """Return the plan in a file, and its request or title if the file has one.

    The file may also hold a planner's reply. Steps are numbered by position, so that a user can add, move
    and delete them freely.
    """
    text = _read_text(path)
    try:
        value = _plan_object(path, text)
    except InputError:
        if PLAN_KEYS[0] not in text:
            raise
        try:
            return parse_plan(text), []
        except ReplyError as error:
            raise InputError(f"{path} is not a plan: {error.problem}") from None
    title = value.pop("title", None)
    if title is not None and not isinstance(title, str):
        raise InputError(f'{path}: "title" must be a text')
    request, steps = value.pop("request", None) or title, value["steps"]
    with _errors_naming(path):
        parts = raw_parts(request, lambda name: path.parent / name) if request else []
        value["steps"] = _numbered(steps, keep_first=any(isinstance(part, Path) for part in parts))
        if "assets" in value:
            value["assets"] = moved_assets(value["assets"], steps, value["steps"][0]["number"])
    try:
        return Plan.model_validate(value), parts
    except ValidationError as error:
        raise InputError(f"{path} is not a usable plan: {first_problem(error)}") from None


def title_of_plan(path: Path, plan: Plan) -> str:
    """Return a title for a plan without a request: the file's name, or the text of the first step."""
    words = re.sub(r"[\W_]+", " ", path.stem).strip()
    if words.lower().rstrip(" 0123456789") in ("", *VAGUE_NAMES):
        first = plan.steps[0]
        words = one_line(first.name or first.text or first.prompt or "Untitled", 80)
    return words[:1].upper() + words[1:]


@contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_words_file(path: Path) -> dict[str, Any]:
    """Return the words of a document in a file, such as one that `interleave show RUN --words` printed."""
    value = _json(path, _read_text(path))
    if not isinstance(value, dict):
        raise InputError(f"{path} has no words of a document. Make one with: interleave show RUN --words")
    return value


def _plan_object(path: Path, text: str) -> dict[str, Any]:
    value = _json(path, text)
    plan: dict[str, Any] = value if isinstance(value, dict) else {}
    steps = plan.get("steps")
    if not isinstance(steps, list) or not steps:
        problem = 'its list of "steps" is empty' if steps == [] else 'it has no list of "steps"'
        raise InputError(f"{path} is not a plan: {problem}. Make one with: interleave plan … --json")
    return plan


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not JSON ({error.msg.lower()})") from None
    except ValueError as error:  # a repeated key, or a number with thousands of digits
        raise InputError(f"{path}: not JSON ({error})") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None


def _numbered(steps: list[Any], *, keep_first: bool) -> list[Any]:
    for place, step in enumerate(steps, start=1):
        if not isinstance(step, dict):
            raise InputError(f"step {place} is not an object in curly brackets")
        if "prompt" not in step:
            raise InputError(f'step {place} has no "prompt": write one, or null for a step of text only')
    first = steps[0].get("number", 1) if keep_first else 1
    if not isinstance(first, int) or isinstance(first, bool):
        raise InputError('"number" of step 1 must be a whole number')
    return numbered_steps(steps, first)


def _read_text(path: Path) -> str:
    try:
        return files.read_text(path, most_bytes=MAX_FILE_BYTES)
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({files.why(error)})") from None
