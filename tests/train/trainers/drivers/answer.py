"""How a driver hands its findings to the test that started it: one line of JSON after a mark."""

from __future__ import annotations

import json
from typing import Any

MARK = "the driver found: "


def give(**found: Any) -> None:
    print(MARK + json.dumps(found), flush=True)
