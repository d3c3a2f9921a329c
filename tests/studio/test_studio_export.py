"""The export dialog in a browser: what is chosen there is in the file; what cannot be chosen says why."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from studio_process import Studio, page_of, studio_in

from held import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
ASKED = "How a frog grows up, in three pictures"


def made(studio: Studio) -> str:
    id_ = studio.submit(ASKED)
    wait_until(lambda: studio.get(f"/v1/documents/{id_}")["status"] == "completed")
    return id_


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio whose user has named a key."""
    pytest.importorskip("c2pa")
    folder = tmp_path_factory.mktemp("signing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with studio_in(folder / "studio", "--dry-run", "--offer", "none", "--sign", "self") as studio:
            yield studio


def opened(page: Page, id_: str) -> Locator:
    page.goto(f"/#/d/{id_}")
    page.get_by_role("button", name="Export and share").click()
    dialog = page.get_by_role("dialog", name="Export the document")
    dialog.get_by_text("Languages, printing, signing").click()
    return dialog


def saved(page: Page, dialog: Locator, name: str) -> bytes:
    with page.expect_download() as waiting:
        dialog.get_by_role("button", name=name).first.click()
    return Path(waiting.value.path()).read_bytes()


def test_layout_notice_and_signature_are_in_the_file(browser: Browser, signing: Studio) -> None:
    pypdf = pytest.importorskip("pypdf")
    pytest.importorskip("typst")
    from interleave.provenance.reading import credentials_of

    with page_of(browser, signing) as page:
        dialog = opened(page, made(signing))
        assert dialog.get_by_role("radio").count() == 10
        dialog.get_by_text("Slides", exact=True).click()
        assert dialog.get_by_role("radio", name="Slides").is_checked()
        dialog.get_by_role("checkbox", name="Say that it was made with AI").check()
        dialog.get_by_role("checkbox", name="Sign it").check()
        data = saved(page, dialog, "PDF")
        assert credentials_of(data).state == "intact"
        pages = pypdf.PdfReader(io.BytesIO(data)).pages
        assert pages[0].mediabox.width / pages[0].mediabox.height == pytest.approx(16 / 9, abs=0.01)
        assert "Made with AI" in pages[0].extract_text()
        dialog.get_by_role("button", name="PDF").wait_for()
        page.keyboard.press("Escape")
        assert page.get_by_role("button", name="Export and share").evaluate(
            "each => each === document.activeElement"
        )


def test_words_in_another_language_are_added_and_shown_alone(page: Page, shared: Studio) -> None:
    dialog = opened(page, made(shared))
    texts = saved(page, dialog, "Words to translate").decode()
    german = re.sub(r'(?m)^text = ""', 'text = "Aus dem Ei"', texts)
    choose = dialog.locator("input[type=file]")
    choose.set_input_files({"name": "none.toml", "mimeType": "text/plain", "buffer": german.encode()})
    dialog.get_by_role("alert").get_by_text("none.toml names no language").wait_for()
    german = german.replace('language = ""', 'language = "de"')
    choose.set_input_files({"name": "de.toml", "mimeType": "text/plain", "buffer": german.encode()})
    dialog.get_by_role("button", name="Leave out German").wait_for()
    both = saved(page, dialog, "Web page").decode()
    assert "Aus dem Ei" in both and ASKED in both
    dialog.get_by_role("checkbox", name="Show the original words too").uncheck()
    alone = saved(page, dialog, "Web page").decode()
    assert '<html lang="de"' in alone and "Aus dem Ei" in alone and ASKED not in alone
    assert dialog.get_by_role("checkbox", name="Sign it").is_disabled()
    dialog.get_by_text("start the studio with --sign self").wait_for()


def test_a_refusal_of_the_service_is_shown_in_the_dialog(page: Page, shared: Studio) -> None:
    dialog = opened(page, made(shared))
    outdated = 'language = "de"\n[[words]]\nwhere = "title"\noriginal = "Another title"\ntext = "Anders"\n'
    choose = dialog.locator("input[type=file]")
    choose.set_input_files({"name": "de.toml", "mimeType": "text/plain", "buffer": outdated.encode()})
    dialog.get_by_role("button", name="EPUB").first.click()
    dialog.get_by_role("alert").get_by_text("was translated from 'Another title'").wait_for()


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_dialog_and_the_origins_fit_the_screen_in_german(
    browser: Browser, shared: Studio, width: int, colours: str
) -> None:
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": colours, "locale": "de-DE"}
    with page_of(browser, shared, **options) as page:
        page.goto(f"/#/d/{made(shared)}")
        page.get_by_text("Woher die Bilder kommen").click()
        page.get_by_text("Aus Bild 2 gemacht von solid, einem Programm").wait_for()
        page.get_by_role("button", name="Exportieren").click()
        dialog = page.get_by_role("dialog", name="Das Dokument exportieren")
        dialog.get_by_text("Sprachen, Druck, Signatur").click()
        dialog.get_by_text("Bilderbuch").wait_for()
        for box in ("document.documentElement", "document.querySelector('dialog[open]')"):
            assert page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
        cut = dialog.locator("label, button, legend").evaluate_all(
            "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"
        )
        assert cut == []
