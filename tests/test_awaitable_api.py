"""The awaitable functions: in a running event loop, several at once, cancelled at any point, continued."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from PIL import Image

import interleave
from interleave import api
from interleave.runs.models import Models
from interleave.runs.resolve import load_models

REQUEST = "A frog in 2 pictures"
SMALL = "solid?size=64"


class Gate:
    """Draws its first image, and holds every later one until it is opened."""

    capabilities = interleave.GeneratorCapabilities()

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = 0

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        if request.slot.step > 1:
            self.held.set()
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return Image.new("RGB", (32, 32), (request.seed % 256, 0, 0))


def test_it_ends_as_generate_does() -> None:
    result = asyncio.run(interleave.agenerate(REQUEST, out="a", generator=SMALL))
    assert result.status == "done" and result.document.exists()
    interleave.generate(REQUEST, out="b", generator=SMALL)
    assert interleave.comparable("a") == interleave.comparable("b")


def test_the_loop_goes_on_while_models_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook or a server, whose other tasks must not wait for minutes."""
    turns = threading.Event()

    def slow(*given: object) -> Models:
        assert turns.wait(60), "the event loop stood still"
        return load_models(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "load_models", slow)

    async def both() -> None:
        making = asyncio.create_task(interleave.agenerate(REQUEST, out="run", generator=SMALL))
        many = asyncio.create_task(interleave.agenerate_many([REQUEST], out="many", generator=SMALL))
        await asyncio.sleep(0.01)
        turns.set()
        assert (await making).status == "done"
        assert (await many).done == 1

    asyncio.run(both())


def test_a_cancelled_run_cancels_its_call_and_can_be_continued_at_once() -> None:
    async def work() -> None:
        gate = Gate()
        task = asyncio.create_task(interleave.agenerate(REQUEST, out="run", generator=gate))
        await gate.held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.cancelled == 1
        record = interleave.read_record("run")
        assert (record.status, record.calls.generator) == ("interrupted", 2)
        gate.open.set()
        again = await interleave.agenerate(REQUEST, out="run", generator=gate)
        assert again.status == "done"

    asyncio.run(work())


def test_cancelled_while_models_are_loaded_it_releases_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    loading, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(*given: object) -> Models:
        loading.set()
        go_on.wait(60)
        return load_models(*given)  # type: ignore[arg-type]

    close = api.Run.close
    monkeypatch.setattr(api.Run, "close", lambda self: (close(self), ended.set()))
    monkeypatch.setattr(api, "load_models", slow)

    async def work() -> None:
        task = asyncio.create_task(interleave.agenerate(REQUEST, out="run", generator=SMALL))
        await asyncio.to_thread(loading.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    go_on.set()
    assert ended.wait(60)
    assert interleave.read_record("run").status == "interrupted"
    assert interleave.resume("run").status == "done"


def test_a_failure_is_raised_and_the_run_can_be_awaited_again() -> None:
    Path("c").write_text('{"text": "{\\"success\\": true}"}\n')
    with pytest.raises(interleave.BackendError, match="past its end"):
        asyncio.run(interleave.agenerate(REQUEST, out="run", generator=SMALL, critic="scripted:./c"))
    Path("c").write_text(Path("c").read_text() * 9)
    assert asyncio.run(interleave.aresume("run")).status == "done"


def test_the_events_of_a_continued_run_begin_with_what_it_has() -> None:
    short = interleave.generate(REQUEST, out="run", generator=SMALL, max_calls=3)
    assert short.status == "short"

    async def events() -> list[str]:
        return [type(event).__name__ async for event in interleave.stream_resume("run")]

    attempt = ["Drawn", "Judged"]
    assert asyncio.run(events()) == [
        *("Planned", *attempt, "StepFinished", *attempt, *attempt, "StepFinished", "RunResult")
    ]


def test_a_folder_gets_no_key_from_aresume_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "a-key-that-nobody-gets")
    planner = "openai:m@http://127.0.0.1:1/v1?key=MY_KEY"
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)
    with pytest.raises(interleave.BackendError):
        interleave.generate(REQUEST, out="run", planner=planner, generator=SMALL)
    with pytest.raises(interleave.RunError, match="needs your permission"):
        asyncio.run(interleave.aresume("run"))
