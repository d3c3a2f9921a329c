"""Manifests: the options, input digests and counts of one stage's output.

A manifest is stored next to the output it describes. It contains no times and no local paths, so that
repeating the work, even on another machine, writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from interleave import InputError, __version__
from interleave.plugin import Value, files, first_problem, text, write_atomic

VERSION = 1
SUFFIX = ".manifest.json"
COLLECTION_MANIFEST = f"collection{SUFFIX}"
"""Manifest in the folder of a collection."""
MAX_BYTES = 100_000_000
MAX_DIGESTED_BYTES = 100_000_000_000
"""Size limit, larger than any input of a stage."""
SOFTWARE = f"interleave {__version__}"


class Manifest(Value):
    """Options, inputs and counts of one stage."""

    stage: str
    version: int = VERSION
    software: str = SOFTWARE
    options: dict[str, Any] = Field(default_factory=dict)
    """The options used, including thresholds derived from the data."""
    inputs: dict[str, str] = Field(default_factory=dict)
    """Input name → digest of the file, or of the folder's manifest."""
    counts: dict[str, int] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Remarks for the reader: skipped lines, unusable replies."""

    @model_validator(mode="before")
    @classmethod
    def holds_only_storable_text(cls, given: Any) -> Any:
        """Escape file names that are not valid Unicode, so that a manifest survives a round trip."""
        return text.storable_in(given)


def manifest_path(path: Path) -> Path:
    """Return the path of a file's manifest: `requests.manifest.json` for `requests.jsonl`."""
    return path.with_name(path.stem + SUFFIX)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest atomically; equal manifests give equal bytes."""
    fields = text.storable_in(manifest.model_dump(mode="json"))
    written = json.dumps(fields, ensure_ascii=False, indent=2, sort_keys=True)
    write_atomic(path, written.encode() + b"\n")


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; raises `InputError` if it is missing, damaged or of a newer version."""
    try:
        data = files.read_bytes(path, most_bytes=MAX_BYTES)
    except OSError as error:
        raise InputError(f"the manifest {path} cannot be read ({files.why(error)})") from None
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise InputError(
            f"the manifest {path} is damaged ({first_problem(error)}): rerun the stage that wrote it"
        ) from None
    if manifest.version > VERSION:
        raise InputError(
            f"the manifest {path} has format version {manifest.version}, but this interleave reads up to "
            f"{VERSION}: use a newer interleave"
        )
    return manifest


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    try:
        with files.open_regular(path, most_bytes=MAX_DIGESTED_BYTES) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({files.why(error)})") from None
