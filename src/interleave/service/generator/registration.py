"""Registration of a server in a file of addresses that clients and balancers read.

Its line is present while the server is ready. The file may be on a shared folder, with servers on many
machines: each changes only its line, under a lock. A killed server leaves its line behind; clients detect
that by its `/health`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from interleave import ConfigurationError, InterleaveError, StorageError
from interleave.plugin import folder_lock, read_text, write_atomic

log = logging.getLogger("interleave.service")
POLL_SECONDS = 0.2
WILDCARDS = ("0.0.0.0", "::", "")


def own_address(listening: str, host: str, given: str | None) -> str:
    """Return the address at which other machines reach the server."""
    if given is not None:
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ConfigurationError(f"--address {given}: write it as http://10.0.0.7:8011")
        return given.rstrip("/")
    if host not in WILDCARDS:
        return listening
    return f"http://{_address_of_this_machine()}:{urlsplit(listening).port}"


def _address_of_this_machine() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):
        sock.connect(("10.255.255.255", 1))  # sends nothing, but selects the outgoing address
        return str(sock.getsockname()[0])
    return socket.gethostname()


def change_line(path: Path, url: str, *, present: bool) -> None:
    """Add `url` to the file or remove it, leaving all other lines unchanged."""
    with folder_lock(path.absolute().parent, f".{path.name}.lock"):
        try:
            lines = read_text(path).splitlines()
        except FileNotFoundError:
            lines = []
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"{path} cannot be read ({error}): it must be a text file") from None
        others = [line for line in lines if line.partition("#")[0].strip().rstrip("/") != url]
        wanted = [*others, url] if present else others
        if wanted != lines:
            write_atomic(path, "".join(f"{line}\n" for line in wanted).encode())


class Registration:
    """The line of a server: added when it becomes ready, removed before it stops."""

    def __init__(self, path: Path, url: str, ready: Callable[[], bool]) -> None:
        self.path = path
        self.url = url
        self._ready = ready
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._track_readiness())

    async def stop(self) -> None:
        """Remove the line. Clients stop sending requests once they have read the file again."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            await self._set(False)

    async def _track_readiness(self) -> None:
        present: bool | None = None
        while True:
            if (ready := self._ready()) != present and await self._set(ready):
                present = ready
            await asyncio.sleep(POLL_SECONDS)

    async def _set(self, present: bool) -> bool:
        try:
            await asyncio.to_thread(change_line, self.path, self.url, present=present)
        except InterleaveError as error:
            log.error("%s cannot be changed: %s", self.path, error)
            return False
        log.info("%s %s %s", self.url, "is in" if present else "is no longer in", self.path)
        return True
