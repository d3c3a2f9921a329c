"""Sign exported documents, as `interleave.signers` names it: the images in them, then the whole file."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

from interleave import RunRecord
from interleave.plugin import render, runs
from interleave.provenance.claims import Ingredient, document_statements
from interleave.provenance.images import SignedImages
from interleave.provenance.journals import journal_digest
from interleave.provenance.keys import signing_key
from interleave.provenance.origins import model_name
from interleave.provenance.signing import EMBEDDED, Signer

_STORED_IMAGE = re.compile(r"(?:.*/)?([0-9a-f]{64})\.(png|jpg)")
_MEDIA = {"png": "image/png", "jpg": "image/jpeg"}
EPUB = "application/epub+zip"


def sign_export(
    folder: Path, record: RunRecord, made: render.Exported, media_type: str, options: render.ExportOptions
) -> render.Exported:
    """Return an export with its credentials: in the file if its format holds them, else beside it."""
    signer = Signer(signing_key(options.sign))
    signed = SignedImages(folder, record, signer, options.sign_prompts)
    data = _with_signed_images(made.data, signed) if zipfile.is_zipfile(io.BytesIO(made.data)) else made.data
    if media_type == EPUB:
        data = stored(data)
    statements = document_statements(
        media_type,
        _components(record, signed),
        planner=model_name(record.config.planner),
        journal=journal_digest(folder),
    )
    if media_type in EMBEDDED:
        return replace(made, data=signer.embed(statements, data))
    return replace(made, data=data, sidecar=signer.sidecar(statements, data))


def _components(record: RunRecord, signed: SignedImages) -> list[Ingredient]:
    """Return the images that the document shows, as signed copies."""
    shown = [(step.number, step.record.attempt) for step in runs.as_shown(record).steps]
    return [
        Ingredient(
            f"image-{number}",
            f"Image of step {number}",
            "componentOf",
            "image/png",
            signed.png(attempt.image),
        )
        for number, attempt in shown
        if attempt is not None and signed.store.has(attempt.image)
    ]


def _with_signed_images(data: bytes, signed: SignedImages) -> bytes:
    """Return a ZIP file in which the images of the run are signed copies, still under their names."""

    def copy(info: zipfile.ZipInfo, content: bytes) -> bytes:
        match = _STORED_IMAGE.fullmatch(info.filename)
        name = f"{match[1]}.png" if match else ""
        if match is None or name not in signed.origins:
            return content
        return signed.signed(name, content, _MEDIA[match[2]])

    return _copied(data, copy)


def stored(data: bytes) -> bytes:
    """Return a ZIP file without compression, as c2pa needs it."""
    return _copied(data, lambda _, content: content, method=zipfile.ZIP_STORED)


def _copied(data: bytes, change: object, method: int | None = None) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(made, "w") as after:
        for info in before.infolist():
            entry = zipfile.ZipInfo(info.filename, info.date_time)
            content = change(info, before.read(info))  # type: ignore[operator]
            after.writestr(entry, content, info.compress_type if method is None else method)
    return made.getvalue()
