"""A book as one HTML page, or as a ZIP of Markdown, page and images. Details of the run are optional."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from interleave import ConfigurationError, RunError, RunRecord
from interleave.books.book import Book, BookImage, BookPage, book_of
from interleave.books.fonts import EmbeddedFont, embedded_fonts, font_css
from interleave.books.lettering import Entry, drawn_over, letters_of
from interleave.plugin import ImageStore, render, runs

PACKAGE = "interleave.books"
MARKDOWN_NAME = "document.md"


def render_page(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render one page: the book, or with details the document of the run."""
    if options.details:
        return render.Exported(_detailed_page(folder, record, options).encode())
    return render.Exported(book_page(book_of(folder, record, options)).encode())


def _detailed_page(folder: Path, record: RunRecord, options: render.ExportOptions) -> str:
    if options.languages or options.texts:
        raise ConfigurationError("details: a page with them has no other languages, export one without them")
    return render.render_document(folder, record)


def book_page(book: Book) -> str:
    """Return the book as one page with its images in it."""
    return render.page_template("book.html.j2", package=PACKAGE).render(
        book=book,
        fonts=Markup(font_css(embedded_fonts(book.texts()), _font_url)),
        data_url=_data_url,
        letters=lettering_of,
        drawn=drawn_over,
        is_image=is_image,
    )


def is_image(part: object) -> bool:
    return isinstance(part, BookImage)


def _font_url(font: EmbeddedFont) -> str:
    return f"data:font/woff;base64,{base64.b64encode(font.data).decode()}"


def _data_url(image: BookImage) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def lettering_of(page: BookPage) -> list[Entry]:
    """Return all lettering of a page as lines; labels have the numbers of the image."""
    numbers = iter(range(1, 10_000))
    return [
        Entry(next(numbers) if each.kind == "label" and each.at else None, parts)
        for each, parts in letters_of(page)
    ]


def render_archive(folder: Path, record: RunRecord, options: render.ExportOptions) -> render.Exported:
    """Render a ZIP of the page, Markdown and images; with details also the record and all attempts."""
    book, buffer = book_of(folder, record, options), io.BytesIO()
    images = {image.name: image.data for image in book.images}
    page = _detailed_page(folder, record, options) if options.details else book_page(book)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(runs.DOCUMENT_NAME, page)
        archive.writestr(MARKDOWN_NAME, markdown_of(book))
        if options.details:
            archive.writestr("run.json", record.model_dump_json(indent=1))
            images |= _all_images(folder, record)
        for name, data in images.items():  # already compressed
            archive.writestr(f"{runs.IMAGES_FOLDER}/{name}", data, compress_type=zipfile.ZIP_STORED)
    return render.Exported(buffer.getvalue())


def _all_images(folder: Path, record: RunRecord) -> dict[str, bytes]:
    """Return the image files of a run as they are stored, without those of hidden steps."""
    store, files = ImageStore(folder), {}
    shown = tuple(step.record for step in runs.as_shown(record).steps)
    for name in runs.image_names(record.model_copy(update={"steps": shown})):
        with suppress(RunError):
            files[name] = store.read(name)
    return files


def markdown_of(book: Book) -> str:
    """Return the book as Markdown with links into the folder `images`."""
    return "\n\n".join(block for block in _blocks(book) if block) + "\n"


def _blocks(book: Book) -> Iterator[str]:
    yield f"# {' · '.join(render.plain(title.heading) for title in book.titles)}"
    yield " · ".join(render.plain(title.text) for title in book.titles if title.text)
    for part in book.given:
        yield _image(part) if isinstance(part, BookImage) else render.plain(part)
    if book.given:
        yield "---"
    for page in book.pages:
        heading = " · ".join(render.plain(each.heading) for each in page.words if each.heading)
        yield f"## {page.number}. {heading}".rstrip()
        if page.image:
            yield _image(page.image)
        for entry in lettering_of(page):
            yield "\n".join(f"- {_line(entry.number, part.who, part.text)}" for part in entry.parts)
        yield from (render.plain(each.text) for each in page.words)
    yield "---"
    yield from (f"*{render.plain(line)}*" for line in (*book.credits, *book.last_remarks))


def _line(number: int | None, who: str, said: str) -> str:
    start = f"({number}) " if number else ""
    return start + (f"**{render.plain(who)}** " if who and number is None else "") + render.plain(said)


def _image(image: BookImage) -> str:
    return f"![{render.plain(image.alt)}]({runs.IMAGES_FOLDER}/{quote(image.name)})"
