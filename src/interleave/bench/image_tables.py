"""Rows of parquet and Arrow files that hold images. Texts are read eagerly, images lazily.

Benchmarks of critics hold gigabytes of images in their tables. Arrow files are memory-mapped. Of parquet
files, the most recent row groups are cached.
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
BATCH_ROWS = 64
ROW_GROUPS_KEPT = 2
MAX_IMAGE_BYTES = 64_000_000


def table_files(folder: Path) -> list[Path]:
    """Return the parquet and Arrow files of a folder in name order, without those of a cache."""
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
    """A row of a file, by its index."""

    path: Path
    row: int

    def images(self, column: str) -> list[Image]:
        """Return the images of a column, one or a list. Raises `InputError` for a value without an image."""
        value = _cell(self.path, self.row, column)
        cells = value if isinstance(value, list) else [] if value is None else [value]
        return [self._image(cell, column) for cell in cells]

    def image(self, column: str, place: int = 0) -> Image:
        """Return one image of a column."""
        value = _cell(self.path, self.row, column)
        cells = value if isinstance(value, list) else [value]
        if place >= len(cells):
            raise InputError(f"{self.path}: row {self.row} has no image {place + 1} in {column!r}")
        return self._image(cells[place], column)

    def _image(self, cell: Any, column: str) -> Image:
        data = cell.get("bytes") if isinstance(cell, Mapping) else cell
        where = f"{self.path}: row {self.row}, {column!r}"
        if not isinstance(data, bytes):
            raise InputError(f"{where} does not hold an image")
        return images.decode_image(data, name=where, max_bytes=MAX_IMAGE_BYTES)


def text_rows(
    paths: Iterable[Path], columns: Sequence[str] | None
) -> Iterator[tuple[dict[str, Any], TableRow]]:
    """Yield these columns of all rows, or all columns, with each row's position. Skips missing columns."""
    for path in paths:
        number = 0
        for batch in _batches(path, columns):
            for row in batch.to_pylist():
                yield row, TableRow(path, number)
                number += 1


def revision_of(rows: Iterable[Any], paths: Iterable[Path] = ()) -> str:
    """Return twelve hex digits that identify the texts and labels of a dataset and its file sizes.

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
            yield from table.select(_there(table.schema.names, columns)).to_batches(BATCH_ROWS)
            return
        file = arrow.parquet.ParquetFile(path)
        wanted = _there(file.schema_arrow.names, columns)
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=wanted)
    except (OSError, arrow.ArrowInvalid) as error:
        raise InputError(f"cannot read {path} ({str(error).splitlines()[0]})") from None


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
        raise InputError(f"{path}: cannot read row {row} ({str(error).splitlines()[0]})") from None


@lru_cache(maxsize=16)
def _mapped(path: Path) -> Any:
    """Memory-map an Arrow file in either of its two formats."""
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
