"""The loopback server, one for all tests of remote backends, and the specs of those backends at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import EDITING, WORKFLOW, Loopback


@pytest.fixture(scope="session")
def the_loopback() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.stop()


@pytest.fixture
def loopback(the_loopback: Loopback) -> Loopback:
    """The server, as new, with the workflows for ComfyUI beside it."""
    the_loopback.reset()
    Path("edit.json").write_text(json.dumps(EDITING), "utf-8")
    Path("text.json").write_text(json.dumps(WORKFLOW), "utf-8")
    return the_loopback
