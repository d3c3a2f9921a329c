"""Fixtures: a real Postgres of the test run, and empty databases in it."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "deploy"))


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
