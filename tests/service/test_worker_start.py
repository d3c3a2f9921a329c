"""A worker that is stopped while its process is being started."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from interleave.service.generator.worker_process import Worker


def test_a_process_that_has_just_begun_is_ended_with_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(_stop_while_starting(monkeypatch))


async def _stop_while_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun = asyncio.create_subprocess_exec, asyncio.Event()
    processes: list[asyncio.subprocess.Process] = []

    async def started(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        processes.append(await start(*words, **options))
        begun.set()
        await asyncio.sleep(0)  # the process runs, and nobody has it yet
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    running = asyncio.create_task(Worker(1, None, "solid", Mock()).keep_running())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [process.returncode is None for process in processes] == [False]
