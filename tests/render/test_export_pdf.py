"""PDF files: text that can be read back, descriptions, bookmarks; characters without a font are told."""

from __future__ import annotations

import io
import re
import zlib
from pathlib import Path

import pytest

from interleave.render.exports import ExportOptions, export_run
from interleave.render.exports import fonts as fonts_module
from interleave.render.exports.fonts import choose_fonts
from interleave.render.exports.formats import PageLayout
from interleave.render.exports.pdf import missing_note
from interleave.runs.record import read_record
from interleave.types import Plan, PlanStep

pytest.importorskip("fpdf")

TEXT = "Der Frosch wächst auf. **kein** Markdown, <b>kein</b> HTML"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from interleave import generate

    folder = tmp_path_factory.mktemp("pdf") / "run"
    steps = (
        PlanStep(number=1, name="Anfang", prompt="an egg on a leaf", caption=TEXT),
        PlanStep(number=2, caption="Only words, Привет, 中文, \u0915."),
    )
    generate("Ein Märchen", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder)
    return folder


def streams(data: bytes) -> bytes:
    """Everything in a PDF, with its streams unpacked."""
    unpacked = []
    for body in re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL):
        try:
            unpacked.append(zlib.decompress(body.strip(b"\r\n")))
        except zlib.error:
            continue
    return data + b"".join(unpacked)


@pytest.mark.parametrize("layout", ["print", "slides"])
def test_a_pdf_has_pages_bookmarks_and_descriptions(made: Path, layout: PageLayout) -> None:
    data = export_run(made, read_record(made), "pdf", ExportOptions(layout=layout)).data
    assert data.startswith(b"%PDF-")
    whole = streams(data)
    assert b"/Alt" in whole and b"/StructTreeRoot" in whole
    assert whole.count(b"/Type /Outlines") == 1
    pages = len(re.findall(rb"/Type /Page\b(?!s)", data))
    assert pages == (3 if layout == "slides" else 1)


def test_the_text_can_be_read_back(made: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    data = export_run(made, read_record(made), "pdf").data
    text = " ".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages)
    assert "**kein** Markdown, <b>kein</b> HTML" in " ".join(text.split())


def test_characters_without_a_font_are_written_as_numbers_and_told(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts_module, "_folders", lambda: [tmp_path])  # a machine without fonts
    exported = export_run(made, read_record(made), "pdf")
    assert set("中文Привет\u0915") <= set(exported.missing_characters)
    assert "ä" not in exported.missing_characters  # the built-in font of every reader has it
    note = missing_note(frozenset(exported.missing_characters))
    assert "U+4E2D" in note and "EPUB" in note
    shown = streams(exported.data)
    assert b"[U+4E2D]" in shown


def test_fonts_are_taken_that_have_the_characters() -> None:
    chosen = choose_fonts("Привет")
    if chosen.main is None:
        pytest.skip("this machine has no font for reading")
    assert not chosen.missing


def test_a_file_that_is_no_font_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "DejaVuSerif.ttf").write_bytes(b"not a font")
    (tmp_path / "other.ttc").write_bytes(b"")
    monkeypatch.setattr(fonts_module, "_folders", lambda: [tmp_path])
    chosen = choose_fonts("a中")
    assert (chosen.main, chosen.missing) == (None, frozenset("中"))


def font(path: Path, characters: str) -> None:
    """A font with boxes for these characters, with outlines as CJK fonts have them."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.t2CharStringPen import T2CharStringPen

    names = [".notdef", *(f"uni{ord(each):04X}" for each in characters)]
    pen = T2CharStringPen(500, None)
    pen.moveTo((50, 0))
    for point in ((450, 0), (450, 700), (50, 700)):
        pen.lineTo(point)
    pen.closePath()
    box = pen.getCharString()
    builder = FontBuilder(1000, isTTF=False)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(each): name for each, name in zip(characters, names[1:], strict=True)})
    builder.setupCFF("Boxes", {"FullName": "Boxes"}, dict.fromkeys(names, box), {})
    builder.setupHorizontalMetrics(dict.fromkeys(names, (500, 50)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Boxes", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200, sCapHeight=700)
    builder.setupPost()
    builder.save(path)


def test_without_a_font_for_reading_no_character_is_lost(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pypdf = pytest.importorskip("pypdf")
    font(tmp_path / "a.otf", "中文")
    monkeypatch.setattr(fonts_module, "_folders", lambda: [tmp_path])
    chosen = choose_fonts("ab 中文")
    assert (chosen.main is not None, chosen.missing) == (True, {"a", "b"})  # the font has no letters
    font(tmp_path / "b.otf", "abcdefghijklmnopqrstuvwxyz")
    chosen = choose_fonts("ab 中文")
    assert (len(chosen.others), chosen.missing) == (1, frozenset())
    exported = export_run(made, read_record(made), "pdf")
    text = "".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(exported.data)).pages)
    assert "中文" in text.replace(" ", "").replace("\n", "")
    assert "D" in exported.missing_characters


def test_no_character_is_missing_where_there_is_a_note_for_none() -> None:
    assert missing_note(frozenset()) == ""
