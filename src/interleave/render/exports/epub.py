"""A run as EPUB 3: one chapter per step, a table of contents and alternative texts for all images."""

from __future__ import annotations

import io
import time
import uuid
import zipfile
from pathlib import Path

from interleave.render.exports.book import Book, BookImage, book_of
from interleave.render.exports.formats import Exported, ExportOptions
from interleave.render.html import page_template
from interleave.runs.record import RunRecord

MIMETYPE = "application/epub+zip"
CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""


def render_epub(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """Render the EPUB of a run."""
    book = book_of(folder, record)
    identity = uuid.uuid5(uuid.NAMESPACE_OID, record.model_dump_json())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, book, "mimetype", MIMETYPE.encode(), zipfile.ZIP_STORED)  # first, uncompressed
        _add(archive, book, "META-INF/container.xml", CONTAINER.encode())
        names = [f"step-{place:04}.xhtml" for place in range(1, len(book.pages) + 1)]
        _add(archive, book, "book/package.opf", _made("package.opf.j2", book, names=names, identity=identity))
        _add(archive, book, "book/contents.xhtml", _made("contents.xhtml.j2", book, names=names))
        _add(archive, book, "book/title.xhtml", _made("title.xhtml.j2", book))
        _add(archive, book, "book/book.css", _made("book.css.j2", book))
        for name, page in zip(names, book.pages, strict=True):
            _add(archive, book, f"book/{name}", _made("step.xhtml.j2", book, page=page))
        for image in book.images:
            _add(archive, book, f"book/images/{image.name}", image.data, zipfile.ZIP_STORED)
    return Exported(buffer.getvalue())


def _made(template: str, book: Book, **values: object) -> bytes:
    render = page_template(f"epub/{template}").render
    return render(book=book, is_image=lambda part: isinstance(part, BookImage), **values).encode()


def _add(
    archive: zipfile.ZipFile, book: Book, name: str, data: bytes, how: int = zipfile.ZIP_DEFLATED
) -> None:
    """Add a file, dated as the run, so that the same run gives the same bytes."""
    date = time.gmtime(max(book.started, 315_532_800))[:6]  # ZIP has no time before 1980
    archive.writestr(zipfile.ZipInfo(name, date), data, how)
