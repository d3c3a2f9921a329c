"""What surrounds the documents: first visit, languages, waiting, library, sharing, small and slow."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from studio_process import Studio, page_of, studio_in

from held import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
NOTIFICATIONS = """
window.said = [];
window.Notification = class {
  static requestPermission() { return Promise.resolve("granted"); }
  constructor(title, how) { window.said.push(`${title}: ${how.body}`); }
};
Object.defineProperty(document, "hidden", { get: () => window.away === true });
"""


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.tagName"))


def own(page: Page, title: str) -> str:
    """Make an example story one's own; returns the id of the document."""
    page.goto("/")
    page.get_by_role("link", name=title).first.click()
    page.get_by_role("button", name="Make it mine").click()
    page.get_by_role("button", name="Export and share").wait_for()
    return page.url.rpartition("/")[2]


def test_a_first_visit_shows_stories_that_one_click_opens_and_one_makes_ones_own(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_in(tmp_path) as studio, page_of(browser, studio) as page:
        page.goto("/")
        covers = page.get_by_role("region", name="Finished stories").get_by_role("link")
        covers.first.wait_for()
        assert covers.count() == 6
        covers.filter(has_text="How a frog grows up").click()
        page.get_by_text("A green frog hops about, fully grown.").wait_for()
        page.get_by_text("256 × 256 pixels and are shown larger").wait_for()
        page.get_by_role("button", name="Make it mine").click()
        page.wait_for_url("**/#/d/resp_*")
        page.get_by_role("button", name="Export and share").wait_for()
        page.goto("/#/library")
        page.get_by_role("link", name="How a frog grows up").wait_for()


def test_the_page_speaks_the_language_of_the_browser_and_another_by_choice(
    browser: Browser, shared: Studio
) -> None:
    with page_of(browser, shared, locale="de-AT") as page:
        page.goto("/")
        page.get_by_role("heading", name="Was möchten Sie erklären oder erzählen?").wait_for()
        assert page.locator("html").get_attribute("lang") == "de"
        page.get_by_role("combobox", name="Sprache").select_option("en")
        page.get_by_role("heading", name="What would you like to explain or tell?").wait_for()
        assert focused(page) == "SELECT"
        page.goto("/#/library")
        page.reload()
        page.get_by_role("heading", name="Library").wait_for()


def test_models_are_named_by_what_they_do(page: Page) -> None:
    page.goto("/")
    page.get_by_text("More settings").click()
    page.get_by_text("Coloured patterns in place of images").wait_for()
    assert page.get_by_text("Strictness").count() == 0


def test_views_for_study_are_in_the_lab(page: Page) -> None:
    page.goto("/")
    navigation = page.get_by_role("navigation", name="Studio")
    assert [each.inner_text() for each in navigation.get_by_role("link").all()] == ["New", "Library", "Lab"]
    navigation.get_by_role("link", name="Lab").click()
    page.get_by_role("main").get_by_role("link", name="Queue").click()
    page.get_by_role("heading", name="Queue", exact=True).wait_for()
    assert page.get_by_role("navigation", name="Lab").get_by_role("link").count() == 4


def test_while_one_waits_the_page_says_how_long_and_calls_at_the_end(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_in(tmp_path, free=0) as studio, page_of(browser, studio) as page:
        page.add_init_script(NOTIFICATIONS)
        id_ = studio.submit("How a frog grows up, in three pictures")
        page.goto(f"/#/d/{id_}")
        page.get_by_role("button", name="Notify me when it is done").click()
        page.get_by_text("You will be notified").wait_for()
        wait_until(lambda: page.title().startswith("(0/3) How a frog"))
        frame = page.get_by_role("region", name="Step 3").locator(".empty")
        assert len(frame.inner_text()) > 3  # the prompt
        studio.free(1)
        wait_until(lambda: page.title().startswith("(1/3) How a frog"))
        page.get_by_text("left").or_(page.get_by_text("almost done")).first.wait_for()
        page.evaluate("window.away = true")
        studio.free(1000)
        wait_until(lambda: page.evaluate("window.said.length") > 0)
        assert page.evaluate("window.said") == ["How a frog grows up, in three pictures: Done"]
        wait_until(lambda: page.title().startswith("How a frog"))


def test_the_library_renames_deletes_restores_and_exports(page: Page) -> None:
    own(page, "The duck's birthday")
    own(page, "The phases of the moon")
    page.goto("/#/library")
    page.get_by_role("button", name="Select").click()
    page.get_by_label("Select “The duck's birthday”").check()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("New title of").fill("Party in the snow")
    page.keyboard.press("Enter")
    page.get_by_label("Select “Party in the snow”").wait_for()
    page.get_by_label("Select “The phases of the moon”").check()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export", exact=True).click()
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert len(archive.namelist()) == 3 and "index.html" in archive.namelist()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("2 documents deleted.").wait_for()
    page.get_by_role("link", name="Party in the snow").wait_for(state="detached")
    assert focused(page) == "BUTTON"
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("link", name="Party in the snow").wait_for()
    assert focused(page) != "BODY"
    page.reload()
    page.get_by_role("link", name="Party in the snow").wait_for()
    page.get_by_role("button", name="Select").click()
    page.get_by_label("Select “Party in the snow”").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("link", name="Party in the snow").wait_for(state="detached")
    page.get_by_role("combobox", name="Outcome").select_option("Deleted")
    page.get_by_label("Select “Party in the snow”").check()
    page.get_by_role("button", name="Restore").click()
    page.get_by_role("combobox", name="Outcome").select_option("Any")
    page.get_by_role("link", name="Party in the snow").wait_for()


def test_plans_that_wait_are_on_the_first_page_and_on_top_of_the_library(page: Page, shared: Studio) -> None:
    id_ = shared.submit("A heron that waits, in two pictures", hold_plan=True)
    for address in ("/", "/#/library"):
        page.goto(address)
        page.get_by_role("region", name="Waiting for you").locator(f"a[href='#/d/{id_}']").wait_for()


def test_a_shared_document_is_read_by_somebody_without_a_key(browser: Browser, tmp_path: Path) -> None:
    with studio_in(tmp_path) as studio:
        key = studio.run("serve", "keys", "add", "alice", "--runs", "runs").split()[-1]
        with page_of(browser, studio) as page:
            page.goto("/")
            page.get_by_label("API key").fill(key)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("textbox", name="Your request").wait_for()
            own(page, "From the egg to the hen")
            page.get_by_role("button", name="Export and share").click()
            page.get_by_role("button", name="Create a link").click()
            link = page.get_by_role("textbox", name="Link for readers").input_value()
            with page_of(browser, studio) as reader:
                reader.goto(link)
                reader.get_by_text("A brown egg has been laid in the meadow.").wait_for()
                shown = reader.get_by_role("img").first
                assert shown.evaluate("each => each.decode().then(() => each.naturalWidth)") == 256
                assert reader.get_by_role("navigation").count() == 0
            page.get_by_role("button", name="End the link").click()
            page.get_by_role("button", name="Create a link").wait_for()
            with page_of(browser, studio) as reader:
                reader.goto(link)
                reader.get_by_text("This document is not shared, or no longer.").wait_for()


@pytest.mark.parametrize("language", ["en-GB", "de-DE"])
def test_nothing_is_cut_off_at_320_pixels(browser: Browser, shared: Studio, language: str) -> None:
    id_ = shared.submit("How a frog grows up, in two pictures")
    held = shared.submit("A heron that waits, in two pictures", hold_plan=True)
    views = ["/", "/#/library", "/#/lab", "/#/compare", "/#/judge", "/#/queue", "/#/reports", "/#/story/moon"]
    views += [f"/#/d/{id_}", f"/#/d/{id_}/inside", f"/#/d/{held}"]
    size = {"width": 320, "height": 640}
    with page_of(browser, shared, viewport=size, locale=language) as page:
        for view in views:
            page.goto(view)
            page.get_by_role("heading").first.wait_for()
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, view
            for link in page.get_by_role("navigation").get_by_role("link").all():
                box = link.bounding_box()
                assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 320, view


def test_on_a_slow_line_one_types_before_the_program_has_arrived(browser: Browser, shared: Studio) -> None:
    with page_of(browser, shared) as page:
        line = page.context.new_cdp_session(page)
        slow = {"offline": False, "latency": 50, "downloadThroughput": 20_000, "uploadThroughput": 20_000}
        line.send("Network.enable")
        line.send("Network.emulateNetworkConditions", slow)
        page.goto("/", wait_until="commit")
        page.locator("#early textarea").click()
        page.keyboard.type("How a heron")
        arrived = page.evaluate("!document.querySelector('header')")
        assert arrived  # the program has not
        field = page.get_by_role("group", name="Your request").get_by_role("textbox")
        field.wait_for()
        page.keyboard.type(" grows up")
        assert field.input_value() == "How a heron grows up"
