"""One browser for all tests of a file: it must be closed before other tests run event loops of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from studio_process import Studio, chromium, page_of, studio_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shared(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio that tests leave running; each makes documents of its own."""
    with studio_in(tmp_path_factory.mktemp("studio")) as studio:
        yield studio


@pytest.fixture
def page(browser: Browser, shared: Studio) -> Iterator[Page]:
    with page_of(browser, shared) as opened:
        yield opened
