"""Wordings of user requests in the planner's rows: to continue, to describe images, to ask about them.

`wordings.toml` in this folder is for real data. A prompt pack for a small model with its own vocabulary
brings others, in a file `wordings.toml` in the folder of its texts. That file is not part of the pack's
digest, because no run uses it.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interleave import ConfigurationError
from interleave.plugin import Value, agents, files, first_problem, read_text

FILE_NAME = "wordings.toml"


class Wordings(Value):
    """The wordings of one prompt pack; the id of a row selects one of each."""

    separator: str
    """Separator between the texts and images of a request built from parts."""
    cut_with_pictures: bool
    """Whether documents that begin with the user's images are cut."""
    go_on: tuple[str, ...]
    go_on_for: tuple[str, ...]
    """Wordings with the number of remaining steps, for requests that name the total."""
    describe: tuple[str, ...]
    ask_step: tuple[str, ...]
    ask_place: tuple[str, ...]
    ask_next: tuple[str, ...]


@cache
def wordings_of(pack: str) -> Wordings:
    """Return the wordings for a prompt pack: its own, or those for real data."""
    values = _read(Path(__file__).parent / FILE_NAME)
    folder = agents.pack_folders().get(pack)
    path = folder / FILE_NAME if folder else None
    if path is not None and path.is_file():
        values |= _read(path)
    try:
        return Wordings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {first_problem(error)}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return files.parse_toml(read_text(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
