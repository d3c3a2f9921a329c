"""A document service that tests share: they leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running import Service, service

from postgres_databases import database, postgres  # noqa: F401


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("documents")) as started:
        yield started
