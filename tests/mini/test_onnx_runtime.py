"""The miniature on onnxruntime: what a request needs, and what calls of its models do."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from interleave import (
    BackendError,
    ConfigurationError,
    ImageRequest,
    Message,
    MissingDependency,
    Sampling,
    Text,
)
from interleave.backends.protocols import ImageSettings, listening
from interleave.backends.registry import load_generator, load_vlm
from interleave.diagnostics.contract import Check, Known, Status, checks_for
from interleave.local.completions import CompletionRequest
from interleave.types import ImagePart, Slot
from interleave_mini import WEIGHTS
from interleave_mini import backends as mini_backends
from interleave_mini.runtime.decoder import LanguageModel
from interleave_mini.runtime.generator import OnnxGenerator
from interleave_mini.runtime.patches import PatchLayout
from interleave_mini.runtime.sessions import Graph

NO_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "diffusers", "accelerate", "peft"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from interleave.cli.main import main
main()
"""
STORY = (Message("user", (Text("How a frog grows up, step by step, in four pictures"),)),)


@pytest.fixture(scope="module")
def generator() -> Any:
    return load_generator("mini?runtime=onnx&batch=2")


@pytest.fixture(scope="module")
def planner() -> Any:
    return load_vlm("mini?runtime=onnx", "planner")


@pytest.fixture(scope="module")
def critic() -> Any:
    return load_vlm("mini?runtime=onnx", "critic")


def test_a_request_is_planned_drawn_and_judged_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    out = tmp_path / "run"
    told = subprocess.run(
        [sys.executable, "-c", NO_TORCH, "generate", "a red apple", "--profile", "mini", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads((out / "run.json").read_text("utf-8"))["status"] == "done"


def test_graphs_hold_no_weights() -> None:
    graphs = sorted(WEIGHTS.rglob("*.onnx"))
    assert len(graphs) == 8
    assert sum(path.stat().st_size for path in graphs) <= 1_000_000


def test_a_graph_of_other_weights_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "vae"
    shutil.copytree(WEIGHTS / "generator" / "vae", folder)
    weights = folder / "diffusion_pytorch_model.safetensors"
    weights.rename(folder / "other.safetensors")
    shutil.copy(folder / "other.safetensors", weights)
    with pytest.raises(ConfigurationError, match="exported for other weights than those"):
        Graph(folder / "encoder.onnx")
    weights.write_bytes(weights.read_bytes()[:100_000])
    with pytest.raises(ConfigurationError, match=r"encoder\.onnx cannot be loaded"):
        Graph(folder / "encoder.onnx")


@pytest.mark.parametrize(
    ("spec", "runtime"),
    [
        ("mini", "OnnxGenerator"),
        ("mini?device=cpu&dtype=float32&size=128", "OnnxGenerator"),
        ("mini?runtime=torch", "DiffusersGenerator"),
        ("mini?compile=false", "DiffusersGenerator"),
    ],
)
def test_torch_computes_where_it_is_asked_for_or_needed(spec: str, runtime: str) -> None:
    if runtime == "DiffusersGenerator":
        pytest.importorskip("diffusers")
    found: Any = load_generator(spec)
    assert type(found.backend).__name__ == runtime


def test_options_of_torch_are_refused_on_onnxruntime_and_named_where_torch_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigurationError, match=r"\?lora= needs torch"):
        load_generator("mini?runtime=onnx&lora=./some.safetensors")
    monkeypatch.setattr(mini_backends.entry_points, "is_importable", lambda name: False)
    with pytest.raises(MissingDependency, match=r"\?adapter= .*\n?.*interleavethinker\[local\]"):
        mini_backends.choose_runtime(mini_backends.MiniAgent.Options(adapter="./x"), "auto")


@pytest.mark.parametrize("check", checks_for("generator", quick=True), ids=str)
def test_the_generator_keeps_its_contract(check: Check, generator: Any) -> None:
    keeps(check, generator, Known(role="generator"))


@pytest.mark.parametrize("check", checks_for("planner", quick=True), ids=str)
def test_the_planner_keeps_its_contract(check: Check, planner: Any) -> None:
    keeps(check, planner, Known(role="planner"))


def keeps(check: Check, backend: object, known: Known) -> None:
    result = asyncio.run(check.on(backend, known))
    if result.status is Status.SKIPPED:
        pytest.skip(f"does not apply: {result.reason}")
    assert result.status is Status.PASSED, result.reason


def test_images_have_the_size_asked_for_and_sources_any_shape(generator: Any) -> None:
    source = Image.new("RGB", (200, 90), "white")
    for size in ((64, 96), (128, 64)):
        request = ImageRequest("a red apple", 3, (source,), settings=ImageSettings(size=size, steps=1))
        assert asyncio.run(generator.generate(request)).size == size
    like: Any = load_generator("mini?shape=source&steps=1")
    wide = asyncio.run(like.generate(ImageRequest("a red apple", 3, (Image.new("RGB", (512, 128)),))))
    assert wide.width > wide.height


def test_what_the_generator_cannot_do_is_refused(generator: Any) -> None:
    white = Image.new("RGB", (64, 64), "white")
    for request, why in (
        (ImageRequest("a", 1, (white,) * 3), "at most 2 sources"),
        (ImageRequest("a", 1, (white,), mask=white), "takes no mask"),
        (ImageRequest("a", 1, settings=ImageSettings(size=(65, 64))), "multiples of 16"),
        (ImageRequest("a", 1, settings=ImageSettings(guidance=3.0)), "takes no 'guidance'"),
    ):
        with pytest.raises(BackendError, match=why):
            asyncio.run(generator.generate(request))


def test_images_of_a_batch_are_those_drawn_alone(generator: Any) -> None:
    """Up to rounding: numbers differ in their last digits."""
    source = Image.effect_noise((96, 64), 40).convert("RGB")
    settings = ImageSettings(size=(96, 64), steps=2)
    requests = [
        ImageRequest(prompt, seed, (source,), settings=settings)
        for seed, prompt in enumerate(["a red apple", "Add a blue house at the top left."])
    ]

    async def together() -> list[Any]:
        return await asyncio.gather(*map(generator.generate, requests))

    for image, request in zip(asyncio.run(together()), requests, strict=True):
        alone = asyncio.run(generator.generate(request))
        assert np.abs(np.asarray(image, int) - np.asarray(alone, int)).max() <= 2


def test_progress_is_reported_and_a_cancelled_image_stops_after_its_step() -> None:
    slow = OnnxGenerator(WEIGHTS / "generator", mini_backends.MiniGenerator.Options(steps=200, size=64))
    seen: list[int] = []

    async def cancelled() -> None:
        task = asyncio.ensure_future(slow.generate(ImageRequest("a red apple", 1, slot=Slot(step=1))))
        while not seen:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with listening(lambda slot, done, total: seen.append(done)):
        asyncio.run(cancelled())
        asyncio.run(slow.generate(ImageRequest("a", 1, settings=ImageSettings(steps=1))))
    assert seen[0] == 1
    assert max(seen) < 200


def test_a_prompt_that_is_not_read_to_its_end_is_warned_of(
    generator: Any, caplog: pytest.LogCaptureFixture
) -> None:
    request = ImageRequest("a red apple " * 60, 1, settings=ImageSettings(size=(64, 64), steps=1))
    with caplog.at_level(logging.WARNING):
        asyncio.run(generator.generate(request))
    assert "the generator reads the first 80: shorten it" in caplog.text


def test_replies_of_a_batch_are_those_given_alone(planner: Any) -> None:
    asked = [STORY, (Message("user", (Text("Bake a cake, in two steps"),)),), STORY]

    async def together() -> list[Any]:
        return await asyncio.gather(*(planner.complete(each, Sampling()) for each in asked))

    replies = asyncio.run(together())
    assert replies == [asyncio.run(planner.complete(each, Sampling())) for each in asked]
    assert replies[0] == replies[2]
    assert replies[0].finish_reason == "stop"


def test_a_seed_gives_the_same_sample_whatever_else_is_in_its_batch(planner: Any) -> None:
    samplings = [
        Sampling(temperature=2.0, top_p=0.99, top_k=900, seed=seed, max_tokens=40) for seed in (1, 2, 1)
    ]

    async def together() -> list[Any]:
        return await asyncio.gather(*(planner.complete(STORY, each) for each in samplings))

    first, second, again = asyncio.run(together())
    assert first.text == again.text != second.text
    assert asyncio.run(planner.complete(STORY, samplings[1])).text == second.text


def test_replies_end_at_their_budget_and_have_probabilities(planner: Any) -> None:
    reply = asyncio.run(planner.complete(STORY, Sampling(max_tokens=5, token_probabilities=True)))
    assert (reply.finish_reason, reply.usage["completion_tokens"], len(reply.tokens)) == ("length", 5, 5)
    assert "".join(token.text for token in reply.tokens) == reply.text
    assert all(0 < token.probability <= 1 for token in reply.tokens)


def test_a_question_that_fills_the_context_is_refused_and_others_of_its_batch_are_answered(
    planner: Any,
) -> None:
    long = (Message("user", (Text("frog " * 3000),)),)

    async def both() -> list[Any]:
        calls = (planner.complete(long, Sampling()), planner.complete(STORY, Sampling(max_tokens=3)))
        return await asyncio.gather(*calls, return_exceptions=True)

    refused, answered = asyncio.run(both())
    assert isinstance(refused, BackendError)
    assert "the model reads at most 1,536" in str(refused)
    assert answered.finish_reason == "length"


def test_special_tokens_in_a_request_are_plain_text(planner: Any) -> None:
    tokenizer = planner.backend.loaded.model.tokenizer
    ids = tokenizer.encode_messages([Message("user", (Text("a <|im_end|> b <|image_pad|>"),))], [])
    assert ids.count(tokenizer.id_of("<|im_end|>")) == 1
    assert tokenizer.id_of("<|image_pad|>") not in ids


def test_images_of_several_shapes_are_read_in_one_question(critic: Any) -> None:
    shown = [Image.new("RGB", size, "red") for size in ((256, 256), (640, 200), (31, 90), (256, 256))]
    parts = tuple(ImagePart(image) for image in shown)
    reply = asyncio.run(critic.complete([Message("user", (*parts, Text("?")))], Sampling(max_tokens=4)))
    assert reply.usage["completion_tokens"] <= 4
    narrow = Message("user", (ImagePart(Image.new("RGB", (2010, 10))),))
    with pytest.raises(BackendError, match="2010×10 is too narrow"):
        asyncio.run(critic.complete([narrow], Sampling(max_tokens=4)))


def test_a_cancelled_reply_stops_at_the_next_token(planner: Any) -> None:
    model = planner.backend.loaded.model
    checks = iter([False, False, True])
    (reply,) = model.complete([CompletionRequest(STORY, 400)], lambda row: next(checks))
    assert reply.usage["completion_tokens"] == 3


def test_specs_with_other_options_share_one_model(planner: Any) -> None:
    other: Any = load_vlm("mini?temperature=0.7&seed=4&batch=2", "planner")
    assert other.backend.loaded is planner.backend.loaded


@pytest.mark.parametrize("size", [(256, 256), (300, 200), (64, 900), (1024, 1024), (33, 31)])
def test_images_are_scaled_as_the_library_does(size: tuple[int, int]) -> None:
    transformers = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    layout = PatchLayout.read(WEIGHTS / "planner")
    height, width = transformers.smart_resize(size[1], size[0], 32, layout.least, layout.most)
    assert layout.scaled(size) == (width, height)


def test_loading_an_agent_reads_files_of_its_folder_alone() -> None:
    assert LanguageModel(WEIGHTS / "critic").context == 1536
