"""How the users of the planner's rows word their wishes: to go on, to describe images, to ask about them.

The wordings in the file beside this one are for real data. A prompt pack made for a small model with a
vocabulary of its own brings others, in a file `wordings.toml` beside its texts; the file is no part of the
pack's digest, as no model in use is asked with it.
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
    """The wordings of one prompt pack; a row draws one of each by its id."""

    separator: str
    """Between the texts and images of a request that is put together from parts."""
    cut_with_pictures: bool
    """Whether documents that begin with images of the user are cut."""
    go_on: tuple[str, ...]
    go_on_for: tuple[str, ...]
    """With the number of steps that are left, for requests that name how many there are in all."""
    describe: tuple[str, ...]
    ask_step: tuple[str, ...]
    ask_place: tuple[str, ...]
    ask_next: tuple[str, ...]


@cache
def wordings_of(pack: str) -> Wordings:
    """The wordings for a prompt pack: its own, or those for real data."""
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
