"""What made a stage's output: its options, its inputs by digest, and what it counted.

A manifest lies beside what it describes. It has no times and no places of one machine, so that the same
work done twice, or on two machines, leaves the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from interleave.errors import InputError
from interleave.files import open_regular, read_bytes, why
from interleave.runs.store import write_whole
from interleave.text import storable_in
from interleave.types import Value
from interleave.version import __version__

VERSION = 1
SUFFIX = ".manifest.json"
COLLECTION_MANIFEST = f"collection{SUFFIX}"
"""The manifest in the folder of a collection."""
MAX_BYTES = 100_000_000
MAX_DIGESTED_BYTES = 100_000_000_000
"""More than any stage reads."""
SOFTWARE = f"interleave {__version__}"


class Manifest(Value):
    """One stage, as it was run."""

    stage: str
    version: int = VERSION
    software: str = SOFTWARE
    options: dict[str, Any] = Field(default_factory=dict)
    """What was asked for, thresholds that came from the data included."""
    inputs: dict[str, str] = Field(default_factory=dict)
    """Name of what was read → its digest: of a file, or of the manifest of a folder."""
    counts: dict[str, int] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a reader should know: lines left out, replies that could not be used."""

    @model_validator(mode="before")
    @classmethod
    def says_only_what_a_file_can_hold(cls, given: Any) -> Any:
        """Names of files need not be text. Spelled out here, a manifest equals itself when it is read."""
        return storable_in(given)


def manifest_path(path: Path) -> Path:
    """Where the manifest of a file lies: `requests.jsonl` has `requests.manifest.json` beside it."""
    return path.with_name(path.stem + SUFFIX)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest whole; equal manifests are equal bytes."""
    said = storable_in(manifest.model_dump(mode="json"))
    text = json.dumps(said, ensure_ascii=False, indent=2, sort_keys=True)
    write_whole(path, text.encode() + b"\n")


def read_manifest(path: Path) -> Manifest:
    """The manifest in this file; raises `InputError` where it is missing, damaged or from a newer version."""
    try:
        data = read_bytes(path, most_bytes=MAX_BYTES)
    except OSError as error:
        raise InputError(f"the manifest {path} cannot be read ({why(error)})") from None
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(
            f"the manifest {path} is damaged ({where}: {first['msg']}): make it again with its stage"
        ) from None
    if manifest.version > VERSION:
        raise InputError(
            f"the manifest {path} has format version {manifest.version}, and this interleave reads up to "
            f"{VERSION}: use a newer interleave"
        )
    return manifest


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    try:
        with open_regular(path, most_bytes=MAX_DIGESTED_BYTES) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({why(error)})") from None
