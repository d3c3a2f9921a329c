"""A run as a comic book archive: the pages of a layout as images, and their words in ComicInfo.xml."""

from __future__ import annotations

import io
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from interleave import RunRecord
from interleave.books.book import Book, book_of
from interleave.books.pages import page_texts, paper_of, set_pages
from interleave.plugin import render

PIXELS_HIGH = 1800


def render_cbz(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render the pages of a run, by default as a comic, as PNG files in a ZIP."""
    if options.layout == "print":
        options = replace(options, layout="comic")
    book = book_of(folder, record, options)
    pages = set_pages(book, options, "png", PIXELS_HIGH / paper_of(options).height * 25.4)
    date = time.gmtime(max(book.started, 315_532_800))[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number, page in enumerate(pages, start=1):
            archive.writestr(zipfile.ZipInfo(f"page-{number:04}.png", date), page)
        archive.writestr(zipfile.ZipInfo("ComicInfo.xml", date), comic_info(book, len(pages)))
    return render.Exported(buffer.getvalue())


def comic_info(book: Book, pages: int) -> str:
    """Return the description that readers of comics show, with all words for search and for the blind."""
    year, month, day = book.date[:10].split("-")
    first = book.languages[0]
    fields = {
        "Title": book.title,
        "Summary": "\n".join(filter(None, page_texts(book))),
        "Notes": "\n".join((*book.credits, *book.last_remarks)),
        "Year": str(int(year)),
        "Month": str(int(month)),
        "Day": str(int(day)),
        "PageCount": str(pages),
        "LanguageISO": first.tag,
        "Manga": "YesAndRightToLeft" if first.is_rtl else "No",
    }
    lines = "\n".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
    schema = quoteattr("http://www.w3.org/2001/XMLSchema-instance")
    return f'<?xml version="1.0" encoding="utf-8"?>\n<ComicInfo xmlns:xsi={schema}>\n{lines}\n</ComicInfo>\n'
