"""`interleave train` as a user types it: recipes, the check before training, messages and exit codes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interleave.cli.main import run
from interleave.errors import ConfigurationError
from interleave.train.launch_files import read_launch, verl_settings
from interleave.train.logs import read_log
from interleave.train.preflight import ParameterCounts, estimate_memory
from interleave.train.recipes import Recipe, load_recipe, parse_changes, shipped_recipes

ROOT = Path(__file__).parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LAUNCH = ROOT / "launch"


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_recipe_can_be_read_and_starts_with_its_command(name: str) -> None:
    text = shipped_recipes()[name].read_text("utf-8")
    task = tomllib.loads(text)["task"]
    recipe = load_recipe(name, task=task)
    assert recipe.description
    assert text.startswith(f"# interleave train {task} ")
    assert f"--config {name} " in text.splitlines()[0]


def test_the_papers_values_are_those_of_the_paper() -> None:
    planner, critic = (load_recipe(f"qwen3-vl-8b-sft-{role}", task="sft") for role in ("planner", "critic"))
    assert (planner.training.epochs, critic.training.epochs) == (3, 2)
    assert critic.training.learning_rate == 2e-5
    assert (critic.training.batch, critic.training.warmup, critic.training.weight_decay) == (32, 0.1, 1e-6)
    assert not critic.model.train_vision
    printed, coded = (load_recipe(f"qwen3-vl-8b-grpo{end}", task="grpo") for end in ("", "-coded"))
    assert (printed.grpo.kl, coded.grpo.kl) == (1e-3, 0.0)
    assert (printed.grpo.updates, coded.grpo.updates) == (1, 2)
    assert printed.training.learning_rate == 2e-6
    assert (printed.grpo.prompts, printed.grpo.samples, printed.grpo.clip_high) == (16, 8, 0.3)


def test_every_value_where_text_and_code_differ_is_marked_so() -> None:
    for name in ("qwen3-vl-8b-sft-planner", "qwen3-vl-8b-grpo", "qwen3-vl-8b-grpo-coded"):
        text = shipped_recipes()[name].read_text("utf-8")
        assert "(printed" in text or "(coded" in text


def test_settings_are_changed_by_name_and_wrong_ones_are_said() -> None:
    changes = parse_changes(["training.batch=64", "model.attention=sdpa", "reward.form='plain'"])
    recipe = load_recipe(None, task="sft", changes=changes)
    assert (recipe.training.batch, recipe.model.attention, recipe.reward.form) == (64, "sdpa", "plain")
    with pytest.raises(ConfigurationError, match=r"no setting 'training.bach'.*Did you mean 'batch'"):
        load_recipe(None, task="sft", changes={"training.bach": 3})
    with pytest.raises(ConfigurationError, match=r"training.learning_rate: must be more than 0, not 0"):
        load_recipe(None, task="sft", changes={"training.learning_rate": 0})
    with pytest.raises(ConfigurationError, match=r"write PART.KEY=VALUE"):
        parse_changes(["batch=3"])
    with pytest.raises(ConfigurationError, match=r"no recipe named 'mini-stf'.*Did you mean 'mini-sft'"):
        load_recipe("mini-stf", task="sft")
    with pytest.raises(ConfigurationError, match="is for 'grpo', not for 'sft'"):
        load_recipe("mini-grpo", task="sft")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training.batch": "many"}, "training.batch: must be a whole number, not 'many'"),
        ({"training.batch": 1.5}, "training.batch: must be a whole number, not 1.5"),
        ({"training.warmup": "soon"}, "training.warmup: must be a number, not 'soon'"),
        ({"model.train_vision": "maybe"}, "model.train_vision: must be true or false, not 'maybe'"),
        ({"model.lora_targets": 3}, "model.lora_targets: must be a list, not 3"),
        ({"reward.form": "fair"}, "reward.form: must be 'normalised' or 'plain', not 'fair'"),
        ({"training.keep": 0}, "training.keep: must be at least 1, not 0"),
        ({"grpo.updates": 7}, "grpo.updates: 128 answers do not split into 7 updates"),
    ],
)
def test_a_wrong_value_is_said_in_our_own_words(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_recipe(None, task="grpo", changes=change)
    assert str(caught.value) == f"the settings: {message}"


def sft(*arguments: object) -> int:
    return run(["train", "sft", "critic", *map(str, arguments)])


def test_the_check_prints_the_plan_the_memory_and_the_first_batch_and_trains_nothing(
    toy: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert sft("--data", data, "--model", toy, "--config", "debug-sft", "--out", out, "--check") == 0
    said = capsys.readouterr().out
    assert "4 rows" in said
    assert "8 images, all checked" in said
    assert "255,776 parameters, 255,776 trainable (100.0%)" in said
    assert "20 of 4 rows: 4 per device × 1 × 1 processes" in said
    assert "memory      about " in said
    masked, learned = said.split("--- LEARNED")
    assert "⟨image: 4 tokens⟩" in masked
    assert "previous_step_success" not in masked
    assert "previous_step_success" in learned
    assert not out.exists()


@pytest.mark.parametrize("cached", [False, True], ids=["folder", "Hub's cache"])
def test_the_check_needs_no_weights(
    cached: bool,
    toy: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bare = tmp_path / "hub" / "models--Me--Toy" / "snapshots" / COMMIT if cached else tmp_path / "toy"
    shutil.copytree(toy, bare, ignore=shutil.ignore_patterns("*.safetensors*"))
    if cached:
        (tmp_path / "hub" / "models--Me--Toy" / "refs").mkdir()
        (tmp_path / "hub" / "models--Me--Toy" / "refs" / "main").write_text(COMMIT)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    name = "Me/Toy" if cached else bare
    words = ["--data", data, "--model", name, "--config", "debug-sft", "--set", "training.max_length=4000"]
    assert sft(*words, "--check") == 0
    assert "(without its weights, which training needs)" in capsys.readouterr().out
    assert sft(*words, "--out", tmp_path / "out") == 2
    assert "has no weights" in capsys.readouterr().err


def test_the_check_counts_what_an_adapter_learns(
    toy: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sft("--data", data, "--model", toy, "--config", "debug-sft", "--lora-rank", 2, "--check") == 0
    # a layer: q, o 2·(64+64); k, v 2·(64+32); gate, up, down 2·(64+128); two layers
    assert "4,096 trainable (1.6%), LoRA of rank 2" in capsys.readouterr().out


def test_the_check_of_grpo_shows_the_first_row(
    toy: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "grpo", "--data", data, "--model", toy, "--config", "debug-grpo", "--check"]
    assert run([*map(str, command), "--generator", "world", "--scorer", "oracle"]) == 0
    said = capsys.readouterr().out
    assert "each generation 2 prompts × 4 answers" in said
    assert "generator world, scorer oracle" in said
    assert "first row   'rl/0': labelled right, semantics 10" in said


SPECS = {
    "nothing": ([], "which generator and which scorer? Name it with --generator SPEC and --scorer SPEC"),
    "one": (["--generator", "world"], "which scorer? Name it with --scorer SPEC"),
    "a name": (["--generator", "wolrd", "--scorer", "oracle"], "named 'wolrd'"),
    "a role": (["--generator", "world", "--scorer", "world"], "no scorer named 'world'"),
    "an option": (["--generator", "world?mistake=1", "--scorer", "oracle"], "Did you mean 'mistakes'?"),
    "a value": (
        ["--generator", "world?mistakes=many", "--scorer", "oracle"],
        "'mistakes' of 'world?mistakes=many': must be a number, not 'many'",
    ),
    "words": (["--generator", "world", "--scorer", "oracle", "--prompts", "nosuch"], "'nosuch'"),
}


@pytest.mark.parametrize("check", [["--check"], []], ids=["check", "train"])
@pytest.mark.parametrize(("specs", "message"), SPECS.values(), ids=SPECS)
def test_generator_and_scorer_are_checked_before_anything_is_loaded(
    specs: list[str],
    message: str,
    check: list[str],
    toy: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["train", "grpo", "--data", data, "--model", toy, "--config", "debug-grpo"]
    command += ["--out", tmp_path / "out"]
    assert run([*map(str, command), *specs, *check]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert not (tmp_path / "out").exists()


def test_memory_of_weights_gradients_and_states_is_counted() -> None:
    recipe = load_recipe(None, task="sft")
    parameters = ParameterCounts(all=1000, learning=100, layers=2, hidden=8, kv_width=16)
    memory = estimate_memory(recipe, parameters, tokens=10, prompt=10, shards=1)
    assert (memory.weights, memory.gradients, memory.optimizer) == (4000, 400, 800)
    assert memory.activations == 10 * 8 * 34 * 2
    half = load_recipe(None, task="sft", changes={"model.weights": "bfloat16"})
    assert estimate_memory(half, parameters, tokens=10, prompt=10, shards=2).weights == 1000


@pytest.mark.parametrize("name", ["accelerate-fsdp.yaml", "accelerate-deepspeed-zero3.yaml"])
def test_the_launch_files_of_accelerate_fit_the_recipes_they_name(name: str) -> None:
    text = (LAUNCH / name).read_text("utf-8")
    recipe = text.split("--config ")[1].split()[0]
    layers = {"Qwen3VLTextDecoderLayer", "Qwen3VLVisionBlock"}
    launch = read_launch(LAUNCH / name, load_recipe(recipe, task="sft"), layers)
    assert launch.problems == ()
    assert (launch.processes, launch.nodes, launch.sharded) == (8, 1, True)


def test_the_classes_that_are_divided_are_the_models(toy: Path, data: Path) -> None:
    command = ["--config", "debug-sft", "--batch", 16, "--device-batch", 2, "--check"]
    assert sft("--data", data, "--model", toy, *command, "--launch", LAUNCH / "accelerate-fsdp.yaml") == 0


def test_a_launch_file_that_does_not_fit_is_refused(
    toy: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (LAUNCH / "accelerate-fsdp.yaml").read_text("utf-8")
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("Qwen3VLVisionBlock", "LlamaDecoderLayer"))
    command = ["--config", "debug-sft", "--batch", 16, "--device-batch", 2, "--check", "--launch", other]
    assert sft("--data", data, "--model", toy, *command) == 2
    assert "names 'LlamaDecoderLayer', which this model does not have" in capsys.readouterr().err


def test_the_launch_file_of_verl_says_what_the_recipe_says() -> None:
    printed, coded = (load_recipe(f"qwen3-vl-8b-grpo{end}", task="grpo") for end in ("", "-coded"))
    launch = read_launch(LAUNCH / "verl-grpo.sh", printed)
    assert launch.problems == ()
    assert (launch.processes, launch.nodes) == (16, 2)
    problems = read_launch(LAUNCH / "verl-grpo.sh", coded).problems
    assert any("ppo_mini_batch_size is '16', but the recipe says '8'" in problem for problem in problems)
    settings = verl_settings((LAUNCH / "verl-grpo.sh").read_text("utf-8"))
    assert settings["reward.custom_reward_function.reward_kwargs.generator"] == "http://localhost:8011"
    assert settings["data.train_files"] == "export/verl/critic_rl.parquet"
    assert settings["data.val_files"] == "export/verl/critic_rl.parquet", "small exports have no other"


def test_a_launch_file_of_verl_may_name_modules_as_they_were(tmp_path: Path) -> None:
    script = (LAUNCH / "verl-grpo.sh").read_text("utf-8").replace("interleave.train.", "interleave.train.")
    (tmp_path / "old.sh").write_text(script, "utf-8")
    recipe = load_recipe("qwen3-vl-8b-grpo", task="grpo")
    assert read_launch(tmp_path / "old.sh", recipe).problems == ()


@pytest.mark.parametrize(
    ("replaced", "by", "problem"),
    [
        ("generator=\"'$GENERATOR'\"", 'generator="$GENERATOR"', "generator is not quoted"),
        ("scorer=\"'$SCORER'\"", "scorer=http://a:1,http://b:1", "scorer is not quoted"),
        ("adv_estimator=interleave_grpo", "adv_estimator=grpo", "would be dropped one by one"),
        ("reward_kwargs.failed=mark", "reward_kwargs.failed=raise", "would be dropped one by one"),
        ("use_kl_in_reward=False", "use_kl_in_reward=True", "use_kl_in_reward is 'True'"),
        ('[ -f "$VALIDATION" ] ||', "#", "data.val_files is"),
    ],
)
def test_a_launch_file_of_verl_that_would_fail_or_teach_wrongly_is_refused(
    replaced: str, by: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "critic_rl.parquet").touch()
    monkeypatch.setenv("DATA", str(tmp_path / "rows"))
    monkeypatch.setenv("GENERATOR", "http://a:1,http://b:2?timeout=3")
    recipe = load_recipe("qwen3-vl-8b-grpo", task="grpo")
    text = (LAUNCH / "verl-grpo.sh").read_text("utf-8")
    assert read_launch(LAUNCH / "verl-grpo.sh", recipe).problems == ()
    assert replaced in text
    (tmp_path / "other.sh").write_text(text.replace(replaced, by))
    problems = read_launch(tmp_path / "other.sh", recipe).problems
    assert len(problems) == 1
    assert problem in problems[0]


def test_the_launch_file_of_verl_composes_with_any_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shell hands to verl is read by Hydra where it is installed, and by its rules in our words."""
    specs = {"GENERATOR": "http://a:1,http://b:2", "SCORER": "openai:m@http://h:1/v1?timeout=3&top_p=1"}
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\n[ "$1" = -c ] && echo /reward.py || printf "%s\\n" "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, **specs, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        [LAUNCH / "verl-grpo.sh"], env=environment, capture_output=True, text=True, check=True
    )
    given = dict(line.split("=", 1) for line in said.stdout.splitlines()[2:])
    options = "+reward.custom_reward_function.reward_kwargs"
    assert given[f"{options}.generator"] == f"'{specs['GENERATOR']}'"
    assert given[f"{options}.scorer"] == f"'{specs['SCORER']}'"
    assert given["data.val_files"] == "'export/verl/critic_rl.parquet'"
    try:
        from hydra.core.override_parser.overrides_parser import OverridesParser
    except ImportError:
        return
    parsed = OverridesParser.create().parse_overrides(said.stdout.splitlines()[2:])
    values = {each.key_or_group: each.value() for each in parsed}
    assert str(values[f"{options[1:]}.generator"].text) == specs["GENERATOR"]


def test_a_user_trains_stops_and_goes_on(
    toy: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["--data", data, "--model", toy, "--config", "debug-sft", "--steps", 4, "--out", out]
    command += ["--set", "training.log_every=1"]
    assert sft(*command, "--max-minutes", 1e-6) == 1
    assert "stopped at --max-minutes; run the same command to continue" in capsys.readouterr().err
    assert [line["step"] for line in read_log(out / "log.jsonl")] == [1]
    assert sft(*command) == 0
    said = capsys.readouterr()
    assert said.out.strip() == f"transformers:{out / 'model'}"
    assert "resuming from" in said.err
    assert [line["step"] for line in read_log(out / "log.jsonl")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere", "--model", "x/y"], "the data 'nowhere' does not exist"),
        (["--data", "DATA"], "which model? Name it with --model"),
        (["--data", "DATA", "--model", "./nothing"], "the model folder './nothing' does not exist"),
        (["--data", "DATA", "--model", "TOY", "--batch", "3"], "does not divide into batches of 2"),
        (["--data", "DATA", "--model", "TOY", "--max-minutes", "0"], "--max-minutes 0 leaves no time"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], message: str, toy: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"DATA": data, "TOY": toy}
    assert sft(*[names.get(each, each) for each in arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_role_that_does_not_exist_is_said_in_our_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "sft", "critik", "--data", "x"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "interleave: no role named 'critik' can be trained. "
        "Known: agent, critic, planner. Did you mean 'critic'?\n"
    )


def test_the_check_says_where_a_batch_is_larger_than_the_rows(
    toy: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sft("--data", data, "--model", toy, "--batch", 512, "--epochs", 3, "--check") == 0
    said = capsys.readouterr().out
    assert "task        critic, by SFT" in said
    assert "steps       3 of 512 rows" in said
    assert "! only 4 rows: every step uses all of them once" in said
    command = ["train", "grpo", "--data", data, "--model", toy, "--generator", "world", "--scorer", "oracle"]
    for check in (["--check"], ["--out", str(tmp_path / "out")]):
        assert run([*map(str, command), *check]) == 2
        assert "a generation needs 16 prompts, but the data has 8 rows" in capsys.readouterr().err


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "recipes"]) == 0
    assert "qwen3-vl-8b-grpo-coded" in capsys.readouterr().out
    assert run(["train", "recipes", "mini-sft"]) == 0
    assert "group_by_length = true" in capsys.readouterr().out


def test_a_recipe_is_kept_whole_beside_the_result(schooled: dict[str, Any]) -> None:
    import json

    record = json.loads((schooled["out"] / "training.json").read_text())
    assert Recipe.model_validate(record["recipe"]).training.steps == 60
    assert record["done"]
