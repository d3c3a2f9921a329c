"""Makes the images of the studio's guide from a running studio: python docs/studio/make.py http://127.0.0.1:8030

Needs Playwright and Chromium, and a report (`interleave bench mini`) for its image. It first makes a document
for the images to show. With names of views after the address it makes only those, of the newest finished
document.
"""

from __future__ import annotations

import io
import shutil
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
SIZES = ((1280, 900), (820, 900), (390, 900))
SCALE = 0.5
GAP = 16
REQUEST = "How a frog grows up, step by step, in four pictures"
VIEWS = {
    "make": ("/", "li img"),
    "plan": ("/#/d/{held}", "text=Draw images"),
    "document": ("/#/d/{done}", "text=Export"),
    "step": ("/#/d/{done}/step/2", "dialog .compare img"),
    "slides": ("/#/d/{done}/slides/3", "dialog img"),
    "export": ("/#/d/{done}", "text=Export and share"),
    "inside": ("/#/d/{done}/inside", ".log summary"),
    "library": ("/#/library", "li img"),
    "queue": ("/#/queue", "h1"),
    "report": ("/#/reports/{report}", "iframe"),
    "compare": ("/#/compare/{runs}?step=2", ".pane section img"),
    "judge": ("/#/judge/better", "article img"),
}
RUNS = 3


def shot(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def sheet(browser: Browser, url: str, address: str, seen: str) -> Image.Image:
    """Capture a view at all widths, light above dark."""
    width = sum(int(each * SCALE) for each, _ in SIZES) + GAP * (len(SIZES) + 1)
    height = int(SIZES[0][1] * SCALE)
    whole = Image.new("RGB", (width, 2 * height + 3 * GAP), "#8a8a88")
    for row, colours in enumerate(("light", "dark")):
        left = GAP
        for size in SIZES:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]}, color_scheme=colours, reduced_motion="reduce"
            )
            page = context.new_page()
            page.add_init_script("localStorage.setItem('interleave-rater', 'ann')")
            page.goto(url + address)
            page.locator(seen).first.wait_for()
            if seen == VIEWS["export"][1]:
                page.locator(seen).click()
                page.locator("dialog summary").click()
            page.wait_for_timeout(1200)
            small = shot(page).resize((int(size[0] * SCALE), height), Image.Resampling.LANCZOS)
            whole.paste(small, (left, GAP + row * (height + GAP)))
            left += small.width + GAP
            context.close()
    return whole


def frames(page: Page, url: str) -> list[tuple[Image.Image, int]]:
    """Record a walk-through from request to export; returns frames with their milliseconds."""
    taken: list[tuple[Image.Image, int]] = []

    def show(milliseconds: int) -> None:
        taken.append((shot(page).resize((720, 506), Image.Resampling.LANCZOS), milliseconds))

    page.goto(url)
    page.get_by_role("button", name="Write the plan").wait_for()
    page.wait_for_timeout(1000)
    show(1200)
    field = page.get_by_role("textbox", name="Your request")
    for end in range(6, len(REQUEST) + 6, 6):
        field.fill(REQUEST[:end])
        show(160)
    page.get_by_role("button", name="Write the plan").click()
    page.get_by_role("button", name="Draw images").wait_for(timeout=120_000)
    show(2000)
    caption = page.get_by_role("textbox", name="Shown to readers").nth(0)
    caption.fill("It begins with frog spawn in the meadow.")
    show(2200)
    page.get_by_role("button", name="Draw the edited plan").click()
    ends, last = time.monotonic() + 300, b""
    while time.monotonic() < ends and not page.get_by_role("button", name="Export").count():
        page.wait_for_timeout(250)
        now = shot(page)
        small = now.resize((64, 45)).tobytes()
        if small != last:
            taken.append((now.resize((720, 506), Image.Resampling.LANCZOS), 700))
            last = small
    show(2500)
    page.mouse.move(640, 600)
    page.mouse.wheel(0, 520)
    page.wait_for_timeout(500)
    show(2500)
    page.get_by_role("link", name="Change step 2").last.click()
    divider = page.get_by_role("slider")
    divider.wait_for()
    page.wait_for_timeout(900)
    for place in ("50", "75", "25", "50"):
        divider.fill(place)
        show(600)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.evaluate("scrollTo(0, 0)")
    page.get_by_role("link", name="Slides").click()
    for number in range(1, 5):
        page.get_by_text(f"{number} of 4", exact=True).wait_for()
        page.wait_for_timeout(300)
        show(1300)
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Export").click()
    page.wait_for_timeout(300)
    show(3000)
    return taken


def save_walk(walk: list[tuple[Image.Image, int]]) -> None:
    first, *others = (frame for frame, _ in walk)
    times = [milliseconds for _, milliseconds in walk]
    options = {"append_images": others, "duration": times, "loop": 0, "quality": 70, "method": 6}
    first.save(HERE / "walk.webp", save_all=True, **options)
    print(f"walk.webp: {sum(times) / 1000:.0f} s, {len(times)} frames")


def newest(page: Page, url: str, outcome: str) -> str:
    found = page.request.get(f"{url}/v1/studio/documents?limit=1&outcome={outcome}").json()
    return str(found["data"][0]["id"])


def newest_report(page: Page, url: str) -> str:
    """Return the link to the newest report; empty if there is none."""
    found = page.request.get(f"{url}/v1/studio/reports").json()["data"]
    return f"{found[0]['folder']}/{found[0]['path']}" if found else ""


def same_request(page: Page, url: str, id_: str) -> list[str]:
    """Return a document and others of its request; generate missing ones."""
    asked = page.request.get(f"{url}/v1/documents/{id_}").json()["title"]

    def ids() -> list[str]:
        found = page.request.get(f"{url}/v1/studio/documents/{id_}/related").json()["data"]
        return [id_, *(each["document"]["id"] for each in found)][:RUNS]

    for seed in range(len(ids()), RUNS):
        body = {"input": asked, "background": True, "interleave": {"seed": seed, "max_attempts": 1}}
        made = page.request.post(f"{url}/v1/responses", data=body).json()["id"]
        while page.request.get(f"{url}/v1/documents/{made}").json()["status"] in ("queued", "in_progress"):
            page.wait_for_timeout(500)
    return ids()


def hold_a_plan(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("textbox", name="Your request").fill(REQUEST)
    page.get_by_role("button", name="Write the plan").click()
    page.get_by_role("button", name="Draw images").wait_for()


def main(url: str, *views: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        page.set_default_timeout(120_000)
        if not views:
            save_walk(frames(page, url))
            hold_a_plan(page, url)
        done = newest(page, url, "completed")
        held = newest(page, url, "held") if not views or "plan" in views else ""
        runs, report = ",".join(same_request(page, url, done)), newest_report(page, url)
        for name in views or VIEWS:
            address, seen = VIEWS[name]
            link = address.format(done=done, held=held, runs=runs, report=report)
            made = sheet(browser, url, link, seen)
            made.save(HERE / f"{name}.webp", quality=82, method=6)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), *sys.argv[2:])
