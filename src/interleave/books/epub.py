"""A run as EPUB 3: flowing text with one chapter per step, or fixed pages with the words set upon them."""

from __future__ import annotations

import io
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from interleave import RunRecord
from interleave.books.book import Book, BookPage, Words, book_of
from interleave.books.fonts import embedded_fonts, font_css
from interleave.books.lettering import LINE, WIDTH, Box, Drawn, Entry, drawn_over, em_width, lines_of
from interleave.books.web import is_image, lettering_of
from interleave.plugin import render

MIMETYPE = "application/epub+zip"
CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
PAGE_HEIGHT = 1500.0
MOST_IMAGE = 1100.0
"""Of a fixed page: its height and that of its image, in units of which the page is 1000 wide."""
MARGIN = 70.0
LARGEST, SMALLEST = 52.0, 26.0
HEADING = 1.2
BETWEEN = 0.8
"""Sizes and gaps of text: a heading beside its text, and two languages."""


def render_epub(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render an EPUB with flowing text."""
    book = book_of(folder, record, options)
    files = {
        f"step-{place:04}.xhtml": _made("step.xhtml.j2", book, page=page)
        for place, page in enumerate(book.pages, start=1)
    }
    named = {name: page.label for name, page in zip(files, book.pages, strict=True)}
    files = {
        "title.xhtml": _made("title.xhtml.j2", book),
        **files,
        "credits.xhtml": _made("credits.xhtml.j2", book),
    }
    return _packed(book, record, files, named, fixed=False)


def render_fixed_epub(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render an EPUB with fixed pages; a text that fills more than its page goes on on the next."""
    book = book_of(folder, record, options)
    files, named = (
        {"title.xhtml": _made("fixed-title.xhtml.j2", book, height=PAGE_HEIGHT, size=_title_size(book))},
        {},
    )
    for place, page in enumerate(book.pages, start=1):
        for part, fixed in enumerate(_fixed_pages(page)):
            name = f"page-{place:04}-{part:02}.xhtml"
            files[name] = _made("fixed-page.xhtml.j2", book, fixed=fixed, height=PAGE_HEIGHT, line=LINE)
            if part == 0:
                named[name] = page.label
    files["credits.xhtml"] = _made("credits.xhtml.j2", book, height=PAGE_HEIGHT)
    return _packed(book, record, files, named, fixed=True)


def _title_size(book: Book) -> float:
    needed = max(em_width(title.heading) for title in book.titles)
    return max(SMALLEST, min(84.0, 3200 / max(needed, 1.0)))


@dataclass(frozen=True)
class FixedPage:
    """A fixed page: its image with lettering, and the words below."""

    page: BookPage
    words: tuple[Words, ...]
    size: float
    drawn: Drawn | None
    image_left: float = 0.0
    image_width: float = 0.0
    top: float = MARGIN
    """Where the words begin."""
    legend: tuple[Entry, ...] = ()

    @property
    def scale(self) -> float:
        return self.image_width / WIDTH

    def placed(self, box: Box) -> str:
        """Return the place of a box of lettering as CSS."""
        x, y = self.image_left + box.x * self.scale, box.y * self.scale
        size = f"width: {box.w * self.scale:.1f}px; height: {box.h * self.scale:.1f}px"
        return f"left: {x:.1f}px; top: {y:.1f}px; {size}; font-size: {box.size * 0.9 * self.scale:.1f}px"


def _fixed_pages(page: BookPage) -> Iterator[FixedPage]:
    drawn = drawn_over(page)
    width = min(WIDTH, MOST_IMAGE / drawn.height * WIDTH) if page.image else 0.0
    top = (drawn.height * width / WIDTH if page.image else 0.0) + MARGIN
    room = PAGE_HEIGHT - top - MARGIN
    legend = drawn.legend
    size = next(
        (size for size in _sizes() if _needed(page.words, size) + _legend_height(legend, size) <= room), None
    )
    first = FixedPage(page, page.words, size or SMALLEST, drawn, (WIDTH - width) / 2, width, top, legend)
    if size is not None:
        yield first
        return
    yield replace(first, words=(), legend=())
    for words in _portions(page.words, PAGE_HEIGHT - 2 * MARGIN):
        yield FixedPage(page, words, SMALLEST, None)
    for place in range(0, len(legend), 12):
        yield FixedPage(page, (), SMALLEST, None, legend=legend[place : place + 12])


def _sizes() -> Iterator[float]:
    size = LARGEST
    while size >= SMALLEST:
        yield size
        size -= 2


def _needed(words: tuple[Words, ...], size: float) -> float:
    """Return a generous height of words below each other."""
    width = (WIDTH - 2 * MARGIN) / size
    high = 0.0
    for each in words:
        if each.heading:
            high += lines_of(each.heading, width / HEADING) * size * HEADING * LINE
        high += lines_of(each.text, width) * size * LINE + size * BETWEEN
    return high


def _legend_height(legend: tuple[Entry, ...], size: float) -> float:
    width = (WIDTH - 2 * MARGIN) / size - 2
    lines = sum(lines_of(f"{part.who} {part.text}", width) for entry in legend for part in entry.parts)
    return lines * size * LINE


def _portions(words: tuple[Words, ...], room: float) -> Iterator[tuple[Words, ...]]:
    """Yield words in portions that fill a page each; a text is divided between two words."""
    for each in words:
        rest = replace(each, lettering=())
        while rest.text or rest.heading:
            end = _fitting(rest, room)
            yield (replace(rest, text=rest.text[:end]),)
            rest = replace(rest, heading="", text=rest.text[end:])


def _fitting(words: Words, room: float) -> int:
    """Return how many characters of a text fit, up to a space."""
    if _needed((words,), SMALLEST) <= room:
        return len(words.text)
    low, high = 1, len(words.text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = _needed((replace(words, text=words.text[:middle]),), SMALLEST) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    space = max(words.text.rfind(" ", 1, low), words.text.rfind("\n", 1, low))
    return space + 1 if space > 0 else low


def _packed(
    book: Book, record: RunRecord, files: dict[str, bytes], named: dict[str, str], *, fixed: bool
) -> render.Exported:
    """Return the container with these pages; `named` ones are in the table of contents."""
    identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{fixed} {book.languages} {record.model_dump_json()}")
    fonts = embedded_fonts(book.texts())
    details = {"names": list(files), "fixed": fixed, "identity": identity, "fonts": fonts}
    style = _made("fixed.css" if fixed else "book.css", book)
    style += f"\n{font_css(fonts, lambda font: f'fonts/{font.name}.woff')}".encode() if fonts else b""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        _add(archive, book, "mimetype", MIMETYPE.encode(), zipfile.ZIP_STORED)  # first, uncompressed
        _add(archive, book, "META-INF/container.xml", CONTAINER.encode())
        _add(archive, book, "book/package.opf", _made("package.opf.j2", book, **details))
        _add(archive, book, "book/contents.xhtml", _made("contents.xhtml.j2", book, named=named))
        _add(archive, book, "book/book.css", style)
        for font in fonts:
            _add(archive, book, f"book/fonts/{font.name}.woff", font.data, zipfile.ZIP_STORED)
        for name, data in files.items():
            _add(archive, book, f"book/{name}", data)
        for image in book.images:
            _add(archive, book, f"book/images/{image.name}", image.data, zipfile.ZIP_STORED)
    return render.Exported(buffer.getvalue())


def _made(template: str, book: Book, **values: object) -> bytes:
    made = render.page_template(f"epub/{template}", package="interleave.books")
    return made.render(book=book, is_image=is_image, letters=lettering_of, **values).encode()


def _add(
    archive: zipfile.ZipFile, book: Book, name: str, data: bytes, how: int = zipfile.ZIP_DEFLATED
) -> None:
    """Add a file, dated as the run, so that the same run gives the same bytes."""
    date = time.gmtime(max(book.started, 315_532_800))[:6]  # ZIP has no time before 1980
    archive.writestr(zipfile.ZipInfo(name, date), data, how)
