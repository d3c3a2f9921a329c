"""CoMM's files as they are on the Hub, converted to JSON lines and image files that the benchmark reads.

An item has `data_id`, `title` or `summary_info`, `step_info`, and possibly `dataset_type`. A step is a list
of `{"type": "text", "content": …}` and `{"type": "image", "url": …, "image_path": …}`, below `images/`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from interleave import InputError
from interleave.bench.datasets import field
from interleave.bench.restricted_pickle import read_pickle, rows_in
from interleave.plugin import make_folder, write_atomic

KEPT = ("data_id", "title", "summary_info", "dataset_type", "step_info")
IMAGES = "images"
MAX_NAME = 200
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")


@dataclass(frozen=True)
class Converted:
    """A converted file."""

    path: Path
    items: int
    urls: dict[str, str]
    """The address of each image, by its name below `images/`."""


def convert(source: Path, folder: Path) -> Converted:
    """Write the items of a pickled file as JSON lines into a folder."""
    urls: dict[str, str] = {}
    lines = [json.dumps(row) for row in _rows(source, urls)]
    if not lines:
        raise InputError(f"{source} has no items")
    make_folder(folder)
    path = folder / f"{source.stem}.jsonl"
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
    return Converted(path, len(lines), urls)


def _rows(source: Path, urls: dict[str, str]) -> Iterator[dict[str, Any]]:
    for where, row in rows_in(read_pickle(source), source):
        kept = {name: row[name] for name in KEPT if name in row}
        field(kept, "data_id", (str, int), where)
        kept["step_info"] = [
            [
                _piece(piece, urls, f"{where}, step {number}")
                for piece in field({"step": step}, "step", list, where)
            ]
            for number, step in enumerate(field(kept, "step_info", list, where), start=1)
        ]
        yield kept


def _piece(piece: Any, urls: dict[str, str], where: str) -> dict[str, str]:
    match piece:
        case {"type": "text", "content": str(content)}:
            return {"type": "text", "content": content}
        case {"type": "image", **more}:
            url, given = more.get("url"), more.get("image_path")
            name = _image_name(given if isinstance(given, str) else "", url if isinstance(url, str) else "")
            if not name:
                raise InputError(f"{where}: an image has neither 'url' nor 'image_path'")
            if isinstance(url, str):
                urls[name] = url
            return {"type": "image", "image_path": name} | ({"url": url} if isinstance(url, str) else {})
    raise InputError(f"{where} has {piece!r:.60}, neither text nor image")


def _image_name(given: str, url: str) -> str:
    """Return the image's own path if it stays below a folder, else a name made from its address."""
    path = PurePosixPath(given.replace("\\", "/"))
    is_below = path.name and not path.is_absolute() and ".." not in path.parts
    if is_below and given.isprintable() and len(given) <= MAX_NAME:
        return str(path)
    if not (given or url):
        return ""
    suffix = PurePosixPath(urlsplit(url).path).suffix.lower()
    return hashlib.sha256((url or given).encode()).hexdigest()[:32] + (
        suffix if suffix in SUFFIXES else ".jpg"
    )
