"""Reads training rows: finds parquet files, checks their columns, decodes images on access.

Images are stored in the parquet files or referenced by path. A missing column or one of the wrong type
affects every row, so it is reported once, by file and column. `inspection.py` checks single rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
from datasets import Dataset, Features
from datasets.fingerprint import generate_random_fingerprint
from pyarrow import types

from interleave import ConfigurationError, InputError, read_image
from interleave.plugin import images
from interleave.train.recipes import Task
from interleave.train.shared_memory_images import shared_image
from interleave.train.verl_rows import as_trl_rows, is_for_verl

if TYPE_CHECKING:
    from PIL.Image import Image

FILES: Mapping[str, str] = {
    "planner": "planner_sft",
    "critic": "critic_sft",
    "agent": "agent_sft",
    "grpo": "critic_rl",
}
"""Stem of each task's file in an export."""
IN_MEMORY_BYTES = 8_000_000_000
NEEDED: Mapping[str, tuple[str, ...]] = {
    "sft": ("prompt", "completion", "images"),
    "grpo": ("id", "prompt", "images", "sources", "success"),
}


@dataclass(frozen=True)
class RowFiles:
    """The parquet files of one split."""

    paths: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        return self.paths[0].parent

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the files: a training resumes only with the same rows."""
        digest = hashlib.sha256()
        for path in self.paths:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def place(self, index: int) -> str:
        """Return the location of a row: its file and number."""
        for path in self.paths:
            rows = pyarrow.parquet.read_metadata(path).num_rows
            if index < rows:
                return f"{path} row {index + 1}"
            index -= rows
        raise IndexError(index)


def find_rows(data: Path, task: Task) -> tuple[RowFiles, RowFiles | None]:
    """Return the training rows and the validation rows (or None) of a task in an export or a file."""
    if data.is_file():
        return RowFiles((data,)), None
    if not data.is_dir():
        raise ConfigurationError(f"the data {str(data)!r} does not exist: name an export, or a parquet file")
    folders = (data, data / "trl", *((data / "verl",) if task == "grpo" else ()))
    folder = next((each for each in folders if _files(each, FILES[task])), data / "trl")
    train = _files(folder, FILES[task])
    if train is None:
        raise _no_rows(data, task)
    return train, _files(folder / "validation", FILES[task])


def _no_rows(data: Path, task: Task) -> ConfigurationError:
    """Build the error for an export without rows of a task: what it contains, and how to make them."""
    names = {path.stem: folder for folder in (data / "trl", data) for path in folder.glob("*.parquet")}
    if not names:
        return ConfigurationError(
            f"{data} contains no parquet file: make rows with `interleave data export … --format trl`"
        )
    why = (
        "the selection has no part 'rl'. Make it again with a lower --ratio or --variance "
        "(`interleave data select`), and export again"
        if task == "grpo"
        else "the export has no such rows. Export again from runs that have them"
    )
    folder = next(iter(names.values()))
    return ConfigurationError(f"{folder} contains {', '.join(sorted(names))} but no {FILES[task]}: {why}")


def _files(folder: Path, stem: str) -> RowFiles | None:
    one = folder / f"{stem}.parquet"
    found = [one] if one.is_file() else sorted(folder.glob(f"{stem}-*.parquet"))
    return RowFiles(tuple(found)) if found else None


def read_rows(files: RowFiles, task: Task, *, limit: int | None = None, cache: Path | None = None) -> Any:
    """Return the rows as a `datasets.Dataset` whose images are decoded when a row is read."""
    try:
        if cache is not None and sum(path.stat().st_size for path in files.paths) > IN_MEMORY_BYTES:
            rows = Dataset.from_parquet([str(path) for path in files.paths], cache_dir=str(cache))
            table = rows.data.table
        else:
            tables = [pyarrow.parquet.read_table(path, memory_map=True) for path in files.paths]
            table = pyarrow.concat_tables(tables)
        table.validate(full=True)  # text that is not UTF-8 would end the training when it is read
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{files.paths[0]} cannot be read as parquet ({_first_line(error)})") from None
    if is_for_verl(table.schema):
        table = as_trl_rows(table)
    check_columns(table.schema, files.paths[0], task)
    if table.num_rows == 0:
        raise InputError(f"{files.paths[0]} has no rows")
    if limit is not None:
        table = table.slice(0, limit)
    # Images stay bytes, decoded by `images.py`; given a fingerprint, `datasets` does not hash them.
    rows = Dataset(table.replace_schema_metadata(None), fingerprint=generate_random_fingerprint())
    rows.set_transform(partial(decode_rows, folder=files.folder))
    return rows


def decode_rows(columns: dict[str, list[Any]], *, folder: Path) -> dict[str, list[Any]]:
    """Decode the images of some rows and remove null fields from their messages."""
    decoded = dict(columns)
    for name in ("images", "sources"):
        if name in columns:
            decoded[name] = [[as_image(each, folder) for each in row or ()] for row in columns[name]]
    for name in ("prompt", "completion"):
        if name in columns:
            decoded[name] = [[_without_nulls(message) for message in row] for row in columns[name]]
    return decoded


def as_image(stored: Mapping[str, Any] | None, folder: Path) -> Image:
    """Load an image of a row from its bytes or from the file it names."""
    if stored is None:
        raise InputError("an image is null")
    data, path = stored.get("bytes"), stored.get("path")
    if data is not None:
        return shared_image(data, partial(images.decode_image, data, name=path or "an image"))
    if path:
        file = folder / path
        return shared_image(str(file).encode(), partial(read_image, file))
    raise InputError("an image has neither bytes nor a path")


def _without_nulls(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the fields that Arrow filled with null."""
    parts = [{key: value for key, value in part.items() if value is not None} for part in message["content"]]
    return {"role": message["role"], "content": parts}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def check_columns(schema: pyarrow.Schema, path: Path, task: str) -> None:
    """Raise `InputError` for a column that is missing or of the wrong type."""
    for name in NEEDED["grpo" if task == "grpo" else "sft"]:
        if name not in schema.names:
            raise InputError(f"{path} has no column {name!r}: it contains no rows for {task}")
    for column in schema:
        _check_column(column, path)


def _check_column(column: pyarrow.Field, path: Path) -> None:
    fits, what = _COLUMN_TYPES.get(column.name, (None, ""))
    if fits is not None and not fits(column.type):
        raise InputError(f"{path}: the column {column.name!r} holds {_brief(column.type)}, not {what}")
    try:
        Features.from_arrow_schema(_schema_of(column))
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError):
        raise InputError(
            f"{path}: the column {column.name!r} holds {_brief(column.type)}, which `datasets` cannot read: "
            "remove it"
        ) from None


def _schema_of(column: pyarrow.Field) -> pyarrow.Schema:
    return pyarrow.schema([column.remove_metadata()])


def _brief(kind: pyarrow.DataType) -> str:
    return " ".join(str(kind).split())[:100]


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_text_or_null(kind: pyarrow.DataType) -> bool:
    """Return whether a type is text, or null throughout."""
    return _is_text(kind) or bool(types.is_null(kind))


def _items(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return the item type of a list; None for other types."""
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if is_list else None


def _fields(kind: pyarrow.DataType | None) -> dict[str, pyarrow.DataType]:
    """Return the field types of a struct; empty for other types."""
    if kind is None or not types.is_struct(kind):
        return {}
    return {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}


def _is_messages(kind: pyarrow.DataType) -> bool:
    message = _fields(_items(kind))
    if not {"role", "content"} <= message.keys() or not _is_text(message["role"]):
        return False
    part = _fields(_items(message["content"]))
    return (
        "type" in part and _is_text(part["type"]) and ("text" not in part or _is_text_or_null(part["text"]))
    )


def _is_images(kind: pyarrow.DataType) -> bool:
    image = _items(kind)
    if image is not None and types.is_null(image):  # no row has an image
        return True
    fields = _fields(image)
    data, path = fields.get("bytes"), fields.get("path")
    readable = data is None or types.is_binary(data) or types.is_large_binary(data) or types.is_null(data)
    return bool(fields.keys() & {"bytes", "path"}) and readable and (path is None or _is_text_or_null(path))


_COLUMN_TYPES: Mapping[str, tuple[Callable[[pyarrow.DataType], bool], str]] = {
    "prompt": (_is_messages, "lists of messages with a role and typed parts"),
    "completion": (_is_messages, "lists of messages with a role and typed parts"),
    "images": (_is_images, "lists of images with bytes or a path"),
    "sources": (_is_images, "lists of images with bytes or a path"),
}
