"""The formats of trainers, one table entry each, and the files that rows are written to.

Files are written in chunks, so memory does not grow with the size of the export.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from interleave import ConfigurationError
from interleave.plugin import did_you_mean
from interleave.train.data.export.images import ImageForm, ImageWriter
from interleave.train.data.export.rows import CRITIC_RL, KINDS, SFT_KINDS, Kind, TrainingRow
from interleave.train.data.formats import json_formats, run_files, trl, verl
from interleave.train.data.formats.run_files import RunFiles

if TYPE_CHECKING:
    import pyarrow

GROUP_ROWS = 1000
GROUP_BYTES = 64_000_000
"""Size limit of a parquet row group, which is closed at either limit."""
RowChunk = Any
"""Rows ready to be written: JSON lines as bytes, or an Arrow record batch."""


@dataclass(frozen=True)
class Format:
    """Row format of one trainer."""

    trainer: str
    suffix: str
    """`.parquet`, `.json` (one array) or `.jsonl`."""
    kinds: tuple[Kind, ...]
    """Kinds of rows the trainer supports."""
    encode: Callable[[TrainingRow, ImageWriter], dict[str, Any]]
    schema: Callable[[Kind, ImageForm], pyarrow.Schema] | None = None
    finish: Callable[[Path, Mapping[str, Path]], None] | None = None
    """Function that writes additional files; receives the row files of the format by name."""
    run_files: RunFiles | None = None
    """Function that writes launch files for a training on the rows."""


FORMATS: Mapping[str, Format] = {
    "trl": Format("TRL", ".parquet", KINDS, trl.encode, schema=trl.schema),
    "llamafactory": Format(
        "LLaMA-Factory",
        ".json",
        SFT_KINDS,
        json_formats.encode_llamafactory,
        finish=json_formats.write_dataset_info,
        run_files=run_files.write_llamafactory,
    ),
    "swift": Format("ms-swift", ".jsonl", KINDS, json_formats.encode_swift, run_files=run_files.write_swift),
    "verl": Format("verl", ".parquet", KINDS, verl.encode, schema=verl.schema),
    "easyr1": Format(
        "EasyR1",
        ".jsonl",
        (CRITIC_RL,),
        json_formats.encode_easyr1,
        run_files=run_files.write_easyr1,
    ),
    "reference": Format("the reference's EasyR1", ".jsonl", (CRITIC_RL,), json_formats.encode_reference),
}


def format_named(name: str) -> Format:
    """Return the format of this name; raises `ConfigurationError` with the known names."""
    if name not in FORMATS:
        raise ConfigurationError(f"no export format {name!r}. {did_you_mean(name, FORMATS)}")
    return FORMATS[name]


def encode_rows(
    rows: Sequence[dict[str, Any]], row_format: Format, schema: pyarrow.Schema | None
) -> RowChunk:
    """Encode rows as bytes or a record batch, in the workers, so that the main process only writes."""
    if schema is None:
        separator = ",\n" if row_format.suffix == ".json" else "\n"
        return separator.join(json.dumps(row, ensure_ascii=False) for row in rows).encode()
    import pyarrow

    return pyarrow.RecordBatch.from_pylist(list(rows), schema=schema)


class RowFile(Protocol):
    """A file that chunks of rows are written to."""

    def write(self, chunk: RowChunk) -> None: ...
    def close(self) -> None: ...


def open_rows(path: Path, row_format: Format) -> RowFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    if row_format.schema is not None:
        return ParquetFile(path)
    return JsonFile(path) if row_format.suffix == ".json" else LinesFile(path)


class LinesFile:
    """One JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "wb")  # noqa: SIM115  (closed by close)

    def write(self, chunk: RowChunk) -> None:
        self.file.write(chunk + b"\n")

    def close(self) -> None:
        self.file.close()


class JsonFile:
    """One JSON array, one object per line."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "wb")  # noqa: SIM115  (closed by close)
        self.next = b"[\n"

    def write(self, chunk: RowChunk) -> None:
        self.file.write(self.next + chunk)
        self.next = b",\n"

    def close(self) -> None:
        self.file.write(b"\n]\n")
        self.file.close()


class ParquetFile:
    """A parquet file in row groups: large enough to read fast, small enough for memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: Any = None
        self.pending: list[pyarrow.RecordBatch] = []
        self.rows = self.bytes = 0

    def write(self, chunk: RowChunk) -> None:
        import pyarrow.parquet

        if self.writer is None:
            self.writer = pyarrow.parquet.ParquetWriter(self.path, chunk.schema, compression="zstd")
        self.pending.append(chunk)
        self.rows += chunk.num_rows
        self.bytes += chunk.nbytes
        if self.rows >= GROUP_ROWS or self.bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self.writer is None:
            return
        try:
            if self.pending:
                self._flush()
            self.writer.close()
        finally:
            self.writer.is_open = False  # otherwise its finalizer would close it again and print an error

    def _flush(self) -> None:
        import pyarrow

        self.writer.write_table(pyarrow.Table.from_batches(self.pending))
        self.pending, self.rows, self.bytes = [], 0, 0
