"""The shipped graphs compute what torch computes on the shipped weights."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("diffusers")
pytest.importorskip("onnxscript")

import torch
from safetensors.torch import load_file, save_file

from interleave import ConfigurationError, ImageRequest, Sampling
from interleave.agents.critic import critic_input, critic_messages, critic_sampling
from interleave.agents.planner import planner_messages
from interleave.agents.prompts import load_pack
from interleave.backends.registry import load_generator, load_vlm
from interleave.local.options import DiffusersOptions, TransformersOptions
from interleave_mini import WEIGHTS
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.runtime.agent import OnnxAgent
from interleave_mini.runtime.decoder import LanguageModel
from interleave_mini.runtime.generator import OnnxGenerator
from interleave_mini.runtime.noise import normal_noise
from interleave_mini.runtime.sampling import softmax
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake
from miniature.export.graphs import export_all

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, while they load
PACK = load_pack("mini")
RUNTIMES = ("onnx", "torch")
MOST_LEVELS = 2
"""Of 255, by which a pixel may differ."""


def replies(role: str, questions: list[Any], sampling: Sampling) -> list[tuple[Any, ...]]:
    """The replies of both runtimes to each question."""
    models = [load_vlm(f"mini?runtime={runtime}&batch=1&device=cpu", role) for runtime in RUNTIMES]
    return [
        tuple(asyncio.run(model.complete(messages, sampling)) for model in models) for messages in questions
    ]


def test_plans_are_identical_token_for_token() -> None:
    tasks = [shipped_tasks(suite, 1, seed=3)[0] for suite in ("story", "edit", "continue")]
    questions = [planner_messages(task.request(), PACK, with_assets=False) for task in tasks]
    for ours, theirs in replies("planner", questions, Sampling(token_probabilities=True)):
        assert (ours.text, ours.usage, ours.finish_reason) == (
            theirs.text,
            theirs.usage,
            theirs.finish_reason,
        )
        pairs = zip(ours.tokens, theirs.tokens, strict=True)
        assert max(abs(one.probability - two.probability) for one, two in pairs) < 1e-3


def test_samples_of_a_seed_are_identical() -> None:
    messages = planner_messages(shipped_tasks("story", 1, seed=3)[0].request(), PACK, with_assets=False)
    for how in ({"temperature": 1.0}, {"temperature": 2.0, "top_k": 50}, {"temperature": 1.5, "top_p": 0.9}):
        sampling = Sampling(seed=11, max_tokens=40, **how)  # type: ignore[arg-type]
        ((ours, theirs),) = replies("planner", [messages], sampling)
        assert ours.text == theirs.text


def test_verdicts_are_identical_token_for_token_whatever_the_shape_of_the_images() -> None:
    random, questions = Random("parity"), []
    for task, size in zip(shipped_tasks("edit", 3, seed=3), ((256, 256), (320, 200), (90, 400)), strict=True):
        step = task.steps[0]
        assert step.before is not None
        image = draw(with_mistake(step.scene, random)).resize(size)
        seen = critic_input(step.prompt, step.prompt, (draw(step.before).resize(size),), image)
        questions.append(critic_messages(seen, PACK))
    for ours, theirs in replies("critic", questions, critic_sampling()):
        assert (ours.text, ours.usage) == (theirs.text, theirs.usage)


def test_images_differ_by_rounding_alone() -> None:
    models = [load_generator(f"mini?runtime={runtime}&device=cpu") for runtime in RUNTIMES]
    step = shipped_tasks("edit", 1, seed=3)[0].steps[0]
    assert step.before is not None
    for sources in ((), (draw(step.before),), (draw(step.before).resize((200, 120)), draw(step.before))):
        request = ImageRequest(step.prompt, 7, sources)
        ours, theirs = (np.asarray(asyncio.run(model.generate(request)), int) for model in models)
        assert np.abs(ours - theirs).max() <= MOST_LEVELS


@pytest.mark.parametrize("shape", [(1, 48, 16, 16), (1, 48, 5, 7), (3, 7)])
def test_noise_is_that_of_torch(shape: tuple[int, ...]) -> None:
    for seed in (0, 1, 2**31 - 1, 2**40 + 7):
        theirs = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).numpy()
        assert np.abs(normal_noise(shape, seed) - theirs).max() < 1e-5


def test_samples_have_the_probabilities_of_the_model() -> None:
    from interleave.local.completions import CompletionRequest
    from interleave_mini.runtime.sampling import TokenChooser

    logits = np.array([[1.0, 3.0, 2.0, -2.0]], np.float32)
    chooser = TokenChooser([CompletionRequest((), 1, temperature=2.0, seed=5)])
    drawn = np.array([chooser.choose(logits, [0])[0][0] for _ in range(4000)])
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.abs(shares - softmax(logits[0] / 2)).max() < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planner", "critic", "generator"])
def test_an_export_gives_the_graphs_that_are_shipped(name: str, tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS / name, tmp_path / name)
    for path in export_all(tmp_path):
        shipped = WEIGHTS / path.relative_to(tmp_path)
        assert path.read_bytes() == shipped.read_bytes(), f"{shipped} is outdated: run `interleave mini onnx`"


def retrained(name: str, folder: Path) -> Path:
    """A copy of a model with other values of every weight, in files of the same layout."""
    shutil.copytree(WEIGHTS / name, folder / name)
    random = torch.Generator().manual_seed(1)
    for path in (folder / name).rglob("*.safetensors"):
        tensors = load_file(path)
        for key, tensor in tensors.items():
            changed = tensor * (1 + 0.05 * torch.randn(tensor.shape, generator=random))
            tensors[key] = changed.to(tensor.dtype)
        save_file(tensors, path, {"format": "pt"})
    return folder / name


def test_a_graph_computes_with_the_weights_beside_it_whatever_their_values(tmp_path: Path) -> None:
    """One that had copied a weight, or referred to another of equal values, would differ from torch."""
    folder = retrained("critic", tmp_path)
    models = (
        OnnxAgent(folder, TransformersOptions()),
        load_vlm(f"transformers:{folder}?device=cpu&dtype=float32&compile=false", "critic"),
        OnnxAgent(WEIGHTS / "critic", TransformersOptions()),
    )
    step = shipped_tasks("edit", 1, seed=3)[0].steps[0]
    messages = critic_messages(critic_input(step.prompt, step.prompt, (), draw(step.scene)), PACK)
    sampling = Sampling(max_tokens=12, token_probabilities=True)
    replies = [asyncio.run(model.complete(messages, sampling)) for model in models]
    ours, theirs, shipped = ([token.probability for token in reply.tokens] for reply in replies)
    assert replies[0].text == replies[1].text
    assert np.allclose(ours, theirs, atol=1e-3)
    assert not np.allclose(ours, shipped, atol=1e-2)


def test_so_do_the_graphs_of_the_generator(tmp_path: Path) -> None:
    folder = retrained("generator", tmp_path)
    models = (
        OnnxGenerator(folder, DiffusersOptions()),
        load_generator(f"diffusers:{folder}?device=cpu&dtype=float32"),
        OnnxGenerator(WEIGHTS / "generator", DiffusersOptions()),
    )
    step = shipped_tasks("edit", 1, seed=3)[0].steps[0]
    assert step.before is not None
    request = ImageRequest(step.prompt, 7, (draw(step.before),))
    ours, theirs, shipped = (np.asarray(asyncio.run(model.generate(request)), int) for model in models)
    assert np.abs(ours - theirs).max() <= MOST_LEVELS
    assert np.abs(ours - shipped).max() > 10 * MOST_LEVELS


def test_weights_of_another_layout_are_refused_with_the_command_that_exports(tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS / "critic", tmp_path / "critic")
    path = tmp_path / "critic" / "model.safetensors"
    tensors = load_file(path)
    tensors["model.more"] = torch.zeros(1, dtype=torch.float16)
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(ConfigurationError, match=r"other weights .* run `interleave mini onnx`"):
        LanguageModel(tmp_path / "critic")


def test_weights_that_are_in_no_file_are_refused(tmp_path: Path) -> None:
    import onnx

    from miniature.export.linking import link_weights

    weights = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = onnx.helper.make_graph([], "g", [], [], [weights])
    with pytest.raises(ConfigurationError, match="'w' is in no safetensors file"):
        link_weights(onnx.helper.make_model(graph), tmp_path)
