"""The shipped graphs compute what torch computes on the shipped weights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("diffusers")
pytest.importorskip("onnxscript")

import torch

from interleave import ConfigurationError, ImageRequest, Sampling
from interleave.agents.critic import critic_input, critic_messages, critic_sampling
from interleave.agents.planner import planner_messages
from interleave.agents.prompts import load_pack
from interleave.backends.registry import load_generator, load_vlm
from interleave_mini import WEIGHTS
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.runtime.noise import normal_noise
from interleave_mini.runtime.sampling import softmax
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake

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
def test_an_export_gives_the_graphs_that_are_shipped(tmp_path: Path) -> None:
    import shutil

    from miniature.export.graphs import export_all

    shutil.copytree(WEIGHTS / "critic", tmp_path / "critic")
    for path in export_all(tmp_path):
        assert path.read_bytes() == (WEIGHTS / "critic" / path.name).read_bytes(), path.name


def test_weights_that_are_in_no_file_are_refused(tmp_path: Path) -> None:
    import onnx

    from miniature.export.linking import link_weights

    weights = onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = onnx.helper.make_graph([], "g", [], [], [weights])
    with pytest.raises(ConfigurationError, match="'w' is in no safetensors file"):
        link_weights(onnx.helper.make_model(graph), tmp_path)
