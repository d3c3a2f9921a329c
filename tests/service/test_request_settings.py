"""What a request may set for its own images: steps, guidance, size, negative prompt, mask."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from PIL import Image
from serving import Server, coded, make_image, png

TAKES = "steps,guidance,size,negative_prompt"


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose generator takes all settings and masks; its images show what it was told."""
    folder = tmp_path_factory.mktemp("generous")
    options = f"steps=4&guidance=1&size=64&takes={TAKES}&masks=may"
    running = Server(folder, "--generator", f"awkward?{options}")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def client(generous: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{generous.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def drawn(server: Server, **body: Any) -> Image.Image:
    reply = server.client.post("/edit", json={"prompt": "told", **body})
    assert reply.status_code == 200, reply.text
    return make_image(reply.json()["edited_image"])


def transparent(hole: tuple[int, int, int, int] | None) -> bytes:
    """A mask in OpenAI's form: what is transparent is redrawn."""
    image = Image.new("RGBA", (48, 40), (0, 0, 0, 255))
    if hole:
        image.paste((0, 0, 0, 0), hole)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def half() -> bytes:
    """A mask in the reference's form: what is white is redrawn."""
    image = Image.new("L", (48, 40), 0)
    image.paste(255, (0, 0, 24, 40))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_steps_guidance_and_size_are_those_of_the_request(generous: Server) -> None:
    told = drawn(generous, num_inference_steps=28, guidance_scale=2.5, width=128, height=96)
    assert (told.size, told.getpixel((0, 0))) == ((128, 96), (28, 2, 0))
    assert drawn(generous).size == (64, 64)
    assert drawn(generous, width=32).size == (32, 64)


def test_a_ratio_keeps_the_number_of_pixels(generous: Server) -> None:
    def of(ratio: str) -> tuple[int, int]:
        reply = generous.client.post("/generate", json={"prompt": "told", "aspect_ratio": ratio})
        return make_image(reply.json()["image"]).size

    assert (of("1:1"), of("4:1"), of("1:4")) == ((64, 64), (128, 32), (32, 128))


def test_a_negative_prompt_reaches_the_generator(generous: Server) -> None:
    drawn(generous, negative_prompt="blurry")
    assert generous.happened("negative blurry") == 1
    drawn(generous, negative_prompt=" ")
    assert generous.happened("negative None") >= 1


def test_they_may_be_named_by_the_openai_client_as_well(client: openai.OpenAI) -> None:
    reply = client.images.generate(prompt="told", size="96x64", extra_body={"num_inference_steps": "7.0"})  # type: ignore[arg-type]
    assert reply.size == "96x64"
    assert make_image(reply.data[0].b64_json).getpixel((0, 0)) == (7, 0, 0)  # type: ignore[index, arg-type]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no steps": ({"num_inference_steps": 0}, "a whole number from 1 to 100"),
    "half a step": ({"num_inference_steps": 2.5}, "a whole number from 1 to 100"),
    "words": ({"guidance_scale": "much"}, "a number from 0 to 100"),
    "negative": ({"guidance_scale": -1}, "a number from 0 to 100"),
    "two answers": ({"num_inference_steps": 5, "num_inference_step": 6}, "another parameter"),
    "too large": ({"width": 8192, "height": 8192}, "maximum of 4,194,304 pixels"),
    "not its own": ({"max_sequence_length": 77}, "no such setting"),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG)
def test_values_that_cannot_be_are_refused(generous: Server, change: dict[str, Any], words: str) -> None:
    reply = generous.client.post("/edit", json={"prompt": "told", **change})
    assert reply.status_code == 422
    assert words in reply.json()["detail"]


def test_a_mask_is_white_where_it_is_redrawn(generous: Server) -> None:
    told = drawn(generous, image=coded(png()), mask_image=coded(half()))
    assert told.getpixel((0, 0)) == (0, 0, 127)
    filled = generous.client.post(
        "/fill", json={"prompt": "told", "image": coded(png()), "mask_image": coded(half())}
    )
    assert make_image(filled.json()["edited_image"]).tobytes() == told.tobytes()
    files = {"image_file": ("a.png", png(), "image/png"), "mask_file": ("m.png", half(), "image/png")}
    sent = generous.client.post("/edit-upload", data={"prompt": "told"}, files=files)
    assert make_image(sent.json()["edited_image"]).tobytes() == told.tobytes()


def test_the_mask_of_the_openai_client_is_transparent_where_it_is_redrawn(client: openai.OpenAI) -> None:
    reply = client.images.edit(
        prompt="told",
        image=("a.png", png(), "image/png"),
        mask=("m.png", transparent((0, 0, 24, 40)), "image/png"),
    )
    data = base64.b64decode(reply.data[0].b64_json)  # type: ignore[index, arg-type]
    assert Image.open(io.BytesIO(data)).getpixel((0, 0)) == (0, 0, 127)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (transparent(None), "no transparent pixel"),
        (png(), "no transparent pixel"),
        (b"hello", "not a PNG"),
    ],
)
def test_a_mask_that_says_nothing_is_refused(client: openai.OpenAI, mask: bytes, words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        client.images.edit(
            prompt="told", image=("a.png", png(), "image/png"), mask=("m.png", mask, "image/png")
        )


def test_a_mask_of_another_size_is_refused(generous: Server) -> None:
    body = {"prompt": "told", "image": coded(png(size=(20, 20))), "mask_image": coded(half())}
    reply = generous.client.post("/edit", json=body)
    assert reply.status_code == 422
    assert "the mask is 48x40 and the image 20x20" in reply.json()["detail"]


def test_a_generator_that_needs_a_mask_says_so_and_a_fixed_server_takes_no_settings(start: Any) -> None:
    server = start("--generator", f"awkward?steps=4&takes={TAKES}&masks=must", "--fixed")
    bare = server.client.post("/edit", json={"prompt": "told", "image": coded(png())})
    assert (bare.status_code, "send one with the image" in bare.json()["detail"]) == (422, True)
    body = {"prompt": "told", "image": coded(png()), "mask_image": coded(half())}
    assert server.client.post("/edit", json=body | {"num_inference_steps": 4}).status_code == 200
    other = server.client.post("/edit", json=body | {"num_inference_steps": 5})
    assert (other.status_code, "uses 4" in other.json()["detail"]) == (422, True)


def test_the_api_is_described_without_another_site(generous: Server) -> None:
    page = generous.client.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in page.text and "http" not in page.text.partition("<body>")[0]
    described = generous.client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    for path, routes in described["paths"].items():
        for method, route in routes.items():
            assert f"{method.upper()} {path}" in page.text
            assert generous.client.request(method, path).status_code != 404
            assert route["summary"] in html.unescape(page.text)


def test_every_parameter_that_is_known_is_described() -> None:
    from interleave.service.generator import bodies
    from interleave.service.generator import edit_api as reference_wire
    from interleave.service.generator import openai_images_api as openai_wire

    known = {*reference_wire.EDIT, *reference_wire.GENERATE, *openai_wire.GENERATIONS, *openai_wire.EDITS}
    assert known <= set(bodies.PARAMETERS)
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "serving.md").read_text()
    for name in openai_wire.WITHOUT_EFFECT:
        assert f"`{name}`" in text
