"""Large grids: some rows in `make test`, all of them in `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(share: int, rows: Iterable[Any]) -> list[Any]:
    """The rows of a grid for `parametrize`; all but one in `share` of them are marked as slow."""
    return [_as_slow(row) if number % share else row for number, row in enumerate(rows)]


def all_slow(rows: Iterable[Any]) -> list[Any]:
    """The rows of a grid that are left to `make test-all`."""
    return [_as_slow(row) for row in rows]


def _as_slow(row: Any) -> Any:
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
