"""Answers for GRPO by our own decoding: those of the model in training, drawn by their probabilities."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from PIL import Image
from test_grpo import Marker, Painter, always_refusing, train  # noqa: F401
from test_sft import curve, same, stop_after, weights
from transformers import AutoModelForImageTextToText

from interleave.backends.protocols import ImageRequest
from interleave.errors import LimitReached
from interleave.local.qwen3_vl.cuda_graph_decode import supports
from interleave.local.qwen3_vl.token_choice import RandomChoice, inverse_cdf
from interleave.train.grpo import equal_runs
from interleave.train.recipes import GrpoPart
from interleave.train.rewards.redraws import Redrawer
from interleave.train.rollouts import Rollouts, run_lengths

PROMPTS = [[5, 6, 7, 8, 9], [11, 12, 13]]
NEVER = [3]


@pytest.fixture
def adapted(toy: Path) -> Any:
    """The toy with an adapter that has learned something."""
    model = AutoModelForImageTextToText.from_pretrained(toy)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=targets))
    spread_adapter(model, 0)
    return model


def spread_adapter(model: Any, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)


def rollouts_of(model: Any, **settings: Any) -> Rollouts:
    part = GrpoPart(max_completion=12, **settings)
    return Rollouts(model.get_base_model(), part, suppressed=NEVER, eos_ids=[2], pad_id=0)


def probability(model: Any, prompt: list[int], answer: list[int]) -> list[float]:
    """Of every token of an answer, by the library's forward pass."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    logits[:, NEVER] = -torch.inf
    return logits.softmax(-1).gather(1, torch.tensor(answer)[:, None]).squeeze(1).tolist()  # type: ignore[no-any-return]


def test_a_token_is_drawn_as_often_as_it_is_likely() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 300)
    choice = RandomChoice(0.7, torch.tensor([7, 299]))
    uniform = (torch.arange(20_000) + 0.5) / 20_000
    tokens, probs = choice(logits.expand(20_000, -1), uniform)
    expected = logits[0].div(0.7).index_fill(0, choice.suppressed, -torch.inf).softmax(-1)
    drawn = torch.bincount(tokens, minlength=300) / 20_000
    assert torch.allclose(drawn, expected, atol=1e-4)
    assert torch.allclose(probs, expected[tokens])
    assert drawn[7] == drawn[299] == 0


def test_whatever_the_number_an_impossible_token_is_never_drawn() -> None:
    probs = torch.zeros(4, 257)
    probs[:, 130], probs[:, 200] = 0.25, 0.75
    uniform = torch.tensor([0.0, 0.2499, 0.25, 0.99999994])
    assert inverse_cdf(probs, uniform).tolist() == [130, 130, 200, 200]


def test_answers_are_drawn_from_the_model_with_its_adapter(adapted: Any, monkeypatch: Any) -> None:
    rollouts = rollouts_of(adapted)
    kept: list[Any] = []
    generate = rollouts.decoder.generate
    monkeypatch.setattr(
        rollouts.decoder, "generate", lambda *a, **k: kept.append(generate(*a, **k)) or kept[-1]
    )
    torch.manual_seed(1)
    answers = rollouts.answers(PROMPTS, {}, [0, 0], 3)
    assert len(answers) == 6 and len({tuple(answer) for answer in answers}) > 3
    for place, (answer, reply) in enumerate(zip(answers, kept[0], strict=True)):
        assert NEVER[0] not in answer
        expected = probability(adapted, PROMPTS[place // 3], answer)
        assert reply.probs[: len(answer)] == pytest.approx(expected, rel=1e-3)


def test_answers_follow_the_random_numbers_and_not_the_size_of_the_batch(adapted: Any) -> None:
    whole, halves = rollouts_of(adapted), rollouts_of(adapted, rollout_batch=3)
    made = []
    for rollouts in (whole, whole):
        torch.manual_seed(2)
        made.append(rollouts.answers(PROMPTS, {}, [0, 0], 3))
    assert made[0] == made[1]
    torch.manual_seed(2)
    alone = whole.answers(PROMPTS[:1], {}, [0], 3)
    torch.manual_seed(2)
    assert halves.answers(PROMPTS, {}, [0, 0], 3)[:3] == alone


def test_each_answer_is_told_once_and_as_soon_as_it_is_written(adapted: Any) -> None:
    told: list[tuple[int, list[int]]] = []
    torch.manual_seed(4)
    rollouts = rollouts_of(adapted, rollout_batch=3)
    inputs, seen = rollouts._inputs, []
    rollouts._inputs = lambda *a: seen.append(len(told)) or inputs(*a)  # type: ignore[method-assign]
    answers = rollouts.answers(PROMPTS, {}, [0, 0], 3, lambda place, ids: told.append((place, ids)))
    assert dict(told) == dict(enumerate(answers)) and len(told) == 6
    assert seen == [0, 3], "those of the first batch before the second begins"


def test_what_was_learned_since_is_in_the_next_answers(adapted: Any) -> None:
    rollouts = rollouts_of(adapted)
    rollouts.answers(PROMPTS, {}, [0, 0], 2)
    spread_adapter(adapted, 5)
    torch.manual_seed(3)
    after = rollouts.answers(PROMPTS, {}, [0, 0], 2)
    torch.manual_seed(3)
    assert after == rollouts_of(adapted).answers(PROMPTS, {}, [0, 0], 2)


def test_adapters_of_other_kinds_are_left_to_the_library(toy: Path) -> None:
    model = AutoModelForImageTextToText.from_pretrained(toy)
    config = LoraConfig(r=2, target_modules=["q_proj"], use_dora=True)
    assert not supports(get_peft_model(model, config).get_base_model())


def test_groups_are_found_where_rows_repeat() -> None:
    assert run_lengths("aabbb") == [2, 3]
    assert equal_runs([{"id": name} for name in "aabb"]) == [2, 2]
    assert equal_runs([{"id": name} for name in "aab"]) == [1, 1, 1], "a group is cut by processes"


@pytest.mark.usefixtures("always_refusing")
def test_rewards_begun_during_the_rollout_are_those_of_after_it(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = threading.Event()

    class Noting(Painter):
        async def generate(self, request: ImageRequest) -> Image.Image:
            drawing.set()
            return await super().generate(request)

    ours = {"grpo__rollouts": "graphs", "grpo__rollout_batch": 4, "training__steps": 2}
    train(toy, data, tmp_path / "after", Redrawer(Painter(), Marker()), **ours)
    inputs, batches = Rollouts._inputs, count(1)

    def second_waits(self: Rollouts, *arguments: Any) -> Any:
        """The second batch of answers is written when something is being drawn for the first."""
        assert next(batches) != 2 or drawing.wait(60)
        return inputs(self, *arguments)

    monkeypatch.setattr(Rollouts, "_inputs", second_waits)
    redraws = Redrawer(Noting(), Marker())
    train(toy, data, tmp_path / "during", redraws, reward__during_rollout=True, **ours)
    assert next(batches) == 5
    assert curve(tmp_path / "during") == curve(tmp_path / "after")
    assert same(weights(tmp_path / "during"), weights(tmp_path / "after"))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 4])
def test_K09_with_our_decoding_a_resumed_training_has_the_curve_of_an_undisturbed_one(
    schooled: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    hot = {"grpo__temperature": 1.3, "grpo__max_completion": 40, "training__steps": 3}
    ours = {**hot, "grpo__rollouts": "graphs", "grpo__rollout_batch": 4, "model__lora_rank": rank}
    model = schooled["out"] / "model"
    train(model, data, tmp_path / "whole", **ours)
    with monkeypatch.context() as patched:
        stop_after(patched, 2)
        with pytest.raises(LimitReached):
            train(model, data, tmp_path / "halves", **ours)
    train(model, data, tmp_path / "halves", **ours)
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))
    assert any(line["completions/mean_length"] > 1 for line in curve(tmp_path / "whole") if "loss" in line)
