"""Finding a benchmark's data: a folder that is given, one below `$INTERLEAVE_BENCH_DATA`, or the Hub.

The commit of what comes from the Hub is written down by the first stage, and later stages read the same one.
Pickled files are never opened: they can run code.
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
    """A data set on the Hub."""

    repository: str
    revision: str = "main"
    """A commit, or the branch whose newest commit a new folder begins with."""
    files: tuple[str, ...] = ()
    """Only these, as patterns; all where there are none."""


def find_data(
    name: str,
    given: Path | None,
    hub: HubData | None,
    *,
    checkout: str = "",
    revision: str | None = None,
) -> tuple[Path, str]:
    """The folder of the data, and where it is from: a path, or a repository of the Hub with a commit."""
    if given is not None:
        if not given.exists():
            raise InputError(f"--data {given}: there is no such folder")
        return given, str(given)
    if root := os.environ.get(VARIABLE):
        for folder in (Path(root, each) for each in (name, checkout) if each):
            if folder.exists():
                return folder, str(folder)
    if hub is None:
        raise ConfigurationError(
            f"the data of {name} is not on the Hub in a form that can be read safely: give its folder with "
            f"--data, or set {VARIABLE} to a folder that has {name!r} in it (docs: benchmarks)"
        )
    folder = _from_hub(replace(hub, revision=revision or hub.revision))
    return folder, f"{hub.repository}@{folder.name}"


def _from_hub(hub: HubData) -> Path:
    """The snapshot of a commit, in a folder of that name."""
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
                endpoint=os.environ.get("HF_ENDPOINT"),  # the library reads it only when it is imported
            )
        )
    except Exception as error:  # of the library, the network or the disk: they have no common base
        raise InputError(
            f"{hub.repository} at {hub.revision[:12]} cannot be read from the Hub "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200]}): give a folder with --data"
        ) from None


def digest_of(paths: Iterable[Path]) -> str:
    """Twelve digits that stand for the contents of these files."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(hashlib.sha256(_read(path)).digest())
    return total.hexdigest()[:12]


def rows_of(folder: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of all JSON, JSONL and parquet files of a folder, in the order of their names."""
    files = [folder] if folder.is_file() else sorted(_data_files(folder))
    if not files:
        raise InputError(f"{folder} has no .json, .jsonl or .parquet file")
    for path in files:
        yield from read_rows(path, columns=columns)


def _data_files(folder: Path) -> Iterator[Path]:
    for pattern in ("*.json", "*.jsonl", "*.parquet"):
        yield from (path for path in folder.rglob(pattern) if not path.name.startswith("."))


def read_rows(path: Path, *, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of one file; raises `InputError` for what is none."""
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
    """The object of a JSON file; raises `InputError` for what is none."""
    found = _json(path, _read(path))
    if not isinstance(found, dict):
        raise InputError(f"{path} is not an object")
    return found


def read_cells(path: Path, *, delimiter: str = ",") -> Iterator[dict[str, Any]]:
    """The rows of a CSV file by the names in its first row."""
    try:
        text = _read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read ({error})") from None
    yield from csv.DictReader(io.StringIO(text), delimiter=delimiter)


def _read(path: Path) -> bytes:
    try:
        return files.read_bytes(path, most_bytes=MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({files.why(error)})") from None


def _json(path: Path, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from None


def field(row: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str) -> Any:
    """A field of a row; raises `InputError` naming the row where it is missing or of another kind."""
    value = row.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{where}: {name!r} is {value!r:.60}, which is not what the benchmark has there")
    return value
