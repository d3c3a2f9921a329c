"""The library and the queue, in a real browser against the real service."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from studio_process import Studio, page_of, studio_in

from held import wait_until
from interleave.batches.batch import run_folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
DOCUMENTS = 6300
"""With four images each, more than 25,000."""


def finished(studio: Studio, id_: str) -> bool:
    return studio.get(f"/v1/documents/{id_}")["status"] not in ("queued", "in_progress")


def make(studio: Studio, request: str) -> str:
    id_ = studio.submit(request)
    wait_until(lambda: finished(studio, id_))
    return id_


def test_documents_are_found_by_words_outcome_and_date(page: Page, shared: Studio) -> None:
    frog, _ = make(shared, "How a frog grows up, in two pictures"), make(shared, "A whale in one picture")
    held = shared.submit("A frog that waits, in one picture", hold_plan=True)
    wait_until(lambda: finished(shared, held))
    page.goto("/#/library")
    covers = page.get_by_role("list", name="Documents").get_by_role("link")
    page.get_by_text("3 documents").wait_for()
    page.get_by_role("searchbox", name="Search").fill("frog")
    page.get_by_text("2 documents").wait_for()
    page.get_by_role("combobox", name="Outcome").select_option("Plan to review")
    page.get_by_text("1 document", exact=True).wait_for()
    page.get_by_role("combobox", name="Outcome").select_option("Any")
    page.get_by_text("2 documents").wait_for()
    page.reload()  # the search is part of the address
    page.get_by_text("2 documents").wait_for()
    covers.filter(has_text="grows up").click()
    page.wait_for_url(f"**/d/{frog}")
    page.goto("/#/library")
    page.get_by_label("To", exact=True).fill("2001-01-01")
    page.get_by_text("No document matches.").wait_for()
    page.get_by_role("button", name="Clear search").click()
    page.get_by_text("3 documents").wait_for()


@pytest.fixture
def full(browser: Browser, tmp_path: Path) -> Iterator[Studio]:
    """A studio with many documents: copies of one."""
    folder = tmp_path / "full"
    with studio_in(folder) as studio:
        id_ = make(studio, "How a frog grows up, in four pictures")
    copies(folder / "runs", id_, DOCUMENTS)
    with studio_in(folder) as studio:
        yield studio


def copies(root: Path, id_: str, number: int) -> None:
    """The row of a job so often, each with the run folder of the first."""
    run = (root / run_folder(id_)).resolve()
    with closing(sqlite3.connect(root / "jobs.sqlite")) as table, table:
        table.row_factory = sqlite3.Row
        row = dict(table.execute("SELECT * FROM jobs WHERE id = ?", (id_,)).fetchone())
        names = ", ".join(row)
        for count in range(1, number):
            new = f"resp_{count:048x}"
            values = {
                name: value.replace(id_, new) if isinstance(value, str) else value
                for name, value in row.items()
            }
            values["number"] = row["number"] + count
            marks = ", ".join("?" * len(row))
            table.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(values.values()))
            copy = root / run_folder(new)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(run)


def test_a_full_library_scrolls_to_its_end_with_few_tiles_in_the_page(browser: Browser, full: Studio) -> None:
    with page_of(browser, full) as page:
        page.goto("/#/library")
        page.get_by_text(f"{DOCUMENTS:,} documents", exact=True).wait_for(timeout=300_000)
        tiles = page.get_by_role("list", name="Documents").get_by_role("listitem")
        last = page.locator(f'[aria-posinset="{DOCUMENTS}"]')
        for _ in range(1000):
            assert tiles.count() < 150
            if last.count():
                break
            page.mouse.wheel(0, 8000)
            page.wait_for_timeout(30)
        last.scroll_into_view_if_needed()
        assert last.get_by_role("img").evaluate("image => image.decode().then(() => image.naturalWidth)") > 0


@pytest.fixture
def waiting(browser: Browser, tmp_path: Path) -> Iterator[tuple[Studio, Page, list[str]]]:
    """A studio that makes one document at a time, whose images wait; and three documents, in this order."""
    arguments = ("--dry-run", "--offer", "none", "--concurrency", "1")
    with studio_in(tmp_path / "queue", *arguments, free=0) as studio, page_of(browser, studio) as page:
        ids = [studio.submit(f"{name} in one picture") for name in ("Alpha", "Beta", "Gamma")]
        page.goto("/#/queue")
        page.get_by_role("button", name="Stop “Alpha in one picture”").wait_for()
        page.get_by_role("button", name="Stop “Gamma in one picture”").wait_for()
        yield studio, page, ids


def test_the_queue_is_reordered_and_one_is_stopped(waiting: tuple[Studio, Page, list[str]]) -> None:
    studio, page, ids = waiting
    page.get_by_role("button", name="Move “Gamma in one picture” up").click()
    page.get_by_role("status").get_by_text("to position 1").wait_for()
    assert [each["id"] for each in studio.get("/v1/studio/queue")["waiting"]] == [ids[2], ids[1]]
    page.get_by_role("button", name="Stop “Beta in one picture”").click()
    page.get_by_role("button", name="Stop “Beta in one picture”").wait_for(state="detached")
    studio.free(1000)
    page.get_by_text("The queue is empty.").wait_for()
    states = [studio.get(f"/v1/documents/{id_}")["status"] for id_ in ids]
    assert states == ["completed", "cancelled", "completed"]


def test_a_paused_queue_starts_nothing_until_it_goes_on(waiting: tuple[Studio, Page, list[str]]) -> None:
    studio, page, ids = waiting
    page.get_by_role("button", name="Pause queue").click()
    page.get_by_text("The queue is paused").wait_for()
    studio.free(1000)
    page.get_by_role("button", name="Stop “Alpha in one picture”").wait_for(state="detached")
    assert studio.get(f"/v1/documents/{ids[1]}")["status"] == "queued"
    page.get_by_role("button", name="Resume queue").click()
    page.get_by_text("The queue is empty.").wait_for()


def test_what_failed_is_tried_again(browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "plans.jsonl"
    script.write_text(json.dumps({"text": "no plan", "finish_reason": "stop"}))
    with (
        studio_in(
            tmp_path / "failing", "--dry-run", "--offer", "none", "--planner", f"scripted:{script}"
        ) as studio,
        page_of(browser, studio) as page,
    ):
        make(studio, "Alpha in one picture")
        page.goto("/#/queue")
        page.get_by_role("button", name="Retry “Alpha in one picture”").wait_for()
        page.get_by_role("button", name="Retry all failed").click()
        page.get_by_role("status").get_by_text("Retrying 1 document.").wait_for()
