"""Models in this process through the command line: toys of every class of a profile, and a whole run."""

from __future__ import annotations

import json
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from interleave import comparable, read_record
from interleave.cli.main import run
from interleave.cli.progress import LiveProgress
from interleave.events import Planned
from interleave.types import Plan, PlanStep, Slot

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

Captured = pytest.CaptureFixture[str]


def check(*arguments: str) -> int:
    return run(["models", "check", *arguments])


def test_the_profile_of_the_paper_is_tried_with_toys_of_its_models(capsys: Captured) -> None:
    assert check("--profile", "klein", "--tiny", "--quick", "--json") == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["fits"] is True
    assert [backend["role"] for backend in report["backends"]] == ["planner", "critic", "generator"]
    assert all(
        any(each["status"] == "passed" for each in backend["checks"]) for backend in report["backends"]
    )
    assert (report["loop"]["status"], report["loop"]["pictures"]) == ("done", 2)
    assert report["loop"]["calls"] == {"planner": 1, "critic": 2, "generator": 2, "repeated": 0}
    assert "a tiny InterleaveThinker/InterleaveThinker-Planner-8B" in printed.err


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["klein", "klein-quick", "klein-4b", "qwen-edit"])
def test_every_profile_of_real_models_is_tried_with_toys(profile: str, capsys: Captured) -> None:
    quick = ["--quick"] if profile == "qwen-edit" else []
    assert check("--profile", profile, "--tiny", *quick) == 0
    assert "loop: done, 2 pictures drawn" in capsys.readouterr().out


@pytest.mark.slow
def test_options_of_a_profile_are_kept_adapters_and_loras_built_and_what_needs_a_gpu_is_named(
    capsys: Captured,
) -> None:
    if torch.cuda.is_available():
        pytest.skip("does not apply: this machine has a GPU")
    models = "transformers:Qwen/Qwen3-VL-8B-Instruct?batch=1&adapter=me/adapter&quantization=4bit"
    generator = "diffusers:black-forest-labs/FLUX.2-klein-4B?steps=2&lora=me/lora&size=512&offload=model"
    Path("own.toml").write_text(f'planner = "{models}"\ncritic = "{models}"\ngenerator = "{generator}"\n')
    assert check("--profile", "./own.toml", "--tiny", "--quick", "--json") == 0
    printed = capsys.readouterr()
    specs = [backend["spec"] for backend in json.loads(printed.out)["backends"]]
    assert all("batch=1" in spec and "adapter=/" in spec and "4bit" not in spec for spec in specs[:2])
    assert "steps=2" in specs[2] and "lora=/" in specs[2] and "size" not in specs[2]
    assert "critic: quantization=4bit needs a GPU and is omitted here" in printed.err
    assert "generator: offload=model needs a GPU and is omitted here" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tiny"], "--tiny goes with --profile"),
        ([], "name a backend"),
        (["solid", "--profile", "klein"], "drop SPEC"),
        (["--profile", "no-such"], "no profile named 'no-such'"),
        (["--profile", "./remote.toml", "--tiny"], "no tiny model can be built of the planner"),
        (["--profile", "./unknown.toml", "--tiny"], "the pipeline class of 'Some/Model' is unknown"),
    ],
)
def test_what_cannot_be_tried_is_refused(arguments: list[str], words: str, capsys: Captured) -> None:
    rest = 'critic = "scripted"\ngenerator = '
    Path("remote.toml").write_text(f'planner = "http://h:1"\n{rest}"solid"\n')
    Path("unknown.toml").write_text(f'planner = "scripted"\n{rest}"diffusers:Some/Model"\n')
    assert check(*arguments) == 2
    assert words in capsys.readouterr().err


def test_a_profile_of_doubles_can_be_tried_as_it_is(capsys: Captured) -> None:
    assert check("--profile", "dry-run", "--quick", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["fits"], report["tiny"], report["loop"]) == (True, False, None)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The specs of toys that play their roles."""
    from interleave.local.tiny.pipelines import build_tiny_pipeline
    from interleave.local.tiny.vlms import PLAN, VERDICT, build_tiny_vlm

    folder = tmp_path_factory.mktemp("toys")
    return {
        "planner": f"transformers:{build_tiny_vlm(folder / 'planner', answer=PLAN)}",
        "critic": f"transformers:{build_tiny_vlm(folder / 'critic', answer=VERDICT)}",
        "generator": f"diffusers:{build_tiny_pipeline(folder / 'klein', 'Flux2KleinPipeline')}",
    }


def test_a_run_with_local_models_is_repeatable_and_a_missing_model_is_said_in_two_lines(
    toys: dict[str, str], capsys: Captured
) -> None:
    models = ["--planner", f"{toys['planner']}?batch=1", "--critic", f"{toys['critic']}?batch=1"]
    for out in ("one", "two"):
        assert run(["generate", "A frog", *models, "--generator", toys["generator"], "--out", out]) == 0
    assert comparable("one") == comparable("two")
    first = read_record("one").steps[0]
    assert first.attempts[0].verdict.confidence and 0.5 < first.attempts[0].verdict.confidence < 1
    capsys.readouterr()
    assert run(["generate", "A frog", *models, "--generator", "diffusers:Some/Model", "--out", "three"]) == 2
    assert "hf download Some/Model" in capsys.readouterr().err
    assert not Path("three").exists()


def test_calls_of_many_trajectories_are_computed_together(
    toys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave import generate_many
    from interleave.local import batching

    batches: dict[str, list[int]] = {"CompletionRequest": [], "GenerationTask": []}
    set_results = batching.BatchQueue._set_results

    def counted(batch: list[Any], results: list[Any]) -> None:
        batches[type(batch[0].input).__name__].append(len(batch))
        set_results(batch, results)

    monkeypatch.setattr(batching.BatchQueue, "_set_results", staticmethod(counted))
    # A clock a thousand times as slow: a batch waits until all calls are there, on a busy machine too.
    slow = SimpleNamespace(monotonic=lambda: time.monotonic() / 1000, sleep=time.sleep)
    monkeypatch.setattr(batching, "time", slow)
    models = {**toys, "generator": f"{toys['generator']}?batch=8"}
    summary = generate_many([f"A frog, number {number}" for number in range(8)], out="many", **models)
    assert (summary.done, summary.failed) == (8, 0)
    assert batches == {"CompletionRequest": [8, 8, 8], "GenerationTask": [8, 8]}


def test_a_terminal_shows_how_far_an_image_is() -> None:
    terminal = StringIO()
    progress = LiveProgress(Console(file=terminal, force_terminal=True, width=100))
    progress.drawing(Slot(step=1, attempt=1), 1, 4)  # before there is a plan there is nothing to show
    progress.show(Planned(Plan(steps=(PlanStep(number=1, name="A pond", prompt="a pond"),))))
    progress.drawing(Slot(step=1, attempt=2), 3, 4)
    assert progress.status is not None
    assert "drawing attempt 2: 3 of 4…" in str(progress.status.status)
    progress.close()
