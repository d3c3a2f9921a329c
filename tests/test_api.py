"""The Python functions for everything that commands do: read, edit, export, parse."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.config.profiles import load_profile

SMALL: Any = {"profile": "dry-run", "generator": "solid?size=64", "critic": "none"}


@pytest.fixture
def run() -> interleave.RunResult:
    return interleave.generate("A frog in 3 pictures", out="run", **SMALL)


def attempts(run: interleave.RunResult) -> list[int]:
    return [len(step.attempts) for step in run.record.steps]


# --- results


def test_a_result_has_its_reason_cost_and_calls() -> None:
    short = interleave.generate("A frog in 3 pictures", out="run", max_calls=2, **SMALL)
    assert (short.status, short.cost) == ("short", 0.0)
    assert short.reason == "the limit of 2 model calls is reached (max_calls=)"
    assert (short.calls.planner, short.calls.generator, short.calls.critic) == (1, 1, 0)
    done = interleave.resume("run")
    assert (done.status, done.reason, done.calls.generator) == ("done", None, 3)


def test_a_run_is_read_without_being_changed(run: interleave.RunResult) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path("run").rglob("*")}
    read = interleave.read_run("run")
    assert (read.status, read.steps, read.document) == (run.status, run.steps, run.document)
    assert {path: path.stat().st_mtime_ns for path in Path("run").rglob("*")} == before


@pytest.mark.parametrize(
    "use",
    [
        interleave.read_run,
        lambda folder: interleave.export(folder, to="zip"),
        lambda folder: interleave.edit(folder).redraw(1),
        lambda folder: interleave.edit(folder).undo(),
        lambda folder: interleave.edit(folder, draw=False).approve(),
        lambda folder: interleave.edit(folder).branch(1, "other"),
    ],
)
def test_a_folder_without_a_run_is_refused(use: Any) -> None:
    with pytest.raises(interleave.RunError, match="nowhere"):
        use("nowhere")
    assert not Path("nowhere").exists() and not Path("other").exists()


# --- edits


def test_a_step_is_redrawn_chosen_and_undone(run: interleave.RunResult) -> None:
    redrawn = interleave.edit(run, by="Ana").redraw(2, prompt="A red frog")
    assert (redrawn.status, attempts(redrawn)) == ("done", [1, 2, 2])
    assert redrawn.record.decisions[-1].by == "Ana"
    chosen = interleave.edit("run").choose(2, 1, only_step=True)
    assert [step.shown for step in chosen.record.steps] == [1, 1, 2]
    undone = interleave.edit(chosen).undo()
    assert [step.shown for step in undone.record.steps] == [1, 2, 2]


def test_with_draw_false_a_change_is_recorded_and_resume_draws_it(run: interleave.RunResult) -> None:
    recorded = interleave.edit(run, draw=False).redraw(3)
    assert attempts(recorded) == [1, 1, 1] and recorded.status != "done"
    assert attempts(interleave.resume("run")) == [1, 1, 2]


def test_a_branch_leaves_its_run_unchanged(run: interleave.RunResult) -> None:
    branch = interleave.edit(run).branch(2, "branch", generator="solid?size=128")
    assert branch.folder == Path("branch") and attempts(branch) == [1, 2, 2]
    assert attempts(interleave.read_run("run")) == [1, 1, 1]
    waiting = interleave.edit(run, draw=False).branch(2, "later")
    assert attempts(waiting) == [1, 1, 1] and attempts(interleave.resume("later")) == [1, 2, 2]


def test_a_held_plan_is_approved_or_replaced() -> None:
    held = interleave.generate("A frog in 3 pictures", out="run", hold_plan=True, **SMALL)
    assert held.status == "held" and not attempts(held)[0]
    assert interleave.edit(held).approve().status == "done"
    other = interleave.generate("A frog in 3 pictures", out="other", hold_plan=True, **SMALL)
    plan = interleave.Plan(steps=(interleave.PlanStep(number=1, prompt="A toad"),))
    assert len(interleave.edit(other).approve(plan).steps) == 1


def test_limits_end_an_edit_early(run: interleave.RunResult) -> None:
    assert interleave.edit(run, max_calls=run.calls.total + 1).redraw(1).status == "short"
    assert interleave.edit(run).change_generator("solid?size=128").status == "done"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda edit: edit.redraw(9), "no step 9: the plan has steps 1 to 3"),
        (lambda edit: edit.redraw(2, prompt=" "), "the prompt is blank"),
        (lambda edit: edit.redraw(2, generator="sollid"), "Did you mean 'solid'"),
        (lambda edit: edit.redraw(2, seed=-1), "step 2 cannot be redrawn"),
        (lambda edit: edit.choose(2, 7), "step 2 has no attempt 7"),
        (lambda edit: edit.undo(), "nothing to undo"),
        (lambda edit: edit.branch(1, "run"), "choose another folder with out="),
        (lambda edit: edit.change_generator("nothing?x=1"), "no image generator named 'nothing'"),
    ],
)
@pytest.mark.parametrize("draw", [True, False])
def test_a_change_that_is_refused_leaves_the_folder_unchanged(
    run: interleave.RunResult, change: Any, problem: str, draw: bool
) -> None:
    before = Path("run/journal.jsonl").read_bytes()
    with pytest.raises(interleave.InterleaveError, match=problem):
        change(interleave.edit(run, draw=draw))
    assert Path("run/journal.jsonl").read_bytes() == before


# --- exports


def test_a_run_is_exported_to_its_folder_or_to_a_file(run: interleave.RunResult) -> None:
    assert interleave.export(run, to="zip") == Path("run/document.zip")
    assert interleave.export("run", to="html", out="a.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"to": "pfd"}, "Did you mean 'pdf'"),
        ({"to": "pdf", "paper": "a3"}, "paper=a3: use a4, "),
        ({"to": "pdf", "layout": "book"}, "layout=book: use one of print, "),
    ],
)
def test_an_unknown_format_is_refused(run: interleave.RunResult, options: Any, problem: str) -> None:
    with pytest.raises(interleave.ConfigurationError, match=problem):
        interleave.export(run, **options)


# --- files and specs


def test_a_story_in_markdown_is_continued() -> None:
    Image.new("RGB", (32, 32), "red").save("frog.png")
    Path("story.md").write_text("# A frog\n\n![It sits.](frog.png)\n", "utf-8")
    parts = interleave.read_markdown("story.md")
    assert parts == ["# A frog", Path("frog.png")]
    run = interleave.generate([*parts, "Continue the story in 2 pictures"], out="run", **SMALL)
    assert len(run.steps) == 2 and len(run.record.request) == 3
    with pytest.raises(interleave.InputError, match=r"none\.md: no such file"):
        interleave.read_markdown(Path("none.md"))


def test_a_plan_is_read_from_a_file() -> None:
    Path("plan.json").write_text('{"steps": [{"prompt": "A toad"}, {"prompt": null, "caption": "End"}]}')
    plan = interleave.read_plan("plan.json")
    assert [step.number for step in plan.steps] == [1, 2]
    assert len(interleave.generate("A toad", plan=plan, out="run", **SMALL).steps) == 2
    Path("plan.json").write_text("{}")
    with pytest.raises(interleave.InputError, match='it has no list of "steps"'):
        interleave.read_plan("plan.json")


def test_a_spec_is_parsed_to_its_parts() -> None:
    assert interleave.parse_spec("name:model?x=1") == interleave.Spec("name", "model", None, {"x": "1"})
    with pytest.raises(interleave.ConfigurationError, match="is not a backend spec"):
        interleave.parse_spec("Not a spec")


# --- names


def test_errors_name_parameters_and_the_command_line_names_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from interleave.cli.main import run

    with pytest.raises(interleave.ConfigurationError, match=r"^max_attempts=0: "):
        interleave.generate("A frog", max_attempts=0, **SMALL)
    assert run(["generate", "A frog in 60 pictures", "--dry-run", "--out", "run"]) == 2
    assert "raise it with --max-steps 60" in capsys.readouterr().err


def test_old_names_of_options_work_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="remedies= is now drift_control="):
        old = interleave.generate("A frog in 2 pictures", out="old", remedies="keep", **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = interleave.generate("A frog in 2 pictures", out="new", drift_control="keep", **SMALL)
    assert old.record.config == new.record.config and new.record.config.remedies.keep
    with pytest.raises(interleave.ConfigurationError, match="drift_control=anchor: "):
        interleave.generate("A frog", drift_control="anchor", **SMALL)


@pytest.mark.parametrize(
    ("control", "sheets"), [("drift_control", "reference_sheets"), ("remedies", "sheets")]
)
def test_a_profile_names_drift_control_and_reference_sheets(control: str, sheets: str) -> None:
    models = "".join(f'[{role}]\nspec = "{spec}"\n' for role, spec in ROLES.items())
    Path("mine.toml").write_text(f'{control} = "keep"\n{sheets} = true\n{models}')
    profile = load_profile("mine.toml")
    assert (profile.remedies, profile.sheets) == ("keep", True)


ROLES = {"planner": "scripted", "critic": "none", "generator": "solid"}
