"""A run as PDF, made without a browser: portrait pages to print, or one landscape page per step.

Text is never treated as markup, images have alternative texts, and steps are bookmarks. A character without a
font on this machine is written as its code point, and the first page says so.
"""

from __future__ import annotations

import importlib.util
import io
import unicodedata
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from interleave.render.exports.book import Book, BookImage, BookPage, book_of
from interleave.render.exports.fonts import FontChoice, choose_fonts
from interleave.render.exports.formats import Exported, ExportOptions
from interleave.runs.record import RunRecord
from interleave.text import count

if TYPE_CHECKING:
    from fpdf import FPDF

MARGIN = 20.0
SLIDE = (297.0, 167.0)
"""Millimetres: 16:9."""
IMAGE_HEIGHT = 95.0
"""Maximum height of an image on a printed page, in millimetres: two steps fit on an A4 page."""
TITLE, HEADING, BODY, SMALL = 24.0, 15.0, 12.0, 9.0
SMALLEST = 8.0
LEADING = 1.45
POINT = 25.4 / 72
GREY, BLACK = 100, 20
FAMILY = "reading"
SHOWN_MISSING = 40
MAX_ENLARGED = 0.5
"""Maximum millimetres per pixel: small images are not enlarged further."""


def render_pdf(folder: Path, record: RunRecord, options: ExportOptions) -> Exported:
    """Render the PDF of a run."""
    book = book_of(folder, record)
    fonts = choose_fonts(book.text)
    paper = (
        _SlidePaper(book, fonts) if options.layout == "slides" else _PrintPaper(book, fonts, options.paper)
    )
    return Exported(paper.made(), "".join(sorted(fonts.missing)))


def missing_note(missing: frozenset[str]) -> str:
    """Return the note for readers about characters that could not be shown; empty if there are none."""
    if not missing:
        return ""
    shown = " ".join(f"U+{ord(character):04X}" for character in sorted(missing)[:SHOWN_MISSING])
    more = " …" if len(missing) > SHOWN_MISSING else ""
    return (
        f"The fonts of the computer that made this file lack {count(len(missing), 'character')}, written "
        f"here as code points in brackets: {shown}{more}. The EPUB and HTML exports show them."
    )


def _side(text: str) -> str:
    """Return the alignment of a text: right if its first letter is of a right-to-left script."""
    kinds = (unicodedata.bidirectional(character) for character in text)
    first = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "L" if first == "L" else "R"


class _Paper(ABC):
    """Common parts of both layouts: fonts, metadata, text, and images with alternative texts."""

    def __init__(self, book: Book, fonts: FontChoice, pdf: FPDF) -> None:
        self.book = book
        self.fonts = fonts
        self.pdf = pdf
        self._numbers = {ord(each): f"[U+{ord(each):04X}]" for each in fonts.missing}
        self.family = self._add_fonts()
        pdf.set_title(self._shown(book.title))
        pdf.set_creator(f"interleave {book.software}")
        pdf.set_creation_date(datetime.fromtimestamp(book.started, UTC))
        pdf.set_text_color(BLACK)

    def made(self) -> bytes:
        self.title()
        for page in self.book.pages:
            self.step(page)
        return bytes(self.pdf.output())

    @abstractmethod
    def title(self) -> None: ...

    @abstractmethod
    def step(self, page: BookPage) -> None: ...

    def _add_fonts(self) -> str:
        first, pdf = self.fonts.main, self.pdf
        if first is None:
            return "Times"
        pdf.add_font(FAMILY, "", first.path, collection_font_number=first.number)
        bold = self.fonts.bold or first
        pdf.add_font(FAMILY, "B", bold.path, collection_font_number=bold.number)
        names = []
        for place, font in enumerate(self.fonts.others):
            names.append(f"fallback{place}")
            pdf.add_font(names[-1], "", font.path, collection_font_number=font.number)
        if names:
            pdf.set_fallback_fonts(names, exact_match=False)
        if importlib.util.find_spec("uharfbuzz") is not None:  # shapes Arabic, Hindi and other scripts
            pdf.set_text_shaping(True)
        return FAMILY

    def _shown(self, text: str) -> str:
        return text.translate(self._numbers)

    def remarks(self) -> list[str]:
        return [*self.book.remarks, *filter(None, [missing_note(self.fonts.missing)])]

    def write(
        self, text: str, size: float, width: float = 0.0, *, style: str = "", grey: bool = False
    ) -> None:
        """Write a paragraph below the last one."""
        if not text:
            return
        self.pdf.set_font(self.family, style, size)
        self.pdf.set_text_color(GREY if grey else BLACK)
        self.pdf.multi_cell(
            width, size * POINT * LEADING, self._shown(text), align=_side(text), new_x="LEFT", new_y="NEXT"
        )

    def height_of(self, text: str, size: float, width: float, style: str = "") -> float:
        if not text:
            return 0.0
        self.pdf.set_font(self.family, style, size)
        height = self.pdf.multi_cell(
            width, size * POINT * LEADING, self._shown(text), align="L", dry_run=True, output="HEIGHT"
        )
        return float(height)

    def show(self, image: BookImage, x: float, y: float, width: float, height: float) -> float:
        """Draw an image centred in a space, as large as fits; return its height."""
        scale = min(width / image.width, height / image.height, MAX_ENLARGED)
        wide, high = image.width * scale, image.height * scale
        self.pdf.image(
            io.BytesIO(image.data), x + (width - wide) / 2, y, wide, high, alt_text=self._shown(image.alt)
        )
        return high


class _PrintPaper(_Paper):
    """Portrait pages; a step is kept together if it fits on one page."""

    def __init__(self, book: Book, fonts: FontChoice, paper: str) -> None:
        from fpdf import FPDF

        pdf = FPDF(orientation="portrait", unit="mm", format=paper)
        pdf.set_margin(MARGIN)
        pdf.set_auto_page_break(True, MARGIN)
        super().__init__(book, fonts, pdf)

    def title(self) -> None:
        self.pdf.add_page()
        self.write(self.book.title, TITLE, style="B")
        self.pdf.ln(3)
        for remark in self.remarks():
            self.write(remark, SMALL, grey=True)
        for part in self.book.given:
            self.pdf.ln(3)
            if isinstance(part, str):
                self.write(part, BODY)
            else:
                self._image(part, IMAGE_HEIGHT / 2)
        self.pdf.ln(6)

    def step(self, page: BookPage) -> None:
        pdf, width = self.pdf, self.pdf.epw
        heading = f"{page.number}  {page.heading}" if page.heading else ""
        text = page.text if page.heading or len(self.book.pages) == 1 else f"{page.number}  {page.text}"
        needed = self.height_of(heading, HEADING, width, "B") + self.height_of(text, BODY, width) + 8
        needed += self._height(page.image, IMAGE_HEIGHT) if page.image else 0
        needed += sum(self.height_of(remark, SMALL, width) for remark in page.remarks)
        if pdf.get_y() + needed > pdf.h - MARGIN and needed < pdf.eph and pdf.get_y() > MARGIN:
            pdf.add_page()
        pdf.start_section(self._shown(page.heading or page.text.split("\n")[0][:80] or str(page.number)))
        if page.image is not None:
            self._image(page.image, IMAGE_HEIGHT)
            pdf.ln(3)
        self.write(heading, HEADING, style="B")
        self.write(text, BODY)
        for remark in page.remarks:
            self.write(remark, SMALL, grey=True)
        pdf.ln(8)

    def _height(self, image: BookImage, most: float) -> float:
        scale: float = min(self.pdf.epw / image.width, most / image.height, MAX_ENLARGED)
        return image.height * scale + 3

    def _image(self, image: BookImage, most: float) -> None:
        pdf = self.pdf
        if pdf.get_y() + self._height(image, most) > pdf.h - MARGIN:
            pdf.add_page()
        pdf.set_y(pdf.get_y() + self.show(image, MARGIN, pdf.get_y(), pdf.epw, most))


class _SlidePaper(_Paper):
    """One landscape page per step: the image on the left, the text on the right."""

    def __init__(self, book: Book, fonts: FontChoice) -> None:
        from fpdf import FPDF

        pdf = FPDF(orientation="portrait", unit="mm", format=SLIDE)
        pdf.set_margin(MARGIN)
        pdf.set_auto_page_break(True, MARGIN / 2)
        super().__init__(book, fonts, pdf)

    def title(self) -> None:
        self.pdf.add_page()
        self.pdf.set_y(SLIDE[1] / 3)
        size = self._fitting(self.book.title, 34.0, self.pdf.epw, SLIDE[1] / 3, "B")
        self.write(self.book.title, size, style="B")
        self.pdf.ln(5)
        for remark in self.remarks():
            self.write(remark, SMALL, grey=True)

    def step(self, page: BookPage) -> None:
        pdf = self.pdf
        pdf.add_page()
        pdf.start_section(self._shown(page.heading or page.text.split("\n")[0][:80] or str(page.number)))
        left, width = MARGIN, pdf.epw
        room = SLIDE[1] - 2 * MARGIN
        if page.image is not None:
            half = SLIDE[0] / 2 - MARGIN
            high = min(room, page.image.height * min(half / page.image.width, MAX_ENLARGED))
            self.show(page.image, MARGIN, MARGIN + (room - high) / 2, half, room)
            left, width = SLIDE[0] / 2 + MARGIN / 2, SLIDE[0] / 2 - 1.5 * MARGIN
        heading = self.height_of(page.heading, HEADING + 3, width, "B")
        size = self._fitting(page.text, 20.0, width, room - heading - 12)
        used = heading + self.height_of(page.text, size, width)
        pdf.set_left_margin(left)
        pdf.set_xy(left, MARGIN + max(0.0, (room - used) / 2))
        self.write(page.heading, HEADING + 3, width, style="B")
        self.write(page.text, size, width)
        for remark in page.remarks:
            self.write(remark, SMALL, width, grey=True)
        pdf.set_left_margin(MARGIN)

    def _fitting(self, text: str, largest: float, width: float, height: float, style: str = "") -> float:
        """Return the largest font size at which a text fits into a space, but at least `SMALLEST`."""
        size = largest
        while size > SMALLEST and self.height_of(text, size, width, style) > height:
            size -= 1
        return size
