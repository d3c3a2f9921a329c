"""A line of a corpus, and the corpus as a file with its manifest beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from interleave.data.manifest import Manifest, manifest_path, read_manifest, write_manifest
from interleave.errors import RunError
from interleave.files import write_atomic
from interleave.types import Value

PICTURES = "images"

JsonPart = dict[str, str]
"""`{"text": …}` or `{"image": "path beside the file"}`."""


class RequestRow(Value):
    """One request, as `read_requests` reads it, with where it stands in its taxonomy."""

    id: str
    request: str | tuple[JsonPart, ...]
    domain: str | None = None
    subcategory: str | None = None
    template: str | None = None
    suite: str | None = None
    split: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    """The user's own keys."""

    @property
    def text(self) -> str:
        if isinstance(self.request, str):
            return self.request
        return "\n".join(part["text"] for part in self.request if "text" in part)

    def line(self) -> bytes:
        known = self.model_dump(exclude_none=True, exclude={"extra"})
        return json.dumps(known | self.extra, ensure_ascii=False).encode() + b"\n"


def content_id(kind: str, said: str) -> str:
    """An id that equal requests have in common, whoever makes them."""
    return f"{kind}-{hashlib.sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def is_there_already(path: Path, manifest: Manifest) -> bool:
    """Whether this very corpus lies there; raises `RunError` when another one does."""
    if not path.exists():
        return False
    beside = manifest_path(path)
    made = read_manifest(beside) if beside.exists() else None
    if made is None:
        raise RunError(f"{path} exists, and no manifest says what made it: choose another file with --out")
    ours, theirs = manifest.options | manifest.inputs, made.options | made.inputs
    if made.stage == manifest.stage and ours == theirs:
        return True
    different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    raise RunError(
        f"{path} was made with other settings ({', '.join(different) or 'another stage'} differ): "
        "choose another file with --out, or remove it"
    )


def make_folder(folder: Path) -> None:
    """Make the folder of a corpus; raises `RunError` where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another file with --out"
        ) from None


def write_corpus(path: Path, rows: Sequence[RequestRow], manifest: Manifest) -> None:
    """Write the lines whole, then the manifest: where there is a manifest, the corpus is complete."""
    make_folder(path.parent)
    write_atomic(path, b"".join(row.line() for row in rows))
    write_manifest(manifest_path(path), manifest)
