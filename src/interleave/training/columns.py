"""The columns of a parquet file of rows: those a task needs are there, and have the form it reads.

What is wrong with a column is wrong with every row, so it is said once, by the names of the file and the
column, before a row is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from interleave.errors import InputError

if TYPE_CHECKING:
    import pyarrow

NEEDED: Mapping[str, tuple[str, ...]] = {
    "sft": ("prompt", "completion", "images"),
    "grpo": ("id", "prompt", "images", "sources", "success"),
}


def refuse_odd_columns(schema: pyarrow.Schema, path: Path, task: str) -> None:
    """Raise `InputError` for a column that is missing, or of a form that nothing here reads."""
    for name in NEEDED["grpo" if task == "grpo" else "sft"]:
        if name not in schema.names:
            raise InputError(f"{path} has no column {name!r}: it holds no rows for {task}")
    for column in schema:
        _refuse_odd(column, path)


def _refuse_odd(column: pyarrow.Field, path: Path) -> None:
    from datasets import Features

    fits, what = _FORMS.get(column.name, (None, ""))
    if fits is not None and not fits(column.type):
        raise InputError(f"{path}: the column {column.name!r} holds {_brief(column.type)}, not {what}")
    try:
        Features.from_arrow_schema(_schema_of(column))
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError):
        raise InputError(
            f"{path}: the column {column.name!r} holds {_brief(column.type)}, which `datasets` cannot read: "
            "leave it out"
        ) from None


def _schema_of(column: pyarrow.Field) -> pyarrow.Schema:
    import pyarrow

    return pyarrow.schema([column.remove_metadata()])


def _brief(kind: pyarrow.DataType) -> str:
    return " ".join(str(kind).split())[:100]


def _is_text(kind: pyarrow.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_text_or_null(kind: pyarrow.DataType) -> bool:
    """Text; a column of nulls alone has no form of its own."""
    from pyarrow import types

    return _is_text(kind) or bool(types.is_null(kind))


def _items(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """What a list is of; None where it is no list."""
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return kind.value_type if is_list else None


def _fields(kind: pyarrow.DataType | None) -> dict[str, pyarrow.DataType]:
    """The fields of a record and their forms; none where it is no record."""
    from pyarrow import types

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


def _is_pictures(kind: pyarrow.DataType) -> bool:
    from pyarrow import types

    picture = _items(kind)
    if picture is not None and types.is_null(picture):  # not one row has a picture
        return True
    fields = _fields(picture)
    data, path = fields.get("bytes"), fields.get("path")
    readable = data is None or types.is_binary(data) or types.is_large_binary(data) or types.is_null(data)
    return bool(fields.keys() & {"bytes", "path"}) and readable and (path is None or _is_text_or_null(path))


_FORMS: Mapping[str, tuple[Callable[[pyarrow.DataType], bool], str]] = {
    "prompt": (_is_messages, "lists of messages with a role and typed parts"),
    "completion": (_is_messages, "lists of messages with a role and typed parts"),
    "images": (_is_pictures, "lists of pictures with bytes or a path"),
    "sources": (_is_pictures, "lists of pictures with bytes or a path"),
}
