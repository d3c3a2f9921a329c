"""ComfyUI itself, with a workflow that needs no model: the seed is the colour, the prompt names the file."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from programs import Program, Start, free_port, python_with, skip

from interleave.backends.protocols import ImageRequest, listening
from interleave.backends.registry import load_generator
from interleave.backends.retries import RetriedGenerator
from interleave.errors import BackendError
from interleave.types import Slot

COUNTING_NODE = """
import time
import comfy.utils

class CountedSteps:
    CATEGORY, FUNCTION, RETURN_TYPES = "test", "count", ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",), "steps": ("INT", {"default": 4})}}

    def count(self, image, steps):
        bar = comfy.utils.ProgressBar(steps)
        for _ in range(steps):
            time.sleep(0.3)
            bar.update(1)
        return (image,)

NODE_CLASS_MAPPINGS = {"CountedSteps": CountedSteps}
"""
WORKFLOW: dict[str, Any] = {
    "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "{{prompt}}"}},
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outputs")


@pytest.fixture(scope="module")
def comfy(start: Start, outputs: Path) -> Program:
    checkout = os.environ.get("COMFYUI", "")
    if not (Path(checkout) / "main.py").is_file() or not checkout:
        skip("ComfyUI", "git clone it, and name the folder with COMFYUI")
    python = python_with(("aiohttp", "torchsde"), "COMFYUI_PYTHON", "install its requirements.txt")
    port = free_port()
    nodes = outputs.parent / "custom_nodes"
    nodes.mkdir(exist_ok=True)
    (nodes / "counted_steps.py").write_text(COUNTING_NODE)
    paths = outputs.parent / "paths.yaml"
    paths.write_text(json.dumps({"tests": {"base_path": str(outputs.parent), "custom_nodes": nodes.name}}))
    command = [python, "main.py", "--cpu", "--port", str(port), "--output-directory", str(outputs)]
    command += ["--extra-model-paths-config", str(paths), "--disable-all-custom-nodes"]
    command += ["--whitelist-custom-nodes", "counted_steps.py", "--disable-api-nodes"]
    command += ["--database-url", "sqlite:///:memory:"]
    return start(command, port, health="/queue", cwd=Path(checkout))


def generator_at(
    comfy: Program, graph: dict[str, Any] = WORKFLOW, options: str = "?seed=1.color"
) -> RetriedGenerator:
    Path("flow.json").write_text(json.dumps(graph))
    return RetriedGenerator("it", load_generator(f"comfyui:./flow.json@{comfy.url}{options}"))


def test_images_are_drawn_and_follow_the_seed(comfy: Program) -> None:
    async def drawing() -> list[Any]:
        generator = generator_at(comfy)
        requests = [ImageRequest(f"cat{number}", number) for number in (0, 255, 65280)]
        return await asyncio.gather(*(generator.generate(request) for request in requests))

    colours = [image.getpixel((0, 0)) for image in asyncio.run(drawing())]
    assert colours == [(0, 0, 0), (0, 0, 255), (0, 255, 0)]


def test_the_steps_of_an_image_are_reported(comfy: Program) -> None:
    graph = {
        **WORKFLOW,
        "5": {"class_type": "CountedSteps", "inputs": {"image": ["1", 0], "steps": 4}},
        "9": {"class_type": "SaveImage", "inputs": {"images": ["5", 0], "filename_prefix": "{{prompt}}"}},
    }
    seen: list[tuple[int, int, int]] = []
    with listening(lambda slot, done, total: seen.append((slot.step, done, total))):
        asyncio.run(generator_at(comfy, graph).generate(ImageRequest("counted", 9, slot=Slot(step=3))))
    assert seen[-1] == (3, 4, 4)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert len(seen) >= 3


def test_a_missing_model_file_is_said(comfy: Program) -> None:
    loader = {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "no-such-model.safetensors"}}
    decoded = {"class_type": "VAEDecode", "inputs": {"samples": ["1", 0], "vae": ["4", 2]}}
    graph = {**WORKFLOW, "4": loader, "8": decoded}
    graph["9"] = {"class_type": "SaveImage", "inputs": {"images": ["8", 0], "filename_prefix": "{{prompt}}"}}
    with pytest.raises(BackendError, match=r"no-such-model\.safetensors") as failure:
        asyncio.run(generator_at(comfy, graph).generate(ImageRequest("cat", 1)))
    assert not failure.value.transient


@pytest.mark.parametrize("name", ["flux2", "omnigen2"])
def test_the_workflows_lack_nothing_but_their_models(comfy: Program, name: str) -> None:
    """ComfyUI checks every node and link before it queues a workflow: only the files are not there."""
    path = Path(__file__).parent.parent / "backends" / "workflows" / f"{name}.json"
    generator = generator_at(comfy, json.loads(path.read_text()), options="")
    with pytest.raises(BackendError) as failure:
        asyncio.run(generator.generate(ImageRequest("cat", 1, (Image.new("RGB", (64, 64)),))))
    said = str(failure.value)
    assert "answered 400: node " in said and "Value not in list" in said
    assert set(re.findall(r"node \d+ \((\w+)\)", said)) <= {"UNETLoader", "CLIPLoader", "VAELoader"}


def test_images_whose_files_were_deleted_are_drawn_again(comfy: Program, outputs: Path) -> None:
    async def drawing() -> None:
        generator, request = generator_at(comfy), ImageRequest("deleted", 77)
        await generator.generate(request)
        for file in outputs.glob("deleted*"):
            file.unlink()
        assert (await generator.generate(request)).getpixel((0, 0)) == (0, 0, 77)

    asyncio.run(drawing())


def test_a_restart_is_waited_for(comfy: Program) -> None:
    async def drawing() -> None:
        generator = generator_at(comfy)
        await generator.generate(ImageRequest("before", 1))
        comfy.stop()
        drawn = asyncio.create_task(generator.generate(ImageRequest("after", 2)))
        await asyncio.sleep(1)
        await asyncio.to_thread(comfy.start)
        assert (await drawn).getpixel((0, 0)) == (0, 0, 2)

    asyncio.run(drawing())
