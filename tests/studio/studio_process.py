"""The studio as a user starts it, whose images wait for the test, and a browser that looks at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from held import held_after

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MANY = 1_000_000
PATIENCE = 30_000
"""Milliseconds in which what must come comes, on a busy machine too."""


class Studio:
    """`interleave studio` in a process of its own, on the doubles unless other models are named."""

    def __init__(self, folder: Path, *arguments: str, free: int = MANY) -> None:
        self.folder = folder
        self.arguments = arguments or ("--dry-run", "--offer", "none")
        folder.mkdir(parents=True, exist_ok=True)
        self.free(free)
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, on the same port as before."""
        command = held_after(
            MANY, "studio", "--no-open", "--port", str(self.port), "--runs", "runs", *self.arguments
        )
        with (self.folder / "stderr.txt").open("a") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=self.folder, env=_environment()
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, (self.folder / "stderr.txt").read_text()
        self.port = int(self.url.rpartition(":")[2])

    def free(self, images: int) -> None:
        """Let so many images be drawn, counted from the start of the process."""
        new = self.folder / "free.new"
        new.write_text(str(images))
        new.rename(self.folder / "free")

    def kill(self) -> None:
        self.process.kill()
        self._reap()

    def stop(self) -> None:
        self.process.terminate()
        self._reap()

    def _reap(self) -> None:
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def run(self, *arguments: str) -> str:
        """What another command prints, in the same folder."""
        command = [sys.executable, "-m", "interleave", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=_environment(), check=True, capture_output=True, text=True
        ).stdout

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, trust_env=False, timeout=60).raise_for_status().json()

    def submit(self, request: str, **options: Any) -> str:
        """A document made without the page; returns its id."""
        body = {"input": request, "background": True, "interleave": options}
        answer = httpx.post(f"{self.url}/v1/responses", json=body, trust_env=False, timeout=60)
        return str(answer.raise_for_status().json()["id"])


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("INTERLEAVE")}


@contextmanager
def studio_in(folder: Path, *arguments: str, free: int = MANY) -> Iterator[Studio]:
    studio = Studio(folder, *arguments, free=free)
    try:
        yield studio
    finally:
        studio.stop()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright; the test is skipped where one of them is missing."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """What a page asked for and complained about."""

    def __init__(self, page: Page) -> None:
        self.problems: list[str] = []
        self.addresses: list[str] = []
        page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))


@contextmanager
def page_of(browser: Browser, studio: Studio, **options: Any) -> Iterator[Page]:
    """A page with a fresh profile. Afterwards: nothing was loaded from elsewhere, nothing went wrong."""
    settings = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options}
    context = browser.new_context(base_url=studio.url, **settings)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    watched = Watched(page)
    try:
        yield page
        elsewhere = [
            each for each in watched.addresses if not each.startswith((studio.url, "data:", "blob:"))
        ]
        assert elsewhere == []
        # A service that is killed, or that refuses a request, is told in the console too.
        assert [each for each in watched.problems if "Failed to load resource" not in each] == []
    finally:
        context.close()
