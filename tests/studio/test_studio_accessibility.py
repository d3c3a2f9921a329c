"""axe-core looks at every view, light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from studio_process import Studio, page_of

from held import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = Path(__file__).parent.parent.parent / "studio" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE.exists(), reason="no axe-core: npm ci in studio/"),
]
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SERIOUS = ("serious", "critical")


def problems(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(each => each.violations)")
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in SERIOUS or set(each["tags"]) & set(LEVELS)
        for node in each["nodes"]
    ]


@pytest.fixture(scope="module")
def ids(shared: Studio) -> tuple[str, str, str]:
    """A document that is done, one whose plan waits, another one of the first; some are labelled."""
    report = shared.folder / "bench" / "one" / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text(
        "<!doctype html><html lang=en><head><title>Numbers</title></head><h1>Numbers</h1></html>"
    )
    done = shared.submit("How a frog grows up, in three pictures")
    other = shared.submit("How a frog grows up, in three pictures", seed=3)
    held = shared.submit("A frog that waits, in two pictures", hold_plan=True)

    def status(id_: str) -> str:
        return str(shared.get(f"/v1/documents/{id_}")["status"])

    wait_until(lambda: [status(each) for each in (done, other, held)] == ["completed", "completed", "held"])
    for rater, value in (("ann", True), ("bob", False)):
        label = {"kind": "accept", "run": done, "step": 1, "attempt": 1, "value": value}
        body = {"rater": rater, "labels": [label]}
        httpx.post(f"{shared.url}/v1/studio/labels", json=body, trust_env=False).raise_for_status()
    return done, held, other


VIEWS = {
    "make": ("/", "button:has-text('Write the plan')"),
    "plan": ("/#/d/{held}", "button:has-text('Draw images')"),
    "document": ("/#/d/{done}", "button:has-text('Export')"),
    "step": ("/#/d/{done}/step/2", "dialog button:has-text('Redraw')"),
    "edit": ("/#/d/{done}/edit", "li textarea"),
    "edit hidden": ("/#/d/{done}/edit", "li textarea"),
    "shared": ("/#/d/{done}", "button:has-text('Export')"),
    "slides": ("/#/d/{done}/slides/2", "dialog img"),
    "inside": ("/#/d/{done}/inside", ".log summary"),
    "library": ("/#/library", "li img"),
    "library selected": ("/#/library", "li img"),
    "lab": ("/#/lab", "main li"),
    "story": ("/#/story/moon", "figure img"),
    "queue": ("/#/queue", "h1"),
    "compare form": ("/#/compare", "button:has-text('Add a run')"),
    "compare": ("/#/compare/{done},{other}?step=2&judge=1", ".pane button:has-text('attempt')"),
    "compare blind": ("/#/compare/{done},{other}?blind=0a0b", ".pane button:has-text('Best')"),
    "judge": ("/#/judge", "table"),
    "judge images": ("/#/judge/accept", "article img"),
    "judge pairs": ("/#/judge/better", "article img"),
    "judge documents": ("/#/judge/wrong_step", "article img"),
    "reports": ("/#/reports", "section li"),
    "report": ("/#/reports/bench/one/report.html", "iframe"),
}


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_serious_is_found(
    browser: Browser, shared: Studio, ids: tuple[str, str, str], view: str, colours: str
) -> None:
    address, seen = VIEWS[view]
    with page_of(browser, shared, color_scheme=colours, reduced_motion="reduce") as page:
        page.add_init_script("if (top === self) localStorage.setItem('interleave-rater', 'ann')")
        page.goto(address.format(done=ids[0], held=ids[1], other=ids[2]))
        page.locator(seen).first.wait_for()
        if view == "document":
            page.get_by_text("Where the images come from").click()
            page.get_by_text("Edited from image 2").wait_for()
            page.get_by_role("button", name="Export").click()
            page.get_by_text("Languages, printing, signing").click()
            page.get_by_text("Link for readers").wait_for()
        if view == "edit hidden":
            page.get_by_role("button", name="Add an illustrated step after step 1").click()
            page.get_by_role("form", name="New illustrated step").wait_for()
            page.get_by_role("button", name="Hide step 3").click()
            page.get_by_role("button", name="Show this step again").wait_for()
        if view == "shared":
            page.get_by_role("button", name="Export").click()
            page.get_by_role("button", name=re.compile("Create a link|End the link")).wait_for()
            if (create := page.get_by_role("button", name="Create a link")).count():
                create.click()
            page.get_by_role("textbox", name="Link for readers").wait_for()
            page.get_by_role("button", name="Web page").click()
            page.get_by_text("Saved: Web page").wait_for()
        if view == "library selected":
            page.get_by_role("button", name="Select").click()
            page.get_by_role("checkbox").first.check()
        if view == "make":
            page.get_by_text("More settings").click()
        if view == "compare":
            page.locator(".pane button:has-text('attempt')").first.click()
            page.get_by_role("button", name="Show differences").first.click()
        if view == "judge images":
            page.get_by_text("Your labels").click()
            page.get_by_role("region", name="Your labels").wait_for()
        assert problems(page) == []
