"""The document service and the generator server with the miniature on onnxruntime."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from running import Service, service
from serving import Server, coded, make_image, png

from interleave.backends.protocols import listening
from interleave.local.batching import device_executor
from interleave.runs.resolve import Choices
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.world.drawing import draw

TASK = shipped_tasks("edit", 1, seed=3)[0]
STEP = TASK.steps[0]
FAST = "mini?runtime=onnx&steps=1&size=64"


@pytest.fixture(scope="module")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    chosen = Choices(profile="mini", generator=FAST, max_attempts=1)
    with service(tmp_path_factory.mktemp("miniature"), chosen=chosen) as started:
        yield started


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("generator"), "--generator", f"{FAST}&batch=4")
    yield running
    assert running.stop() == 0


def stored(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def asked(text: str, upload: bytes) -> dict[str, Any]:
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{coded(upload)}"}
    return {"input": [{"role": "user", "content": [shown, {"type": "input_text", "text": text}]}]}


def test_an_upload_that_is_not_square_is_edited(miniature: Service) -> None:
    assert STEP.before is not None
    upload = stored(draw(STEP.before).resize((320, 200)))
    answer = miniature.http.post("/v1/responses", json=asked(TASK.text, upload)).json()
    assert answer["status"] == "completed"
    drawn = [item for item in answer["output"] if item["type"] == "image_generation_call"]
    assert [make_image(item["result"]).size for item in drawn] == [(64, 64)]


@pytest.mark.parametrize(
    ("upload", "why"),
    [
        (b"GIF89a and no more", "not a PNG, JPEG or WebP image"),
        (png()[:60], "damaged or cut off"),
        (stored(Image.effect_noise((200, 100), 90)), "not of the miniature's world"),
    ],
    ids=["no image", "cut off", "of another world"],
)
def test_bad_uploads_are_refused_before_a_model_runs(miniature: Service, upload: bytes, why: str) -> None:
    answer = miniature.http.post("/v1/responses", json=asked("Remove the apple.", upload))
    assert answer.status_code == 400
    assert why in answer.json()["error"]["message"]


def test_a_cancelled_document_gives_the_device_back_after_the_step_in_progress(tmp_path: Path) -> None:
    chosen = Choices(profile="dry-run", generator="mini?runtime=onnx&steps=1000&size=64")
    seen: list[int] = []
    with service(tmp_path, chosen=chosen) as slow, listening(lambda slot, done, total: seen.append(done)):
        body = {"input": "A frog in 1 picture", "background": True}
        id_ = slow.http.post("/v1/responses", json=body).json()["id"]
        slow.until(lambda: seen)
        assert slow.http.post(f"/v1/responses/{id_}/cancel").json()["status"] == "cancelled"
        device_executor("cpu").submit(int).result(timeout=60)
        assert 0 < max(seen) < 1000


@pytest.mark.slow
def test_the_generator_server_draws_in_batches_by_seed_and_size(generator: Server) -> None:
    def image(seed: int, **more: Any) -> np.ndarray[Any, Any]:
        answer = generator.draw("a red apple", seed=seed, **more)
        assert answer.status_code == 200, answer.text
        return np.asarray(make_image(answer.json()["image"]), int)

    with ThreadPoolExecutor(4) as clients:
        together = list(clients.map(image, (1, 2, 1, 3)))
    assert np.abs(together[0] - together[2]).max() <= 2 < np.abs(together[0] - together[1]).max()
    assert np.abs(together[3] - image(3)).max() <= 2
    assert image(1, width=128, height=96).shape == (96, 128, 3)


@pytest.mark.slow
def test_the_generator_server_takes_sources_of_any_shape_and_refuses_bad_ones(generator: Server) -> None:
    def edited(upload: bytes, **more: Any) -> Any:
        body = {"image": coded(upload), "prompt": "Remove the apple.", "seed": 1, **more}
        return generator.client.post("/edit", json=body)

    for size in ((300, 90), (31, 64), (64, 64)):
        assert make_image(edited(png(size=size)).json()["edited_image"]).size == (64, 64)
    for refused in (edited(b"no image"), edited(png()[:60]), edited(png(), width=65, height=64)):
        assert refused.status_code in (400, 422), refused.text
    assert generator.client.get("/health").status_code == 200
