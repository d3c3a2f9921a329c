"""ComfyUI as it really behaves: its queue, its errors, its restarts, and the workflows of its templates."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loopback as wire
from clocks import SkippingLoop, run_skipping
from interleave.backends.protocols import ImageRequest, listening
from interleave.backends.registry import load_generator
from interleave.backends.retries import RetriedGenerator
from interleave.errors import BackendError, Failure
from interleave.remote import comfyui
from interleave.remote.comfyui_workflow import read_workflow
from interleave.types import Slot
from loopback import Loopback

WORKFLOWS = Path(__file__).parent / "workflows"
CAT = ImageRequest("a cat", 7)


def draw(loopback: Loopback, options: str = "") -> Any:
    return asyncio.run(load_generator(f"comfyui:./text.json@{loopback.url}{options}").generate(CAT))


def error_of(loopback: Loopback) -> BackendError:
    with pytest.raises(BackendError) as raised:
        draw(loopback)
    return raised.value


@pytest.mark.parametrize("retried", [False, True], ids=["one try", "under the retry policy"])
def test_time_in_its_queue_does_not_count(
    retried: bool, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    loopback.looks_in_queue = 5
    loop = SkippingLoop()

    def pauses() -> Iterator[float]:
        while True:
            loop.ahead += 1000
            yield 0.0

    monkeypatch.setattr(comfyui, "_pauses", pauses)
    generator = load_generator(f"comfyui:./text.json@{loopback.url}?timeout=300")
    used = RetriedGenerator("it", generator) if retried else generator
    assert run_skipping(loop, used.generate(CAT)).size == (wire.SIDE, wire.SIDE)
    assert loop.ahead == 5000


def test_it_is_given_two_workflows_at_a_time() -> None:
    Path("text.json").write_text(json.dumps(wire.WORKFLOW))
    assert load_generator("comfyui:./text.json@http://127.0.0.1:1").capabilities.concurrency == 2
    assert (
        load_generator("comfyui:./text.json@http://127.0.0.1:1?concurrency=5").capabilities.concurrency == 5
    )


def test_what_is_wrong_with_a_node_is_said(loopback: Loopback) -> None:
    error = {
        "type": "value_not_in_list",
        "message": "Value not in list",
        "details": "ckpt_name: 'flux.safetensors' not in ['other.safetensors']",
        "extra_info": {"input_name": "ckpt_name"},
    }
    node = {"errors": [error], "dependent_outputs": ["9"], "class_type": "CheckpointLoaderSimple"}
    told = {
        "error": {
            "type": "prompt_outputs_failed_validation",
            "message": "Prompt outputs failed validation",
            "details": "",
            "extra_info": {},
        },
        "node_errors": {"4": node},
    }
    loopback.fails_with(wire.status(400, told))
    error_seen = error_of(loopback)
    assert "node 4 (CheckpointLoaderSimple): Value not in list: ckpt_name: 'flux" in str(error_seen)
    assert not error_seen.transient


@pytest.mark.parametrize("odd", [[], 5, {"4": 5}, {"4": {"errors": 5}}, {"4": {"errors": [5]}}], ids=str)
def test_odd_node_errors_are_not_said(odd: Any, loopback: Loopback) -> None:
    told = {"error": {"type": "x", "message": "Prompt has no outputs"}, "node_errors": odd}
    loopback.fails_with(wire.status(400, told))
    assert "Prompt has no outputs" in str(error_of(loopback))


def test_a_workflow_cancelled_in_its_window_is_not_tried_again(loopback: Loopback) -> None:
    loopback.mood = "cancelled job"
    error = error_of(loopback)
    assert "was cancelled on the server" in str(error)
    assert not error.transient


def test_an_image_whose_file_was_deleted_is_drawn_again(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)
    loopback.mood = "files deleted"
    generator = RetriedGenerator("it", load_generator(f"comfyui:./text.json@{loopback.url}"))
    assert asyncio.run(generator.generate(CAT)).size == (wire.SIDE, wire.SIDE)
    assert len(loopback.of("/free")) == 1
    assert len(loopback.of("/prompt")) == 2


def test_a_restart_is_waited_for(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away for twenty looks, far more than a call is tried."""
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)
    monkeypatch.setattr(comfyui, "PROBE_SECONDS", 0.01)
    looks = 0

    def away(number: int, asked: wire.Asked) -> wire.Fault | None:
        nonlocal looks
        looks += asked.path == "/queue"
        return wire.reset if looks < 20 else None

    async def story() -> None:
        nonlocal looks
        generator = RetriedGenerator("it", load_generator(f"comfyui:./text.json@{loopback.url}"))
        await generator.generate(CAT)
        looks, loopback.fault = 0, away
        assert (await generator.generate(CAT)).size == (wire.SIDE, wire.SIDE)

    asyncio.run(story())
    assert looks >= 20


def test_a_wrong_address_is_not_waited_for(loopback: Loopback) -> None:
    loopback.fault = lambda number, asked: wire.reset
    assert error_of(loopback).kind is Failure.UNREACHABLE


def node(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


def link(to: int) -> list[Any]:
    return [str(to), 0]


REDUX = {
    "6": node("CLIPTextEncode", text="a cat", clip=link(11)),
    "22": node("BasicGuider", model=link(30), conditioning=link(41)),
    "25": node("RandomNoise", noise_seed=5),
    "26": node("FluxGuidance", guidance=3.5, conditioning=link(6)),
    "39": node("CLIPVisionEncode", clip_vision=link(38), image=link(40), crop="center"),
    "41": node("StyleModelApply", conditioning=link(26), style_model=link(42), clip_vision_output=link(39)),
}
ZEROED = {
    "3": node("KSampler", seed=5, positive=link(6), negative=link(33)),
    "6": node("CLIPTextEncode", text="a cat", clip=link(11)),
    "33": node("ConditioningZeroOut", conditioning=link(6)),
}


@pytest.mark.parametrize(
    ("graph", "seed"),
    [(REDUX, "25"), (ZEROED, "3")],
    ids=["Redux", "no negative prompt"],
)
def test_the_prompt_of_a_template_is_found(graph: dict[str, Any], seed: str, tmp_path: Path) -> None:
    (tmp_path / "template.json").write_text(json.dumps(graph))
    workflow = read_workflow(str(tmp_path / "template.json"), {}, None)
    assert workflow.prompts == (("6", "text"),)
    assert [place for place, _ in workflow.seeds] == [seed]


@pytest.mark.parametrize(
    ("name", "prompt", "loaders"), [("flux2", "4", ("10", "20")), ("omnigen2", "5", ("10",))]
)
def test_a_whole_workflow_is_filled_in(name: str, prompt: str, loaders: tuple[str, ...]) -> None:
    workflow = read_workflow(str(WORKFLOWS / f"{name}.json"), {}, None)
    assert workflow.prompts == ((prompt, "text"),)
    assert workflow.seeds == (("40", "noise_seed"),)
    assert workflow.loaders == loaders
    before, filled = workflow.graph, workflow.filled("a dog", 99, ["a.png", "b.png"])
    changed = {node: filled[node]["inputs"] for node in filled if filled[node] != before[node]}
    names = dict(zip(loaders, ("a.png", "b.png"), strict=False))
    assert changed.pop(prompt)["text"] == "a dog"
    assert changed.pop("40")["noise_seed"] == 99
    assert {node: inputs["image"] for node, inputs in changed.items()} == names


def told(event: dict[str, Any]) -> bytes:
    """A text message of a websocket, as a server sends it."""
    data = json.dumps(event).encode()
    return bytes([0x81, 126]) + len(data).to_bytes(2) + data


def progress_of(value: object, most: object) -> dict[str, Any]:
    return {"type": "progress", "data": {"value": value, "max": most, "prompt_id": "job-1", "node": "3"}}


def test_the_steps_of_an_image_are_reported(loopback: Loopback) -> None:
    events = [{"type": "status", "data": {}}, progress_of(1, 4), progress_of("x", 4), progress_of(4, 4)]
    heard = threading.Event()
    loopback.free.clear()  # ComfyUI answers nothing else before the steps have been heard

    async def websocket(exchange: wire.Exchange) -> None:
        guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        key = hashlib.sha1((exchange.asked.headers["sec-websocket-key"] + guid).encode()).digest()
        accept = base64.b64encode(key).decode()
        head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        exchange.writer.write(f"{head}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        exchange.writer.write(b"".join(map(told, events)))
        await exchange.reader.read()

    loopback.fault = lambda number, asked: websocket if asked.path == "/ws" else None
    seen: list[tuple[int, int, int]] = []

    def listener(slot: Slot, done: int, total: int) -> None:
        seen.append((slot.step, done, total))
        if done == total:
            heard.set()
            loopback.free.set()

    generator = load_generator(f"comfyui:./text.json@{loopback.url}")
    with listening(listener):
        asyncio.run(generator.generate(ImageRequest("a cat", 7, slot=Slot(step=2))))
    assert heard.is_set()
    assert seen == [(2, 1, 4), (2, 4, 4)]
    (asked,), (queued,) = loopback.of("/ws"), loopback.of("/prompt")
    assert asked.query["clientId"] == queued.json["client_id"]


@pytest.mark.parametrize(
    "fault", [wire.reset, wire.status(404), wire.status(403)], ids=["reset", "404", "403"]
)
def test_an_image_is_drawn_without_its_progress(fault: wire.Fault, loopback: Loopback) -> None:
    loopback.fault = lambda number, asked: fault if asked.path == "/ws" else None
    with listening(lambda slot, done, total: None):
        assert draw(loopback).size == (wire.SIDE, wire.SIDE)


def test_nobody_listening_means_no_websocket(loopback: Loopback) -> None:
    draw(loopback)
    assert not loopback.of("/ws")


def test_a_seed_that_is_linked_is_set_where_it_comes_from(tmp_path: Path) -> None:
    graph = {
        "1": node("KSampler", seed=link(50), positive=link(6)),
        "2": node("KSampler", seed=link(50), positive=link(6)),
        "6": node("CLIPTextEncode", text="a cat"),
        "50": node("PrimitiveInt", value=4, control_after_generate="randomize"),
    }
    (tmp_path / "linked.json").write_text(json.dumps(graph))
    workflow = read_workflow(str(tmp_path / "linked.json"), {}, None)
    assert workflow.seeds == (("50", "value"),)
    assert workflow.filled("a dog", 99, ())["50"]["inputs"]["value"] == 99


def test_a_seed_that_cannot_be_set_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = {
        "1": node("KSampler", seed=link(50), positive=link(6)),
        "6": node("CLIPTextEncode", text="a cat"),
        "50": node("SomeDice", sides=link(1)),
    }
    (tmp_path / "dice.json").write_text(json.dumps(graph))
    with caplog.at_level(logging.WARNING):
        assert read_workflow(str(tmp_path / "dice.json"), {}, None).seeds == ()
    assert "the seed 1.seed" in caplog.text
    assert "?seed=NODE.INPUT" in caplog.text
