"""Reading .xlsx tables written by other programs, without running anything in them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from interleave import InputError
from interleave.plugin import files

MAX_FILE_BYTES = 200_000_000
MAX_PART_BYTES = 400_000_000
_NAMESPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_COLUMN = re.compile(r"[A-Z]{1,3}")


def read_sheet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of the first sheet, keyed by its header: strings, numbers, `None` for empty cells."""
    try:
        with zipfile.ZipFile(io.BytesIO(files.read_bytes(path, most_bytes=MAX_FILE_BYTES))) as book:
            texts = _texts(book)
            rows = _part(book, "xl/worksheets/sheet1.xml").iter(f"{_NAMESPACE}row")
            cells = [dict(_cell(cell, texts) for cell in row.iter(f"{_NAMESPACE}c")) for row in rows]
    except OSError as error:
        raise InputError(f"cannot read {path} ({files.why(error)})") from None
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError, ElementTree.ParseError) as error:
        raise InputError(f"{path} is not a readable table ({type(error).__name__}: {error})") from None
    if not cells:
        raise InputError(f"{path} has no rows")
    names = {column: str(name) for column, name in cells[0].items() if name is not None}
    for row in cells[1:]:
        yield {name: row.get(column) for column, name in names.items()}


def _part(book: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if book.getinfo(name).file_size > MAX_PART_BYTES:
        raise ValueError(f"{name} is too large")
    data = book.read(name)
    if b"<!" in data:  # a table declares no entities, which could expand without limit
        raise ValueError(f"{name} has a declaration")
    return ElementTree.fromstring(data)


def _texts(book: zipfile.ZipFile) -> list[str]:
    """Return the shared strings, which cells refer to by index."""
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    found = _part(book, "xl/sharedStrings.xml").iter(f"{_NAMESPACE}si")
    return [_joined(each) for each in found]


def _joined(element: ElementTree.Element) -> str:
    return "".join(each.text or "" for each in element.iter(f"{_NAMESPACE}t"))


def _cell(cell: ElementTree.Element, texts: list[str]) -> tuple[str, Any]:
    place = _COLUMN.match(cell.get("r", ""))
    if place is None:
        raise ValueError("a cell has no position")
    kind, value = cell.get("t", "n"), cell.findtext(f"{_NAMESPACE}v")
    if kind == "inlineStr":
        return place[0], _joined(cell)
    if value is None or kind == "e":
        return place[0], None
    if kind == "s":
        return place[0], texts[int(value)]
    return place[0], value if kind == "str" else float(value)
