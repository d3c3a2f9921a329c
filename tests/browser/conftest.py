"""The site and the vectors, made once for all tests; a browser for each file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_site import CHROMIUM, SOURCE, Site, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make site` builds it."""
    if not (shutil.which("npm") and (SOURCE / "node_modules").exists()):
        pytest.skip("no Node.js, or no npm ci in browser/ yet")
    folder = tmp_path_factory.mktemp("site")
    run("npx", "vite", "build", "--outDir", str(folder), "--emptyOutDir")
    run(sys.executable, "assemble.py", "--dist", str(folder))
    return folder


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Python computes for as many requests as the page is asked for."""
    folder = tmp_path_factory.mktemp("vectors")
    run(sys.executable, "vectors.py", "--runs", "20", "--max-attempts", "3", "--out", str(folder))
    return folder


@pytest.fixture
def site(dist: Path) -> Iterator[Site]:
    host = Site(dist)
    yield host
    host.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright on this machine")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
