"""Reading pickled data without running it: lists, dictionaries, texts and numbers; anything else is refused.

A pickle can name any function and call it. This reader resolves no name: a file that asks for one is refused.
It reads plain pickles and both containers of `torch.save`, the zip archive and the older sequence.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from interleave import InputError
from interleave.plugin import files

TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""The first value of the older container; two more precede the data."""
MAX_FILE_BYTES = 4_000_000_000
MAX_VALUES = 200_000
"""Maximum values in one row. Shared references could otherwise expand a small file without end."""
MAX_DEPTH = 32


def read_pickle(path: Path) -> Any:
    """Return the data of a file. Raises `InputError` naming what it would have run."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path} is larger than {MAX_FILE_BYTES / 1e9:.0f} GB")
        with path.open("rb") as file:
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive, archive.open(_data_of(archive, path)) as data:
                    return _Reader(io.BytesIO(data.read(MAX_FILE_BYTES)), path).read()
            file.seek(0)
            return _Reader(file, path).read()
    except OSError as error:
        raise InputError(f"cannot read {path} ({files.why(error)})") from None
    except (pickle.UnpicklingError, zipfile.BadZipFile, EOFError, ValueError, LookupError) as error:
        raise InputError(f"{path} is not a pickled file ({error})") from None
    except (TypeError, AttributeError, RecursionError, MemoryError, OverflowError) as error:
        raise InputError(f"{path} cannot be read as data ({type(error).__name__})") from None


def _data_of(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    found = [each for each in archive.infolist() if each.filename.rsplit("/", 1)[-1] == "data.pkl"]
    if len(found) != 1:
        raise InputError(f"{path} is a zip archive without one data.pkl: torch.save writes one")
    if found[0].file_size > MAX_FILE_BYTES:
        raise InputError(f"{path}: its data.pkl is larger than {MAX_FILE_BYTES / 1e9:.0f} GB")
    return found[0]


class _Reader(pickle.Unpickler):
    """An unpickler that resolves nothing."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        super().__init__(file)
        self.file, self.path = file, path

    def read(self) -> Any:
        found = self.load()
        if isinstance(found, int) and found == TORCH_MAGIC:
            for _ in range(3):  # protocol, system, data
                found = _Reader(self.file, self.path).load()
        return found

    def find_class(self, module: str, name: str) -> NoReturn:
        raise InputError(
            f"{self.path} is refused: it asks for '{module}.{name}', and data needs no such thing"
        )

    def persistent_load(self, pid: Any) -> NoReturn:
        raise InputError(f"{self.path} is refused: it holds a tensor or another stored object")


def plain(value: Any, where: str) -> Any:
    """Return a copy that JSON can hold. Raises `InputError` for other types, cycles and endless values."""
    left = iter(range(MAX_VALUES))

    def copied(value: Any, depth: int) -> Any:
        if next(left, None) is None or depth > MAX_DEPTH:
            raise InputError(f"{where} has more than {MAX_VALUES:,} values, or {MAX_DEPTH} levels")
        match value:
            case None | bool() | int() | float() | str():
                return value
            case dict():
                return {str(key): copied(each, depth + 1) for key, each in value.items()}
            case list() | tuple():
                return [copied(each, depth + 1) for each in value]
        raise InputError(f"{where} has a {type(value).__name__}, which is no data here")

    return copied(value, 0)


def rows_in(found: Any, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a list, or of a dictionary by id, each with its place."""
    if isinstance(found, dict):
        pairs = [(str(key), row) for key, row in found.items()]
    elif isinstance(found, list | tuple):
        pairs = [(str(number), row) for number, row in enumerate(found, start=1)]
    else:
        raise InputError(f"{path} holds a {type(found).__name__}, not a list or dictionary of items")
    for key, row in pairs:
        where = f"{path}: item {key}"
        if not isinstance(row, dict):
            raise InputError(f"{where} is not a dictionary")
        yield where, plain(row if isinstance(found, list | tuple) else {"data_id": key, **row}, where)
