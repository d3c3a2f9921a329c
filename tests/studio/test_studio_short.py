"""The studio's main job in a real browser: ask, approve the plan, watch, read. Short enough for every run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_a_document_is_asked_for_approved_drawn_and_read(page: Page) -> None:
    page.goto("/")
    page.get_by_role("textbox", name="Your request").fill("How a frog grows up, in two pictures")
    page.get_by_role("button", name="Write the plan").click()
    page.get_by_role("textbox", name=re.compile("Shown to readers")).nth(1).fill("A frog at last.")
    page.get_by_role("button", name="Draw the edited plan").click()
    page.get_by_role("button", name="Export").wait_for()
    last = page.get_by_role("region", name="Step 2")
    assert last.get_by_text("A frog at last.").is_visible()
    assert last.get_by_role("img").evaluate("image => image.complete && image.naturalWidth") > 0
