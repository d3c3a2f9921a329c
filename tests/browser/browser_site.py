"""The page of `make site`, built from its source, on a host that sends nothing but files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 300_000
"""Milliseconds in which what must come comes, on a busy machine too."""
READY = "html[data-models=ready]"


def run(*command: str, **variables: str) -> str:
    ended = subprocess.run(
        command, cwd=SOURCE, capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class Site:
    """A static host of the folder, which can go away."""

    def __init__(self, folder: Path) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing: requests are no news."""


@contextmanager
def opened(browser: Browser, site: Site, **options: Any) -> Iterator[Page]:
    """A page that asks no other host for anything, and complains of nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: said.type == "error" and problems.append(said.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    context.on(
        "request",
        lambda asked: asked.url.startswith((site.url, "data:", "blob:")) or problems.append(asked.url),
    )
    page.goto(site.url)
    yield page
    context.close()
    assert problems == []


def make(page: Page, request: str, attempts: int = 3) -> None:
    """Ask for a document, and wait until it is done."""
    page.fill("#request", request)
    page.evaluate(
        "count => { document.querySelector('#attempts').value = count }",
        attempts,
    )
    page.click("button[type=submit]")
    # The one before it is done, too: this one has begun when its title is there.
    page.wait_for_selector(f"article h1:text-is({json.dumps(request, ensure_ascii=False)})")
    page.wait_for_selector("article[data-state=done]")
