"""Rows of parquet and Arrow files that hold images: texts are read at once, images when they are shown.

Benchmarks of critics have gigabytes of images in their tables. Arrow files are mapped into memory; of
parquet files the row groups read last are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import InputError, MissingDependency
from interleave.plugin import images

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".parquet", ".arrow")
ROWS_AT_ONCE = 64
ROW_GROUPS_KEPT = 2
MAX_IMAGE_BYTES = 64_000_000


def table_files(folder: Path) -> list[Path]:
    """The parquet and Arrow files of a folder, in the order of their names; those of a cache are left out."""
    if folder.is_file():
        return [folder] if folder.suffix in SUFFIXES else []
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


@dataclass(frozen=True)
class TableRow:
    """A row of a file, by its place."""

    path: Path
    row: int

    def images(self, column: str) -> list[Image]:
        """The images of a column, one or a list; raises `InputError` for what is none."""
        value = _cell(self.path, self.row, column)
        cells = value if isinstance(value, list) else [] if value is None else [value]
        return [self._image(cell, column) for cell in cells]

    def image(self, column: str, place: int = 0) -> Image:
        """One of them."""
        value = _cell(self.path, self.row, column)
        cells = value if isinstance(value, list) else [value]
        if place >= len(cells):
            raise InputError(f"{self.path}: row {self.row} has no image {place + 1} in {column!r}")
        return self._image(cells[place], column)

    def _image(self, cell: Any, column: str) -> Image:
        data = cell.get("bytes") if isinstance(cell, Mapping) else cell
        where = f"{self.path}: row {self.row}, {column!r}"
        if not isinstance(data, bytes):
            raise InputError(f"{where} holds no image")
        return images.decode_image(data, name=where, max_bytes=MAX_IMAGE_BYTES)


def text_rows(
    paths: Iterable[Path], columns: Sequence[str] | None
) -> Iterator[tuple[dict[str, Any], TableRow]]:
    """These columns of all rows, or all columns, with where each row is; one that is missing is left out."""
    for path in paths:
        number = 0
        for batch in _batches(path, columns):
            for row in batch.to_pylist():
                yield row, TableRow(path, number)
                number += 1


def revision_of(rows: Iterable[Any], paths: Iterable[Path] = ()) -> str:
    """Twelve digits that stand for the texts and labels of a set and for the sizes of its files.

    Hashing gigabytes of images at every start would take longer than most commands.
    """
    total = hashlib.sha256()
    for row in rows:
        total.update(json.dumps(row, sort_keys=True, default=str).encode())
    for path in sorted(paths):
        total.update(f"{path.name} {path.stat().st_size}\n".encode())
    return total.hexdigest()[:12]


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependency(
            "reading parquet and Arrow files needs pyarrow: pip install 'interleavethinker[train]'"
        ) from None
    return pyarrow


def _batches(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    arrow = _arrow()
    try:
        if path.suffix == ".arrow":
            table = _mapped(path)
            yield from table.select(_there(table.schema.names, columns)).to_batches(ROWS_AT_ONCE)
            return
        file = arrow.parquet.ParquetFile(path)
        wanted = _there(file.schema_arrow.names, columns)
        yield from file.iter_batches(batch_size=ROWS_AT_ONCE, columns=wanted)
    except (OSError, arrow.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read ({str(error).splitlines()[0]})") from None


def _there(names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    return [name for name in columns if name in names] if columns is not None else list(names)


def _cell(path: Path, row: int, column: str) -> Any:
    arrow = _arrow()
    try:
        if path.suffix == ".arrow":
            return _mapped(path).column(column)[row].as_py()
        group, start = _group_of(path, row)
        return _row_group(path, group).column(column)[row - start].as_py()
    except (OSError, arrow.ArrowInvalid, KeyError) as error:
        raise InputError(f"{path}: row {row} cannot be read ({str(error).splitlines()[0]})") from None


@lru_cache(maxsize=16)
def _mapped(path: Path) -> Any:
    """An Arrow file, in either of its two forms; nothing of it is copied."""
    arrow = _arrow()
    source = arrow.memory_map(str(path), "r")
    try:
        return arrow.ipc.open_stream(source).read_all()
    except arrow.ArrowInvalid:
        source.seek(0)
        return arrow.ipc.open_file(source).read_all()


@lru_cache(maxsize=64)
def _group_starts(path: Path) -> tuple[int, ...]:
    metadata = _arrow().parquet.ParquetFile(path).metadata
    starts = [0]
    for group in range(metadata.num_row_groups):
        starts.append(starts[-1] + metadata.row_group(group).num_rows)
    return tuple(starts)


def _group_of(path: Path, row: int) -> tuple[int, int]:
    starts = _group_starts(path)
    group = next(place for place, end in enumerate(starts[1:]) if row < end)
    return group, starts[group]


@lru_cache(maxsize=ROW_GROUPS_KEPT)
def _row_group(path: Path, group: int) -> Any:
    return _arrow().parquet.ParquetFile(path).read_row_group(group)
