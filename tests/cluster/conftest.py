"""A real Postgres, real workers and services as processes, and one server that plays all models."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(_TESTS.parent / "deploy"))  # for Postgres
sys.path.insert(0, str(_TESTS / "backends"))  # for the server of the loopback
sys.path += [str(_TESTS / "service"), str(_TESTS / "service" / "documents")]  # for the document service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They start many processes: `make test` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    from local_postgres import PostgresServer, find_postgres

    programs = find_postgres()
    if programs is None:
        pytest.skip("Postgres is not installed: apt install postgresql, or set POSTGRES_BIN")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip('psycopg is not installed: pip install "interleavethinker[postgres]"')
    server = PostgresServer.new(programs)
    yield server
    server.remove()


@pytest.fixture
def database(postgres: Any) -> str:
    """The address of an empty database."""
    return postgres.new_database(f"test_{next(_numbers)}")


_numbers = itertools.count(1)


@pytest.fixture
def machines(tmp_path: Path, database: str) -> Iterator[Callable[[], object]]:
    from machines import Machines

    started = Machines(tmp_path, database)
    yield started  # type: ignore[misc]
    started.stop()
