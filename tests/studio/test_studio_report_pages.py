"""Reports in the studio, in a real browser: found, opened and looked at; a hostile one does nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from studio_process import PATIENCE, Studio, page_of, studio_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

pytestmark = pytest.mark.slow

HOSTILE = """<!doctype html><html><head><title>hostile</title></head>
<body><script>document.title = "ran"; parent.document.title = "ran"; fetch("/v1/documents")</script>
<img src="ELSEWHERE/a.png" alt="elsewhere"><img src="x" onerror="document.title = 'ran'">
<iframe src="/"></iframe><form action="/v1/responses" method="post"><button>Send</button></form>
<p>hostile words</p><a href="../../secret.html">out</a></body></html>"""
LEAVING = """<!doctype html><html><head><title>leaving</title>
<meta http-equiv="refresh" content="0; url=ELSEWHERE/"></head></html>"""


@pytest.fixture(scope="module")
def studio(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with studio_in(tmp_path_factory.mktemp("reports")) as started:
        yield started


@pytest.fixture
def page(browser: Browser, studio: Studio) -> Iterator[Page]:
    with page_of(browser, studio) as opened:
        yield opened


@pytest.fixture(scope="module")
def collection(studio: Studio) -> None:
    """A report of data, by the commands that make one."""
    asked = [{"request": f"How a {animal} grows up, in two pictures"} for animal in ("frog", "hen")]
    (studio.folder / "requests.jsonl").write_text("\n".join(map(json.dumps, asked)))
    studio.run("data", "collect", "requests.jsonl", "--out", "collection", "--dry-run")
    (studio.folder / "reports").mkdir()


def written(studio: Studio, path: str, text: str) -> Path:
    file = studio.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def framed(page: Page, words: str) -> Frame:
    """The frame of a report, once it shows these words."""
    page.frame_locator("iframe").get_by_text(words).first.wait_for()
    return page.frames[1]


def test_a_report_appears_is_opened_and_its_images_are_looked_at(
    page: Page, studio: Studio, collection: None
) -> None:
    page.goto("/#/reports")
    page.get_by_text("No reports yet").wait_for()
    assert page.get_by_text("data report COLLECTION --out reports/data.html").is_visible()
    studio.run("data", "report", "collection", "--out", "reports/data.html")
    page.get_by_role("link", name="collection · data report").click()
    report = framed(page, "collection")
    assert report.evaluate("origin") == "null"
    assert page.get_by_role("link", name="Reports", exact=True).get_attribute("aria-current") == "page"
    assert page.url.endswith("#/reports/reports/data.html")
    page.frame_locator("iframe").locator("img").first.click()
    viewer = page.get_by_role("dialog", name="Image")
    viewer.get_by_text("Image 1 of").wait_for()
    assert viewer.get_by_role("img").evaluate("each => each.naturalWidth") > 0
    page.keyboard.press("+")
    viewer.get_by_text("125 %").wait_for()
    viewer.get_by_role("button", name="Fit").click()
    viewer.get_by_text("100 %").wait_for()
    page.keyboard.press("Escape")
    viewer.wait_for(state="hidden")


def test_links_in_a_report_are_followed_and_change_the_address(page: Page, studio: Studio) -> None:
    head = "<!doctype html><head><title>{}</title></head>"
    image = studio.folder / "bench" / "a b" / "images" / "one.png"
    image.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 20), "teal").save(image)
    run = head.format("A run") + "<h1>The run</h1>"
    written(studio, "bench/a b/runs/1/document.html", run)
    written(studio, "bench/a b/result.json", '{"strict": 0.5}')
    text = head.format("bench ueval") + '<h1>Numbers</h1><a href="images/one.png" target="_blank">'
    text += '<img src="images/one.png" alt="teal"></a><a href="runs/1/document.html">the run</a>'
    written(studio, "bench/a b/report-all.html", text)
    page.goto("/#/reports/bench/a%20b/report-all.html")  # a link that somebody sent
    framed(page, "Numbers")
    assert page.title().startswith("bench ueval")
    page.frame_locator("iframe").get_by_alt_text("teal").click()
    shown = page.get_by_role("dialog").get_by_role("img")
    shown.wait_for()
    size = "each => each.decode().then(() => [each.naturalWidth, each.naturalHeight])"
    assert shown.evaluate(size) == [40, 20]
    page.keyboard.press("Escape")
    page.frame_locator("iframe").get_by_role("link", name="the run").click()
    framed(page, "The run")
    page.wait_for_url("**/#/reports/bench/a%20b/runs/1/document.html")
    page.reload()
    framed(page, "The run")
    page.goto("/#/reports/bench/a%20b/report-all.html")
    page.get_by_role("link", name="result.json").click()
    framed(page, '{"strict": 0.5}')
    page.goto("/#/reports/nothing/there.html")
    page.get_by_text("This report no longer exists.").wait_for()


def asked_of(server: socket.socket) -> bytes:
    """What was sent to a server that answers nothing; a browser may connect to it without asking."""
    server.setblocking(False)
    asked = b""
    with suppress(BlockingIOError):
        while True:
            with server.accept()[0] as client:
                client.settimeout(PATIENCE / 1000)  # the browser has closed it
                asked += client.recv(65536)
    return asked


def test_a_hostile_report_does_nothing(browser: Browser, studio: Studio) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}"
        written(studio, "secret.html", "a secret")
        written(studio, "bench/hostile/report.html", HOSTILE.replace("ELSEWHERE", address))
        written(studio, "bench/leaving/report.html", LEAVING.replace("ELSEWHERE", address))
        context = browser.new_context(base_url=studio.url)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto("/#/reports/bench/hostile/report.html")
        report = framed(page, "hostile words")
        assert report.evaluate("document.title") == "hostile" and page.title().startswith("hostile")
        assert report.evaluate("fetch('/v1/documents').then(() => 'read', () => 'refused')") == "refused"
        assert report.child_frames[0].url != f"{studio.url}/"
        page.frame_locator("iframe").first.get_by_role("link", name="out").click()
        assert "a secret" not in framed(page, "no such route").content()
        with page.expect_console_message(lambda said: "frame-src" in said.text):
            page.goto("/#/reports/bench/leaving/report.html")
        assert page.url.startswith(studio.url)
        context.close()
        assert asked_of(elsewhere) == b""
