"""The chain that makes the miniature's agents: its order, its memory, and what it says when a stage fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from held import wait_until
from interleave.cli.main import run
from interleave.errors import ConfigurationError, RunError
from interleave_mini import WEIGHTS
from interleave_mini.bench.tasks import SUITES
from miniature.cli.chain import Stage, run_chain
from miniature.cli.stages import EXERCISES as STAGE_EXERCISES
from miniature.cli.stages import SIZES, TOY, Chain
from miniature.train.vision_examples import EXERCISES, SEEING
from work import HANGS_AFTER

PACKS = ("prompts", "list")


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miniature.cli.chain.POLL_SECONDS", 0.02)


def test_a_stage_waits_for_those_before_it_and_is_never_done_twice(tmp_path: Path) -> None:
    stages = [Stage("first", PACKS), Stage("second", ("prompts", "show", "mini"), after=("first",))]
    said: list[str] = []
    seconds = run_chain(stages, tmp_path, concurrency=2, say=said.append)
    assert list(seconds) == ["first", "second"]
    assert [line.split(":")[0] for line in said] == ["first", "first", "second", "second"]
    assert "mini" in (tmp_path / "logs" / "first.log").read_text()
    again: list[str] = []
    run_chain(stages, tmp_path, say=again.append)
    assert again == []


def test_a_stage_that_fails_is_named_with_its_last_words_and_tried_again(tmp_path: Path) -> None:
    stages = [Stage("good", PACKS), Stage("bad", ("prompts", "show", "nowhere"), after=("good",))]
    with pytest.raises(RunError, match=r"'bad' ended with exit code 2.*nowhere.*bad\.log"):
        run_chain(stages, tmp_path)
    assert list(json.loads((tmp_path / "stages.json").read_bytes())) == ["good"]
    run_chain([stages[0], Stage("bad", PACKS, after=("good",))], tmp_path)
    assert list(json.loads((tmp_path / "stages.json").read_bytes())) == ["good", "bad"]


@pytest.mark.slow
def test_a_chain_that_keeps_going_finishes_what_does_not_need_the_failed_stage(tmp_path: Path) -> None:
    stages = [
        Stage("bad", ("prompts", "show", "nowhere")),
        Stage("needs it", PACKS, after=("bad",)),
        Stage("needs that", PACKS, after=("needs it",)),
        Stage("other", PACKS),
        Stage("sum", PACKS, after=("needs that", "other"), after_failures=True),
    ]
    said: list[str] = []
    with pytest.raises(RunError, match="'bad' ended with exit code 2"):
        run_chain(stages, tmp_path, keep_going=True, say=said.append)
    assert list(json.loads((tmp_path / "stages.json").read_bytes())) == ["other", "sum"]
    assert "bad: failed; skipped: needs it, needs that" in said


def test_other_settings_for_a_stage_that_is_done_are_refused(tmp_path: Path) -> None:
    run_chain([Stage("first", PACKS)], tmp_path)
    with pytest.raises(ConfigurationError, match="'first' done with other settings"):
        run_chain([Stage("first", ("prompts", "show", "mini"))], tmp_path)


@pytest.mark.skipif(
    not Path("/proc").exists(), reason="does not apply: looks for processes where Linux lists them"
)
def test_a_chain_that_is_told_to_stop_takes_its_stages_with_it(tmp_path: Path) -> None:
    """A stage left alone would go on writing where the next chain begins."""
    program = (
        "from pathlib import Path; from miniature.cli.chain import Stage, run_chain; "
        "run_chain([Stage('long', ('serve', 'generator', '--generator', 'solid', '--port', '0'))], Path('.'))"
    )
    chain = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    log = tmp_path / "logs" / "long.log"
    wait_until(lambda: log.exists() and b"http" in log.read_bytes())
    children = Path(f"/proc/{chain.pid}/task/{chain.pid}/children").read_text().split()
    assert children
    chain.terminate()
    assert chain.wait(timeout=HANGS_AFTER) != 0
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_the_whole_chain_trains_every_agent_of_the_ablation_and_ends_with_its_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["mini", "train", "all", "--size", "toy", "--generator", "mini", "--out", "out", "--dry-run"]
    assert run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    made = {line.split("--out ")[1].split()[0] for line in lines if "mini to-fp16" in line}
    assert {Path(each).name for each in made} == {
        "planner",
        "critic-exercises",
        "critic-sft",
        "critic",
        "critic-no-step",
        "critic-no-accuracy",
        "critic-unfiltered",
        "agent",
    }
    assert lines[-1].startswith("interleave bench mini --table ablation --trained out")


def test_further_trainings_have_other_seeds_the_same_data_and_rows_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--size", "table", "--generator", "mini", "--trainings", "3", "--out", "out", "--dry-run"]
    assert run(["mini", "train", "all", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    second = [line for line in lines if "out/seed-2/" in line]
    exercises = [line for line in second if "train vision" in line]
    assert exercises and all("--seed 20 " in line for line in exercises)
    learned = [line for line in second if "train sft" in line or "train grpo" in line]
    assert len(learned) == 3 and all("--data out/rows " in line and "--seed 20" in line for line in learned)
    rows = [line.split("--rows ")[1].split()[0] for line in second if "--table" in line]
    assert rows == ["planner", "critic-sft", "full", "planner,critic-sft,full"]
    assert all("--suites story,edit" in line for line in lines if "--table" in line)
    assert not any("seed-3" in line for line in lines)


def test_without_a_generator_one_is_trained_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mini", "train", "all", "--size", "toy", "--out", "out", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    stages = [line for line in lines if "train generator" in line]
    assert stages == lines[:3] and all("-minutes 0.1" in line for line in stages)
    assert "--start out/generator-1/pipeline" in stages[2]
    assert any("--generator diffusers:" in line for line in lines if "train grpo" in line)
    exercises = [line for line in lines if "train vision" in line]
    assert exercises and all(line.endswith("out/generator-2/pipeline") for line in exercises), (
        "another's hand"
    )


def test_trained_models_are_exported_for_the_runtime_without_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["mini", "train", "all", "--size", "toy", "--out", "out", "--dry-run"]) == 0
    exports = [line for line in capsys.readouterr().out.splitlines() if "mini onnx" in line]
    assert len(exports) == 2
    assert exports[0].endswith("mini onnx out/agents") and exports[1].endswith("out/generator-2/pipeline")


def test_an_unknown_size_is_refused_with_the_names_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mini", "train", "planner", "--size", "huge", "--out", "out"]) == 2
    assert "full" in capsys.readouterr().err


def test_shards_deal_a_suite_out_and_scoring_waits_for_all_of_them() -> None:
    stages = {stage.name: stage for stage in Chain(Path("out"), TOY, shards=8).data()}
    shards = [name for name in stages if name.startswith("collect-story.")]
    assert len(shards) > 1
    assert set(stages["score-story.1"].after) == set(shards)
    assert stages["collect-story.1"].command[-2:] == ("--shard", f"1/{len(shards)}")


def test_a_row_of_the_table_waits_for_its_own_agents_only() -> None:
    trained = ("planner", "critic-sft", "critic", "agent")
    stages = {stage.name: stage for stage in Chain(Path("out"), TOY).table(trained)}
    assert set(stages["table-full-1"].after) == {"agent-planner", "agent-critic"}
    assert stages["table-one-agent-1"].after == ("agent-agent",)
    assert stages["table-planner-1"].after == ("agent-planner",)
    assert stages["table-generator-2"].after == ("agent-planner", "agent-critic-sft")
    assert "table-unfiltered-1" not in stages, "its critic is not trained"
    assert {name for name in stages if name != "table"} == set(stages["table"].after)
    assert stages["table-full-2"].command[-1] == "continue,know,edit,plain,annotate"
    exams = {name for name, stage in stages.items() if "--exam 0 " not in f"{stage.command_line} "}
    assert exams == {"table", "table-full-1", "table-critic-sft-1", "table-one-agent-1", "table-oracle-1"}


@pytest.mark.parametrize("size", SIZES)
def test_data_come_from_every_suite_and_no_corpus_twice(size: str) -> None:
    stages = [each for each in Chain(Path("out"), SIZES[size]).data() if each.name.startswith("requests-")]
    asked = [(option(each, "--suite"), option(each, "--seed")) for each in stages]
    measured = SIZES[size].suites
    assert {suite for suite, _ in asked} >= set(measured or SUITES)
    assert len(set(asked)) == len(asked)


def test_the_planner_learns_from_exercises_alone_each_stage_from_the_weights_of_the_last() -> None:
    fresh, *exercises, copy = Chain(Path("out"), SIZES["full"], seed=7).planner()
    assert fresh.command[:3] == ("mini", "fresh", "planner")
    assert len(exercises) > 1
    model, before = option(fresh, "--out"), fresh
    for stage in exercises:
        assert stage.command[:4] == ("mini", "train", "vision", model)
        assert stage.after == (before.name,)
        model, before = f"{option(stage, '--out')}/model", stage
    assert copy.command == ("mini", "to-fp16", model, "--out", "out/agents/planner")
    assert copy.after == (before.name,)
    assert len({option(stage, "--seed") for stage in exercises}) == len(exercises), "exercises came again"
    assert float(option(exercises[0], "--learning-rate")) > float(option(exercises[1], "--learning-rate"))


@pytest.mark.parametrize("role", STAGE_EXERCISES)
@pytest.mark.parametrize("size", SIZES)
def test_the_exercises_of_every_role_exist_and_a_stage_of_them_ends_within_nine_minutes(
    role: str, size: str
) -> None:
    sizes = SIZES[size]
    assert set(sizes.exercises[role]) <= set(EXERCISES)
    most = 8 if sizes.examine else 8.5
    assert all(minutes <= most for minutes in sizes.exercise_minutes[role]), "no time to examine it"


def test_planners_of_a_table_plan_what_it_asks_and_critics_judge_it() -> None:
    sizes = SIZES["table"]
    assert {f"plan-{suite}" for suite in sizes.suites} <= set(sizes.exercises["planner"])
    assert {"verdict", *(f"plan-{suite}" for suite in sizes.suites)} <= set(sizes.exercises["agent"])
    planner, _ = Chain(Path("out"), sizes).planner()
    assert option(planner, "--exercises").split(",").count("plan-story") == 10
    assert option(planner, "--eval-items") == "0"


def test_trainings_of_a_table_begin_with_the_models_that_ship() -> None:
    chain = Chain(Path("out"), SIZES["table"])
    planner, copy = chain.planner()
    assert planner.command[3] == str(WEIGHTS / "planner") and not planner.after
    assert float(option(planner, "--learning-rate")) == 1e-3, "not the rate for random weights"
    assert copy.after == (planner.name,)
    stages = {stage.name: stage for stage in (*chain.critic_sft(), *chain.variants())}
    assert option(stages["sft-critic-sft"], "--model") == str(WEIGHTS / "critic")
    assert stages["sft-critic-sft"].after == ("export",)
    assert option(stages["sft-critic-unfiltered"], "--model") == str(WEIGHTS / "critic")
    assert stages["sft-agent"].after == ("exercises-agent-1", "export")
    assert not any(name.startswith("fresh") for name in stages)


def test_grpo_goes_on_in_a_second_stage_where_the_first_has_no_time_left() -> None:
    first, second, copy = Chain(Path("out"), SIZES["table"]).critic_grpo()
    assert first.command == (*second.command, "--max-minutes", "8") and first.may_end_short
    assert second.after == (first.name,) and copy.after == (second.name,)
    assert not second.may_end_short


def test_planners_plan_every_suite_and_again_and_most_of_all_composed_requests() -> None:
    chain = Chain(Path("out"), TOY)
    [_, stage, *_] = chain.planner()
    mix = Counter(option(stage, "--exercises").split(","))
    further = {
        "plan-worked",
        "plan-frames",
        "plan-wider",
        "plan-robot",
        "segment",
        "again",
        "look",
        "compare",
    }
    assert {f"plan-{suite}" for suite in SUITES} | further == set(mix)
    assert mix.most_common(2) == [("plan-frames", 16), ("plan-story", 13)]


def test_with_a_generator_to_train_first_stages_are_what_they_were_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A collection may end short whether or not its generator was trained a moment ago."""
    seen: list[dict[str, Stage]] = []
    monkeypatch.setattr(
        "miniature.cli.chain.run_chain",
        lambda stages, *_, **__: seen.append({each.name: each for each in stages}) or {},
    )
    for more in ([], ["--generator", "mini"]):
        assert run(["mini", "train", "all", "--size", "toy", "--out", "out", *more]) == 0
    trained, given = seen
    assert trained.keys() == given.keys() | {
        "generator-vae",
        "generator-1",
        "generator-2",
        "graphs-generator",
    }
    for name, stage in given.items():
        assert trained[name].may_end_short == stage.may_end_short
        assert trained[name].after_failures == stage.after_failures
        assert trained[name].after == (stage.after or ("generator-2",))
    assert given["collect-story.1"].may_end_short and given["table"].after_failures


def option(stage: Stage, name: str) -> str:
    return stage.command[stage.command.index(name) + 1]


@pytest.mark.parametrize("own", [None, "max_split_size_mb:64"])
def test_stages_share_memory_unless_it_is_set_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    given: dict[str, str] = {}

    def keep(*_: object, environment: dict[str, str], **__: object) -> dict[str, float]:
        given.update(environment)
        return {}

    monkeypatch.setattr("miniature.cli.chain.run_chain", keep)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    if own:
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", own)
    assert run(["mini", "train", "planner", "--size", "toy", "--out", str(tmp_path)]) == 0
    assert given.get("PYTORCH_CUDA_ALLOC_CONF") == (None if own else "expandable_segments:True")


def test_unfiltered_rows_wait_until_everything_is_scored() -> None:
    stages = {stage.name: stage for stage in Chain(Path("out"), TOY).unfiltered()}
    assert stages["select-unfiltered"].after == ("select",)


def test_a_critic_learns_to_judge_before_it_copies_and_copies_more_gently() -> None:
    chain = Chain(Path("out"), TOY)
    stages = {stage.name: stage for stage in (*chain.critic_sft(), *chain.variants())}
    assert set(option(stages["exercises-critic-1"], "--exercises").split(",")) == {*SEEING, "audit-plan"}
    assert set(option(stages["exercises-agent-1"], "--exercises").split(",")) == set(EXERCISES)
    for name, role in {"critic-sft": "critic", "critic-unfiltered": "critic", "agent": "agent"}.items():
        last = stages[f"exercises-{role}-1"]
        assert option(stages[f"sft-{name}"], "--model") == f"{option(last, '--out')}/model"
        assert last.name in stages[f"sft-{name}"].after
    assert option(stages["exercises-critic-1"], "--generated-images") == "8", "of the last stage alone"
    judging = float(option(stages["exercises-critic-1"], "--learning-rate"))
    copying = [float(option(stages[name], "--learning-rate")) for name in ("sft-critic-sft", "sft-agent")]
    assert copying[0] == copying[1] < judging


def test_every_stage_waits_for_stages_that_come() -> None:
    chain = Chain(Path("out"), TOY)
    stages = [
        *(*chain.data(), *chain.planner(), *chain.critic_sft(), *chain.critic_grpo(), *chain.variants()),
        *chain.table(("planner", "critic-sft", "critic", "agent")),
    ]
    names = [stage.name for stage in stages]
    assert len(set(names)) == len(names)
    assert {name for stage in stages for name in stage.after} <= set(names)
