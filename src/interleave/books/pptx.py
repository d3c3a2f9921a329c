"""A run as PowerPoint slides with text to edit: a title, then each step with its image beside its text."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interleave import RunRecord
from interleave.books.book import Book, BookImage, BookPage, book_of
from interleave.books.languages import UNKNOWN, Language
from interleave.books.lettering import Box, Drawn, Entry, Part, diagram, drawn_over, lines_of
from interleave.plugin import render

WIDTH, HEIGHT, MARGIN = 13.333, 7.5, 0.6
"""Inches: 16:9."""
TITLE_SLIDE, TITLE_ONLY, BLANK = 0, 5, 6
"""Layout indices of the library's default template."""
HEADING_HEIGHT = 0.9
LARGEST, SMALLEST = 28, 9
"""Font sizes in points."""
REMARK = 12
INK, SECOND, PAPER = "1D1B19", "3D5A80", "FFF6D6"
Texts = list[tuple[Language, str]]


def render_pptx(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render the slides of a run."""
    from pptx import Presentation
    from pptx.util import Inches

    book = book_of(folder, record, options)
    slides = Presentation()
    slides.slide_width, slides.slide_height = Inches(WIDTH), Inches(HEIGHT)
    started = datetime.fromtimestamp(book.started, UTC).replace(tzinfo=None)
    about = slides.core_properties
    about.title, about.author = book.title[:255], f"interleave {book.software}"
    about.language = book.languages[0].tag
    about.created = about.modified = started
    _title(slides, book)
    for page in book.pages:
        _step(slides, book, page, with_diagram=options.layout == "labels")
    _credits(slides, book)
    buffer = io.BytesIO()
    slides.save(buffer)
    return render.Exported(buffer.getvalue())


def _title(slides: Any, book: Book) -> None:
    slide = slides.slides.add_slide(slides.slide_layouts[TITLE_SLIDE])
    title, subtitle = slide.shapes.title, slide.placeholders[1]
    wide = WIDTH / 2 - 1.5 * MARGIN if book.cover else WIDTH - 2 * MARGIN
    _place(title, MARGIN, HEIGHT / 4, wide, HEIGHT / 4)
    _place(subtitle, MARGIN, HEIGHT / 2 + 0.3, wide, HEIGHT / 4)
    first = book.languages[0]
    _fill(title.text_frame, [(first, book.title)], _size([(first, book.title)], wide, HEIGHT / 4, 40))
    given = [(first, part) for part in book.given if isinstance(part, str)]
    others = [(each.language, each.heading) for each in book.titles[1:]]
    notices = [(each.language, each.text) for each in book.titles if each.text]
    below = [*others, *notices, *given]
    _fill(subtitle.text_frame, below, _size(below, wide, HEIGHT / 4, 24))
    if book.cover:
        _image(slide, book.cover, WIDTH / 2, MARGIN, WIDTH / 2 - MARGIN, HEIGHT - 2 * MARGIN)


def _step(slides: Any, book: Book, page: BookPage, *, with_diagram: bool) -> None:
    slide = slides.slides.add_slide(slides.slide_layouts[TITLE_ONLY])
    title = slide.shapes.title
    _place(title, MARGIN, 0.3, WIDTH - 2 * MARGIN, HEADING_HEIGHT)
    headings = [(each.language, each.heading) for each in page.words if each.heading]
    headings = headings or [(page.words[0].language, str(page.number))]
    wide = WIDTH - 2 * MARGIN
    _fill(title.text_frame, headings, _size(headings, wide, HEADING_HEIGHT, LARGEST))
    top, room = HEADING_HEIGHT + 0.4, HEIGHT - HEADING_HEIGHT - 0.4 - MARGIN
    left, width = MARGIN, wide
    legend: tuple[Entry, ...] = drawn_over(page).legend
    if page.image is not None:
        half = WIDTH * 0.62 - MARGIN if with_diagram else WIDTH / 2 - MARGIN
        drawn = diagram(page) if with_diagram else drawn_over(page)
        legend = drawn.legend
        _drawn(slide, book, page.image, drawn, (MARGIN, top, half, room))
        left, width = MARGIN + half + MARGIN / 2, WIDTH - half - 2.5 * MARGIN
    texts = [(each.language, line) for each in page.words for line in each.text.split("\n")]
    texts += [
        (book.languages[part.language], _entry(entry, part)) for entry in legend for part in entry.parts
    ]
    box = slide.shapes.add_textbox(*_inches(left, top, width, room))
    _fill(box.text_frame, texts, _size(texts, width, room, LARGEST), middle=True, main=book.languages[0])
    _describe(box, "Text")


def _entry(entry: Entry, part: Part) -> str:
    start = f"{entry.number}  " if entry.number else f"{part.who}  " if part.who else ""
    return start + part.text


def _drawn(
    slide: Any, book: Book, image: BookImage, drawn: Drawn, space: tuple[float, float, float, float]
) -> None:
    """Add an image with its lettering, as shapes that can be edited, centred in a space."""
    left, top, width, height = space
    unit = min(width / 1000, height / drawn.height)
    left, top = left + (width - 1000 * unit) / 2, top + (height - drawn.height * unit) / 2
    wide = drawn.width * unit
    _image(slide, image, left + drawn.left * unit, top, wide, wide * image.height / image.width)
    for start, tip in drawn.leaders:
        _line(
            slide,
            *(
                left + x * unit if place == 0 else top + x * unit
                for end in (start, tip)
                for place, x in enumerate(end)
            ),
        )
    for dot in drawn.dots:
        _dot(slide, book, str(dot.number), left + dot.x * unit, top + dot.y * unit)
    for box in drawn.boxes:
        _letters(slide, book, box, left, top, unit)


def _letters(slide: Any, book: Book, box: Box, left: float, top: float, unit: float) -> None:
    from pptx.enum.shapes import MSO_SHAPE
    from pptx.util import Inches

    place = (left + box.x * unit, top + box.y * unit, box.w * unit, box.h * unit)
    if box.kind == "label":
        shape = slide.shapes.add_textbox(*_inches(*place))
    else:
        kind = MSO_SHAPE.ROUNDED_RECTANGULAR_CALLOUT if box.tail else MSO_SHAPE.ROUNDED_RECTANGLE
        shape = slide.shapes.add_shape(kind, *_inches(*place))
        _colour(shape, PAPER if box.kind == "caption" else "FFFFFF", INK)
        if box.tail:
            x, y = box.tail[1]
            shape.adjustments[0] = (x - box.x - box.w / 2) / box.w
            shape.adjustments[1] = (y - box.y - box.h / 2) / box.h
    texts = [(book.languages[part.language], part.text) for part in box.parts]
    frame = shape.text_frame
    frame.margin_top = frame.margin_bottom = 0
    frame.margin_left = frame.margin_right = Inches(0.05)
    centred = box.kind == "speech"
    _fill(frame, texts, box.size * unit * 72 * 0.95, middle=True, main=book.languages[0], centred=centred)
    _describe(shape, {"speech": "Speech", "caption": "Narration"}.get(box.kind, "Label"))


def _dot(slide: Any, book: Book, number: str, x: float, y: float) -> None:
    from pptx.enum.shapes import MSO_SHAPE

    shape = slide.shapes.add_shape(MSO_SHAPE.OVAL, *_inches(x - 0.15, y - 0.15, 0.3, 0.3))
    _colour(shape, "FFFFFF", INK)
    frame = shape.text_frame
    frame.margin_top = frame.margin_bottom = frame.margin_left = frame.margin_right = 0
    _fill(frame, [(book.languages[0], number)], 11, middle=True, centred=True)


def _line(slide: Any, x: float, y: float, to_x: float, to_y: float) -> None:
    from pptx.dml.color import RGBColor
    from pptx.enum.shapes import MSO_CONNECTOR
    from pptx.util import Pt

    line = slide.shapes.add_connector(MSO_CONNECTOR.STRAIGHT, *_inches(x, y, to_x, to_y))
    line.line.color.rgb, line.line.width = RGBColor.from_string(INK), Pt(1.25)


def _colour(shape: Any, fill: str, line: str) -> None:
    from pptx.dml.color import RGBColor
    from pptx.util import Pt

    shape.fill.solid()
    shape.fill.fore_color.rgb = RGBColor.from_string(fill)
    shape.line.color.rgb, shape.line.width = RGBColor.from_string(line), Pt(1.25)
    shape.shadow.inherit = False


def _credits(slides: Any, book: Book) -> None:
    slide = slides.slides.add_slide(slides.slide_layouts[BLANK])
    english = Language("en", is_rtl=False)
    texts = [(english, line) for line in (*book.credits, *book.last_remarks)]
    box = slide.shapes.add_textbox(*_inches(MARGIN, HEIGHT / 2, WIDTH - 2 * MARGIN, HEIGHT / 2 - MARGIN))
    _fill(box.text_frame, texts, REMARK)


def _image(slide: Any, image: BookImage, left: float, top: float, width: float, height: float) -> None:
    """Add an image centred in a space, with its alternative text."""
    scale = min(width / image.width, height / image.height)
    wide, high = image.width * scale, image.height * scale
    at = (left + (width - wide) / 2, top + (height - high) / 2, wide, high)
    shape = slide.shapes.add_picture(io.BytesIO(image.data), *_inches(*at))
    _describe(shape, image.alt)


def _describe(shape: Any, description: str) -> None:
    (about,) = shape._element.xpath(".//p:cNvPr")[:1]
    about.set("descr", description)


def _inches(*lengths: float) -> list[int]:
    from pptx.util import Inches

    return [Inches(length) for length in lengths]


def _place(shape: Any, *place: float) -> None:
    shape.left, shape.top, shape.width, shape.height = _inches(*place)


def _fill(
    frame: Any,
    texts: Texts,
    size: float,
    *,
    middle: bool = False,
    centred: bool = False,
    main: Language | None = None,
) -> None:
    """Write paragraphs, each in its language and direction."""
    from pptx.dml.color import RGBColor
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
    from pptx.util import Pt

    frame.word_wrap = True
    if middle:
        frame.vertical_anchor = MSO_ANCHOR.MIDDLE
    for place, (language, text) in enumerate(texts):
        paragraph = frame.paragraphs[0] if place == 0 else frame.add_paragraph()
        properties = paragraph._p.get_or_add_pPr()

        if language.is_rtl:
            properties.set("rtl", "1")
        paragraph.alignment = (
            PP_ALIGN.CENTER if centred else PP_ALIGN.RIGHT if language.is_rtl else PP_ALIGN.LEFT
        )
        run = paragraph.add_run()
        run.text = text
        run.font.size = Pt(round(size * 2) / 2)
        run.font.color.rgb = RGBColor.from_string(INK if main is None or language == main else SECOND)
        if language.tag != UNKNOWN:
            run._r.get_or_add_rPr().set("lang", language.tag)


def _size(texts: Texts, width: float, height: float, largest: float) -> float:
    """Return the largest font size at which texts fit into a space in inches, but at least `SMALLEST`."""
    size = largest
    while size > SMALLEST:
        lines = sum(lines_of(text, (width - 0.2) * 72 / size) for _, text in texts)
        if lines * size * 1.2 <= (height - 0.1) * 72:
            break
        size -= 1
    return size
