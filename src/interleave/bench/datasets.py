"""Finding a benchmark's data: a given folder, one below `$INTERLEAVE_BENCH_DATA`, or the Hub.

The first stage records the Hub commit, and later stages read the same one. Pickled files are never opened,
because they can run code.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, InputError, MissingDependency
from interleave.bench.image_tables import text_rows
from interleave.plugin import files

VARIABLE = "INTERLEAVE_BENCH_DATA"
MAX_FILE_BYTES = 2_000_000_000


@dataclass(frozen=True)
class HubData:
    """A dataset on the Hub."""

    repository: str
    revision: str = "main"
    """A commit, or a branch whose newest commit a new folder pins."""
    files: tuple[str, ...] = ()
    """Glob patterns of the files to download; empty for all."""


def find_data(
    name: str,
    given: Path | None,
    hub: HubData | None,
    *,
    checkout: str = "",
    revision: str | None = None,
) -> tuple[Path, str]:
    """Return the data folder and its source: a path, or a Hub repository with a commit."""
    if given is not None:
        if not given.exists():
            raise InputError(f"--data {given}: no such folder")
        return given, str(given)
    if root := os.environ.get(VARIABLE):
        for folder in (Path(root, each) for each in (name, checkout) if each):
            if folder.exists():
                return folder, str(folder)
    if hub is None:
        raise ConfigurationError(
            f"the data of {name} is not on the Hub in a safely readable form: give its folder with "
            f"--data, or set {VARIABLE} to a folder that contains {name!r} (docs: benchmarks)"
        )
    folder = _from_hub(replace(hub, revision=revision or hub.revision))
    return folder, f"{hub.repository}@{folder.name}"


def _from_hub(hub: HubData) -> Path:
    """Download the snapshot of a commit into a folder named after it."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingDependency(
            "reading data from the Hub needs huggingface_hub: pip install 'interleavethinker[local]'"
        ) from None
    try:
        return Path(
            snapshot_download(
                hub.repository,
                repo_type="dataset",
                revision=hub.revision,
                allow_patterns=list(hub.files) or None,
                ignore_patterns=["*.pth", "*.pt", "*.pkl", "*.pickle", "*.bin"],
                endpoint=os.environ.get("HF_ENDPOINT"),  # the library reads it only on import
            )
        )
    except Exception as error:  # errors of the library, the network and the disk have no common base class
        raise InputError(
            f"cannot read {hub.repository} at {hub.revision[:12]} from the Hub "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200]}): give a folder with --data"
        ) from None


def digest_of(paths: Iterable[Path]) -> str:
    """Return twelve hex digits that identify the contents of these files."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(hashlib.sha256(_read(path)).digest())
    return total.hexdigest()[:12]


def rows_of(folder: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Return the rows of all JSON, JSONL and parquet files of a folder, in name order."""
    files = [folder] if folder.is_file() else sorted(_data_files(folder))
    if not files:
        raise InputError(f"{folder} has no .json, .jsonl or .parquet file")
    for path in files:
        yield from read_rows(path, columns=columns)


def _data_files(folder: Path) -> Iterator[Path]:
    for pattern in ("*.json", "*.jsonl", "*.parquet"):
        yield from (path for path in folder.rglob(pattern) if not path.name.startswith("."))


def read_rows(path: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Return the rows of one file. Raises `InputError` if it has none."""
    if path.suffix == ".parquet":
        yield from (values for values, _ in text_rows([path], columns))
        return
    data = _read(path)
    found = (
        _json(path, data)
        if path.suffix != ".jsonl"
        else [_json(path, line) for line in data.splitlines() if line.strip()]
    )
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InputError(f"{path} is not a list of objects")
    yield from found


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file. Raises `InputError` for any other value."""
    found = _json(path, _read(path))
    if not isinstance(found, dict):
        raise InputError(f"{path} is not an object")
    return found


def read_cells(path: Path, *, delimiter: str = ",") -> Iterator[dict[str, Any]]:
    """Return the rows of a CSV file, keyed by its header."""
    try:
        text = _read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path} ({error})") from None
    yield from csv.DictReader(io.StringIO(text), delimiter=delimiter)


def _read(path: Path) -> bytes:
    try:
        return files.read_bytes(path, most_bytes=MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(f"cannot read {path} ({files.why(error)})") from None


def _json(path: Path, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from None


def field(row: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return a field of a row. Raises `InputError` naming the row if it is missing or has the wrong type."""
    value = row.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{where}: {name!r} is {value!r:.60}, which is not valid here")
    return value
