"""Reads and writes selections: one line per attempt, and the paths of the collections."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError

from interleave import InputError
from interleave.plugin import Value, first_problem, text

FILE_NAME = "selection.jsonl"
MANIFEST_NAME = "selection.manifest.json"
COLLECTIONS_NAME = "collections.json"

Part = Literal["sft", "rl", "dropped"]


class Selected(Value):
    """One line: an attempt and its part."""

    collection: str
    run: str
    step: int
    attempt: int
    part: Part
    reason: str | None = None
    """Why the attempt is dropped."""
    accepted: bool | None = None
    """The critic's verdict, if there is one."""
    semantics: float | None = None
    quality: float | None = None
    copies: int = Field(default=0, ge=0)
    """Number of rows that the attempt becomes."""


_SELECTED = TypeAdapter(Selected)
_PATHS = TypeAdapter(dict[str, str])


def read_selection(folder: Path) -> Iterator[Selected]:
    """Yield the lines of a selection, in the order of collection, run, step and attempt."""
    path = folder / FILE_NAME
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield _SELECTED.validate_json(line)
                except ValidationError as error:
                    problem = first_problem(error)
                    raise InputError(
                        f"{path}:{number} is damaged ({problem}): make it again with 'interleave data select'"
                    ) from None
    except OSError as error:
        raise _no_selection(folder, FILE_NAME, error) from None


def collections_by_name(collections: Sequence[Path]) -> dict[str, Path]:
    """Return the collections sorted by name: the folder's name, with a number added to duplicates."""
    unique = {Path(os.path.realpath(each)): each for each in collections}
    for path in unique:
        if text.storable(str(path)) != str(path):
            raise InputError(f"{path} is not valid Unicode, and the output must name it: rename it")
    result: dict[str, Path] = {}
    for path in sorted(unique):
        name, number = path.name or "collection", 2
        while name in result:
            name, number = f"{path.name}-{number}", number + 1
        result[name] = unique[path]
    return dict(sorted(result.items()))


def write_collection_paths(folder: Path, out: Path, collections: dict[str, Path]) -> None:
    """Write the paths of the collections relative to `out`, the final folder of the selection."""
    paths = {name: os.path.relpath(path, os.path.realpath(out)) for name, path in collections.items()}
    (folder / COLLECTIONS_NAME).write_text(json.dumps(paths, indent=1, sort_keys=True) + "\n", "utf-8")


def read_collection_paths(folder: Path, moved_to: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the collections of a selection by name; `moved_to` gives their new paths if they were moved."""
    paths = _stored_paths(folder)
    now = (
        collections_by_name(moved_to) if moved_to else {name: folder / place for name, place in paths.items()}
    )
    if len(paths) == len(now) == 1:
        now = {next(iter(paths)): next(iter(now.values()))}
    if missing := sorted(name for name in paths if name not in now or not _is_there(now[name])):
        raise InputError(
            f"the collection {missing[0]!r} of the selection {folder} is not at {now.get(missing[0], '?')}: "
            "give its path with --collection"
        )
    return {name: now[name] for name in sorted(paths)}


def collection_name(collection: Path, folder: Path) -> str:
    """Return the name of a collection in a selection, by path, or by folder name if it was moved."""
    paths = {name: folder / place for name, place in _stored_paths(folder).items()}
    here = os.path.realpath(collection)
    for name, place in paths.items():
        if os.path.realpath(place) == here:
            return name
    name = os.path.basename(here)
    if name in paths and not _is_there(paths[name]):
        return name
    raise InputError(
        f"the selection {folder} is not from {collection}: it was made from {', '.join(sorted(paths))}"
    )


def _is_there(collection: Path) -> bool:
    try:
        return collection.is_dir()
    except OSError:  # for example, a name that is too long
        return False


def _stored_paths(folder: Path) -> dict[str, str]:
    path = folder / COLLECTIONS_NAME
    try:
        return _PATHS.validate_json(path.read_bytes())
    except OSError as error:
        raise _no_selection(folder, path.name, error) from None
    except ValidationError:
        raise InputError(f"{path} is damaged: make it again with 'interleave data select'") from None


def _no_selection(folder: Path, file: str, error: OSError) -> InputError:
    if not folder.exists():
        return InputError(f"the selection {folder} does not exist: make it with 'interleave data select'")
    return InputError(f"{folder} is not a selection: {file} cannot be read ({error.strerror})")
