"""Each of the eleven services of the server, as a tiny model of its real classes with its own options."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.config.specs import parse_spec
from interleave.local.families import FAMILIES, pipeline_of
from interleave.local.tiny.specs import tiny_generator

pytest.importorskip("starlette")
pytest.importorskip("python_multipart")

from interleave.service.generator import edit_api as reference_wire
from interleave.service.generator.config import PRESETS, find_preset
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.generator.parameters import settings_of

DRAWS_WITH = {
    "qwen-image": (50, 4),
    "qwen-image-lightning": (8, 1),
    "flux-krea": (50, 4.5),
    "qwen-image-edit": (50, 5),
    "qwen-image-edit-lightning": (8, 1),
    "flux-kontext": (28, 2.5),
    "flux-fill": (50, 30),
    "longcat-image-edit": (50, 4.5),
    "omnigen2": (50, 5),
    "qwen-image-edit-plus": (40, 4),
    "klein": (4, 1),
}


def coded(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def decoded(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("services")


@pytest.mark.usefixtures("small_references")
@pytest.mark.parametrize("name", PRESETS)
def test_a_service_draws_what_the_references_clients_ask_for(name: str, folder: Path) -> None:
    spec = parse_spec(find_preset(name)[1].generator)
    own = FAMILIES[pipeline_of(spec.model or "") or ""].own_code
    if own is not None and importlib.util.find_spec(own.package) is None:
        pytest.skip(f"the package {own.package} is not installed: {own.install}")
    generator = load_generator(tiny_generator(spec, "generator", folder / name))
    facts = GeneratorInfo(generator.capabilities, settings_of(generator))
    assert (facts.settings["steps"], facts.settings["guidance"]) == DRAWS_WITH[name]

    usual = {"num_inference_steps": DRAWS_WITH[name][0], "guidance_scale": DRAWS_WITH[name][1]}
    body: dict[str, Any] = {"prompt": "a cat", "seed": 5, "negative_prompt": " ", "enhance_prompt": False}
    if generator.capabilities.max_sources:
        body["image"] = coded(Image.new("RGB", (80, 60), "navy"))
    if generator.capabilities.masks != "never":
        body["mask_image"] = coded(Image.new("L", (80, 60), 255))
    reference_wire.edit(body | usual, facts, "id")  # its own values are taken
    if name == "omnigen2":
        reference_wire.edit(body | {"image_guidance_scale": 1.5, "text_guidance_scale": 5.0}, facts, "id")
    job = reference_wire.edit(body | {"num_inference_steps": 2, "width": 96, "height": 64}, facts, "id")
    (drawing,) = job.tasks
    sources = tuple(decoded(source.data) for source in job.sources)
    mask = decoded(job.mask.data) if job.mask else None
    request = ImageRequest(drawing.prompt, drawing.seed, sources, mask=mask, settings=drawing.settings)
    assert asyncio.run(generator.generate(request)).size == (96, 64)
