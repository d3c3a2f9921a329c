"""A run as a ZIP of Markdown, page, record and images, or as the page alone."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress
from pathlib import Path

from interleave.errors import MissingImage
from interleave.render.exports.formats import Exported, ExportOptions
from interleave.render.html import render_document
from interleave.render.markdown import FILE_NAME as MARKDOWN_NAME
from interleave.render.markdown import render_markdown
from interleave.runs.folder import DOCUMENT_NAME, IMAGES_FOLDER, ImageStore
from interleave.runs.record import RunRecord, image_names
from interleave.runs.shown_document import as_shown


def render_page(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """Render `document.html`, which embeds its images."""
    return Exported(render_document(folder, record).encode())


def render_archive(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """Render a ZIP of the document, the record and the images of a run, without images of hidden steps."""
    store, buffer = ImageStore(folder), io.BytesIO()
    shown = tuple(step.record for step in as_shown(record).steps)
    without_hidden = record.model_copy(update={"steps": shown})
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DOCUMENT_NAME, render_document(folder, record))
        archive.writestr(MARKDOWN_NAME, render_markdown(record))
        archive.writestr("run.json", record.model_dump_json(indent=1))
        for name in image_names(without_hidden):
            with suppress(MissingImage):
                data = store.read(name)  # PNG files are already compressed
                archive.writestr(f"{IMAGES_FOLDER}/{name}", data, compress_type=zipfile.ZIP_STORED)
    return Exported(buffer.getvalue())
