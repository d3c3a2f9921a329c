"""Fixtures every test has. No test reaches the network, the user's configuration or the real runs/."""

from __future__ import annotations

import gc
import os
import socket
import ssl
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from skips import StrictSkips, is_strict

os.environ["HF_HUB_OFFLINE"] = (
    "1"  # read when the Hub's library is imported: models are built here, never fetched
)
os.environ["INTERLEAVE_PROFILE"] = "dry-run"  # quick; tests of models say which, and fixtures need it too
# Read when torch is imported, here and in processes that tests start. Toy models gain nothing from more
# threads, which wait for each other wherever cores are shared.
os.environ.setdefault("OMP_NUM_THREADS", "1")


create_default_context = cache(ssl.create_default_context)
ssl.create_default_context = create_default_context
"""HTTP clients read the system's certificates for every context they make, which no test needs."""


def pytest_configure(config: pytest.Config) -> None:
    if is_strict():
        config.pluginmanager.register(StrictSkips())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Text that is no Unicode, as tests of such text print it, cannot be sent to the process that reports."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "replace").decode()) for name, text in report.sections]
    return report


def pytest_collection_finish() -> None:
    """Keep what has been imported out of every later search for garbage, which would take a second each."""
    gc.collect()
    gc.freeze()


def _no_sync(file: int) -> None:
    """Fails as a sync does for what is no file, and takes no time: no test pulls the plug of the machine."""
    os.fstat(file)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test works in a folder of its own, with an empty configuration and no way out to the network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INTERLEAVE_CONFIG", str(tmp_path / "config"))
    for key in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, _no_sync)
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: object) -> None:
        if self.family != socket.AF_UNIX and not str(address).startswith(("('127.", "('::1'")):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", local_only)
    yield
