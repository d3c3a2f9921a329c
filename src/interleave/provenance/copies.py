"""Signed copies of the images that a run shows, in a folder of their own."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from interleave import ConfigurationError, read_record
from interleave.plugin import make_folder, runs, write_atomic
from interleave.provenance.images import SignedImages
from interleave.provenance.keys import signing_key
from interleave.provenance.signing import Signer


def write_signed_copies(
    run: Path, folder: Path, *, key: str = "self", prompts: str = "no", webp: bool = False
) -> Iterator[Path]:
    """Write each image that a run shows as a signed file named after its step; yield the paths."""
    if prompts not in ("no", "hash", "text"):
        raise ConfigurationError(f"prompts={prompts}: use no, hash or text")
    record = read_record(run)
    signed = SignedImages(run, record, Signer(signing_key(key)), prompts)
    make_folder(folder)
    for step in runs.as_shown(record).steps:
        if step.record.attempt is None:
            continue
        name, path = step.record.attempt.image, folder / f"step-{step.number:02}"
        path = path.with_suffix(".webp" if webp else ".png")
        write_atomic(
            path, signed.signed(name, _webp(signed, name), "image/webp") if webp else signed.png(name)
        )
        yield path


def _webp(signed: SignedImages, name: str) -> bytes:
    made = io.BytesIO()
    signed.store.get(name).save(made, "WEBP", lossless=True)
    return made.getvalue()
