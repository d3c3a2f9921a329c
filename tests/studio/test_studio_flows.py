"""What people do in the studio, in a real browser against the real service."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from studio_process import Studio, page_of, studio_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow

CAPTION = re.compile("Shown to readers")
PROMPT = re.compile("What is drawn")


def ask(page: Page, request: str, *, hold: bool = True) -> None:
    page.goto("/")
    page.get_by_role("textbox", name="Your request").fill(request)
    if not hold:
        page.get_by_role("checkbox", name="Review the plan").uncheck()
    page.get_by_role("button", name="Write the plan" if hold else "Make the document").click()


def made(page: Page, request: str) -> str:
    """A document that is done; returns its id."""
    ask(page, request, hold=False)
    done(page)
    return id_of(page)


def done(page: Page) -> None:
    page.get_by_role("button", name="Export").wait_for()


def id_of(page: Page) -> str:
    return re.split(r"[/?]", page.url.partition("#/d/")[2])[0]


def step(page: Page, number: int) -> Locator:
    return page.get_by_role("region", name=f"Step {number}", exact=True)


def panel(page: Page) -> Locator:
    return page.get_by_role("dialog")


def image_of(page: Page, number: int) -> str:
    return str(step(page, number).get_by_role("img").get_attribute("src"))


@pytest.fixture
def gated(browser: Browser, tmp_path: Path) -> object:
    """Starts a studio whose images wait, with a page that looks at it."""
    with studio_in(tmp_path / "gated", free=0) as studio, page_of(browser, studio) as page:
        yield studio, page


def test_a_plan_is_edited_reordered_extended_and_approved(page: Page, shared: Studio) -> None:
    ask(page, "How a frog grows up, in three pictures")
    captions = page.get_by_role("textbox", name=CAPTION)
    captions.nth(0).fill("First.")
    captions.nth(2).fill("Third.")
    page.get_by_role("button", name="Move step 3 up").click()
    page.get_by_role("button", name="Move step 2 up").click()
    assert captions.nth(0).input_value() == "Third."
    page.get_by_role("button", name="Delete step 3").click()
    page.get_by_role("button", name="Add a step").click()
    page.get_by_role("button", name="Draw the edited plan").click()
    assert page.get_by_role("alert").get_by_text("Step 3: describe the image").is_visible()
    page.get_by_role("checkbox", name="Text only").nth(2).check()
    captions.nth(2).fill("The end.")
    page.get_by_role("button", name="Draw the edited plan").click()
    done(page)
    facts = shared.get(f"/v1/documents/{id_of(page)}")
    assert [each["text"] for each in facts["steps"]] == ["Third.", "First.", "The end."]
    assert [each["picture"] is None for each in facts["steps"]] == [False, False, True]


def test_a_plan_is_drawn_as_it_is(page: Page, shared: Studio) -> None:
    ask(page, "How a hen grows up, in two pictures")
    page.get_by_role("button", name="Draw images").click()
    done(page)
    decisions = shared.get(f"/v1/documents/{id_of(page)}")["decisions"]
    assert all(each["kind"] not in ("redraw", "choice") for each in decisions)


def test_steps_appear_as_they_are_drawn_with_the_critics_words(gated: tuple[Studio, Page]) -> None:
    studio, page = gated
    ask(page, "How a frog grows up, in three pictures", hold=False)
    state = page.locator(".state")
    state.get_by_text("Drawing step 1 of 3").wait_for()
    assert step(page, 1).get_by_role("img").count() == 0
    studio.free(1)
    state.get_by_text("Drawing step 2 of 3").wait_for()
    assert step(page, 1).get_by_role("img").is_visible()
    studio.free(2)  # the double refuses the first attempt of an even step
    step(page, 2).get_by_text("Redrawing, attempt 2").wait_for()
    assert step(page, 2).get_by_text("The critic:").is_visible()
    studio.free(1000)
    done(page)
    assert step(page, 2).get_by_text("2 attempts").is_visible()
    assert step(page, 2).get_by_text("The critic:").count() == 0


def test_a_document_is_stopped_and_goes_on(gated: tuple[Studio, Page]) -> None:
    studio, page = gated
    ask(page, "How a frog grows up, in three pictures", hold=False)
    studio.free(1)
    page.locator(".state").get_by_text("Drawing step 2 of 3").wait_for()
    first = image_of(page, 1)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped. Images drawn so far are kept.").wait_for()
    studio.free(1000)
    page.get_by_role("button", name="Resume").click()
    step(page, 3).get_by_role("img").wait_for()
    done(page)
    assert image_of(page, 1) == first
    assert page.get_by_text("Stopped.").count() == 0


def test_a_step_is_drawn_again_chosen_and_undone(page: Page, shared: Studio) -> None:
    id_ = made(page, "How a frog grows up, in two pictures")
    before = [image_of(page, 1), image_of(page, 2)]
    step(page, 1).get_by_role("link", name="Change step 1").last.click()
    panel(page).get_by_role("textbox", name="Prompt").fill("a red egg on a leaf")
    panel(page).get_by_role("spinbutton", name="Seed").fill("7")
    panel(page).get_by_role("button", name="Redraw").click()
    page.get_by_role("button", name="Undo").wait_for()
    assert image_of(page, 1) != before[0]
    assert image_of(page, 2) != before[1]  # it starts from the first one
    facts = shared.get(f"/v1/documents/{id_}")
    assert facts["steps"][0]["attempts"][-1]["prompt"] == "a red egg on a leaf"

    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Undo").wait_for(state="detached")
    done(page)
    assert [image_of(page, 1), image_of(page, 2)] == before

    step(page, 1).get_by_role("link", name="Change step 1").last.click()
    panel(page).get_by_role("checkbox", name="Keep the later steps").check()
    panel(page).get_by_role("listitem", name="Attempt 2").get_by_role("button", name="Show this one").click()
    panel(page).get_by_role("listitem", name="Attempt 2").get_by_text("Shown", exact=True).wait_for()
    panel(page).get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Undo").wait_for()
    assert image_of(page, 1) != before[0]
    assert image_of(page, 2) == before[1]


def test_a_branch_is_a_document_of_its_own(page: Page, shared: Studio) -> None:
    id_ = made(page, "How a frog grows up, in three pictures")
    images = [image_of(page, number) for number in (1, 2, 3)]
    page.goto(f"/#/d/{id_}/step/2")
    panel(page).get_by_role("textbox", name="Prompt").fill("a heron comes")
    panel(page).get_by_role("button", name="Branch from here").click()
    page.get_by_role("link", name="Branched from another document").wait_for()
    done(page)
    assert id_of(page) != id_
    assert image_of(page, 1).rpartition("/")[2] == images[0].rpartition("/")[2]
    assert image_of(page, 2).rpartition("/")[2] != images[1].rpartition("/")[2]
    page.get_by_role("link", name="Branched from another document").click()
    page.wait_for_url(f"**/d/{id_}")
    done(page)
    assert [image_of(page, number) for number in (1, 2, 3)] == images


def _is_zip_with(*names: str) -> Callable[[bytes], bool]:
    def check(data: bytes) -> bool:
        inside = zipfile.ZipFile(io.BytesIO(data)).namelist()
        return all(any(name in each for each in inside) for name in names)

    return check


FORMATS: dict[str, tuple[str, str, Callable[[bytes], bool]]] = {
    "pdf": ("PDF", "typst", lambda data: data.startswith(b"%PDF-")),
    "epub": ("EPUB", "jinja2", _is_zip_with("mimetype", ".opf", ".png")),
    "pptx": ("PowerPoint", "pptx", _is_zip_with("ppt/slides/slide1.xml", "ppt/media")),
    "zip": ("Markdown and images", "jinja2", _is_zip_with(".md", ".png")),
    "html": ("Web page", "jinja2", lambda data: b"<!doctype html>" in data[:200].lower()),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_a_document_is_exported(page: Page, format_: str) -> None:
    name, library, is_right = FORMATS[format_]
    pytest.importorskip(library, reason=f"no {library} on this machine")
    made(page, "How a frog grows up, in two pictures")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name).first.click()
    assert waiting.value.suggested_filename.endswith(f".{format_}")
    assert is_right(Path(waiting.value.path()).read_bytes())
    page.get_by_text(f"Saved: {name}").wait_for()
    button = page.get_by_role("button", name=name).first  # still there, for another format
    assert button.evaluate("each => each === document.activeElement")


def test_a_page_that_is_reloaded_goes_on_where_it_was(gated: tuple[Studio, Page]) -> None:
    studio, page = gated
    ask(page, "How a frog grows up, in three pictures", hold=False)
    studio.free(1)
    page.locator(".state").get_by_text("Drawing step 2 of 3").wait_for()
    page.reload()
    page.locator(".state").get_by_text("Drawing step 2 of 3").wait_for()
    assert step(page, 1).get_by_role("img").is_visible()
    studio.free(1000)
    done(page)


def test_a_service_that_is_killed_and_comes_back_is_waited_for(gated: tuple[Studio, Page]) -> None:
    studio, page = gated
    ask(page, "How a frog grows up, in three pictures", hold=False)
    studio.free(1)
    page.locator(".state").get_by_text("Drawing step 2 of 3").wait_for()
    studio.kill()
    page.locator(".state").get_by_text("The service cannot be reached").wait_for()
    studio.free(1000)
    studio.start()
    done(page)
    assert page.locator(".state").count() == 0
    assert studio.get(f"/v1/documents/{id_of(page)}")["calls"]["planner"] == 1


def test_two_tabs_show_the_same(page: Page, shared: Studio) -> None:
    id_ = made(page, "How a frog grows up, in two pictures")
    before = image_of(page, 1)
    other = page.context.new_page()
    other.goto(f"/#/d/{id_}")
    done(other)
    page.goto(f"/#/d/{id_}/step/1")
    panel(page).get_by_role("button", name="Redraw").click()
    other.get_by_role("button", name="Undo").wait_for()
    done(other)
    assert image_of(other, 1) == image_of(page, 1) != before


def test_a_slow_network_only_takes_longer(browser: Browser, shared: Studio) -> None:
    with page_of(browser, shared) as page:
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        slow = {"offline": False, "latency": 400, "downloadThroughput": 60_000, "uploadThroughput": 20_000}
        network.send("Network.emulateNetworkConditions", slow)
        made(page, "How a frog grows up, in two pictures")
        step(page, 2).get_by_role("img").wait_for()


def test_a_phone_is_enough(browser: Browser, shared: Studio) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with page_of(browser, shared, **phone) as page:

        def fits() -> None:
            assert page.evaluate("document.documentElement.scrollWidth") <= 390

        ask(page, "How a frog grows up, in two pictures")
        page.get_by_role("button", name="Draw images").wait_for()
        fits()
        page.get_by_role("button", name="Draw images").tap()
        done(page)
        fits()
        page.get_by_role("button", name="Export").tap()
        page.get_by_role("button", name="Web page").wait_for()
        fits()
        page.goto(f"/#/d/{id_of(page)}/step/2")
        panel(page).get_by_role("button", name="Redraw").wait_for()
        fits()
        for place in ("/#/library", "/#/queue", "/"):
            page.goto(place)
            page.get_by_role("heading", level=1).wait_for()
            fits()


def test_images_are_added_pasted_dropped_and_removed(page: Page, shared: Studio) -> None:
    from PIL import Image

    def png(colour: str) -> bytes:
        data = io.BytesIO()
        Image.new("RGB", (32, 32), colour).save(data, "PNG")
        return data.getvalue()

    page.goto("/")
    page.locator("input[type=file]").set_input_files(
        [{"name": "red.png", "mimeType": "image/png", "buffer": png("red")}]
    )
    page.get_by_role("img", name="Image 1 of the request").wait_for()
    give = """([kind, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], "given.png", {type: "image/png"}));
        const target = document.querySelector(".composer");
        target.dispatchEvent(kind === "paste"
            ? new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true})
            : new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
    }"""
    page.evaluate(give, ["paste", list(png("green"))])
    page.get_by_role("img", name="Image 2 of the request").wait_for()
    page.evaluate(give, ["drop", list(png("blue"))])
    page.get_by_role("img", name="Image 3 of the request").wait_for()
    page.get_by_role("button", name="Remove image 2").click()
    page.locator("input[type=file]").set_input_files(
        [{"name": "letter.txt", "mimeType": "text/plain", "buffer": b"no image"}]
    )
    page.get_by_role("alert").get_by_text("letter.txt is not an image").wait_for()
    page.get_by_role("textbox", name="Your request").fill("Paint it green, in two pictures")
    page.get_by_role("button", name="Write the plan").click()
    page.get_by_role("button", name="Draw images").wait_for()
    given = page.get_by_role("img", name=re.compile("^Image . of the request"))
    given.nth(1).wait_for()
    assert given.count() == 2
    request = shared.get(f"/v1/documents/{id_of(page)}")["request"]
    assert ["picture" in part for part in request] == [True, True, False]


def test_everything_inside_is_shown(page: Page, shared: Studio) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    id_ = made(page, "How a frog grows up, in two pictures")
    page.get_by_role("link", name="Details").click()
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith("interleave generate") and "frog" in command
    calls = page.get_by_role("listitem").filter(has_text="Planner")
    calls.locator("summary").click()
    assert calls.locator("pre").inner_text().strip()
    assert page.locator(".log > li").count() == 7  # a plan; an image and a verdict; two of both

    page.goto(f"/#/d/{id_}/step/2")
    first = panel(page).get_by_role("listitem", name="Attempt 1")
    assert first.get_by_text("Rejected").is_visible()
    first.get_by_text("Critic's raw replies").click()
    assert first.locator("pre").inner_text().strip()
    seed = shared.get(f"/v1/documents/{id_}")["steps"][1]["attempts"][0]["seed"]
    assert first.get_by_text(str(seed), exact=True).is_visible()
    divider = panel(page).get_by_role("slider", name="Divider between before and after")
    divider.focus()
    page.keyboard.press("Home")
    assert panel(page).locator(".compare").evaluate("each => each.style.getPropertyValue('--place')") == "0%"


def test_slides_are_turned_by_keys(page: Page) -> None:
    made(page, "How a frog grows up, in three pictures")
    page.get_by_role("link", name="Slides").click()
    panel(page).get_by_text("1 of 3", exact=True).wait_for()
    page.keyboard.press("ArrowRight")
    panel(page).get_by_text("2 of 3", exact=True).wait_for()
    page.keyboard.press("End")
    panel(page).get_by_text("3 of 3", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/d/resp_[0-9a-f]+$"))
    panel(page).wait_for(state="detached")


def test_a_refusal_offers_requests_that_can_be_done(browser: Browser, tmp_path: Path) -> None:
    with (
        studio_in(tmp_path / "oracle", "--profile", "oracle", "--offer", "none") as studio,
        page_of(browser, studio) as page,
    ):
        ask(page, "A giraffe drinks coffee in Paris")
        refusal = page.get_by_role("alert")
        refusal.get_by_text("giraffe").wait_for()
        offered = refusal.get_by_role("button")
        words = offered.first.inner_text()
        offered.first.click()
        page.get_by_role("button", name="Draw images").wait_for()
        assert page.get_by_role("heading", level=1).inner_text() == words


def test_every_example_can_be_done(browser: Browser, tmp_path: Path) -> None:
    with (
        studio_in(tmp_path / "oracle", "--profile", "oracle", "--offer", "none") as studio,
        page_of(browser, studio) as page,
    ):
        page.goto("/")
        examples = page.locator(".requests button")
        examples.first.wait_for()
        for words in examples.all_inner_texts():
            page.goto("/")
            page.get_by_role("button", name=words, exact=True).click()
            assert page.get_by_role("textbox", name="Your request").input_value() == words
            page.get_by_role("button", name="Write the plan").click()
            page.get_by_role("button", name="Draw images").wait_for()


def test_text_of_people_and_models_never_becomes_html(page: Page) -> None:
    attack = "<img src=x onerror=alert(1)> in two pictures <script>alert(2)</script>"
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    ask(page, attack)
    page.get_by_role("textbox", name=CAPTION).first.fill("<b>bold</b>")
    page.get_by_role("button", name="Draw the edited plan").click()
    done(page)
    assert attack in page.get_by_role("heading", level=1).inner_text()
    assert step(page, 1).get_by_text("<b>bold</b>").is_visible()
    assert page.locator("main b, main script").count() == 0


def test_a_document_is_made_by_keyboard_alone(page: Page) -> None:
    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "(each => each.getAttribute('aria-label') || each.innerText || '')(document.activeElement)"
            )
            if focused.strip() == name:
                return
        raise AssertionError(f"no way by Tab to {name}")

    page.goto("/")
    tab_to("Your request")
    page.keyboard.type("How a frog grows up, in two pictures")
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Draw images").wait_for()
    tab_to("Draw images")
    page.keyboard.press("Enter")
    done(page)
    tab_to("Edit words")
    page.keyboard.press("Enter")
    page.get_by_role("textbox", name="Title of the document").wait_for()
    tab_to("Done editing")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Edit words").wait_for()
    assert page.evaluate("document.activeElement.innerText").strip() == "Edit words"
    tab_to("Change step 2")
    page.keyboard.press("Enter")
    panel(page).wait_for()
    page.keyboard.press("Escape")
    panel(page).wait_for(state="detached")


def test_a_document_is_deleted_after_a_question(page: Page) -> None:
    id_ = made(page, "How a frog grows up, in two pictures")
    page.get_by_role("button", name="Delete this document").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/library")
    cover = page.locator(f"a[href='#/d/{id_}']")
    page.get_by_role("heading", name="Library").wait_for()
    assert cover.count() == 0
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url(f"**/d/{id_}")
    done(page)


def test_a_deleted_document_says_so_at_its_address_and_can_be_restored_there(
    page: Page, shared: Studio
) -> None:
    id_ = made(page, "How a frog grows up, in two pictures")
    page.get_by_role("button", name="Delete this document").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/library")
    page.goto(f"/#/d/{id_}")
    note = page.get_by_text("This document was deleted.")
    note.wait_for()
    assert page.get_by_role("button", name="Delete this document").count() == 0
    page.get_by_role("button", name="Restore").click()
    note.wait_for(state="detached")
    assert shared.get(f"/v1/studio/documents/{id_}/deletion") == {"deleted": False}


def test_a_key_is_asked_for_once(browser: Browser, tmp_path: Path) -> None:
    with studio_in(tmp_path / "keys") as studio, page_of(browser, studio) as page:
        key = studio.run("serve", "keys", "add", "alice", "--runs", "runs").split()[-1]
        page.goto("/")
        page.get_by_label("API key").fill("not it")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("Unknown API key.").wait_for()
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("textbox", name="Your request").wait_for()
        made(page, "How a frog grows up, in two pictures")
        page.reload()
        done(page)
        assert (
            step(page, 2).get_by_role("img").evaluate("each => each.decode().then(() => each.naturalWidth)")
            > 0
        )
