"""Liveness and readiness of a service or a worker, with the reasons.

Live: the event loop answers, and no background loop is dead or stuck. Otherwise only a restart helps. Ready:
new work can be taken. A process whose models load or whose database is away is live, but not ready.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from interleave.service.documents.job_table import JobTable
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.supervision import Supervision

CHECK_SECONDS = 1.0
JOB_TABLE = "the job table"
FOLDER = "the folder of runs"


class TimedCheck:
    """A check that must finish within a second. While one hangs, no second one is started."""

    def __init__(self, name: str, work: Callable[[], Awaitable[object]], seconds: float) -> None:
        self.name = name
        self.work = work
        self.seconds = seconds
        self._running: asyncio.Future[object] | None = None

    async def problem(self) -> str | None:
        """Return what is wrong, without details of the system: probes need no key."""
        if self._running is None:
            self._running = asyncio.ensure_future(self.work())
        done, _ = await asyncio.wait({self._running}, timeout=self.seconds)
        if not done:
            return f"{self.name} does not answer within {self.seconds:g} s"
        finished, self._running = self._running, None
        failed = finished.cancelled() or finished.exception() is not None
        return f"{self.name} cannot be used" if failed else None


class Health:
    """Liveness and readiness of a process."""

    def __init__(
        self,
        supervision: Supervision,
        model_cache: ModelCache,
        jobs: JobTable,
        folder: Path,
        *,
        is_draining: Callable[[], bool],
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self.supervision = supervision
        self.model_cache = model_cache
        self.is_draining = is_draining
        self._checks = (
            TimedCheck(JOB_TABLE, lambda: jobs.get("a job that does not exist"), check_seconds),
            TimedCheck(FOLDER, lambda: asyncio.to_thread(write_and_remove, folder), check_seconds),
        )

    def live(self) -> dict[str, Any]:
        """Return whether the process works, with its background loops."""
        problems = self.supervision.problems
        loops = {
            loop.name: {"seconds": round(loop.age, 3), "max_seconds": loop.max_age}
            for loop in list(self.supervision.loops.values())
        }
        return {"status": "failing" if problems else "live", "reasons": problems, "loops": loops}

    async def ready(self) -> dict[str, Any]:
        """Return whether new work can be taken."""
        reasons = ["it is shutting down"] if self.is_draining() else []
        if self.model_cache.state != "ready":
            reasons.append(f"models: {self.model_cache.state}")
        problems = await asyncio.gather(*(check.problem() for check in self._checks))
        reasons += [problem for problem in problems if problem is not None]
        return {"status": "not ready" if reasons else "ready", "reasons": reasons}


def status_of(health: dict[str, Any]) -> int:
    """Return the HTTP status of an answer of `live` or `ready`."""
    return 503 if health["reasons"] else 200


def write_and_remove(folder: Path) -> None:
    """Raise `OSError` unless files can be made in the folder."""
    path = folder / f".ready.{secrets.token_hex(6)}.tmp"
    path.write_bytes(b"ready")
    path.unlink()
