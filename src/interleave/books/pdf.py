"""A run as PDF: tagged, with alternative texts, and bleed for a printer."""

from __future__ import annotations

from pathlib import Path

from interleave import RunRecord
from interleave.books.book import book_of
from interleave.books.pages import set_pages
from interleave.plugin import render


def render_pdf(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render the PDF of a run."""
    (data,) = set_pages(book_of(folder, record, options), options, "pdf")
    return render.Exported(data)
