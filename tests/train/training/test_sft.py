"""Supervised fine-tuning with a toy Qwen3-VL: it learns, it learns the answer only, it goes on exactly."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from making import critic_sft_rows, write_rows

from interleave.agents.critic import critic_input, critic_messages
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import Sampling
from interleave.backends.registry import load_vlm
from interleave.errors import (
    ConfigurationError,
    FolderInUse,
    InputError,
    LimitReached,
    OutOfMemory,
    RunError,
)
from interleave.train.collator import IGNORED, SftCollator
from interleave.train.inspection import open_rows
from interleave.train.logs import comparable, read_log
from interleave.train.models import load_trainable_model
from interleave.train.monitor import TrainingBroken, TrainingMonitor
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import Recipe, TrainingJob, load_recipe
from interleave.train.rows import find_rows, read_rows
from interleave.train.sft import LengthGroupedSampler, train_sft


def recipe(model: Path, **changes: Any) -> Recipe:
    return load_recipe(
        None,
        task="sft",
        changes={
            "model.name": str(model),
            "training.batch": 2,
            "training.device_batch": 2,
            "training.steps": 6,
            "training.learning_rate": 1e-3,
            "training.log_every": 1,
            "training.save_every": 3,
            **{name.replace("__", "."): value for name, value in changes.items()},
        },
    )


def train(model: Path, data: Path, out: Path, *, task: Any = "critic", **changes: Any) -> str:
    limits = {
        name: changes.pop(name) for name in ("max_minutes", "fall_back", "trust_data") if name in changes
    }
    return train_sft(TrainingJob(task, recipe(model, **changes), data, out, **limits), lambda message: None)


def curve(out: Path) -> list[dict[str, Any]]:
    return comparable(read_log(out / "log.jsonl"))


def weights(out: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    name = (
        "model.safetensors" if (out / "model" / "model.safetensors").exists() else "adapter_model.safetensors"
    )
    return load_file(out / "model" / name)


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let training end in order after so many steps, as --max-minutes does."""
    original = TrainingMonitor.after_step

    def after_step(self: TrainingMonitor, step: int, control: Any) -> None:
        if step == steps:
            self.stop(LimitReached("enough"))
        original(self, step, control)

    monkeypatch.setattr(TrainingMonitor, "after_step", after_step)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- learning


def test_it_overfits_four_rows(schooled: dict[str, Any]) -> None:
    losses = [line["loss"] for line in read_log(schooled["out"] / "log.jsonl")]
    assert losses[0] > 5
    assert losses[-1] < 0.15
    page = (schooled["out"] / "samples.html").read_text()
    assert page.count("✓") >= 3, "what it learned it can say"
    assert page.count("data:image/webp") == 8


def test_nothing_warns_of_the_libraries_future(schooled: dict[str, Any]) -> None:
    assert schooled["warned"] == []


def test_the_result_loads_straight_into_the_transformers_backend(
    schooled: dict[str, Any], data: Path
) -> None:
    assert schooled["use"] == f"transformers:{schooled['out'] / 'model'}"
    assert not list((schooled["out"] / "model").glob("*.bin"))
    vlm = load_vlm(schooled["use"], "critic")
    row = read_rows(find_rows(data, "critic")[0], "critic")[0]
    seen = critic_input("a cat", "a cat", (), row["images"][1])
    reply = asyncio.run(vlm.complete(critic_messages(seen, load_pack()), Sampling(max_tokens=4)))
    assert reply.text


def test_the_result_has_what_other_programs_look_for(schooled: dict[str, Any]) -> None:
    names = {path.name for path in (schooled["out"] / "model").iterdir()}
    assert {"preprocessor_config.json", "video_preprocessor_config.json"} <= names
    tokenizer = json.loads((schooled["out"] / "model" / "tokenizer_config.json").read_text())
    assert "extra_special_tokens" not in tokenizer, "transformers 4 would read it as a table"


@pytest.mark.parametrize("task", ["critic", "planner"])
def test_labels_cover_the_answer_only(toy: Path, data: Path, task: Any) -> None:
    learner = load_trainable_model(recipe(toy).model)
    rows = read_rows(find_rows(data, task)[0], task)
    taken = [rows[index] for index in range(4)]
    batch = SftCollator(learner.processor, pad_to=32)(taken)
    assert batch["input_ids"].shape[1] % 32 == 0
    for index, row in enumerate(taken):
        answer = row["completion"][0]["content"][0]["text"]
        learned = batch["labels"][index]
        ids = batch["input_ids"][index][learned != IGNORED]
        assert learner.processor.tokenizer.decode(ids) == f"{answer}<|im_end|>\n"
        assert torch.equal(ids, learned[learned != IGNORED])
        masked = learner.processor.tokenizer.decode(batch["input_ids"][index][learned == IGNORED])
        assert "previous_step_success" not in masked
        assert "execution_plan" not in masked
    assert not (batch["labels"] == learner.processor.image_token_id).any()


def test_images_remembered_are_the_images_made(toy: Path, data: Path) -> None:
    rows = read_rows(find_rows(data, "critic")[0], "critic")
    plain, remembering = (load_trainable_model(recipe(toy).model, picture_cache_mb=size) for size in (0, 1))
    for _ in range(2):
        one, other = (
            SftCollator(each.processor)([rows[index] for index in range(4)]) for each in (plain, remembering)
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_text_and_images_may_share_a_batch(toy: Path, data: Path, tmp_path: Path) -> None:
    mixed = [*critic_sft_rows(1, side=64)]
    text_only = {
        "id": "text",
        "prompt": [{"role": "user", "content": [{"type": "text", "text": "plan: a cat"}]}],
        "completion": mixed[0]["completion"],
        "images": [],
    }
    write_rows(tmp_path / "agent_sft.parquet", [mixed[0], text_only])
    train(toy, tmp_path, tmp_path / "out", task="agent", training__steps=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself
def test_compiled_layers_learn_the_same(toy: Path, data: Path, tmp_path: Path) -> None:
    if not any(map(shutil.which, ("g++", "clang++"))):
        pytest.skip("no compiler")
    train(toy, data, tmp_path / "plain", training__steps=2)
    train(toy, data, tmp_path / "compiled", training__steps=2, training__compile=True)
    losses = [[line["loss"] for line in curve(tmp_path / name)] for name in ("plain", "compiled")]
    assert losses[0] == pytest.approx(losses[1], abs=2e-4)
    plain, compiled = (weights(tmp_path / name) for name in ("plain", "compiled"))
    assert plain.keys() == compiled.keys()


# --- going on


def test_K09_a_resumed_training_has_the_curve_of_an_undisturbed_one(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(toy, data, tmp_path / "whole")
    with monkeypatch.context() as patched:
        stop_after(patched, 4)
        with pytest.raises(LimitReached):
            train(toy, data, tmp_path / "halves")
    assert [line["step"] for line in curve(tmp_path / "halves")] == [1, 2, 3, 4]
    train(toy, data, tmp_path / "halves")
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_K09_rows_grouped_by_length_go_on_in_the_middle_of_an_epoch(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job: list[list[int]] = []
    order = LengthGroupedSampler._order

    def noted(self: LengthGroupedSampler, chance: Any) -> list[int]:
        job.append(order(self, chance))
        return job[-1]

    monkeypatch.setattr(LengthGroupedSampler, "_order", noted)
    train(toy, data, tmp_path / "whole", training__group_by_length=True)
    undisturbed = job.copy()
    assert len(undisturbed) == 3, "one for each epoch"
    job.clear()
    with monkeypatch.context() as patched:
        stop_after(patched, 3)
        with pytest.raises(LimitReached):
            train(toy, data, tmp_path / "halves", training__group_by_length=True)
    train(toy, data, tmp_path / "halves", training__group_by_length=True)
    assert job == [undisturbed[0], undisturbed[1], undisturbed[1], undisturbed[2]]
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_K09_a_line_of_the_log_is_that_of_an_undisturbed_training_though_it_began_before_the_stop(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(toy, data, tmp_path / "whole", training__log_every=3)
    with monkeypatch.context() as patched:
        stop_after(patched, 5)
        with pytest.raises(LimitReached):
            train(toy, data, tmp_path / "halves", training__log_every=3)
    train(toy, data, tmp_path / "halves", training__log_every=3)
    assert [line["step"] for line in curve(tmp_path / "halves")] == [1, 3, 6]
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")


@pytest.mark.slow
def test_K09_an_adapter_goes_on_as_exactly_and_loads(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lora = {"model__lora_rank": 4, "model__lora_dropout": 0.1, "training__steps": 4}
    use = train(toy, data, tmp_path / "whole", **lora)
    assert use == f"transformers:{toy}?adapter={tmp_path / 'whole' / 'model'}"
    with monkeypatch.context() as patched:
        stop_after(patched, 2)
        with pytest.raises(LimitReached):
            train(toy, data, tmp_path / "halves", **lora)
    train(toy, data, tmp_path / "halves", **lora)
    assert curve(tmp_path / "halves") == curve(tmp_path / "whole")
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))
    assert load_vlm(use, "critic").adapter  # type: ignore[attr-defined]


@pytest.mark.slow
def test_K13_the_number_of_workers_does_not_change_what_is_learned(
    toy: Path, data: Path, tmp_path: Path
) -> None:
    train(toy, data, tmp_path / "none", training__steps=2)
    train(toy, data, tmp_path / "two", training__steps=2, training__workers=2)
    assert same(weights(tmp_path / "none"), weights(tmp_path / "two"))


def test_a_finished_training_is_not_begun_again(schooled: dict[str, Any], data: Path, toy: Path) -> None:
    record = json.loads((schooled["out"] / "training.json").read_text())
    settings = Recipe.model_validate(record["recipe"])
    said: list[str] = []
    assert train_sft(TrainingJob("critic", settings, data, schooled["out"]), said.append) == schooled["use"]
    assert said[-1] == "this training is done"


def test_K19_another_batch_or_other_rows_are_refused(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 1)
    with pytest.raises(LimitReached):
        train(toy, data, tmp_path / "out")
    with pytest.raises(RunError, match=r"another training.batch \(2, not 4\)"):
        train(toy, data, tmp_path / "out", training__batch=4)
    with pytest.raises(RunError, match="another rows"):
        shutil.copytree(data, tmp_path / "other")
        write_rows(tmp_path / "other" / "critic_sft.parquet", critic_sft_rows(3, side=64))
        train(toy, tmp_path / "other", tmp_path / "out")
    with pytest.raises(LimitReached):  # what does not change the result may change
        stop_after(monkeypatch, 2)
        train(toy, data, tmp_path / "out", training__save_every=1, training__workers=0)


def test_K19_another_number_of_processes_is_refused(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave.train import checkpoints

    stop_after(monkeypatch, 1)
    with pytest.raises(LimitReached):
        train(toy, data, tmp_path / "out")
    folder = tmp_path / "out" / "checkpoints" / "checkpoint-1"
    checkpoints.seal(folder, step=1, processes=8)
    with pytest.raises(ConfigurationError, match="was trained by 8 processes, not 1"):
        train(toy, data, tmp_path / "out")


def test_a_folder_without_a_saved_step_may_be_taken_over(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("interleave.train.sft.run_training", fail)
        with pytest.raises(KeyboardInterrupt):
            train(toy, data, tmp_path / "out", training__steps=5)
    assert json.loads((tmp_path / "out" / "training.json").read_text())["recipe"]["training"]["steps"] == 5
    train(toy, data, tmp_path / "out", training__steps=1)
    assert json.loads((tmp_path / "out" / "training.json").read_text())["recipe"]["training"]["steps"] == 1
    with pytest.raises(RunError, match=r"another training.steps \(1, not 2\)"):
        train(toy, data, tmp_path / "out", training__steps=2)


def fail(*arguments: Any) -> str:
    raise KeyboardInterrupt


def test_two_trainings_do_not_share_a_folder(toy: Path, data: Path, tmp_path: Path) -> None:
    held = OutputFolder(tmp_path / "out").open("critic", recipe(toy), "rows")
    with held, pytest.raises(FolderInUse, match="another training is running"):
        train(toy, data, tmp_path / "out")


def test_a_folder_with_something_else_in_it_is_left_alone(toy: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="not empty and contains no training"):
        train(toy, data, tmp_path / "out")


# --- what can go wrong


def test_K16_a_row_that_is_too_long_is_named_and_never_cut(toy: Path, data: Path, tmp_path: Path) -> None:
    too_long = (
        r"critic_sft.parquet row 1 \('critic/0'\): it has [\d,]+ tokens, more than the 50 of training.max"
    )
    with pytest.raises(InputError, match=rf"4 of 4 rows cannot be used: .*{too_long}"):
        train(toy, data, tmp_path / "out", training__max_length=50)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=r"row 'critic/\d' has [\d,]+ tokens.*--skip-bad"):
        train(toy, data, tmp_path / "out", training__max_length=50, trust_data=True)
    rows = read_rows(find_rows(data, "critic")[0], "critic")
    lengths = SftCollator(load_trainable_model(recipe(toy).model).processor).lengths(
        [rows[n] for n in range(4)]
    )
    settings = recipe(toy, training__max_length=max(lengths) - 1)
    kept = open_rows(
        TrainingJob("critic", settings, data, tmp_path / "out", skip_bad=True), lambda message: None
    )
    assert kept.skipped == tuple(n for n, length in enumerate(lengths) if length == max(lengths))
    assert len(kept.train) == 4 - len(kept.skipped) > 0


def test_K16_running_out_of_memory_stops_with_what_to_do(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl import SFTTrainer

    original = SFTTrainer.training_step

    def fail(self: Any, *arguments: Any, **options: Any) -> Any:
        if self.state.global_step == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, *arguments, **options)

    monkeypatch.setattr(SFTTrainer, "training_step", fail)
    with pytest.raises(OutOfMemory, match=r"Lower training.device_batch.*checkpoint-3"):
        train(toy, data, tmp_path / "out")


def test_K20_a_gradient_that_is_not_a_number_is_skipped_and_counted(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = _poisoned(toy, data, tmp_path, monkeypatch, steps={2})
    assert same(before, after), "neither gradient, nor momentum, nor decay moved the weights"
    assert read_log(tmp_path / "out" / "log.jsonl")[-1]["step"] == 6, "and it went on"


def test_K20_three_such_steps_running_stop_the_training(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainingBroken, match="in 3 consecutive steps"):
        _poisoned(toy, data, tmp_path, monkeypatch, steps={2, 3, 4})
    assert (tmp_path / "out" / "checkpoints" / "checkpoint-5" / "whole.json").exists(), "with its state saved"


def _poisoned(
    toy: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: set[int]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Train with gradients that are not numbers in some steps; the weights around the last of them."""
    from trl import SFTTrainer

    taken: dict[int, dict[str, torch.Tensor]] = {}
    original = SFTTrainer.training_step

    def poison(self: Any, model: Any, *arguments: Any, **options: Any) -> Any:
        step = self.state.global_step
        taken[step] = {name: each.detach().clone() for name, each in model.named_parameters()}
        loss = original(self, model, *arguments, **options)
        if step in steps:
            next(iter(model.parameters())).grad.view(-1)[0] = float("nan")
        return loss

    monkeypatch.setattr(SFTTrainer, "training_step", poison)
    train(toy, data, tmp_path / "out", training__weight_decay=0.1)
    last = max(steps)
    return taken[last], taken[last + 1]
