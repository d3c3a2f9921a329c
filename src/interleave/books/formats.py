"""The formats of this room, as entry points name them. Importing this module imports no renderer."""

from interleave.plugin import render

INSTALL = 'pip install "interleavethinker[books]"'
_HERE = "interleave.books"

PDF = render.Format(
    "pdf", "PDF", "application/pdf", f"{_HERE}.pdf:render_pdf", ("typst", "fontTools"), INSTALL
)
EPUB = render.Format("epub", "EPUB", "application/epub+zip", f"{_HERE}.epub:render_epub")
FIXED_EPUB = render.Format(
    "fixed-epub",
    "fixed EPUB",
    "application/epub+zip",
    f"{_HERE}.epub:render_fixed_epub",
    suffix="fixed.epub",
)
PPTX = render.Format(
    "pptx",
    "PowerPoint",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    f"{_HERE}.pptx:render_pptx",
    ("pptx",),
    INSTALL,
)
CBZ = render.Format(
    "cbz",
    "Comic book",
    "application/vnd.comicbook+zip",
    f"{_HERE}.cbz:render_cbz",
    ("typst", "fontTools"),
    INSTALL,
)
ZIP = render.Format("zip", "Markdown and images", "application/zip", f"{_HERE}.web:render_archive")
HTML = render.Format("html", "one HTML page", "text/html", f"{_HERE}.web:render_page")
TEXTS = render.Format(
    "texts", "Words to translate", "application/toml", f"{_HERE}.texts:render_texts", suffix="texts.toml"
)
