"""The whole loop in a browser tab: offline, equal to Python's, in words that say what it can."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser_site import READY, SOURCE, Site, make, opened, run
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
AXE = SOURCE / "node_modules" / "axe-core" / "axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
MOST_LEVELS = 2
"""Levels, of 255, by which a pixel may differ from Python's."""
SHORT = "Draw a cat and a house, then make it night."


def test_its_types_and_its_own_tests_hold(dist: Path, vectors: Path) -> None:
    run("npm", "run", "--silent", "check")
    run("npm", "run", "--silent", "test", DIST=str(dist), VECTORS=str(vectors), RUNS="1")


def test_after_its_first_load_it_works_without_the_host(browser: Browser, site: Site) -> None:
    with opened(browser, site) as page:
        page.wait_for_selector("html[data-offline=ready]")
        assert "one thread" in page.inner_text(".facts")  # the host sends no headers for more
        site.stop()
        page.reload()
        page.wait_for_selector(READY)
        assert page.evaluate("crossOriginIsolated")  # the service worker adds them
        make(page, SHORT)
        assert page.locator(".step figure img").count() == 2
        site.stop = lambda: None  # type: ignore[method-assign]


def test_twenty_requests_are_answered_as_python_answers_them(
    browser: Browser, site: Site, vectors: Path
) -> None:
    expected = json.loads((vectors / "vectors.json").read_text("utf-8"))
    assert len(expected["runs"]) == 20
    with opened(browser, site) as page:
        page.wait_for_selector(READY)
        for wanted in expected["runs"]:
            if wanted["events"][0]["type"] == "asked":
                ask(page, wanted["request"], "#notice .question")
                assert shown_in(page) == as_sentence(wanted["events"][0]["question"]["text"])
                continue
            make(page, wanted["request"], expected["maxAttempts"])
            plan = wanted["events"][0]["plan"]
            steps = page.locator("section.step").all()
            assert [each.locator("h2").inner_text() for each in steps] == [
                f"{step['number']}{step['name'] or ''}" for step in plan["steps"]
            ]
            for step, shown in zip(plan["steps"], steps, strict=True):
                assert shown.locator(".text").inner_text() == (step["caption"] or step["instruction"])
                events = [each for each in wanted["events"][1:] if number_of(each) == step["number"]]
                compare_attempts(shown, events, vectors / "images")


def number_of(event: dict[str, Any]) -> int:
    return int(event["step"] if event["type"] == "finished" else event["slot"]["step"])


def compare_attempts(shown: Locator, events: list[dict[str, Any]], images: Path) -> None:
    drawn = [each for each in events if each["type"] == "drawn"]
    judged = [each["verdict"] for each in events if each["type"] == "judged"]
    attempts = shown.locator("article.attempt").all()
    assert len(attempts) == len(drawn)
    for attempt, asked, verdict in zip(attempts, drawn, judged, strict=True):
        text = attempt.inner_text()
        assert asked["prompt"] in text
        assert attempt.locator(".mark").inner_text() == verdict["outcome"]
        assert verdict["reasoning"] in text
        if verdict["refined_prompt"]:
            assert attempt.locator(".refined").inner_text() == f"Refined prompt: {verdict['refined_prompt']}"
        source = attempt.locator("img").get_attribute("src") or ""
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))).convert("RGB"))
        wanted = np.frombuffer((images / asked["image"]).read_bytes(), np.uint8).reshape(pixels.shape)
        assert np.abs(pixels.astype(int) - wanted).max() <= MOST_LEVELS


def test_what_the_world_lacks_is_refused_by_name_and_can_be_exchanged(browser: Browser, site: Site) -> None:
    with opened(browser, site) as page:
        page.wait_for_selector(READY)
        ask(page, "Draw an xqzzt.", "#notice .refusal")
        assert shown_in(page) == "The miniature does not know “xqzzt”."
        assert page.locator("section.step").count() == 0
        ask(page, "Zeichne mir einen Frosch und ein Haus bitte", "#notice .refusal:has-text('German')")
        ask(page, "Draw a unicorn in the snow.", "#notice .refusal:has-text('unicorn')")
        suggested = page.locator(".refusal .examples button").first.inner_text()
        page.click("text=Take horse for unicorn")
        page.wait_for_selector("article[data-state=done]")
        assert "No unicorn here: a horse instead." in page.inner_text("article header")
        page.click("text=Other images")  # are made in the same way
        page.wait_for_selector("article[data-state=drawing]")
        page.wait_for_selector("article[data-state=done]")
        ask(page, "Draw a unicorn in the snow.", "#notice .refusal:has-text('unicorn')")
        page.click(f".refusal button:text-is('{suggested}')")
        assert page.input_value("#request") == suggested
        make(page, "Draw a caat.")
        assert "Read “caat” as “cat”." in page.inner_text("article header")


def test_a_plan_that_does_not_fit_is_asked_back_and_can_be_mended(
    browser: Browser, site: Site, vectors: Path
) -> None:
    plannings = json.loads((vectors / "vectors.json").read_text("utf-8"))["plannings"]
    asked = next(each for each in plannings if each["question"])
    with opened(browser, site) as page:
        page.wait_for_selector(READY)
        ask(page, asked["asked"], "#notice .question")
        assert shown_in(page) == as_sentence(asked["question"]["text"])
        assert page.locator("section.step").count() == 0
        fields = page.locator(".mend textarea").all()
        said = [text for step in asked["plan"]["steps"] for text in (step["prompt"], step["caption"])]
        assert [each.input_value() for each in fields] == said
        for prompt, caption in zip(fields[::2], fields[1::2], strict=True):
            prompt.fill("A meadow with an orange cat in the middle.")
            caption.fill("This is my cat.")
        page.click("text=Draw this plan")
        page.wait_for_selector("article[data-state=done]")
        assert {each.inner_text() for each in page.locator(".step .text").all()} == {"This is my cat."}
        assert "orange cat in the middle" in page.inner_text(".attempt")
        ask(page, asked["asked"], "#notice .question")
        page.locator(".mend textarea").first.fill("Add an xqzzt.")
        page.click("text=Draw this plan")
        page.wait_for_selector("#notice .refusal:has-text('xqzzt')")


def test_a_story_in_own_sentences_keeps_them(browser: Browser, site: Site) -> None:
    told = ["A cat sleeps on the beach.", "A dog comes."]
    with opened(browser, site) as page:
        page.wait_for_selector(READY)
        make(page, " ".join(told))
        assert [each.inner_text() for each in page.locator(".step .text").all()] == told


def ask(page: Page, request: str, answer: str) -> None:
    """Ask for a document, and wait for what is answered instead."""
    page.fill("#request", request)
    page.click("button[type=submit]")
    page.wait_for_selector(answer)


def shown_in(page: Page) -> str:
    return page.locator("#notice .note p").first.inner_text()


def as_sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def test_it_is_saved_as_one_file_and_printed_without_the_form(
    browser: Browser, site: Site, tmp_path: Path
) -> None:
    with opened(browser, site) as page:
        page.wait_for_selector(READY)
        make(page, SHORT)
        with page.expect_download() as download:
            page.click("text=Save as HTML")
        saved = tmp_path / download.value.suggested_filename
        download.value.save_as(saved)
        pdf = page.pdf()
        page.emulate_media(media="print")
        assert not page.locator("#request").is_visible()
        assert page.locator("article h1").is_visible()
        assert not page.locator(".attempts").first.is_visible()  # they are in the HTML file
    assert saved.name == "draw-a-cat-and-a-house-then-make-it-night.html"
    document = saved.read_text("utf-8")
    assert re.findall(r'(?:src|href)="(?!data:)', document) == []
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(saved.as_uri())
        assert page.evaluate("[...document.images].every(each => each.naturalWidth == 256)")
        assert page.locator("section").count() == 2
    pypdf = pytest.importorskip("pypdf", reason="no pypdf")
    text = "".join(each.extract_text() for each in pypdf.PdfReader(io.BytesIO(pdf)).pages)
    assert "Draw a cat and a house" in text and "Make the document" not in text


def test_stopping_keeps_what_was_drawn(browser: Browser, site: Site) -> None:
    with opened(browser, site) as page:
        page.wait_for_selector(READY)
        page.fill("#request", "How a frog grows up, step by step, in four pictures")
        page.click("button[type=submit]")
        page.wait_for_selector("section.step figure img")
        page.click("button:text-is('Stop')")
        page.wait_for_selector("article[data-state=stopped]")
        assert 1 <= page.locator("section.step figure img").count() < 4
        make(page, SHORT)  # and another document can be made


def test_a_phone_is_told_what_to_expect_before_anything_large_is_loaded(browser: Browser, site: Site) -> None:
    agent = (
        "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36"
    )
    asked: list[str] = []
    with opened(browser, site, user_agent=agent, is_mobile=True) as page:
        page.wait_for_selector("#loading .note:has-text('This looks like a phone')")
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(500)
        assert [each for each in asked if "/models/" in each] == []
        page.click("text=Load the models")
        page.wait_for_selector(READY)


def test_models_that_cannot_be_loaded_are_said_to_be_missing(
    browser: Browser, dist: Path, tmp_path: Path
) -> None:
    broken = shutil.copytree(dist, tmp_path / "broken")
    next(broken.glob("models/*/generator/vae/decoder.onnx")).write_bytes(b"")
    host = Site(broken)
    with opened(browser, host) as page:
        said = page.wait_for_selector("[role=alert]")
        assert said is not None and "generator/vae/decoder.onnx was cut off" in said.inner_text()
    host.stop()


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: npm ci in browser/")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(browser: Browser, site: Site, scheme: str, width: int) -> None:
    with opened(browser, site, color_scheme=scheme, bypass_csp=True) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_selector(READY)
        make(page, "Draw a cat.")
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run(document).then(each => each.violations)")
        assert [
            f"{each['id']}: {node['target']} {node['failureSummary']}"
            for each in found
            if each["impact"] in ("serious", "critical") or set(each["tags"]) & set(LEVELS)
            for node in each["nodes"]
        ] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (SOURCE / "package-lock.json").read_text()
