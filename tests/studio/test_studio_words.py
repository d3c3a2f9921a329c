"""A finished document is edited in a real browser: words, order, drafts, redraws that are foretold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from studio_process import Studio, page_of, studio_in

from held import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
ASKED = "How a frog grows up, in three pictures"
CAPTION = re.compile("Shown to readers")


@pytest.fixture
def id_(shared: Studio) -> str:
    made = shared.submit(ASKED)
    wait_until(lambda: shared.get(f"/v1/documents/{made}")["status"] == "completed")
    return made


def step(page: Page, number: int) -> Locator:
    return page.get_by_role("region", name=f"Step {number}", exact=True)


def item(page: Page, number: int) -> Locator:
    """A step in the editor."""
    return page.get_by_role("listitem", name=f"Step {number}", exact=True)


def title(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Title of the document")


def saved(page: Page) -> None:
    page.get_by_text("All changes are saved.").wait_for()


def held_plan(page: Page, request: str) -> Locator:
    page.goto("/")
    page.get_by_role("textbox", name="Your request").fill(request)
    page.get_by_role("button", name="Write the plan").click()
    page.get_by_role("button", name="Draw images").wait_for()
    return page.get_by_role("textbox", name=CAPTION)


def test_W3_words_order_and_visibility_are_changed_and_undone(page: Page, shared: Studio, id_: str) -> None:
    page.goto(f"/#/d/{id_}")
    page.get_by_role("link", name="Edit words").click()
    title(page).fill("Der Frosch")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="Der Frosch").wait_for()
    item(page, 1).get_by_role("textbox", name="Text").fill("Ein Ei.")
    item(page, 1).get_by_role("textbox", name="Description").fill("Ein Ei im Teich")
    item(page, 3).get_by_role("button", name="Move step 3 up").click()
    page.get_by_role("status").get_by_text("Moved to place 2.").wait_for()
    item(page, 3).get_by_role("button", name="Hide step 3").click()
    page.get_by_role("button", name="Show this step again").wait_for()
    saved(page)
    page.get_by_role("link", name="Done editing").click()
    assert step(page, 1).get_by_text("Ein Ei.").is_visible()
    assert step(page, 1).get_by_role("img").get_attribute("alt") == "Ein Ei im Teich"
    assert page.locator(".book > li").count() == 2
    words = shared.get(f"/v1/documents/{id_}/words")
    assert (words["title"], words["order"]) == ("Der Frosch", [1, 3, 2])
    for _ in range(5):
        page.get_by_role("button", name="Undo").click()
        page.wait_for_timeout(300)
    page.get_by_role("button", name="Undo").wait_for(state="detached")
    page.get_by_role("heading", level=1, name=ASKED).wait_for()
    assert page.evaluate("document.activeElement !== document.body")
    assert page.locator(".book > li").count() == 3


def test_W3_after_a_redraw_the_page_names_the_text_and_offers_to_change_it(page: Page, id_: str) -> None:
    page.goto(f"/#/d/{id_}/step/2")
    panel = page.get_by_role("dialog")
    panel.get_by_role("textbox", name="Prompt").fill("a red fish")
    panel.get_by_text("Also redraws step 3").wait_for()
    panel.get_by_role("checkbox", name="Keep the later steps").check()
    panel.get_by_text("Redraws this step only").wait_for()
    panel.get_by_role("button", name="Redraw").click()
    note = step(page, 2).get_by_text("the image was redrawn as “a red fish”")
    note.wait_for()
    step(page, 2).get_by_role("link", name="Change the text").click()
    text = item(page, 2).get_by_role("textbox", name="Text")
    text.fill("A red fish.")
    page.keyboard.press("Tab")
    saved(page)
    page.get_by_role("link", name="Done editing").click()
    assert step(page, 2).get_by_text("A red fish.").is_visible()
    assert note.count() == 0


def test_a_new_illustrated_step_makes_another_document(page: Page, shared: Studio, id_: str) -> None:
    page.goto(f"/#/d/{id_}/edit")
    page.get_by_role("button", name="Add an illustrated step after step 1").click()
    form = page.get_by_role("form", name="New illustrated step")
    form.get_by_role("button", name="Draw the new step").click()
    form.get_by_role("alert").get_by_text("Describe the image first.").wait_for()
    form.get_by_role("textbox", name="Image").fill("a tadpole")
    form.get_by_role("textbox", name="Text").fill("A tadpole swims.")
    page.reload()
    form.get_by_role("button", name="Draw the new step").click()
    page.wait_for_url(lambda url: id_ not in url)
    page.get_by_role("button", name="Export").wait_for()
    assert step(page, 2).get_by_text("A tadpole swims.").is_visible()
    assert page.locator(".book > li").count() == 4
    assert len(shared.get(f"/v1/documents/{id_}")["steps"]) == 3


def test_W2_plan_edits_survive_reload_navigation_and_a_second_tab(page: Page) -> None:
    captions = held_plan(page, "How a hen grows up, in three pictures")
    captions.nth(1).fill("My own words.")
    page.get_by_role("button", name="Delete step 1").click()
    page.reload()
    assert captions.count() == 2
    assert captions.nth(0).input_value() == "My own words."
    other = page.context.new_page()
    other.goto(page.url)
    theirs = other.get_by_role("textbox", name=CAPTION)
    theirs.nth(0).wait_for()
    assert theirs.nth(0).input_value() == "My own words."
    theirs.nth(1).fill("From the other tab.")
    page.get_by_role("link", name="Library").click()
    page.go_back()
    page.get_by_role("button", name="Draw the edited plan").wait_for()
    assert captions.nth(1).input_value() == "From the other tab."
    page.get_by_role("button", name="Draw the edited plan").click()
    page.get_by_role("button", name="Export").wait_for()
    assert step(page, 2).get_by_text("From the other tab.").is_visible()


def test_W2_a_deleted_plan_leaves_its_request_and_no_stopped_document(page: Page, shared: Studio) -> None:
    held_plan(page, "How a goose grows up, in two pictures")
    gone = re.split(r"[/?]", page.url.partition("#/d/")[2])[0]
    page.get_by_role("button", name="Delete this plan").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    request = page.get_by_role("textbox", name="Your request")
    request.wait_for()
    assert request.input_value() == "How a goose grows up, in two pictures"
    listed = shared.get("/v1/studio/documents?limit=50")["data"]
    assert gone not in [each["id"] for each in listed]


def test_W6_an_error_of_the_plan_stands_at_its_step_and_covers_no_button(page: Page) -> None:
    held_plan(page, "How a cat grows up, in three pictures")
    page.get_by_role("textbox", name=re.compile("^Image")).nth(1).fill("")
    button = page.get_by_role("button", name="Draw the edited plan")
    button.click()
    second = page.get_by_role("listitem", name="Step 2")
    assert second.get_by_role("alert").get_by_text("Step 2: describe the image").is_visible()
    assert page.get_by_text("Something is missing in step 2.").is_visible()
    button.click(trial=True)  # nothing lies over it
    assert page.evaluate("document.activeElement.matches('li [aria-invalid]')")


def test_W1_a_refused_redraw_is_told_in_its_dialog(page: Page, id_: str) -> None:
    page.goto(f"/#/d/{id_}/step/1")
    panel = page.get_by_role("dialog")
    refusal = {
        "error": {"message": "the models of this job can no longer be loaded", "type": "x", "code": "x"}
    }
    page.route("**/steps/1/redraw", lambda route: route.fulfill(status=409, json=refusal))
    panel.get_by_role("textbox", name="Prompt").fill("a pond")
    panel.get_by_role("button", name="Redraw").click()
    panel.get_by_role("alert").get_by_text("can no longer be loaded").wait_for()
    assert page.get_by_role("alert").count() == 1
    page.unroute("**/steps/1/redraw")
    page.reload()  # what was typed is kept
    assert panel.get_by_role("textbox", name="Prompt").input_value() == "a pond"


def test_words_typed_while_the_service_is_down_are_saved_when_it_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_in(tmp_path / "killed") as studio, page_of(browser, studio) as page:
        made = studio.submit(ASKED)
        wait_until(lambda: studio.get(f"/v1/documents/{made}")["status"] == "completed")
        page.goto(f"/#/d/{made}/edit")
        title(page).wait_for()
        studio.kill()
        title(page).fill("Der Frosch")
        page.keyboard.press("Tab")
        page.get_by_role("alert").get_by_text("Not saved yet").wait_for()
        studio.start()
        saved(page)
        assert studio.get(f"/v1/documents/{made}")["title"] == "Der Frosch"


def test_W5_the_page_says_that_the_service_is_back_before_the_next_image(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_in(tmp_path / "back", free=0) as studio, page_of(browser, studio) as page:
        page.goto(f"/#/d/{studio.submit(ASKED)}")
        page.locator(".state").get_by_text("Drawing step 1 of 3").wait_for()
        studio.kill()
        page.locator(".state").get_by_text("cannot be reached").wait_for()
        studio.start()  # its images still wait
        page.locator(".state").get_by_text("Drawing step 1 of 3").wait_for()


def test_W4_counts_are_those_of_what_is_shown(page: Page, shared: Studio, id_: str) -> None:
    page.goto(f"/#/d/{id_}/step/3")
    page.get_by_role("dialog").get_by_role("button", name="Branch from here").click()
    page.get_by_role("link", name=re.compile("Branched from")).wait_for()
    page.get_by_role("button", name="Export").wait_for()
    page.get_by_text("3 steps, 1 image drawn").wait_for()


def test_W4_a_finished_document_on_a_slow_line_never_seems_to_be_drawn(
    browser: Browser, shared: Studio, id_: str
) -> None:
    with page_of(browser, shared) as page:
        page.goto("/")
        page.evaluate(
            """() => {
                window.seen = new Set();
                new MutationObserver(() => {
                    const shown = document.querySelectorAll(".state, .tools");
                    for (const each of shown) window.seen.add(each.textContent);
                }).observe(document.body, {childList: true, subtree: true, characterData: true});
            }"""
        )
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        slow = {"offline": False, "latency": 200, "downloadThroughput": 8_000, "uploadThroughput": 8_000}
        network.send("Network.emulateNetworkConditions", slow)
        page.evaluate(f"location.hash = '#/d/{id_}'")
        page.get_by_role("button", name="Export").wait_for()
        seen = " ".join(page.evaluate("[...window.seen]"))
        assert "Drawing" not in seen and "Stop" not in seen


def test_a_draft_with_an_image_survives_a_new_tab(page: Page) -> None:
    import io

    from PIL import Image

    data = io.BytesIO()
    Image.new("RGB", (32, 32), "red").save(data, "PNG")
    page.goto("/")
    page.locator("input[type=file]").set_input_files(
        [{"name": "red.png", "mimeType": "image/png", "buffer": data.getvalue()}]
    )
    page.get_by_role("img", name="Image 1 of the request").wait_for()
    page.get_by_role("textbox", name="Your request").fill("Paint it green")
    page.wait_for_timeout(300)
    other = page.context.new_page()
    page.close()
    other.goto("/")
    other.get_by_role("img", name="Image 1 of the request").wait_for()
    assert other.get_by_role("textbox", name="Your request").input_value() == "Paint it green"


def test_W7_words_are_checked_while_they_are_typed(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("interleave_mini")
    with (
        studio_in(tmp_path / "mini", "--profile", "mini", "--offer", "none") as studio,
        page_of(browser, studio) as page,
    ):
        page.goto("/")
        page.get_by_role("textbox", name="Your request").fill("A giraffe meets a fish, then it is night")
        page.get_by_text("does not know “giraffe”").wait_for()
        page.get_by_role("button", name="Use the nearest").wait_for()
        offered = page.locator(".refusal li button").first
        words = offered.inner_text()
        assert "fish" in words or "elephant" in words
        assert studio.get("/v1/documents")["data"] == []
        offered.click()
        page.get_by_role("button", name="Draw images").wait_for()
