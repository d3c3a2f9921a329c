"""`json:`: plain image APIs of different shapes, described in files, keep the contract of a generator."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import loopback as wire
from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.cli.main import run
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.images import encode_png
from interleave.remote.json_api import read_description, shipped_names
from loopback import SIDE, Loopback

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "remote-backends.md").read_text("utf-8")
RED, BLUE = (Image.new("RGB", (32, 32), colour) for colour in ("red", "blue"))
SECRET = "a-token-of-paint-0123456789"
SHAPES = {
    "fields of JSON, base64 in a list": "json:automatic1111@{url}",
    "a nested object, data URLs": "json:cog@{url}",
    "a form, the address of a file": "json:./paint.toml@{url}",
    "several images, the image itself": "json:./many.toml@{url}?size=64x64",
}
MANY = """
size = "512x512"
[edit]
path = "/sdapi/v1/img2img"
max_sources = 4
picture = "images.0"
body = { prompt = "in {size}: {prompt}", seed = "{seed}", init_images = "{sources}" }
[text]
path = "/raw"
answer = "picture"
body = { prompt = "in {size}: {prompt}", seed = "{seed}" }
[headers]
X-Project = "demo"
"""


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    """The description that the page shows, and one more."""
    (paint,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    Path("paint.toml").write_text(paint, "utf-8")
    Path("many.toml").write_text(MANY, "utf-8")
    monkeypatch.setenv("PAINT_TOKEN", SECRET)


def draw(spec: str, *sources: Image.Image, prompt: str = "a cat", seed: int = 7) -> Image.Image:
    return asyncio.run(load_generator(spec).generate(ImageRequest(prompt, seed, sources)))


def raw(loopback: Loopback) -> None:
    """A call that answers with the image itself."""

    async def send(exchange: wire.Exchange) -> None:
        asked = exchange.asked.json
        data = await loopback.image(asked["prompt"], asked["seed"], [])
        await exchange.send(wire.Answer(data, 200, {"Content-Type": "image/png"}))

    loopback.fault = lambda number, asked: send if asked.path == "/raw" else None


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_every_shape_passes_the_check(
    spec: str, loopback: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    raw(loopback)
    assert run(["backends", "check", spec.format(url=loopback.url), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["checks"]
    kept = {each["check"] for each in results if each["status"] == "passed"}
    assert {
        "generates an image",
        "an edit depends on its source",
        "different seeds give different images",
    } <= kept


def test_what_is_sent_is_what_the_files_say(loopback: Loopback) -> None:
    draw(f"json:automatic1111@{loopback.url}?size=640x512", RED, seed=11)
    (asked,) = loopback.asked
    png = base64.b64encode(encode_png(RED)).decode()
    expected: dict[str, Any] = {"prompt": "a cat", "seed": 11, "width": 640, "height": 512}
    assert asked.json == {**expected, "init_images": [png], "denoising_strength": 0.75}
    draw(f"json:cog@{loopback.url}", RED)
    assert loopback.asked[-1].json["input"]["image"] == f"data:image/png;base64,{png}"
    draw(f"json:./paint.toml@{loopback.url}", RED)
    (form,) = loopback.of("/paint")
    assert form.fields == {"prompt": "a cat", "seed": "7", "steps": "20"}
    assert form.files == [("start", encode_png(RED))]
    draw(f"json:./many.toml@{loopback.url}", RED, BLUE)
    asked = loopback.asked[-1]
    assert (len(asked.json["init_images"]), asked.json["prompt"]) == (2, "in 512x512: a cat")
    assert asked.headers["x-project"] == "demo"


def test_braces_in_a_prompt_stay_as_they_are(loopback: Loopback) -> None:
    draw(f"json:cog@{loopback.url}", prompt="a {seed} of {source} and {nothing}")
    assert loopback.asked[0].json["input"]["prompt"] == "a {seed} of {source} and {nothing}"


def test_the_key_goes_into_its_header_and_nowhere_else(loopback: Loopback) -> None:
    draw(f"json:./paint.toml@{loopback.url}")
    assert {asked.headers["x-api-key"] for asked in loopback.asked} == {SECRET}
    told = {"error": {"message": f"who is {SECRET}?"}}
    loopback.fails_with(wire.status(500, told))
    with pytest.raises(BackendError) as error:
        draw(f"json:./paint.toml@{loopback.url}")
    assert SECRET not in str(error.value)


def test_an_image_on_another_server_is_not_fetched(loopback: Loopback) -> None:
    loopback.mood = "elsewhere"
    with pytest.raises(BackendError, match=r"elsewhere\.example was not sent") as error:
        draw(f"json:./paint.toml@{loopback.url}")
    assert not error.value.transient


def test_an_answer_of_success_that_says_it_failed_is_a_failure_with_its_reason(loopback: Loopback) -> None:
    loopback.mood = "failed job"
    with pytest.raises(BackendError, match="it reports a failure: CUDA out of memory"):
        draw(f"json:cog@{loopback.url}")


def test_an_answer_without_the_named_field_says_which_fields_it_has(loopback: Loopback) -> None:
    loopback.fails_with(wire.page(b'{"detail": 1, "out": {"a": 1, "b": 2}}', "application/json"))
    with pytest.raises(BackendError, match=r"at images\.0; it has the fields detail, out\.a, out\.b"):
        draw(f"json:automatic1111@{loopback.url}")


def test_an_address_where_an_image_was_named_says_how_it_is_fetched(loopback: Loopback) -> None:
    loopback.fails_with(wire.page(b'{"images": ["http://127.0.0.1:1/a.png"]}', "application/json"))
    with pytest.raises(BackendError, match="add fetch = true to automatic1111") as error:
        draw(f"json:automatic1111@{loopback.url}")
    assert not error.value.transient


BAD_FILES = {
    "neither call": ("", "neither \\[text\\] nor \\[edit\\]"),
    "not TOML": ("url = ", "not TOML"),
    "an unknown field": ("adress = 1", "adress"),
    "no prompt": ('[text]\npath="/a"\npicture="a"\nbody={seed="{seed}"}', "no field takes the prompt"),
    "an unknown name": ('[text]\npath="/a"\npicture="a"\nbody={p="{promt}"}', "Did you mean 'prompt'"),
    "another server in the path": ('[text]\npath="//evil"\npicture="a"\nbody={p="{prompt}"}', "path"),
    "no place of the image": ('[text]\npath="/a"\nbody={p="{prompt}"}', "path of the image is missing"),
    "a source without an edit": (
        '[text]\npath="/a"\npicture="a"\nbody={p="{prompt}", i="{source}"}',
        "move .* to \\[edit\\]",
    ),
    "an edit without a source": (
        '[edit]\npath="/a"\npicture="a"\nbody={p="{prompt}"}',
        "needs exactly one of",
    ),
    "a date": ('[text]\npath="/a"\npicture="a"\nbody={p="{prompt}", d=2026-01-01}', "JSON cannot represent"),
    "a list in a form": (
        '[text]\npath="/a"\npicture="a"\nsend="form"\nbody={p="{prompt}", l=[1]}',
        "a form cannot hold lists",
    ),
    "a key in the file": (
        '[headers]\nAuthorization="Bearer x"\n[text]\npath="/a"\npicture="a"\nbody={p="{prompt}"}',
        "keys come from \\[key\\]",
    ),
    "a size that nobody says": (
        '[text]\npath="/a"\npicture="a"\nbody={p="{prompt}", w="{width}"}',
        "uses a size",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_cannot_work_is_refused_before_anything_is_sent(case: str, loopback: Loopback) -> None:
    text, says = BAD_FILES[case]
    Path("bad.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError, match=says):
        load_generator(f"json:./bad.toml@{loopback.url}")
    assert not loopback.asked


def test_a_file_that_is_not_there_names_those_that_ship_with_the_product() -> None:
    with pytest.raises(ConfigurationError, match="automatic1111, cog"):
        load_generator("json:automatic@http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="needs one address"):
        load_generator("json:./many.toml")
    assert [read_description(name).url is not None for name in shipped_names()] == [True, True]


OTHERS: dict[str, tuple[str, Any, str]] = {
    "Stable Diffusion web UI": (
        "/openapi.json",
        {"paths": {"/sdapi/v1/txt2img": {}}},
        "json:automatic1111@{}",
    ),
    "Cog": ("/openapi.json", {"paths": {"/predictions": {"post": {}}}}, "json:cog@{}"),
    "another API": (
        "/openapi.json",
        {"paths": {"/draw": {"post": {}}, "/look": {"get": {}}}},
        "an API with /draw: describe its fields in a file and use json:./FILE.toml@{}",
    ),
    "ComfyUI": ("/system_stats", {"system": {}, "devices": []}, "comfyui:WORKFLOW.json@{}"),
    "OpenAI": ("/v1/models", {"data": [{"id": "klein"}]}, "openai-images:klein@{}/v1"),
    "Gradio": ("/config", {"components": [], "dependencies": []}, "a Gradio page"),
    "nothing known": ("/nothing", {}, "use json:./FILE.toml@{}"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_api_is_named_with_what_to_use_instead(other: str, loopback: Loopback) -> None:
    path, told, says = OTHERS[other]
    page = wire.page(json.dumps(told).encode(), "application/json")
    loopback.fault = lambda number, asked: page if asked.path == path else wire.status(404)
    with pytest.raises(BackendError) as error:
        draw(loopback.url)
    assert says.format(loopback.url) in str(error.value)
    assert (error.value.kind, error.value.transient) == (Failure.INVALID, False)
    assert "model's name" not in str(error.value)


def test_the_title_of_a_web_page_is_quoted_without_its_control_characters(loopback: Loopback) -> None:
    page = wire.page(b"<html><title>My &amp; \x1b[31mpage</title>", "text/html")
    loopback.fault = lambda number, asked: page if asked.path == "/" else wire.status(404)
    with pytest.raises(BackendError, match="a web page, 'My & ") as error:
        draw(loopback.url)
    assert "\x1b" not in str(error.value)


def test_images_have_the_size_of_the_server(loopback: Loopback) -> None:
    assert draw(f"json:cog@{loopback.url}").size == (SIDE, SIDE)
