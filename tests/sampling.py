"""Large grids: some rows in `make test`, all of them in `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(share: int, rows: Iterable[Any]) -> list[Any]:
    """The rows of a grid for `parametrize`; all but one in `share` of them are marked as slow."""
    return [
        row if number % share == 0 else pytest.param(row, marks=pytest.mark.slow)
        for number, row in enumerate(rows)
    ]
