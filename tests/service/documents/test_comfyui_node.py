"""ComfyUI's node without ComfyUI: what it asks the service for, and what it makes of the answers."""

from __future__ import annotations

import importlib.util
import math
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image
from running import HeldGenerator, Service, service

from interleave.service.documents.keys import FILE_NAME, add_key

FILE = Path(__file__).parents[3] / "integrations" / "comfyui" / "interleave_thinker.py"
FROG = "How a frog grows up, in three pictures"


@pytest.fixture(scope="module")
def node() -> ModuleType:
    spec = importlib.util.spec_from_file_location("interleave_comfyui_node", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class Told:
    """What the node showed while the document was made."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, bool]] = []

    def __call__(self, done: int, total: int, image: Image.Image | None) -> None:
        self.steps.append((done, total, image is not None))


def carry_on() -> None:
    """ComfyUI was not told to stop."""


def made(node: ModuleType, address: str, request: str = FROG, **more: Any) -> tuple[Any, Told]:
    told = Told()
    return node.make_document(node.Service(address), node.Asked(request, **more), told, carry_on), told


@contextmanager
def cutting_proxy(target: str, cuts: list[int]) -> Iterator[str]:
    """Passes connections on to a service; each of the first ones is cut after so many bytes of its answer."""
    host, _, port = target.removeprefix("http://").partition(":")
    listening = socket.create_server(("127.0.0.1", 0))
    left = iter(cuts)

    def passed(client: socket.socket) -> None:
        allowed = next(left, 1 << 60)
        with client, socket.create_connection((host, int(port))) as server:
            threading.Thread(target=copied, args=(client, server), daemon=True).start()
            with suppress(OSError):  # the client hung up
                while allowed > 0 and (data := server.recv(min(allowed, 65536))):
                    client.sendall(data)
                    allowed -= len(data)
                client.shutdown(socket.SHUT_RDWR)  # closing alone tells nobody while another thread reads

    def copied(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=passed, args=(client,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def test_a_document_is_made_with_its_images_in_order(node: ModuleType, running: Service) -> None:
    document, told = made(node, running.url, seed=7)
    facts = running.http.get(f"/v1/documents/{document.id}").json()
    assert facts["seed"] == 7 and document.cut_short == ""
    assert list(document.captions) == [step["text"] for step in facts["steps"]]
    assert [image.size for image in document.images] == [(64, 64)] * 3
    for step, image in zip(facts["steps"], document.images, strict=True):
        assert f"({running.url}{step['picture']})" in document.text
        assert step["text"] in document.text.replace("\\", "")
        stored = running.http.get(step["picture"]).content
        assert image.tobytes() == node._image(node.base64.b64encode(stored)).tobytes()
    assert document.link == f"{running.url}/#/d/{document.id}"
    done = [each[0] for each in told.steps]
    assert done == sorted(done) and told.steps[-1] == (3, 3, True)
    assert told.steps[0] == (0, 3, False)
    assert {total for _, total, _ in told.steps} == {3}
    assert len(told.steps) == 1 + 4 + 3  # the start, every attempt (one step has two), every final image


def test_images_and_settings_are_sent(node: ModuleType, running: Service) -> None:
    import torch

    batch = torch.stack([torch.zeros(8, 8, 3), torch.ones(8, 8, 3)])
    given = node.images_of(batch)
    document, _ = made(node, running.url, images=given, max_attempts=1, model="interleave")
    items = running.http.get(f"/v1/responses/{document.id}/input_items?order=asc").json()["data"]
    parts = [part for item in items for part in item.get("content", [])]
    assert [part["type"] for part in parts] == ["input_image", "input_image", "input_text"]
    assert (
        max(
            len(step["attempts"]) for step in running.http.get(f"/v1/documents/{document.id}").json()["steps"]
        )
        == 1
    )
    assert len(document.images) == 3


def test_the_greatest_seeds_of_comfyui_are_taken(node: ModuleType, running: Service) -> None:
    document, _ = made(node, running.url, "A hen, in one picture", seed=2**64 - 1)
    assert running.http.get(f"/v1/documents/{document.id}").json()["seed"] == 2**63 - 1


def test_a_stream_that_is_cut_goes_on_where_it_was(
    node: ModuleType, running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "PAUSES", (0.01,))
    # The submission is whole; then the stream is cut in its head, in an event, and between images.
    with cutting_proxy(running.url, [1 << 60, 20, 3000, 0, 9000, 20000]) as address:
        events = node.Events(node.Service(address), node.Service(address).submit(node.Asked(FROG), carry_on))
        seen = [event["sequence_number"] for event in events.until_final(carry_on)]
    assert seen == list(range(len(seen))) and len(seen) > 20


def test_an_answer_that_is_lost_is_asked_for_again_and_is_one_job(
    node: ModuleType, running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "PAUSES", (0.01,) * 5)
    before = len(running.http.get("/v1/documents?limit=100").json()["data"])
    with cutting_proxy(running.url, [10, 10]) as address:
        document, _ = made(node, address, "A fish, in one picture")
    assert len(document.images) == 1
    assert len(running.http.get("/v1/documents?limit=100").json()["data"]) == before + 1


def test_a_service_that_is_gone_for_good_is_said_with_the_document(
    node: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "PAUSES", (0.01,))
    monkeypatch.setattr(node, "TRIES", 3)
    with service(tmp_path, generator=HeldGenerator(0)) as held:
        with (
            cutting_proxy(held.url, [1 << 60] + [0] * 9) as address,
            pytest.raises(
                node.DocumentError, match=r"can no longer be reached .* service continues it: .*#/d/resp_"
            ),
        ):
            made(node, address)
        held.generator.free = 1000


def test_an_interruption_cancels_the_job(node: ModuleType, tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    with service(tmp_path, generator=HeldGenerator(1)) as held:
        told = Told()

        def check() -> None:
            if told.steps and told.steps[-1][0] == 1:  # the first image is there, the second is held
                raise Interrupted

        with pytest.raises(Interrupted):
            node.make_document(node.Service(held.url), node.Asked(FROG), told, check)
        (job,) = held.http.get("/v1/documents").json()["data"]
        held.generator.free = 1000
        assert held.http.get(f"/v1/documents/{job['id']}").json()["cancelling"]


def test_a_document_that_somebody_else_cancels_is_an_error(node: ModuleType, tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(0)) as held:
        asked = node.Service(held.url)
        told: list[Any] = []

        def progress(*step: Any) -> None:
            if not told:
                asked.cancel(held.http.get("/v1/documents").json()["data"][0]["id"])
            told.append(step)

        with pytest.raises(node.DocumentError, match="cancelled in the service"):
            node.make_document(asked, node.Asked(FROG), progress, carry_on)


def test_no_service_says_how_to_start_one(node: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(
        node.DocumentError, match=r"(?s)no document service responds at .*interleave serve documents"
    ):
        made(node, f"http://127.0.0.1:{free}")


def test_a_refusal_is_said_in_the_services_words(node: ModuleType, running: Service) -> None:
    with pytest.raises(node.DocumentError, match="no model 'nothing'; this service has interleave"):
        made(node, running.url, model="nothing")
    with pytest.raises(node.DocumentError, match="rejected the request: "):
        made(node, running.url, "  ")


def test_the_key_comes_from_the_environment(
    node: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(node.KEY_VARIABLE, raising=False)
    _, secret = add_key(tmp_path / FILE_NAME, "comfy")
    with service(tmp_path) as locked:
        with pytest.raises(
            node.DocumentError, match=f"Set {node.KEY_VARIABLE} in the environment of ComfyUI"
        ):
            made(node, locked.url)
        monkeypatch.setenv(node.KEY_VARIABLE, secret)
        document, _ = made(node, locked.url, "A hen, in one picture")
        assert len(document.images) == 1
    fields = node.InterleaveDocument.INPUT_TYPES()
    assert not [name for kind in fields.values() for name in kind if "key" in name]


def test_the_key_goes_to_no_address_that_only_a_workflow_names(
    node: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(node.KEY_VARIABLE, "ilk-secret")
    monkeypatch.setenv(node.SERVICE_VARIABLE, "https://documents.example.com/")
    assert node.key_for("https://documents.example.com") == "ilk-secret"
    assert node.key_for("http://localhost:8020") == "ilk-secret"
    for other in ("http://documents.example.com", "https://documents.example.com:444", "https://example.org"):
        assert node.key_for(other) == ""
    assert node.key_for(node.service_address("http://127.0.0.1.example.org")) == ""


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("", "http://127.0.0.1:8020"),
        ("127.0.0.1:8020", "http://127.0.0.1:8020"),
        (" http://10.0.0.5:8020/v1/ ", "http://10.0.0.5:8020"),
        ("https://example.com/documents/", "https://example.com/documents"),
        ("http://[::1]:8020", "http://[::1]:8020"),
    ],
)
def test_addresses_as_people_write_them(
    node: ModuleType, given: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(node.SERVICE_VARIABLE, raising=False)
    assert node.service_address(given) == address
    assert node.InterleaveDocument.VALIDATE_INPUTS(given) is True


@pytest.mark.parametrize(
    "given", ["file:///etc/passwd", "http://", "http://a:b@c", "http://a:99999999", "http://a/?b"]
)
def test_what_is_no_address_is_said_before_anything_runs(node: ModuleType, given: str) -> None:
    assert "is not an address such as" in node.InterleaveDocument.VALIDATE_INPUTS(given)


def test_images_of_different_sizes_are_one_batch(node: ModuleType) -> None:
    wide, high = Image.new("RGB", (6, 2), "red"), Image.new("RGB", (2, 4), "blue")
    batch = node.tensor_of((wide, high))
    assert tuple(batch.shape) == (2, 4, 6, 3)
    assert batch[0, 0, 0].tolist() == [1, 1, 1] and batch[0, 1, 0].tolist() == [1, 0, 0]
    assert batch[1, 0, 2].tolist() == [0, 0, 1] and batch[1, 0, 1].tolist() == [1, 1, 1]
    again = node.images_of(batch[:1])[0]
    assert again.size == (6, 4) and again.getpixel((0, 1)) == (255, 0, 0)
    assert tuple(node.tensor_of((high,)).shape) == (1, 4, 2, 3)


def test_a_document_is_made_again_only_where_it_was_not_complete(node: ModuleType) -> None:
    fields = {"request": FROG, "seed": 1, "max_attempts": 0, "service": "", "model": ""}
    assert node.InterleaveDocument.IS_CHANGED(**fields) == ""
    node._cut_short.add(node._digest(fields))
    assert math.isnan(node.InterleaveDocument.IS_CHANGED(**fields, images=None))
