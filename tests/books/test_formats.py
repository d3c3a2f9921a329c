"""Exported documents: every format has the text, the images and their descriptions, and loses nothing."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from interleave import generate
from interleave.books import formats
from interleave.books.book import MISSING_IMAGE, NOTHING_ACCEPTED, book_of, clean
from interleave.cli.main import run
from interleave.errors import ConfigurationError, MissingDependency
from interleave.render.exports import ExportOptions, export_run, known_formats
from interleave.runs.record import RunRecord, read_record
from interleave.types import Plan, PlanStep

ASKED = "How a <b>frog</b> & a toad grow up, in two pictures"
EPUB = {"x": "http://www.w3.org/1999/xhtml", "opf": "http://www.idpf.org/2007/opf"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "run"
    generate(ASKED, profile="dry-run", generator="solid?size=64", out=folder)
    return folder


@pytest.fixture
def record(made: Path) -> RunRecord:
    return read_record(made)


def test_a_book_has_the_steps_with_images_and_descriptions(made: Path, record: RunRecord) -> None:
    book = book_of(made, record)
    assert (book.title, book.given, len(book.pages)) == (ASKED, (), 2)
    for page, step in zip(book.pages, record.steps, strict=True):
        assert page.text == step.plan.text
        assert page.image and page.image.alt == step.plan.text
    assert any("fake" in remark for remark in book.remarks)


def test_an_image_that_is_missing_is_told(made: Path, record: RunRecord, tmp_path: Path) -> None:
    book = book_of(tmp_path, record)
    assert [page.image for page in book.pages] == [None, None]
    assert all(MISSING_IMAGE in page.remarks for page in book.pages)


def test_text_that_xml_cannot_hold_is_shown_as_what_it_is() -> None:
    shown = clean("a\x00b\x1b\ufffec\u202ed")
    assert "\x00" not in shown and "\x1b" not in shown and "\ufffe" not in shown
    ElementTree.fromstring(f"<p>{shown}</p>")


def test_an_epub_is_well_formed_and_complete(made: Path, record: RunRecord) -> None:
    data = export_run(made, record, "epub").data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert archive.read("mimetype") == b"application/epub+zip"
        package = ElementTree.fromstring(archive.read("book/package.opf"))
        items = {item.get("href") for item in package.iterfind(".//opf:item", EPUB)}
        assert {f"book/{href}" for href in items} | {
            "mimetype",
            "META-INF/container.xml",
            "book/package.opf",
        } == set(archive.namelist())
        for number, step in enumerate(record.steps, start=1):
            page = ElementTree.fromstring(archive.read(f"book/step-{number:04}.xhtml"))
            assert step.plan.text in "".join(page.itertext())
            (image,) = page.iterfind(".//x:img", EPUB)
            assert image.get("alt") == step.plan.text
        title = ElementTree.fromstring(archive.read("book/title.xhtml"))
        assert [each.text for each in title.iterfind(".//x:h1", EPUB)] == [ASKED]  # text, never markup
    assert export_run(made, record, "epub").data == data


def test_slides_have_text_images_and_descriptions(made: Path, record: RunRecord) -> None:
    pptx = pytest.importorskip("pptx")
    slides = pptx.Presentation(io.BytesIO(export_run(made, record, "pptx").data)).slides
    assert len(slides) == 4  # with a title and credits
    assert slides[0].shapes.title.text_frame.text == ASKED
    for slide, step in zip(list(slides)[1:-1], record.steps, strict=True):
        texts = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
        assert any(step.plan.text in text for text in texts)
        (image,) = [shape for shape in slide.shapes if shape.shape_type == 13]
        assert image._element.nvPicPr.cNvPr.get("descr") == step.plan.text
        assert Image.open(io.BytesIO(image.image.blob)).size == (64, 64)


def test_the_archive_has_markdown_and_all_images(made: Path, record: RunRecord) -> None:
    with zipfile.ZipFile(io.BytesIO(export_run(made, record, "zip").data)) as archive:
        text = archive.read("document.md").decode()
        links = re.findall(r"\]\((images/[^)]+)\)", text)
        assert len(links) == 2 and set(links) <= set(archive.namelist())


def test_readers_get_nothing_internal_unless_details_are_asked_for(tmp_path: Path) -> None:
    step = PlanStep(number=1, prompt="an amber zebra", caption="A zebra.")
    options: dict[str, Any] = {
        "profile": "dry-run",
        "generator": "solid?size=64",
        "plan": Plan(steps=(step,)),
    }
    verdicts = tmp_path / "verdicts.jsonl"
    refused = {"answer": {"success": False, "reasoning": "no stripes", "refined_prompt": "an amber zebra"}}
    verdicts.write_text(json.dumps({"text": f"<answer>{json.dumps(refused['answer'])}</answer>"}) + "\n")
    folder = generate(
        "Zoo", **options, critic=f"scripted:{verdicts}", max_attempts=1, out=tmp_path / "run"
    ).folder
    record = read_record(folder)
    assert record.steps[0].forced
    for name in ("html", "zip", "epub", "fixed-epub", "pptx", "cbz"):
        if known_formats()[name].missing:
            continue
        written = _unpacked(export_run(folder, record, name).data)
        assert not [word for word in (b"amber", b"stripes", b"critic", b"seed") if word in written], name
    detailed = ExportOptions(details=True)
    for name in ("html", "zip"):
        assert b"amber" in _unpacked(export_run(folder, record, name, detailed).data)
    assert NOTHING_ACCEPTED in book_of(folder, record).remarks
    assert "Not accepted by the critic" in book_of(folder, record, detailed).pages[0].remarks[0]
    before, after = (Image.open(io.BytesIO(data)) for data in _stored_and_exported(folder, record))
    assert before.tobytes() == after.tobytes() and after.text == {"Software": "interleave"}  # type: ignore[attr-defined]


def _stored_and_exported(folder: Path, record: RunRecord) -> tuple[bytes, bytes]:
    image = book_of(folder, record).pages[0].image
    assert image
    return (folder / "images" / image.name).read_bytes(), image.data


def _unpacked(data: bytes) -> bytes:
    """A file with what it holds: packed files, and images in its text."""
    found = [data, *(base64.b64decode(each) for each in re.findall(rb"base64,([A-Za-z0-9+/=]+)", data))]
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found += [_unpacked(archive.read(name)) for name in archive.namelist()]
    return b"".join(found)


def test_a_page_loads_nothing(made: Path, record: RunRecord) -> None:
    page = export_run(made, record, "html").data.decode()
    assert not re.search(r'(?:src|href)="(?!data:|#|images/)', page)


def test_a_format_whose_package_is_missing_says_how_to_get_it(
    made: Path, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "PDF", replace(formats.PDF, needs=("no_such_package",)))
    with pytest.raises(MissingDependency, match=r"interleavethinker\[books\]"):
        export_run(made, record, "pdf")
    with pytest.raises(ConfigurationError, match="no format 'doc'"):
        export_run(made, record, "doc")


def test_the_command_writes_into_the_run_folder_or_where_it_is_told(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(made), "--to", "epub"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert (path, path.exists()) == (made / "document.epub", True)
    assert run(["export", str(made), "--to", "zip", "--out", str(tmp_path / "a.zip")]) == 0
    own = (made / "document.html").read_bytes()
    capsys.readouterr()
    assert run(["export", str(made), "--to", "html"]) == 0
    assert capsys.readouterr().out.strip() == str(made / "book.html")
    assert (made / "document.html").read_bytes() == own
    assert run(["export", str(made), "--to", "epub,html", "--out", str(tmp_path)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert [(path.parent, path.name) for path in written] == [
        (tmp_path, "document.epub"),
        (tmp_path, "document.html"),
    ]
    assert zipfile.is_zipfile(tmp_path / "a.zip")
    for wrong in (
        ["--to", "doc"],
        ["--to", "pdf", "--paper", "a55"],
        ["--layout", "wide"],
        ["--language", "!"],
    ):
        assert run(["export", str(made), *wrong]) == 2
    assert run(["export", str(tmp_path), "--to", "zip"]) == 2


@pytest.mark.parametrize("name", ["pdf", "epub", "fixed-epub", "pptx", "cbz", "zip", "html", "texts"])
def test_a_run_that_is_not_finished_is_exported_as_far_as_it_is(name: str, tmp_path: Path) -> None:
    if known_formats()[name].missing:
        pytest.skip(f"{name} files need {known_formats()[name].needs}")
    generate(ASKED, profile="dry-run", generator="solid?size=64", out=tmp_path / "run", max_calls=2)
    record = read_record(tmp_path / "run")
    assert record.status == "short"
    assert export_run(tmp_path / "run", record, name, ExportOptions(layout="slides")).data
