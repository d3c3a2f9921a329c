"""A real Postgres, real workers and services as processes, and one server that plays all models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postgres_databases import database, postgres  # noqa: F401

_TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(_TESTS.parent / "deploy"))  # for Postgres
sys.path.insert(0, str(_TESTS / "backends"))  # for the server of the loopback
sys.path += [str(_TESTS / "service"), str(_TESTS / "service" / "documents")]  # for the document service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They start many processes: `make test` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def machines(tmp_path: Path, database: str) -> Iterator[Callable[[], object]]:  # noqa: F811
    from machines import Machines

    started = Machines(tmp_path, database)
    yield started  # type: ignore[misc]
    started.stop()
