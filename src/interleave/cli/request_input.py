"""The request that a user gives: text, images, a Markdown file or a plan file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from interleave import files
from interleave.errors import ConfigurationError, InputError
from interleave.text import MAX_REQUEST_CHARACTERS, one_line

if TYPE_CHECKING:
    from interleave.types import Plan, Request

MAX_FILE_BYTES = 4_000_000
UNTELLING_NAMES = ("plan", "plans", "steps", "p", "stdin")
"""Names of plan files that say nothing about what is planned."""

RawPart = str | Path
"""A part of a request before its image is read: text, or the path of an image."""

_MARK = re.compile(r"\\.|!\[|[\[\]]|\n[ \t]*+\n")
"""What begins or ends the description of an image; a blank line ends all of them."""
_TARGET = re.compile(
    r"""\( \s*+
        (?: <(?P<bracketed> [^<>\n]++ )>
          | (?P<bare> (?: [^\n<>()\]"'] | \](?!\() | (?<!\s)["'] | \([^\n<>()]*+\) )++ ) )
        \s*+ (?: "[^"\n]*+" | '[^'\n]*+' )? \s*+ \)""",
    re.VERBOSE,
)
"""What follows the description: a path, in pointed brackets or not, and a title, which is ignored.

All repetitions are possessive, so there is no backtracking, and a match never reads past the next image:
the time for a file grows linearly with its length.
"""
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}+:)?//|(?:data|file):", re.IGNORECASE)


def gather_parts(text: str | None, images: list[Path] | None, document: Path | None) -> list[RawPart]:
    """The parts of a request in order: the document, the images, the text."""
    parts: list[RawPart] = []
    if document is not None:
        parts += read_markdown(document)
    parts += images or []
    if text == "-":
        text = _standard_input()
    return parts if text is None else [*parts, text]


def _standard_input() -> str:
    """The text that is piped in, up to one character more than a request may have."""
    if sys.stdin is None:
        raise InputError("the request is to come from standard input ('-'), which is closed")
    try:
        return sys.stdin.read(MAX_REQUEST_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise InputError("what came from standard input is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"standard input cannot be read ({files.why(error)})") from None


def build_request(parts: list[RawPart]) -> Request:
    """The request, with its images read and checked."""
    from interleave.images import read_image
    from interleave.types import Request

    return Request.of([part if isinstance(part, str) else read_image(part) for part in parts])


def with_assets(request: Request, given: list[str]) -> Request:
    """The request with the assets that are given as NAME=IMAGE and NAME: DESCRIPTION.

    What is said about the same name belongs together.
    """
    from dataclasses import replace

    from interleave.images import read_image
    from interleave.types import GivenAsset

    found: dict[str, dict[str, Any]] = {}
    for each in given:
        how = next((mark for mark in each if mark in "=:"), "=")
        called, _, said = (piece.strip() for piece in each.partition(how))
        name, _, kind = (piece.strip() for piece in called.removesuffix(")").partition("("))
        if not name or not said:
            raise ConfigurationError(
                f"--asset {each}: write a name and an image, such as fox=fox.png, or a name and a "
                "description, such as 'fox: a little fox with a red scarf'"
            )
        asset = found.setdefault(name.lower(), {"name": name})
        what = "image" if how == "=" else "description"
        if what in asset:
            raise ConfigurationError(f"--asset {each}: there is a {what} of {name!r} already")
        asset[what] = read_image(Path(said)) if what == "image" else said
        asset |= {"kind": kind} if kind else {}
    return replace(request, assets=tuple(GivenAsset(**each) for each in found.values())) if found else request


def read_markdown(path: Path) -> list[RawPart]:
    """Text and images of a Markdown file, in order; images are files in its folder or below."""
    return list(_markdown_parts(path, read_text(path)))


def _markdown_parts(path: Path, text: str) -> Iterator[RawPart]:
    for position, piece in enumerate(_split_at_images(text)):
        if position % 2:
            yield _image(path, piece)
        elif piece.strip():
            yield piece.strip()


def _split_at_images(text: str) -> Iterator[str]:
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


def _image(path: Path, name: str) -> Path:
    """The file that a document means, where spaces may be written as %20."""
    shown = f"{path} shows the image {name[:80]!r}"
    if _ADDRESS.match(name):
        raise InputError(f"{shown}: images must be files, nothing is fetched from the web")
    try:
        written, decoded = path.parent / name, path.parent / unquote(name)
        image = decoded if decoded.exists() and not written.exists() else written
        folder, place, exists = path.parent.resolve(), image.resolve(), image.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL, links that go in circles
        raise InputError(f"{shown}, which cannot be read ({error})") from None
    if not place.is_relative_to(folder):
        raise InputError(
            f"{shown}, which is not in its folder {str(folder)!r}: copy it there, "
            f"or give it with --image {str(place)!r}"
        )
    if not exists:
        raise InputError(f"{shown}, and there is no such file beside it")
    return image


def read_plan_file(path: Path) -> tuple[Plan, list[RawPart]]:
    """A plan, and the request it was made for, or its title, where the file has one.

    The file may also hold a planner's reply. Steps are numbered by their position, so that a user can add,
    move and delete them freely.
    """
    from interleave.agents.replies import PLAN_KEYS, parse_plan
    from interleave.errors import ReplyError

    text = read_text(path)
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
    request = _request_of(path, value.pop("request", None) or title)
    has_images = any(isinstance(part, Path) for part in request)
    steps = value["steps"]
    value["steps"] = _numbered(path, steps, keep_first=has_images)
    if "assets" in value:
        value["assets"] = _moved_assets(path, value["assets"], steps, value["steps"][0]["number"])
    return _checked_plan(path, value), request


def title_of_plan(path: Path, plan: Plan) -> str:
    """A title for a plan whose file has no request: the file's name, or else what the first step says."""
    words = re.sub(r"[\W_]+", " ", path.stem).strip()
    if words.lower().rstrip(" 0123456789") in ("", *UNTELLING_NAMES):
        first = plan.steps[0]
        words = one_line(first.name or first.text or first.prompt or "Untitled", 80)
    return words[:1].upper() + words[1:]


def _request_of(path: Path, request: Any) -> list[RawPart]:
    """The request in a plan file, if any; paths of images are relative to the file."""
    from interleave.batches.requests import raw_parts

    try:
        return [] if not request else raw_parts(request, lambda name: path.parent / name)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _plan_object(path: Path, text: str) -> dict[str, Any]:
    from interleave.batches.requests import without_repeats

    try:
        value = json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not JSON ({error.msg.lower()})") from None
    except ValueError as error:  # a repeated key, or a number of thousands of digits
        raise InputError(f"{path}: not JSON ({error})") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    plan: dict[str, Any] = value if isinstance(value, dict) else {}
    steps = plan.get("steps")
    if not isinstance(steps, list) or not steps:
        problem = 'its list of "steps" is empty' if steps == [] else 'it has no list of "steps"'
        raise InputError(f"{path} is not a plan: {problem}. Make one with: interleave plan … --json")
    return plan


def _numbered(path: Path, steps: list[Any], *, keep_first: bool) -> list[Any]:
    """The steps numbered by position."""
    from interleave.runs.plan_file import numbered_steps

    for place, step in enumerate(steps, start=1):
        if not isinstance(step, dict):
            raise InputError(f"{path}: step {place} is not an object in curly brackets")
        if "prompt" not in step:
            raise InputError(
                f'{path}: step {place} has no "prompt": write one, or null for a step of text only'
            )
    first = steps[0].get("number", 1) if keep_first else 1
    if not isinstance(first, int) or isinstance(first, bool):
        raise InputError(f'{path}: "number" of step 1 must be a whole number')
    try:
        return numbered_steps(steps, first)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _moved_assets(path: Path, assets: Any, steps: list[Any], first: int) -> Any:
    from interleave.runs.plan_file import moved_assets

    try:
        return moved_assets(assets, steps, first)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def plan_as_json(plan: Plan, parts: list[RawPart]) -> str:
    """A plan with its request, to be edited by hand and given back with `--plan`."""
    from interleave.runs.plan_file import plan_text

    request = [{"text": part} if isinstance(part, str) else {"image": str(part.absolute())} for part in parts]
    return plan_text(plan, request)


def read_text(path: Path) -> str:
    """The text of a file of limited size."""
    try:
        return files.read_text(path, most_bytes=MAX_FILE_BYTES)
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({files.why(error)})") from None


def choose_profile(profile: str | None, dry_run: bool) -> str | None:
    """The name of the profile, None for the default one; `--dry-run` is a profile too."""
    from interleave.config.profiles import DRY_RUN_PROFILE

    if dry_run and profile not in (None, DRY_RUN_PROFILE):
        raise ConfigurationError(
            f"--dry-run uses the built-in doubles, and --profile {profile} asks for others: drop one"
        )
    return DRY_RUN_PROFILE if dry_run else profile


def _checked_plan(path: Path, value: dict[str, Any]) -> Plan:
    from pydantic import ValidationError

    from interleave.errors import first_problem
    from interleave.types import Plan

    try:
        return Plan.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{path} is not a usable plan: {first_problem(error)}") from None
