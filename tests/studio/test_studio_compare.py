"""Runs side by side, named and blind, and labels by keyboard, in a real browser against the real service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from studio_process import Studio, page_of, studio_in

from held import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.slow
REQUEST = "How a frog grows up, in three pictures"


def pane(page: Page) -> Locator:
    return page.get_by_role("region", name="Runs side by side")


def row(page: Page, number: int) -> Locator:
    return pane(page).get_by_role("region", name=f"Step {number}", exact=True)


def made(studio: Studio, request: str, **options: Any) -> str:
    id_ = studio.submit(request, **options)
    wait_until(lambda: studio.get(f"/v1/documents/{id_}")["status"] == "completed")
    return id_


def shown(page: Page) -> str:
    """All that is in the page but its own code."""
    return str(page.evaluate("document.title + document.querySelector('#studio').outerHTML"))


def labels(studio: Studio, rater: str) -> list[dict[str, Any]]:
    address = f"{studio.url}/v1/studio/labels/export?rater={rater}"
    return [json.loads(line) for line in httpx.get(address, trust_env=False).text.splitlines()]


def become(page: Page, rater: str) -> None:
    page.get_by_label("Rater name").fill(rater)
    page.get_by_role("button", name="Continue").click()
    page.get_by_text(f"Rater: {rater}").wait_for()


def test_one_form_makes_several_runs_and_shows_them_while_they_are_made(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_in(tmp_path, free=0) as studio, page_of(browser, studio) as page:
        page.goto("/#/compare")
        page.get_by_role("button", name="Make 3 documents and compare").click()
        page.get_by_text("Enter a request first.").wait_for()
        page.get_by_label("Request for all runs").fill(REQUEST)
        page.get_by_role("button", name="Add a run").click()
        page.get_by_role("button", name="Remove run 4").click()
        page.get_by_role("group", name="Run 3").get_by_label("Maximum attempts per image").select_option("1")
        page.get_by_role("button", name="Make 3 documents and compare").click()
        pane(page).get_by_text("Drawing step 1 of 3").first.wait_for()
        assert row(page, 1).get_by_text("Not drawn yet").count() == 3
        studio.free(1_000_000)
        wait_until(lambda: pane(page).get_by_role("status").count() == 0)
        assert row(page, 3).get_by_role("img").count() == 3
        # the double refuses the first attempt of step 2: with one attempt that is what is shown
        assert row(page, 2).get_by_text("other verdict").is_visible()
        assert row(page, 2).get_by_role("button", name="2 attempts").count() == 2
        assert row(page, 2).get_by_role("button", name="1 attempt").count() == 1
        row(page, 2).get_by_role("button", name="2 attempts").first.click()
        assert row(page, 2).get_by_text("Attempt 2").is_visible()
        assert row(page, 2).locator("ins, del").count() > 0
        about = pane(page).get_by_role("region", name="C", exact=True)
        assert "Maximum attempts" in about.inner_text() and "Seed" in about.inner_text()
        ids = page.url.partition("#/compare/")[2].split(",")
        configured = [studio.get(f"/v1/documents/{id_}") for id_ in ids]
        assert [each["seed"] for each in configured] == [0, 1, 2]
        assert [each["max_attempts"] for each in configured][2] == 1


def test_images_that_differ_are_overlaid_and_an_address_says_it_all(page: Page, shared: Studio) -> None:
    ids = [made(shared, REQUEST, seed=seed) for seed in (5, 6, 7)]
    page.goto(f"/#/compare/{','.join(ids)}?step=2&base={ids[1]}")
    marked = pane(page).locator("[aria-current=step]")
    marked.get_by_role("img").first.wait_for()
    assert marked.get_attribute("aria-label") == "Step 2"
    base = pane(page).get_by_role("region", name="B", exact=True)
    base.get_by_text("Baseline", exact=True).wait_for()
    marked.get_by_role("button", name="Show differences").click()
    shares = marked.get_by_text(re.compile("of the pixels differ visibly"))
    wait_until(lambda: shares.count() == 2)
    coloured = marked.locator("canvas").first.evaluate(
        """canvas => {
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let at = 0; at < data.length; at += 4) if (data[at] === 214 && data[at + 1] === 20) found++;
            return found;
        }"""
    )
    assert coloured > 0
    row(page, 3).get_by_role("link", name="Step 3").click()
    page.wait_for_url(re.compile("step=3"))
    # all runs are in one pane that scrolls as a whole
    pane(page).evaluate("each => each.scrollTo(0, 300)")
    tops = (
        row(page, 2)
        .locator("img, canvas")
        .evaluate_all("all => all.map(each => Math.round(each.getBoundingClientRect().top))")
    )
    assert len(set(tops)) == 1
    pane(page).get_by_role("region", name="C", exact=True).get_by_role("link", name="Open").click()
    page.get_by_role("button", name="Export").wait_for()


def test_documents_are_selected_in_the_library_and_a_document_finds_its_branches(
    page: Page, shared: Studio
) -> None:
    first, second = made(shared, "A hen in two pictures"), made(shared, "A hen in two pictures", seed=3)
    page.goto("/#/library?q=hen")
    page.get_by_role("button", name="Select").click()
    boxes = page.get_by_role("checkbox", name="Select “A hen in two pictures”")
    boxes.nth(0).check()
    assert page.get_by_role("button", name="Compare").is_disabled()
    boxes.nth(1).check()
    page.get_by_role("button", name="Compare").click()
    row(page, 2).get_by_role("img").nth(1).wait_for()
    page.goto(f"/#/d/{first}/step/2")
    page.get_by_role("button", name="Branch from here").click()
    page.wait_for_url(lambda url: "#/d/" in url and first not in url)
    page.get_by_role("button", name="Compare with…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("its parent").wait_for()
    assert dialog.get_by_text("same request").is_visible()
    dialog.get_by_role("button", name="Compare", exact=True).click()
    row(page, 1).get_by_text("Same image").first.wait_for()
    ids = page.url.partition("#/compare/")[2].split("?")[0].split(",")
    assert {first, second} < set(ids) and len(ids) == 3


def test_a_document_without_others_says_how_to_get_them(page: Page, shared: Studio) -> None:
    made(shared, "A lonely lighthouse in one picture")
    page.goto("/#/library?q=lonely")
    page.get_by_role("link", name="A lonely lighthouse").click()
    page.get_by_role("button", name="Compare with…").click()
    page.get_by_text("No branches").wait_for()
    page.get_by_role("button", name="Make more runs of this request").click()
    assert page.get_by_label("Request for all runs").input_value() == "A lonely lighthouse in one picture"


def test_a_blind_comparison_names_nothing_until_it_is_revealed(browser: Browser, tmp_path: Path) -> None:
    with studio_in(tmp_path) as studio, page_of(browser, studio) as page:
        ids = [made(studio, REQUEST, seed=seed, max_attempts=1 + seed % 2) for seed in (41, 42, 43)]
        page.goto(f"/#/compare/{','.join(ids)}")
        row(page, 3).get_by_role("img").nth(2).wait_for()
        assert "solid" in shown(page) and "41" in pane(page).inner_text()
        page.get_by_role("button", name="Compare blind").click()
        become(page, "ann")
        content = shown(page)
        for word in ("solid", "scripted", "dry-run", "Seed", "Accepted", "Rejected", "attempt", "Planner"):
            assert word not in content, word

        def order() -> list[str]:
            found = row(page, 1).locator("img").evaluate_all("all => all.map(each => each.src)")
            return [re.findall("resp_[0-9a-f]+", each)[0] for each in found]

        before = order()
        assert sorted(before) == sorted(ids)
        address = page.url
        page.reload()
        row(page, 1).get_by_role("img").nth(2).wait_for()
        assert (order(), page.url) == (before, address)
        page.keyboard.press("ArrowDown")
        page.wait_for_url(re.compile("step=1"))
        page.keyboard.press("2")
        best = row(page, 1).get_by_role("button", name="B is the best at step 1")
        wait_until(lambda: best.get_attribute("aria-pressed") == "true")
        row(page, 2).get_by_role("button", name="A is wrong at step 2").click()
        pane(page).get_by_label("Score of C, 0 to 10").select_option("7")
        wait_until(lambda: len(labels(studio, "ann")) == 4)
        page.reload()  # what was said is still there
        wait_until(lambda: best.get_attribute("aria-pressed") == "true")
        page.get_by_role("button", name="Reveal").click()
        pane(page).get_by_text("Seed").first.wait_for()
        assert order() == before  # the columns stay where they are
        row(page, 1).get_by_role("button", name="C is right at step 1").click()
        wait_until(lambda: len(labels(studio, "ann")) == 5)
        said = labels(studio, "ann")
        better = [each for each in said if each["kind"] == "better"]
        assert [(each["run"], each["value"]) for each in better] == [(before[1], "first")] * 2
        assert {each["other"]["run"] for each in better} == {before[0], before[2]}
        assert [each["blind"] for each in said] == [True] * 4 + [False]
        assert said[-1]["run"] == before[2] and said[-1]["critic"]["accepted"] is True


def test_attempts_are_labelled_by_keyboard_undone_and_resumed_after_a_kill(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_in(tmp_path) as studio, page_of(browser, studio) as page:
        page.goto("/#/judge/accept")
        become(page, "ann")
        page.get_by_text("Nothing to judge yet.").first.wait_for()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for seed in range(3):
            made(studio, REQUEST, seed=seed)  # four attempts each
        page.reload()
        page.get_by_text("12 of 12 left").wait_for()
        assert "Rejected" not in shown(page) and "solid" not in shown(page)
        # the images of the next ones are there before they are needed
        wait_until(
            lambda: len({url for url in asked if "/pictures/" in url}) >= 5 or page.wait_for_timeout(20)
        )
        seen = [str(page.locator("article figure:not(.before) img").get_attribute("src"))]

        def press(key: str, left: int) -> None:
            page.keyboard.press(key)
            page.get_by_text(f"{left} of 12 left", exact=True).wait_for()

        press("a", 11)
        press("r", 10)
        press("A", 9)
        wait_until(lambda: len(labels(studio, "ann")) == 3)
        assert [each["value"] for each in labels(studio, "ann")] == [True, False, True]
        press("u", 10)
        press("u", 11)
        assert [each["value"] for each in labels(studio, "ann")] == [True]
        press("r", 10)
        here = page.locator("article figure:not(.before) img").get_attribute("src")
        wait_until(lambda: len(labels(studio, "ann")) == 2)
        studio.kill()
        page.keyboard.press("a")  # said while the service is down: it is stored when it is back
        studio.start()
        wait_until(lambda: len(labels(studio, "ann")) == 3)
        page.reload()
        page.get_by_text("9 of 12 left").wait_for()
        assert page.locator("article figure:not(.before) img").get_attribute("src") not in [*seen, here]
        page.get_by_text("Your labels").click()
        listed = page.get_by_role("region", name="Your labels")
        wait_until(lambda: listed.get_by_role("listitem").count() == 3)
        listed.get_by_role("button").last.click()  # the first one again, and said otherwise
        wait_until(lambda: page.locator("article figure:not(.before) img").get_attribute("src") == seen[0])
        page.keyboard.press("r")
        wait_until(lambda: [each["value"] for each in labels(studio, "ann")][-1] is False)
        assert len(labels(studio, "ann")) == 3
        page.get_by_role("checkbox", name="Label by keyboard").uncheck()
        page.locator("h1").click()
        page.keyboard.press("a")
        page.get_by_role("button", name="Later").click()
        assert len(labels(studio, "ann")) == 3


def test_a_list_of_thousands_of_labels_has_only_those_on_the_screen(browser: Browser, tmp_path: Path) -> None:
    with studio_in(tmp_path) as studio, page_of(browser, studio) as page:
        made(studio, "One image of a hen")
        at, number = "2026-01-01T00:00:00Z", 3000
        given = [
            {
                "kind": "accept",
                "rater": "ann",
                "at": at,
                "run": f"r{each}",
                "step": 1,
                "attempt": 1,
                "value": True,
            }
            for each in range(number)
        ]
        data = "".join(json.dumps(each) + "\n" for each in given).encode()
        httpx.post(f"{studio.url}/v1/studio/labels/import", content=data, trust_env=False).raise_for_status()
        page.goto("/#/judge/accept")
        become(page, "ann")
        page.get_by_text("1 of 1 left").wait_for()
        page.get_by_text("Your labels").click()
        listed = page.get_by_role("region", name="Your labels")
        listed.get_by_role("listitem").first.wait_for()
        wait_until(lambda: page.get_by_text("Your labels (3,000)").is_visible())

        def place() -> int:
            listed.evaluate("each => each.scrollTo(0, each.scrollHeight)")
            return int(listed.get_by_role("listitem").last.get_attribute("aria-posinset") or 0)

        wait_until(lambda: place() == number)
        assert listed.get_by_role("listitem").count() < 40


def test_every_kind_of_label_has_its_keys(page: Page, shared: Studio) -> None:
    run = made(shared, "How a duck grows up, in three pictures", seed=8)
    page.goto(f"/#/judge/better?runs={run}")
    become(page, "kim")
    page.get_by_text("1 of 1 left").wait_for()
    page.keyboard.press("2")
    page.get_by_text("You have judged everything.").wait_for()
    for task, keys, values in [
        ("score", ["7", "t", "0", "3"], [7, 10, 0, 3]),
        ("document_score", ["9"], [9]),
        ("wrong_step", ["ArrowRight", "ArrowRight", "Enter"], [2]),
    ]:
        page.goto(f"/#/judge/{task}?runs={run}")
        page.locator("article").wait_for()
        for key in keys:
            page.keyboard.press(key)
        page.get_by_text("You have judged everything.").wait_for()
        kind = "score" if "score" in task else task

        def stored(kind: str = kind, task: str = task) -> list[Any]:
            found = [each for each in labels(shared, "kim") if each["kind"] == kind]
            return [each["value"] for each in found if (each["step"] is None) == (task != "score")]

        wait_until(lambda values=values: stored() == values)
    better = next(each for each in labels(shared, "kim") if each["kind"] == "better")
    assert better["value"] == "second" and better["other"]["run"] == run


def test_raters_see_how_far_they_agree_and_labels_go_out_and_in(browser: Browser, tmp_path: Path) -> None:
    with studio_in(tmp_path) as studio, page_of(browser, studio) as page:
        page.goto("/#/judge")
        page.get_by_text("No labels yet").wait_for()
        for seed in range(2):
            made(studio, REQUEST, seed=seed)
        for rater, keys in (("ann", "aaaarrrr"), ("bob", "aaarrrrr")):
            page.goto("/#/judge")
            page.reload()
            if rater == "bob":
                page.get_by_role("button", name="Change").click()
            become(page, rater)
            page.get_by_role("link", name="Right or wrong").click()
            page.get_by_text("8 of 8 left").wait_for()
            for place, key in enumerate(keys):
                page.keyboard.press(key)
                page.get_by_text(f"{7 - place} of 8 left", exact=True).wait_for()
            wait_until(lambda rater=rater: len(labels(studio, rater)) == 8)
        page.get_by_role("link", name="All tasks").click()
        line = page.get_by_role("row", name=re.compile("^Right or wrong"))
        line.get_by_text("0.762").wait_for()  # 1 - 15 * 2 / (16² - 7² - 9²)
        assert "ann (8), bob (8)" in line.inner_text()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export labels").click()
        data = Path(saved.value.path()).read_bytes()
        assert saved.value.suggested_filename == "labels.jsonl" and data.count(b"\n") == 16
        (tmp_path / "more.jsonl").write_bytes(data.replace(b'"rater":"bob"', b'"rater":"cem"'))
        page.locator("input[type=file]").set_input_files(tmp_path / "more.jsonl")
        page.get_by_text("8 labels were imported; 8 were known already.").wait_for()
        line.get_by_text("cem (8)").wait_for()
        (tmp_path / "bad.jsonl").write_text('{"kind": "accept"}\n')
        page.locator("input[type=file]").set_input_files(tmp_path / "bad.jsonl")
        page.get_by_role("alert").get_by_text("line 1 is not a label").wait_for()
