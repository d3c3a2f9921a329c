"""The tools of the MCP server, called by the SDK's own client at /mcp of a document service."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import anyio
import httpx2
import numpy as np
import pytest
from calling import call, id_in, images_in, impatient, kinds, shown_in, status_in, texts, with_client
from markdown_it import MarkdownIt
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from PIL import Image
from running import HeldGenerator, Service, service

from interleave.service.documents.keys import FILE_NAME, add_key
from interleave.service.mcp.results import IMAGE_BYTES, MAX_IMAGES, scaled_down

FOREIGN = "resp_" + "0" * 48


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_texts_and_images_come_in_order_with_links_and_progress(running: Service, mode: Any) -> None:
    said: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        said.append((progress, total, message))

    async def work(client: Client) -> Any:
        asked = {"request": "A frog in 3 pictures"}
        return await client.call_tool("make_document", asked, progress_callback=report)

    made = with_client(f"{running.url}/mcp", work, mode=mode)
    assert kinds(made) == ["text", *["text", "image"] * 3, *["resource_link"] * 4]
    assert [block.text.splitlines()[1] for block in made.content[1:7:2]] == [
        f"Part {number} of 3: A frog in 3 pictures" for number in (1, 2, 3)
    ]
    assert status_in(made) == "completed"
    assert made.structured_content is None, "hosts show it instead of the images"
    assert "base64" not in texts(made)
    assert [progress for progress, _, _ in said] == sorted(progress for progress, _, _ in said)
    assert said[0][2] == "planned 3 steps"
    assert said[-1] == (4.0, 4.0, "step 3 is finished")


def test_the_links_of_a_result_are_read_as_files(running: Service) -> None:
    made = call(running, "make_document", request="A frog in 1 picture")
    *_, image, page = made.content

    async def work(client: Client) -> Any:
        return await client.read_resource(image.uri), await client.read_resource(page.uri)

    png, html = with_client(f"{running.url}/mcp", work)
    assert png.contents[0].mime_type == "image/png"
    assert "<h1" in html.contents[0].text
    [(_, address)] = shown_in(made)
    assert running.http.get(address).headers["content-type"] == "image/png"


def test_each_step_has_a_markdown_image_that_survives_json_and_a_newline(running: Service) -> None:
    """Open WebUI gives the model a result as JSON; what it copies as it stands must still be the image."""
    request = 'A [frog](x) says "hop" \\ `and` <b>\nturns in 2 pictures'
    made = call(running, "make_document", request=request)
    alts = [alt for alt, _ in shown_in(made)]
    assert len(alts) == 2
    assert all("frog" in alt and "hop" in alt for alt in alts)
    copied = re.findall(r"!\[[^\]]*\]\([^)]*\)", json.dumps([block.text for block in made.content[1:4:2]]))
    tree = [child for token in MarkdownIt().parse("\n\n".join(copied)) for child in token.children or []]
    addresses = [token.attrs["src"] for token in tree if token.type == "image"]
    assert addresses == [address for _, address in shown_in(made)]
    for address in addresses:
        assert running.http.get(str(address)).headers["content-type"] == "image/png"


def test_a_held_plan_is_edited_and_released(running: Service) -> None:
    held = call(running, "plan_document", request="A pond in 2 pictures")
    assert status_in(held) == "held"
    assert "1. Part 1 of 2" in texts(held)
    steps = [
        {"number": 2, "caption": "The pond at night"},
        {"caption": "The end.", "prompt": "none"},
    ]
    made = call(running, "make_document", document=id_in(held), steps=steps)
    assert kinds(made)[:4] == ["text", "text", "image", "text"]
    assert "The pond at night" in made.content[1].text
    assert "The end." in made.content[3].text


def test_an_image_is_redrawn_chosen_and_undone(running: Service) -> None:
    made = call(running, "make_document", request="A lake in 2 pictures")
    id_ = id_in(made)
    redrawn = call(running, "redraw_step", document=id_, step=1, prompt="a red lake")
    assert status_in(redrawn) == "completed"
    attempts = call(running, "look_at_document", document=id_, step=1)
    assert "a red lake" in texts(attempts)
    assert "Attempt 1\n" in texts(attempts), texts(attempts)
    assert len(images_in(attempts)) == 2
    before = made.content[2].data
    chosen = call(running, "choose_attempt", document=id_, step=1, attempt=1)
    assert chosen.content[2].data == before != redrawn.content[2].data
    assert call(running, "undo_change", document=id_).content[2].data == redrawn.content[2].data


def test_words_are_edited_without_a_call_of_a_model(running: Service) -> None:
    id_ = id_in(call(running, "make_document", request="A hill in 3 pictures"))
    calls = len(running.generator.calls)
    edited = call(
        running,
        "edit_words",
        document=id_,
        title="My hill",
        steps=[{"step": 2, "text": "The hill in spring"}, {"step": 3, "hidden": True}],
        order=[2, 1],
    )
    assert not edited.is_error, texts(edited)
    assert [block.text.splitlines()[0] for block in edited.content if block.type == "text"][1:] == [
        "## Step 2: Part 2 of 3",
        "## Step 1: Part 1 of 3",
    ]
    assert "The hill in spring" in texts(edited)
    assert len(running.generator.calls) == calls
    assert texts(edited).startswith("# My hill")
    exported = call(running, "export_document", document=id_, format="epub")
    assert exported.content[1].name == "my-hill.epub"


def test_a_document_that_takes_long_is_asked_for_again(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as running:

        async def work(client: Client) -> Any:
            early = await client.call_tool("make_document", {"request": "A tree in 3 pictures"})
            running.generator.free = 100
            arguments: dict[str, Any] = {"document": id_in(early)}
            late = await client.call_tool("look_at_document", arguments)
            while status_in(late) != "completed":
                late = await client.call_tool("look_at_document", arguments)
            return early, late, await client.call_tool("look_at_document", {})

        early, late, listed = impatient(running, work)
    assert status_in(early) == "in_progress"
    assert "call look_at_document" in texts(early)
    assert len(images_in(early)) == 1
    assert len(images_in(late)) == 3
    assert id_in(early) in texts(listed)


def test_a_long_document_is_shown_in_parts(running: Service) -> None:
    made = call(running, "make_document", request=f"A road in {MAX_IMAGES + 3} pictures")
    assert len(images_in(made)) == MAX_IMAGES
    assert len(json.dumps(made.model_dump(mode="json"))) < 1_000_000
    assert f"first_step={MAX_IMAGES + 1}" in texts(made)
    rest = call(running, "look_at_document", document=id_in(made), first_step=MAX_IMAGES + 1)
    assert len(images_in(rest)) == 3


def test_images_of_results_are_small_whatever_they_show() -> None:
    noise = np.random.default_rng(7).integers(0, 256, (700, 900, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    small = scaled_down(buffer.getvalue())
    assert len(small) <= IMAGE_BYTES
    with Image.open(io.BytesIO(small)) as opened:
        assert max(opened.size) <= 512


def test_a_new_document_starts_from_an_image_of_another(running: Service) -> None:
    first = call(running, "make_document", request="A boat in 1 picture")
    [(alt, address)] = shown_in(first)
    for given in (address, f"![{alt}]({address})"):
        second = call(running, "make_document", request="Paint it red in 1 picture", images=[given])
        assert status_in(second) == "completed"
        assert len(running.generator.calls[-1].sources) == 1


HOSTILE: dict[str, tuple[str, dict[str, Any]]] = {
    "a path as a document": ("look_at_document", {"document": "../../etc/passwd"}),
    "an unknown id": ("look_at_document", {"document": FOREIGN}),
    "a path as an image": ("make_document", {"request": "A frog", "images": ["/etc/passwd"]}),
    "a file address": ("make_document", {"request": "A frog", "images": ["file:///etc/passwd"]}),
    "a foreign address": ("make_document", {"request": "A frog", "images": ["http://169.254.169.254/x.png"]}),
    "a forged address": (
        "make_document",
        {
            "request": "A frog",
            "images": [f"http://h/v1/pictures/{FOREIGN}/{'0' * 32}/{'0' * 64}.png"],
        },
    ),
    "an address with a path": (
        "make_document",
        {"request": "A frog", "images": ["/v1/pictures/../keys.json"]},
    ),
    "a huge image": (
        "make_document",
        {"request": "A frog", "images": ["data:image/png;base64," + "A" * 3_000_000]},
    ),
    "no image": ("make_document", {"request": "A frog", "images": ["data:image/png;base64,AAAA"]}),
    "a long request": ("make_document", {"request": "frog " * 10_000}),
    "an empty request": ("make_document", {"request": ""}),
    "nothing": ("make_document", {}),
    "two at once": ("make_document", {"request": "A frog", "document": FOREIGN}),
    "steps without a plan": ("make_document", {"request": "A frog", "steps": []}),
    "an unknown field": ("make_document", {"request": "A frog", "assets": [{"name": "a", "path": "/etc"}]}),
    "a foreign predecessor": ("make_document", {"request": "A frog", "continues": FOREIGN}),
    "many attempts": ("make_document", {"request": "A frog", "max_attempts": 10_000}),
    "a negative step": ("redraw_step", {"document": FOREIGN, "step": -1}),
    "a path as a format": ("export_document", {"document": FOREIGN, "format": "../keys.json"}),
    "an unknown layout": ("export_document", {"document": FOREIGN, "format": "pdf", "layout": "../x"}),
    "no change": ("edit_words", {"document": FOREIGN}),
    "a foreign release": ("make_document", {"document": FOREIGN}),
    "a foreign stop": ("stop_document", {"document": FOREIGN}),
}


def test_hostile_arguments_are_refused_before_anything_is_made(running: Service) -> None:
    before = running.http.get("/v1/documents").json()["data"]

    async def work(client: Client) -> Any:
        return {name: await client.call_tool(*HOSTILE[name]) for name in HOSTILE}

    refused = with_client(f"{running.url}/mcp", work)
    assert [name for name, result in refused.items() if not result.is_error] == []
    assert [name for name, result in refused.items() if kinds(result) != ["text"]] == []
    said = "".join(map(texts, refused.values()))
    assert "Traceback" not in said
    assert "root:" not in said
    assert running.http.get("/v1/documents").json()["data"] == before


FOREIGN_FILES = (
    f"interleave://documents/{FOREIGN}/document.html",
    "interleave://documents/..%2F..%2Fkeys.json/document.html",
    f"interleave://documents/{FOREIGN}/images/..%2f..%2fkeys.json",
    f"interleave://documents/{FOREIGN}/journal.jsonl",
    "file:///etc/passwd",
)


def test_only_files_of_documents_are_resources(running: Service) -> None:
    async def work(client: Client) -> Any:
        for uri in FOREIGN_FILES:
            with pytest.raises(MCPError, match=r"(?i)no document|not found|unknown|no image"):
                await client.read_resource(uri)

    with_client(f"{running.url}/mcp", work)


def test_each_key_has_its_own_documents(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        secrets = [add_key(running.folder / FILE_NAME, name)[1] for name in ("ann", "bob")]
        assert running.http.post("/mcp", json={}).status_code == 401

        def as_user(secret: str, name: str, **arguments: Any) -> Any:
            async def connected() -> Any:
                headers = {"authorization": f"Bearer {secret}"}
                url = f"{running.url}/mcp"
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
                    Client(streamable_http_client(url, http_client=http)) as client,
                ):
                    return await client.call_tool(name, arguments)

            return anyio.run(connected)

        made = as_user(secrets[0], "make_document", request="A frog in 1 picture")
        assert status_in(made) == "completed"
        assert id_in(made) in texts(as_user(secrets[0], "look_at_document"))
        assert "There are no documents yet" in texts(as_user(secrets[1], "look_at_document"))
        refused = as_user(secrets[1], "look_at_document", document=id_in(made))
        assert refused.is_error
        assert "not found" in texts(refused)


def test_a_browser_page_of_another_site_cannot_call_it(running: Service) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    refused = running.http.post("/mcp", json=body, headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
