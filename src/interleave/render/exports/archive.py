"""A run as a ZIP of Markdown, page, record and images; and as the page alone."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from interleave.render.exports.formats import Exported, ExportOptions
from interleave.render.html import render_document
from interleave.render.markdown import FILE_NAME as MARKDOWN_NAME
from interleave.render.markdown import render_markdown
from interleave.runs.folder import DOCUMENT_NAME, IMAGES_FOLDER, ImageStore
from interleave.runs.record import RunRecord, image_names


def render_page(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """`document.html`, which holds its images itself."""
    return Exported(render_document(folder, record).encode())


def render_archive(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """Everything of a run that a reader may want to work on, as a ZIP."""
    store, buffer = ImageStore(folder), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DOCUMENT_NAME, render_document(folder, record))
        archive.writestr(MARKDOWN_NAME, render_markdown(record))
        archive.writestr("run.json", record.model_dump_json(indent=1))
        for name in image_names(record):
            if store.path(name).exists():  # PNG files are compressed already
                archive.writestr(
                    f"{IMAGES_FOLDER}/{name}", store.path(name).read_bytes(), compress_type=zipfile.ZIP_STORED
                )
    return Exported(buffer.getvalue())
