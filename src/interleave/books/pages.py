"""Pages of a book, set by typst: the data of a layout, its paper and fonts, and the compiled pages."""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from interleave import ConfigurationError, InputError
from interleave.books.blanks import bank_of, blanked, sheet_words
from interleave.books.book import Book, BookImage, BookPage
from interleave.books.fonts import FontChoice, choose_fonts, missing_note
from interleave.books.languages import UNKNOWN, Language
from interleave.books.lettering import diagram, drawn_over
from interleave.plugin import render

if TYPE_CHECKING:
    from typst import Compiler

TEMPLATES = Path(__file__).parent / "typst"
PAPERS = {
    **{"a4": (210.0, 297.0), "a5": (148.0, 210.0), "letter": (215.9, 279.4), "square": (215.9, 215.9)},
    **{"a4-landscape": (297.0, 210.0), "letter-landscape": (279.4, 215.9), "wide": (338.67, 190.5)},
}
"""Width and height in millimetres."""
_SIZE = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)x(\d{1,4}(?:\.\d{1,3})?)(mm|in|cm)")
_UNITS = {"mm": 1.0, "in": 25.4, "cm": 10.0}
OWN_PAPER = {"picture-book": "square", "slides": "wide"}
"""Paper of layouts that do not use A4."""
SMALLEST, LARGEST = 90.0, 1200.0
BLEED = 3.0
PRINT_DPI = 300
PIXEL_ART_SIDE = 128
INK_ON_WASH = 0.86
_NO_GLYPH = re.compile(r"the text `\"(.*?)\"` could not be displayed", re.DOTALL)


@dataclass(frozen=True)
class Paper:
    """A page size in millimetres."""

    width: float
    height: float
    bleed: float = 0.0


def paper_of(options: render.ExportOptions) -> Paper:
    """Return the paper of a layout, or the one that the options name."""
    name = options.paper.lower() or OWN_PAPER.get(options.layout, "a4")
    bleed = BLEED if options.bleed else 0.0
    if name in PAPERS:
        return Paper(*PAPERS[name], bleed)
    match = _SIZE.fullmatch(name)
    if match is None:
        raise ConfigurationError(
            f"paper={options.paper}: use {', '.join(PAPERS)}, or a size such as 8x10in or 210x210mm"
        )
    width, height = (float(match[place]) * _UNITS[match[3]] for place in (1, 2))
    if not (min(width, height) >= SMALLEST and max(width, height) <= LARGEST):
        raise ConfigurationError(
            f"paper={options.paper}: sides from {SMALLEST:.0f} to {LARGEST:.0f} mm are possible"
        )
    return Paper(width, height, bleed)


def set_pages(book: Book, options: render.ExportOptions, kind: str, dpi: float | None = None) -> list[bytes]:
    """Return the book as one PDF, or as one PNG or SVG for each page."""
    paper, fonts = paper_of(options), fonts_of(book)
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), _data(Path(folder), book, options, paper, fonts))
        compiler = _compiler(Path(folder), fonts)
        standard = ["ua-1"] if kind == "pdf" else []
        made = _compiled(compiler, format=kind, ppi=dpi, pdf_standards=standard, timestamp=_date(book))
    return made if isinstance(made, list) else [made]


def fonts_of(book: Book) -> FontChoice:
    """Return fonts for everything that the book shows, in each language."""
    shared = "".join(
        [*book.credits, *book.last_remarks, *(each for each in book.given if isinstance(each, str))]
    )
    return choose_fonts([(language, f"{text}{shared}0123456789") for language, text in book.texts()])


def _write(folder: Path, data: dict[str, Any]) -> None:
    for template in TEMPLATES.glob("*.typ"):
        (folder / template.name).write_bytes(template.read_bytes())
    (folder / "book.json").write_text(json.dumps(data, ensure_ascii=False), "utf-8")


def _compiler(folder: Path, fonts: FontChoice) -> Compiler:
    from typst import Compiler

    return Compiler(str(folder / "book.typ"), root=str(folder), font_paths=fonts.fonts)


def _compiled(compiler: Compiler, **options: Any) -> Any:
    from typst import TypstError

    try:
        return compiler.compile(**options)
    except TypstError as error:
        if match := _NO_GLYPH.search(error.message):
            raise InputError(missing_note(set(match[1]) - {" "})) from None
        raise


def _date(book: Book) -> datetime:
    return datetime.fromtimestamp(int(max(book.started, 0.0)), UTC)


def _data(
    folder: Path, book: Book, options: render.ExportOptions, paper: Paper, fonts: FontChoice
) -> dict[str, Any]:
    """Return what the templates read, with the images written into the folder."""
    images = _Images(folder, paper if options.bleed else None)
    cover = book.cover
    wash, accent = _colours(cover)
    return {
        "layout": options.layout,
        "page": asdict(paper),
        "author": f"interleave {book.software}",
        "languages": [
            {**_tag(language), "rtl": language.is_rtl, "fonts": families}
            for language, families in zip(book.languages, fonts.families, strict=True)
        ],
        "titles": [
            {"l": place, "heading": each.heading, "notice": each.text}
            for place, each in enumerate(book.titles)
        ],
        "cover": images.of(cover, "") if cover else None,
        "given": [
            part if isinstance(part, str) else images.of(part, part.alt) for part in book.given if part
        ],
        "pages": [_page(page, images, options.layout) for page in book.pages],
        "credits": book.credits,
        "remarks": book.last_remarks,
        "wash": wash,
        "accent": accent,
        "sheet-words": sheet_words(book.languages[0]),
        "bank": bank_of(book.pages),
    }


def _tag(language: Language) -> dict[str, str | None]:
    parts = language.tag.split("-")
    region = next((part.lower() for part in parts[1:] if len(part) == 2), None)
    return {"lang": "en" if language.tag == UNKNOWN else parts[0], "region": region}


def _page(page: BookPage, images: _Images, layout: str) -> dict[str, Any]:
    drawn = drawn_over(page)
    return {
        "number": page.number,
        "words": [
            {"l": place, "heading": each.heading, "text": each.text} for place, each in enumerate(page.words)
        ],
        "image": images.of(page.image, page.image.alt or f"Image {page.number}") if page.image else None,
        "legend": _legend(drawn.legend),
        "drawn": _plain(drawn),
        "diagram": _plain(diagram(page)) if layout == "labels" else {"legend": []},
        "blanked": blanked(page) if layout == "worksheet" else [],
    }


def _legend(entries: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "number": entry.number,
            "parts": [{"l": part.language, "text": part.text, "who": part.who} for part in entry.parts],
        }
        for entry in entries
    ]


def _plain(drawn: Any) -> dict[str, Any]:
    data = asdict(drawn)
    for box in data["boxes"]:
        box["parts"] = [{"l": part["language"], "text": part["text"]} for part in box["parts"]]
    data["legend"] = _legend(drawn.legend)
    return data


class _Images:
    """Images written into the folder of a compilation, enlarged for a printer."""

    def __init__(self, folder: Path, printed: Paper | None) -> None:
        self.folder = folder
        self.printed = printed
        self._made: dict[str, dict[str, Any]] = {}

    def of(self, image: BookImage, alt: str) -> dict[str, Any]:
        if image.name not in self._made:
            data, name = image.data, image.name
            if self.printed is not None:
                data, name = _enlarged(image, self.printed)
            (self.folder / name).write_bytes(data)
            self._made[image.name] = {
                "path": name,
                "width": image.width,
                "height": image.height,
                "pixels": max(image.width, image.height) <= PIXEL_ART_SIDE,
                "tint": _hex(border_colour(image)),
            }
        return {**self._made[image.name], "alt": alt or image.alt or "Image"}


def _enlarged(image: BookImage, paper: Paper) -> tuple[bytes, str]:
    """Return an image with at least 300 pixels for each inch of a full page, as a PNG."""
    wanted = (max(paper.width, paper.height) + 2 * paper.bleed) / 25.4 * PRINT_DPI
    scale = wanted / max(image.width, image.height)
    if scale <= 1:
        return image.data, image.name
    size = (round(image.width * scale), round(image.height * scale))
    smooth = (
        Image.Resampling.NEAREST
        if max(image.width, image.height) <= PIXEL_ART_SIDE
        else Image.Resampling.LANCZOS
    )
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(image.data)) as opened:
        opened.convert("RGB").resize(size, smooth).save(
            buffer, "JPEG", quality=95, subsampling=0, dpi=(300, 300)
        )
    return buffer.getvalue(), f"{image.name}.print.jpg"


def border_colour(image: BookImage) -> tuple[int, int, int]:
    """Return the mean colour of the edges of an image, for the paper around it."""
    with Image.open(io.BytesIO(image.data)) as opened:
        small = opened.convert("RGB").resize((16, 16), Image.Resampling.BOX)
    edge = [(x, y) for x in range(16) for y in range(16) if x in (0, 15) or y in (0, 15)]
    pixels: list[Any] = [small.getpixel(place) for place in edge]
    red, green, blue = (sum(pixel[channel] for pixel in pixels) // len(pixels) for channel in range(3))
    return red, green, blue


def _colours(cover: BookImage | None) -> tuple[str, str]:
    """Return a light colour for the paper of the cover, and one for ornaments, from its image."""
    if cover is None:
        return "#f4efe6", "#9a5b34"
    tint = border_colour(cover)
    wash = tuple(round(255 - (255 - each) * 0.28) for each in tint)
    return _hex(wash), _hex(_darkened(tint))


def _darkened(colour: tuple[int, int, int]) -> tuple[int, ...]:
    """Return a colour dark enough to read on white."""
    light = (0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]) / 255
    return tuple(round(each * min(1.0, 0.42 / max(light, 0.01))) for each in colour)


def _hex(colour: Sequence[int]) -> str:
    return "#" + "".join(f"{min(255, max(0, each)):02x}" for each in colour)


def page_texts(book: Book) -> Iterator[str]:
    """Yield every text of the book."""
    for words in book.words():
        yield from (words.heading, words.text, *(each.text for each in words.lettering))
