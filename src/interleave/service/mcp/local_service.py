"""The document service of a folder on this machine: found by its address file, or started.

The service is a process of its own that outlives the host that started it. So a document is finished if its
host is closed or killed, and several hosts share one service. It exits after a period without requests.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2

from interleave import ConfigurationError
from interleave.plugin import locks, make_folder, one_line
from interleave.service.documents.folders import LOCK_NAME
from interleave.service.documents.private_files import private_files
from interleave.service.documents.server import ADDRESS_NAME

IDLE_SECONDS = 600.0
"""Time after which a started service ends if no host is connected and no document is being made."""
BEAT_SECONDS = 60.0
"""Interval at which a connected host shows that it is there."""
START_SECONDS = 60.0
PAUSE_SECONDS = 0.05
LOG_NAME = "service.log"
LIVE = "/health/live"


@dataclass
class LocalService:
    """The service of a folder. `arguments` choose its models, if it must be started."""

    folder: Path
    arguments: Sequence[str]
    http: httpx2.AsyncClient
    _starting: anyio.Lock = field(default_factory=anyio.Lock)

    async def find(self) -> str:
        """Return the address of the running service; start one if there is none."""
        async with self._starting:
            ends_at, process = time.monotonic() + START_SECONDS, None
            while time.monotonic() < ends_at:
                if (address := await self._running()) is not None:
                    return address
                if not self._is_locked() and process is None:
                    process = await anyio.to_thread.run_sync(self._start)
                elif process is not None and process.poll() is not None and not self._is_locked():
                    raise ConfigurationError(f"the document service did not start: {self._last_words()}")
                await anyio.sleep(PAUSE_SECONDS)
        raise ConfigurationError(f"the document service of {self.folder} does not answer: see its {LOG_NAME}")

    async def stay(self) -> None:
        """Keep the service from ending while this host is connected."""
        while True:
            await anyio.sleep(BEAT_SECONDS)
            await self._running()

    def _is_locked(self) -> bool:
        """Return whether a service holds the folder; its address file may be from an earlier one."""
        return locks.is_locked(self.folder / LOCK_NAME)

    async def _running(self) -> str | None:
        if not self._is_locked():
            return None
        try:
            address = str(json.loads((self.folder / ADDRESS_NAME).read_text("utf-8"))["address"])
            answer = await self.http.get(address + LIVE, timeout=5.0)
        except (OSError, ValueError, LookupError, TypeError, httpx2.HTTPError):
            return None
        return address if answer.status_code in (200, 503) else None

    def _start(self) -> subprocess.Popen[bytes]:
        make_folder(self.folder)
        own = ["--runs", str(self.folder), "--port", "0", "--end-when-idle", str(IDLE_SECONDS)]
        command = [sys.executable, "-m", "interleave", "serve", "documents", *own, *self.arguments]
        with private_files(), (self.folder / LOG_NAME).open("wb") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _last_words(self) -> str:
        try:
            said = (self.folder / LOG_NAME).read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            said = []
        return one_line(said[-1], 500) if said else f"see its {LOG_NAME}"
