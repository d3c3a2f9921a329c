"""A run as PowerPoint slides: a title, then one slide per step, with its image left of its text."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interleave.render.exports.book import Book, BookImage, BookPage, book_of
from interleave.render.exports.formats import Exported, ExportOptions
from interleave.runs.record import RunRecord

WIDTH, HEIGHT, MARGIN = 13.333, 7.5, 0.6
"""Inches: 16:9."""
TITLE_SLIDE, TITLE_ONLY = 0, 5
"""Layout indices of the library's default template."""
HEADING_HEIGHT = 0.9
SIZES = ((120, 28), (300, 22), (600, 18), (1200, 14))
"""Pairs of maximum characters and font size in points; `SMALLEST` for longer texts."""
SMALLEST = 11
REMARK = 12


def render_pptx(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """Render the slides of a run."""
    from pptx import Presentation
    from pptx.util import Inches

    book = book_of(folder, record)
    slides = Presentation()
    slides.slide_width, slides.slide_height = Inches(WIDTH), Inches(HEIGHT)
    started = datetime.fromtimestamp(book.started, UTC).replace(tzinfo=None)
    about = slides.core_properties
    about.title, about.author = book.title[:255], f"interleave {book.software}"
    about.created = about.modified = started
    _title(slides, book)
    for page in book.pages:
        _step(slides, page)
    buffer = io.BytesIO()
    slides.save(buffer)
    return Exported(buffer.getvalue())


def _title(slides: Any, book: Book) -> None:
    slide = slides.slides.add_slide(slides.slide_layouts[TITLE_SLIDE])
    title, subtitle = slide.shapes.title, slide.placeholders[1]
    _place(title, MARGIN, HEIGHT / 4, WIDTH - 2 * MARGIN, HEIGHT / 4)
    _place(subtitle, MARGIN, HEIGHT / 2 + 0.3, WIDTH - 2 * MARGIN, HEIGHT / 4)
    _fill(title.text_frame, [book.title], _size_for(book.title) + 8)
    given = [part for part in book.given if isinstance(part, str)]
    _fill(subtitle.text_frame, [*book.remarks, *given], REMARK)


def _step(slides: Any, page: BookPage) -> None:
    slide = slides.slides.add_slide(slides.slide_layouts[TITLE_ONLY])
    title = slide.shapes.title
    _place(title, MARGIN, 0.3, WIDTH - 2 * MARGIN, HEADING_HEIGHT)
    _fill(title.text_frame, [page.heading or str(page.number)], 28)
    top, room = HEADING_HEIGHT + 0.4, HEIGHT - HEADING_HEIGHT - 0.4 - MARGIN
    left, width = MARGIN, WIDTH - 2 * MARGIN
    if page.image is not None:
        half = WIDTH / 2 - MARGIN
        _image(slide, page.image, MARGIN, top, half, room)
        left, width = WIDTH / 2 + MARGIN / 2, WIDTH / 2 - 1.5 * MARGIN
    from pptx.util import Inches

    box = slide.shapes.add_textbox(*map(Inches, (left, top, width, room)))
    _fill(box.text_frame, page.text.split("\n"), _size_for(page.text), middle=True)
    if page.remarks:
        slide.notes_slide.notes_text_frame.text = "\n".join(page.remarks)
        _fill_more(box.text_frame, page.remarks)


def _image(slide: Any, image: BookImage, left: float, top: float, width: float, height: float) -> None:
    """Add an image centred in a space, with its alternative text."""
    from pptx.util import Inches

    scale = min(width / image.width, height / image.height)
    wide, high = image.width * scale, image.height * scale
    at = (left + (width - wide) / 2, top + (height - high) / 2, wide, high)
    shape = slide.shapes.add_picture(io.BytesIO(image.data), *map(Inches, at))
    shape._element.nvPicPr.cNvPr.set("descr", image.alt)


def _place(shape: Any, left: float, top: float, width: float, height: float) -> None:
    from pptx.util import Inches

    shape.left, shape.top, shape.width, shape.height = map(Inches, (left, top, width, height))


def _fill(frame: Any, paragraphs: list[str], size: int, *, middle: bool = False) -> None:
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap = True
    if middle:
        frame.vertical_anchor = MSO_ANCHOR.MIDDLE
    for place, text in enumerate(paragraphs):
        paragraph = frame.paragraphs[0] if place == 0 else frame.add_paragraph()
        paragraph.alignment = PP_ALIGN.LEFT
        run = paragraph.add_run()
        run.text = text
        run.font.size = Pt(size)


def _fill_more(frame: Any, remarks: tuple[str, ...]) -> None:
    from pptx.util import Pt

    for remark in remarks:
        run = frame.add_paragraph().add_run()
        run.text, run.font.size, run.font.italic = remark, Pt(REMARK), True


def _size_for(text: str) -> int:
    return next((size for length, size in SIZES if len(text) <= length), SMALLEST)
