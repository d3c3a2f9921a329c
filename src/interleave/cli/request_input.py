"""The request that a user types: text, images, a Markdown file and assets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import files
from interleave.errors import ConfigurationError, InputError
from interleave.text import MAX_REQUEST_CHARACTERS

if TYPE_CHECKING:
    from interleave.batches.requests import RawPart
    from interleave.types import Plan, Request


def gather_parts(text: str | None, images: list[Path] | None, document: Path | None) -> list[RawPart]:
    """Return the parts of a request in order: the document, the images, the text."""
    parts: list[RawPart] = []
    if document is not None:
        from interleave.request_files import read_markdown

        parts += read_markdown(document)
    parts += images or []
    if text == "-":
        text = _standard_input()
    return parts if text is None else [*parts, text]


def _standard_input() -> str:
    """Return the text on standard input, up to one character more than a request may have."""
    if sys.stdin is None:
        raise InputError("standard input ('-') is closed")
    try:
        return sys.stdin.read(MAX_REQUEST_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise InputError("standard input is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"standard input cannot be read ({files.why(error)})") from None


def build_request(parts: list[RawPart]) -> Request:
    """Build the request; reads and checks its images."""
    from interleave.images import read_image
    from interleave.types import Request

    return Request.of([part if isinstance(part, str) else read_image(part) for part in parts])


def with_assets(request: Request, given: list[str]) -> Request:
    """Add the assets given as NAME=IMAGE and NAME: DESCRIPTION to a request; both may have one name."""
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


def read_given_plan(path: Path | None) -> tuple[Plan | None, list[RawPart]]:
    """Return the plan in a file, and the request it was made for, or a title."""
    if path is None:
        return None, []
    from interleave.request_files import read_plan_file, title_of_plan

    plan, request = read_plan_file(path)
    return plan, request or [title_of_plan(path, plan)]


def plan_as_json(plan: Plan, parts: list[RawPart]) -> str:
    """Return a plan with its request as JSON, to edit and pass to `--plan`."""
    import json

    return json.dumps(plan_value_of(plan, parts), ensure_ascii=False, indent=2)


def plan_value_of(plan: Plan, parts: list[RawPart]) -> dict[str, Any]:
    """Return a plan with its request."""
    from interleave.runs.plan_file import plan_value

    request = [{"text": part} if isinstance(part, str) else {"image": str(part.absolute())} for part in parts]
    return plan_value(plan, request)


def choose_profile(profile: str | None, dry_run: bool) -> str | None:
    """Return the name of the profile, `None` for the default. `--dry-run` is also a profile."""
    from interleave.config.profiles import DRY_RUN_PROFILE

    if dry_run and profile not in (None, DRY_RUN_PROFILE):
        raise ConfigurationError(
            f"--dry-run uses the built-in fakes and cannot be combined with --profile {profile}: drop one"
        )
    return DRY_RUN_PROFILE if dry_run else profile
