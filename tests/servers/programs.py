"""Programs that are started for a test, and how it is found out whether they are installed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

STARTS_WITHIN = 300.0
MISSING: dict[str, str] = {}
"""The programs that were looked for and not found, and how to have them."""


def python_with(modules: tuple[str, ...], variable: str, remedy: str) -> str:
    """A Python that can import these modules; skips the test and names them where there is none."""
    python = os.environ.get(variable, sys.executable)
    looks = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    if subprocess.run([python, "-c", looks, *modules], check=False).returncode:
        skip(" and ".join(modules), f"{remedy}, or name a Python that has them with {variable}")
    return python


def skip(program: str, remedy: str) -> None:
    MISSING[program] = remedy
    pytest.skip(f"{program} is not installed: {remedy}")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Program:
    """A program that serves at an address of this machine."""

    def __init__(self, command: list[str], port: int, *, health: str, folder: Path, cwd: Path | None = None):
        self.url = f"http://127.0.0.1:{port}"
        self.command = command
        self.health = self.url + health
        self.log = folder / "log"
        self.cwd = cwd
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, cwd=self.cwd, env=self._environment()
            )
        ends = time.monotonic() + STARTS_WITHIN
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > ends:
                pytest.fail(f"{self.command[0]} did not start: {self.log.read_text('utf-8')[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.health, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    @staticmethod
    def _environment() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


Start = Callable[..., Program]
