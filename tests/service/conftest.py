"""Servers for tests. Those that no test breaks are shared by all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Server, StartServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the double `solid`, shared: tests leave it as they found it."""
    running = Server(tmp_path_factory.mktemp("server"), "--generator", "solid?size=64")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose generator fails as its prompts say; shared by tests that leave its worker alive."""
    running = Server(
        tmp_path_factory.mktemp("awkward"),
        *(
            "--generator",
            "awkward?steps=4&guidance=1.0&size=1024",
            "--preset",
            "klein",
            "--batch",
            "4",
            "--queue",
            "6",
            "--ignore",
            "user_tag,vip",
        ),
    )
    yield running
    assert running.stop() == 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartServer]:
    """Start a server that the test may break; it is ended afterwards."""
    started: list[Server] = []

    def start_server(*arguments: str, **options: Any) -> Server:
        started.append(Server(tmp_path / f"server{len(started)}", *arguments, **options))
        return started[-1]

    yield start_server
    for each in started:
        each.stop()
