"""GRPO with a toy Qwen3-VL: reward rises, failures leave no trace in what is learned, it goes on exactly."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from test_sft import curve, same, stop_after, weights

from interleave.agents.critic import CriticInput
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.errors import BackendError, ConfigurationError, LimitReached
from interleave.train.grpo import grpo_trainer, load_reward, train_grpo
from interleave.train.inspection import open_rows
from interleave.train.logs import read_log
from interleave.train.models import load_trainable_model
from interleave.train.monitor import TrainingMonitor
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import Recipe, TrainingJob, load_recipe
from interleave.train.rewards.formula import batch_advantages
from interleave.train.rewards.health import RewardUnhealthy
from interleave.train.rewards.redraws import Redrawer
from interleave.train.trainers.trl import TrlReward
from interleave.types import Scores

PROMPTS, SAMPLES = 2, 4


def recipe(model: Path, **changes: Any) -> Recipe:
    return load_recipe(
        None,
        task="grpo",
        changes={
            "model.name": str(model),
            "training.device_batch": PROMPTS * SAMPLES,
            "training.steps": 4,
            "training.learning_rate": 1e-3,
            "training.schedule": "constant",
            "training.log_every": 1,
            "training.save_every": 2,
            "grpo.prompts": PROMPTS,
            "grpo.samples": SAMPLES,
            "grpo.max_completion": 24,
            "reward.generator": "world",
            "reward.scorer": "oracle",
            "reward.patience": 0.0,
            **{name.replace("__", "."): value for name, value in changes.items()},
        },
    )


def train(model: Path, data: Path, out: Path, redraws: Redrawer | None = None, **changes: Any) -> str:
    return train_grpo(TrainingJob("grpo", recipe(model, **changes), data, out), lambda message: None, redraws)


class Painter:
    capabilities = GeneratorCapabilities()

    async def generate(self, request: ImageRequest) -> Image.Image:
        await asyncio.sleep(0)
        return Image.new("RGB", (32, 32), (len(request.prompt) % 256, request.seed % 256, 0))


class Marker:
    """Marks by the length of the prompt, and fails when it is told to."""

    def __init__(self, fails: Callable[[int], bool] = lambda call: False) -> None:
        self.calls = 0
        self.fails = fails

    async def score(self, seen: CriticInput) -> Scores:
        self.calls += 1
        if self.fails(self.calls):
            raise BackendError("the scorer is down")
        return Scores(semantics=min(10.0, len(seen.prompt) / 20), quality=5.0)


@pytest.fixture
def always_refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a toy says is taken as a refusal with its own words as the better prompt: all is drawn."""
    from interleave.train.rewards import core, samples
    from interleave.types import Outcome, Verdict

    def refuse(completion: str) -> Verdict:
        return Verdict(outcome=Outcome.REJECTED, refined_prompt=completion.strip().replace("\x00", "") or "x")

    monkeypatch.setattr(core, "_parse", refuse)
    original = samples.Sample.of_row.__func__  # type: ignore[attr-defined]
    wrong = classmethod(lambda cls, row: original(cls, {**row, "success": False}))
    monkeypatch.setattr(samples.Sample, "of_row", wrong)


# --- learning


@pytest.mark.slow
def test_the_reward_rises_on_a_toy_task(toy: Path, data: Path, tmp_path: Path, always_refusing: None) -> None:
    """A critic that has learned nothing finds out that longer prompts are marked higher."""
    out = tmp_path / "out"
    train(
        toy,
        data,
        out,
        Redrawer(Painter(), Marker()),
        training__steps=10,
        training__learning_rate=4e-2,
        training__device_batch=16,
        grpo__samples=8,
        grpo__max_completion=16,
    )
    rewards = [line["reward"] for line in read_log(out / "log.jsonl")]
    first, last = sum(rewards[:3]) / 3, sum(rewards[-3:]) / 3
    assert last > first + 0.05, rewards  # of 0.12 with any seed


def test_the_logs_and_the_page_say_what_happened_and_nothing_warns(
    schooled: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", FutureWarning)
        use = train(
            schooled["out"] / "model", data, out, training__steps=2, grpo__max_completion=120, grpo__kl=0.01
        )
    assert [str(each.message) for each in warned] == []
    assert use == f"transformers:{out / 'model'}"
    line = read_log(out / "log.jsonl")[-1]
    for name in (
        "reward",
        "reward/format",
        "reward/accuracy",
        "reward/semantics",
        "reward/quality",
        "reward/masked",
        "judgement/accuracy",
        "kl",
        "completions/mean_length",
        "time/data",
        "time/generate",
        "time/reward",
        "time/update",
        "groups/skipped",
        "groups/equal",
        "samples/failure_rate",
    ):
        assert name in line, name
    assert list((out / "tensorboard").glob("events.*"))
    page = (out / "samples.html").read_text()
    assert "data:image/webp" in page
    assert "planned:" in page


def test_K09_a_resumed_training_has_the_curve_of_an_undisturbed_one(
    schooled: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = {"grpo__temperature": 1.3, "grpo__max_completion": 40, "training__steps": 4, "grpo__kl": 0.01}
    train(schooled["out"] / "model", data, tmp_path / "whole", **hot)
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        with pytest.raises(LimitReached):
            train(schooled["out"] / "model", data, tmp_path / "halves", **hot)
    train(schooled["out"] / "model", data, tmp_path / "halves", **hot)
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_K09_with_several_updates_a_training_stops_only_between_generations(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always_refusing: None
) -> None:
    two = {"grpo__updates": 2, "training__device_batch": 4, "training__steps": 6, "training__save_every": 1}
    train(toy, data, tmp_path / "whole", Redrawer(Painter(), Marker()), **two)
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        with pytest.raises(LimitReached):
            train(toy, data, tmp_path / "halves", Redrawer(Painter(), Marker()), **two)
    assert read_log(tmp_path / "halves" / "log.jsonl")[-1]["step"] == 4
    train(toy, data, tmp_path / "halves", Redrawer(Painter(), Marker()), **two)
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))


# --- masking


@pytest.fixture
def trainer(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None
) -> Callable[..., tuple[Any, list[Any]]]:
    def build(marker: Marker, **changes: Any) -> tuple[Any, list[Any]]:
        settings = recipe(toy, **changes)
        rows = open_rows(TrainingJob("grpo", settings, data, tmp_path / "out"), lambda message: None)
        learner = load_trainable_model(settings.model)
        reward = load_reward(settings, Redrawer(Painter(), marker))
        out = OutputFolder(tmp_path / "out")
        out.folder.mkdir(exist_ok=True)
        made = grpo_trainer(settings, learner, rows, out, TrainingMonitor(), reward, lambda message: None)
        made.model.train()
        return made, [rows.train[index] for index in (0, 1) for _ in range(SAMPLES)]

    return build


def test_K02_a_step_with_failures_is_the_step_without_the_failed(
    trainer: Callable[..., tuple[Any, list[Any]]],
) -> None:
    """Advantages to the last digit, and the gradient of a batch that never had the failed samples in it."""
    made, rows = trainer(Marker(lambda call: call in (2, 7)), grpo__kl=0.05, reward__most_failures=0.5)
    torch.manual_seed(3)
    output = made._generate_and_score_completions(rows)
    totals = [result.total for result in made.scored.results]
    assert sum(total is None for total in totals) == 2
    expected = batch_advantages([None if t is None else float(torch.tensor(t)) for t in totals], SAMPLES)
    assert output["advantages"].tolist() == [float(torch.tensor(each or 0.0)) for each in expected]
    assert len({*output["advantages"].tolist()}) > 3
    kept = [place for place, total in enumerate(totals) if total is not None]
    assert output["completion_mask"].sum(dim=1).gt(0).tolist() == [total is not None for total in totals]
    assert int(output["num_items_in_batch"]) == int(output["completion_mask"].sum())

    def gradient(batch: dict[str, Any]) -> torch.Tensor:
        made.model.zero_grad()
        made.current_gradient_accumulation_steps = 1
        made._compute_loss(made.model, batch).backward()
        return torch.cat([each.grad.flatten() for each in made.model.parameters() if each.grad is not None])

    grids = output["image_grid_thw"].prod(dim=1).tolist()
    pixels = torch.split(output["pixel_values"], [sum(grids[2 * row : 2 * row + 2]) for row in range(8)])
    without = {
        name: value[kept] if name not in ("pixel_values", "image_grid_thw", "num_images") else value
        for name, value in output.items()
        if isinstance(value, torch.Tensor) and value.dim() and name not in ("pixel_values", "image_grid_thw")
    } | {
        "pixel_values": torch.cat([pixels[row] for row in kept]),
        "image_grid_thw": output["image_grid_thw"].view(8, 2, 3)[kept].reshape(-1, 3),
        "num_images": [2] * len(kept),
        "num_items_in_batch": output["num_items_in_batch"],
    }
    torch.testing.assert_close(gradient(dict(output)), gradient(without), rtol=1e-4, atol=1e-7)


def test_K02_a_group_with_one_valid_sample_is_skipped(trainer: Callable[..., tuple[Any, list[Any]]]) -> None:
    made, rows = trainer(Marker(lambda call: call in (1, 2, 3)), reward__most_failures=0.5)
    output = made._generate_and_score_completions(rows)
    assert output["completion_mask"][:SAMPLES].sum() == 0
    assert output["advantages"][:SAMPLES].tolist() == [0.0] * SAMPLES
    assert output["completion_mask"][SAMPLES:].sum() > 0
    assert made._metrics["train"]["groups/skipped"] == [1.0]


def test_K04_equal_rewards_move_nothing(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flat(Marker):
        async def score(self, seen: CriticInput) -> Scores:
            return Scores(semantics=5.0, quality=5.0)

    train(
        toy,
        data,
        tmp_path / "out",
        Redrawer(Painter(), Flat()),
        training__weight_decay=0.5,
        training__steps=2,
    )
    assert same(weights(tmp_path / "out"), load_file(toy / "model.safetensors"))
    assert [line["groups/equal"] for line in read_log(tmp_path / "out" / "log.jsonl")] == [2.0, 2.0]


# --- health


@pytest.mark.slow
def test_K01_when_the_scorer_is_down_for_a_whole_step_nothing_is_learned_and_it_goes_on_exactly(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None
) -> None:
    per_step = PROMPTS * SAMPLES
    train(toy, data, tmp_path / "whole", Redrawer(Painter(), Marker()))
    down = Marker(lambda call: call > 2 * per_step)
    with pytest.raises(RewardUnhealthy, match=r"every reward of step 3 failed \(the scorer is down\)"):
        train(toy, data, tmp_path / "out", Redrawer(Painter(), down))
    saved = tmp_path / "out" / "checkpoints" / "checkpoint-2"
    assert (saved / "whole.json").exists()
    assert [line["step"] for line in read_log(tmp_path / "out" / "log.jsonl")] == [1, 2]
    train(toy, data, tmp_path / "out", Redrawer(Painter(), Marker()))
    assert curve(tmp_path / "out") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "out"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_K01_an_outage_between_checkpoints_is_saved_where_it_happened(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None
) -> None:
    rarely = {"training__save_every": 4, "training__log_every": 4}
    train(toy, data, tmp_path / "whole", Redrawer(Painter(), Marker()), **rarely)
    down = Marker(lambda call: call > 2 * PROMPTS * SAMPLES)
    with pytest.raises(RewardUnhealthy, match="step 3"):
        train(toy, data, tmp_path / "out", Redrawer(Painter(), down), **rarely)
    assert (tmp_path / "out" / "checkpoints" / "checkpoint-2" / "whole.json").exists()
    train(toy, data, tmp_path / "out", Redrawer(Painter(), Marker()), **rarely)
    assert [line["step"] for line in curve(tmp_path / "out")] == [1, 4]
    assert curve(tmp_path / "out") == curve(tmp_path / "whole")


def test_K01_a_short_outage_is_waited_for(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward = partial(TrlReward, first_pause=0.01)  # in seconds
    monkeypatch.setattr("interleave.train.grpo.TrlReward", reward)
    per_step = PROMPTS * SAMPLES
    brief = Marker(lambda call: per_step < call <= 3 * per_step)
    train(toy, data, tmp_path / "whole", Redrawer(Painter(), Marker()), training__steps=2)
    settings = {"training__steps": 2, "reward__patience": 60.0}
    train(toy, data, tmp_path / "out", Redrawer(Painter(), brief), **settings)
    assert curve(tmp_path / "out") == curve(tmp_path / "whole")


@pytest.mark.slow
def test_K05_too_many_failures_for_three_steps_stop_the_training_with_its_state_saved(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None
) -> None:
    flaky = Marker(lambda call: call % 4 == 0)
    with pytest.raises(
        RewardUnhealthy, match="reward_unhealthy: more than 10% of the redraws failed in 3 consecutive"
    ):
        train(toy, data, tmp_path / "out", Redrawer(Painter(), flaky), training__steps=5)
    lines = read_log(tmp_path / "out" / "log.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert [line["samples/failure_rate"] for line in lines] == [0.25] * 3
    assert [line["redraws/failed"] for line in lines] == [0.25] * 3
    saved = tmp_path / "out" / "checkpoints" / "checkpoint-3"
    assert (saved / "whole.json").exists()
    assert same(load_file(saved / "model.safetensors"), load_file(toy / "model.safetensors"))
    train(toy, data, tmp_path / "out", Redrawer(Painter(), Marker()), training__steps=5)
    lines = read_log(tmp_path / "out" / "log.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert [line["redraws/failed_lately"] for line in lines[3:]] == [0.0] * 2, "it is counted anew"


@pytest.mark.slow
def test_nothing_is_learned_from_a_step_of_which_much_failed_and_the_next_ones_go_on(
    toy: Path, data: Path, tmp_path: Path, always_refusing: None
) -> None:
    """Weights, log and messages of a real trainer, with a judge that fails for a part of the first step."""
    said: list[str] = []
    job = TrainingJob("grpo", recipe(toy, training__steps=2, training__save_every=1), data, tmp_path / "out")
    train_grpo(job, said.append, Redrawer(Painter(), Marker(lambda call: call in (1, 4, 5))))
    first, second = read_log(tmp_path / "out" / "log.jsonl")
    assert (first["steps/discarded"], second["steps/discarded"]) == (1.0, 0.0)
    assert (first["redraws/failed"], second["redraws/failed"]) == (3 / 8, 0.0)
    assert second["redraws/failed_lately"] == pytest.approx(3 / 16)
    assert first["groups/discarded"] == 1.0, "of the first group a half has failed, of the other a quarter"
    assert (first["loss"], first["grad_norm"]) == (0.0, 0.0)
    assert any("step 1: 3 of 8 redraws failed (the scorer is down); step discarded" in line for line in said)
    unchanged = load_file(tmp_path / "out" / "checkpoints" / "checkpoint-1" / "model.safetensors")
    assert same(unchanged, load_file(toy / "model.safetensors"))
    assert not same(weights(tmp_path / "out"), unchanged)


def test_a_folder_is_taken_only_when_all_models_are_loaded(toy: Path, data: Path, tmp_path: Path) -> None:
    """A generator with a right name may still be wrong; the corrected command then finds nothing there."""
    for wrong in ({"reward__generator": "solid:model"}, {"model__name": str(tmp_path / "nothing")}):
        with pytest.raises(ConfigurationError, match=r"takes no model|does not exist"):
            train(toy, data, tmp_path / "out", **wrong)
        assert not (tmp_path / "out").exists()
