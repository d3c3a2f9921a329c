"""What a person decides about a run: recorded, carried out, undone, and paid for once."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.config.run_config import SourceRule
from interleave.errors import FolderInUse, InputError, MissingImage, RunError
from interleave.runs.event_lines import BranchSummary, summarize
from interleave.runs.journal import (
    AttemptChosen,
    Called,
    Drawn,
    Ended,
    Journal,
    Undone,
    read_journal,
)
from interleave.runs.record import RunRecord, read_record
from interleave.runs.run import RunResult
from interleave.sources import steps_that_follow
from interleave.train.data.trajectories import Trajectory, read_trajectory
from interleave.types import Plan, PlanStep
from snapshots import snapshot

SMALL = "solid?size=64"
STORY = Plan(
    steps=(
        PlanStep(number=1, caption="a pond", prompt="a pond"),
        PlanStep(number=2, caption="with a frog", prompt="add a frog"),
        PlanStep(number=3, caption="It sings.", prompt=None),
        PlanStep(number=4, caption="and a moon", prompt="add a moon"),
        PlanStep(number=5, caption="a map", prompt="draw a map", sources=(1,)),
    )
)
"""Steps 2 and 4 follow from each other, step 5 from step 1 alone; the critic refuses 2:1 and 4:1."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return generate(tmp_path / "run").folder


def generate(folder: Path, **options: Any) -> RunResult:
    return interleave.generate("A frog sings", out=folder, **{"plan": STORY, "generator": SMALL, **options})


def calls(folder: Path) -> list[tuple[str, int, int]]:
    """The calls that were made, by role, step and attempt."""
    return [(e.role, e.step, e.attempt) for e in read_journal(folder) if isinstance(e, Called)]


def shown(folder: Path) -> dict[int, int | None]:
    return {step.plan.number: step.shown for step in read_record(folder).steps}


def by_hand(folder: Path) -> dict[int, str]:
    return {step.plan.number: step.by_hand for step in read_record(folder).steps if step.by_hand}


def new_calls(folder: Path, before: int) -> set[tuple[int, int]]:
    """The attempts that were drawn after so many calls."""
    return {(step, attempt) for role, step, attempt in calls(folder)[before:] if role == "generator"}


def step_of(folder: Path, number: int) -> Any:
    return next(step for step in read_record(folder).steps if step.plan.number == number)


def test_a_redrawn_step_is_drawn_with_its_new_prompt_and_later_steps_follow_from_it(run: Path) -> None:
    before = len(calls(run))
    interleave.redraw_step(run, 2, prompt="add a toad", by="Ada")
    assert read_record(run).status == "interrupted"
    assert interleave.resume(run).status == "done"
    assert new_calls(run, before) == {(2, 3), (4, 3)}  # 5 starts from step 1 alone, and is as it was
    assert shown(run) == {1: 1, 2: 3, 3: None, 4: 3, 5: 1}
    assert by_hand(run) == {2: "redrawn"}
    second = step_of(run, 2)
    assert second.plan.prompt == "add a toad"
    assert [attempt.prompt for attempt in second.attempts][-1] == "add a toad"
    assert [attempt.aim for attempt in second.attempts] == ["add a frog", "add a frog", None]
    assert [attempt.take for attempt in second.attempts] == [1, 1, 2]
    assert [attempt.number for attempt in second.line] == [3]
    decision = read_record(run).decisions[0]
    assert (decision.kind, decision.step, decision.by) == ("redraw", 2, "Ada")


def test_redrawing_undoing_and_redrawing_costs_one_redraw(run: Path) -> None:
    undisturbed = shown(run)
    interleave.redraw_step(run, 2, prompt="add a toad")
    interleave.resume(run)
    redrawn, paid = shown(run), len(calls(run))
    interleave.undo_decision(run)
    interleave.resume(run)
    assert (shown(run), len(calls(run))) == (undisturbed, paid)
    assert step_of(run, 2).plan.prompt == "add a frog"
    interleave.redraw_step(run, 2, prompt="add a toad")
    interleave.resume(run)
    assert (shown(run), len(calls(run))) == (redrawn, paid)
    assert [decision.undone for decision in read_record(run).decisions] == [True, False]


def test_a_step_drawn_again_and_again_differs_each_time(run: Path) -> None:
    for _ in range(3):
        interleave.redraw_step(run, 5)
        interleave.resume(run)
    fifth = step_of(run, 5)
    assert len({attempt.seed for attempt in fifth.attempts}) == len(fifth.attempts) == 4
    assert fifth.shown == 4


def test_the_seed_of_the_run_changes_nothing_but_the_prompt(run: Path) -> None:
    interleave.redraw_step(run, 5, prompt="draw a chart", seed=0)
    interleave.resume(run)
    first, second = step_of(run, 5).attempts
    assert (first.seed, first.prompt) == (second.seed, "draw a map")
    assert second.prompt == "draw a chart"


def test_the_same_question_is_not_asked_again_whatever_the_number_of_the_attempt(run: Path) -> None:
    before = len(calls(run))
    interleave.redraw_step(run, 4, seed=0)  # the run's own seed: what the step was drawn with
    interleave.resume(run)
    assert len(calls(run)) == before
    assert shown(run)[4] == 2


def test_only_the_step_is_redrawn_where_a_person_wants_so(run: Path) -> None:
    before = len(calls(run))
    interleave.redraw_step(run, 1, only_step=True)
    interleave.resume(run)
    assert new_calls(run, before) == {(1, 2)}
    assert shown(run) == {1: 2, 2: 2, 3: None, 4: 2, 5: 1}
    assert by_hand(run) == {1: "redrawn", 2: "kept", 4: "kept", 5: "kept"}
    interleave.redraw_step(run, 2)  # what was kept follows from the new image now
    interleave.resume(run)
    assert by_hand(run) == {1: "redrawn", 2: "redrawn", 5: "kept"}


def test_another_attempt_is_chosen_and_later_steps_follow_from_it(run: Path) -> None:
    before = len(calls(run))
    interleave.choose_attempt(run, 2, 1)
    interleave.resume(run)
    assert new_calls(run, before) == {(4, 3)}
    assert shown(run)[2] == 1
    second = step_of(run, 2)
    assert (second.by_hand, second.accepted, second.forced) == ("chosen", False, False)
    assert read_record(run).forced_steps == ()
    fourth = step_of(run, 4)
    assert fourth.attempts[0].sources is not None  # it was drawn from the image that was shown before
    assert fourth.attempts[-1].sources is None


def test_a_choice_lapses_when_a_step_before_it_changes_and_comes_back_with_the_undo(run: Path) -> None:
    interleave.choose_attempt(run, 4, 1)
    interleave.resume(run)
    interleave.redraw_step(run, 2, seed=7)
    interleave.resume(run)
    assert by_hand(run) == {2: "redrawn"}
    interleave.undo_decision(run)
    interleave.resume(run)
    assert (by_hand(run), shown(run)[4]) == ({4: "chosen"}, 1)


def test_a_choice_of_an_independent_step_stays(run: Path) -> None:
    interleave.redraw_step(run, 5, seed=3)
    interleave.resume(run)
    interleave.choose_attempt(run, 5, 1)
    interleave.redraw_step(run, 2, seed=3)
    interleave.resume(run)
    assert by_hand(run) == {2: "redrawn", 5: "chosen"}


def test_the_prompt_of_a_chosen_attempt_is_drawn_again_when_the_step_has_to_be(run: Path) -> None:
    interleave.redraw_step(run, 2, prompt="add a toad")
    interleave.resume(run)
    interleave.choose_attempt(run, 2, 1)
    interleave.resume(run)
    assert step_of(run, 2).plan.prompt == "add a frog"
    interleave.redraw_step(run, 1)
    interleave.resume(run)
    assert (
        step_of(run, 2).attempt.prompt.startswith("add a frog") or step_of(run, 2).plan.prompt == "add a frog"
    )


def test_undone_again_and_again_nothing_is_left(run: Path) -> None:
    undisturbed = shown(run)
    interleave.choose_attempt(run, 2, 1)
    interleave.redraw_step(run, 4, seed=5)
    interleave.resume(run)
    interleave.undo_decision(run)
    interleave.undo_decision(run)
    interleave.resume(run)
    assert shown(run) == undisturbed
    with pytest.raises(InputError, match="nothing to undo"):
        interleave.undo_decision(run)
    undone = [entry for entry in read_journal(run) if isinstance(entry, Undone)]
    assert len(undone) == 2  # further events; no line is ever removed


def test_another_generator_draws_one_step(run: Path) -> None:
    interleave.redraw_step(run, 5, generator="solid?size=128")
    interleave.resume(run)
    fifth = step_of(run, 5)
    assert [attempt.generator for attempt in fifth.attempts] == [None, "solid?size=128"]
    with Image.open(run / "images" / fifth.attempt.image) as image:
        assert image.size == (128, 128)
        assert image.info["generator"] == "solid?size=128"


def test_a_generator_from_a_folder_needs_permission(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-of-somebody")
    paid = "openai-images:m@http://127.0.0.1:9/v1?key=MY_KEY"
    interleave.redraw_step(run, 5, generator=paid)
    with pytest.raises(RunError, match=r"send MY_KEY to http://127\.0\.0\.1:9"):
        interleave.resume(run)
    interleave.undo_decision(run)
    assert interleave.resume(run).status == "done"


def test_a_held_plan_draws_nothing_until_it_is_released(tmp_path: Path) -> None:
    held = interleave.generate(
        "A frog, in three pictures", out=tmp_path / "run", generator=SMALL, hold_plan=True
    )
    assert held.status == "held"
    assert {role for role, _, _ in calls(held.folder)} == {"planner"}
    assert interleave.resume(held.folder).status == "held"
    assert summarize(held.record, held.folder).plan == "plan.json"
    interleave.release_plan(held.folder)
    assert interleave.resume(held.folder).status == "done"
    assert [role for role, _, _ in calls(held.folder)].count("planner") == 1
    plain = interleave.generate("A frog, in three pictures", out=tmp_path / "plain", generator=SMALL)
    ours, theirs = interleave.comparable(held.folder), interleave.comparable(plain.folder)
    assert ours.pop("decisions") and not theirs.pop("decisions")
    assert ours == theirs


def test_an_edited_plan_is_drawn_instead_and_no_planner_is_asked(tmp_path: Path) -> None:
    held = interleave.generate("A frog, in 3 pictures", out=tmp_path / "run", generator=SMALL, hold_plan=True)
    file = held.folder / "plan.json"
    file.write_text(file.read_text().replace("Part 1", "Begin"))
    with pytest.raises(RunError, match=re.escape("plan.json has been edited")):
        interleave.release_plan(held.folder)
    edited = Plan.model_validate({"steps": json.loads(file.read_text())["steps"][:2]})
    interleave.release_plan(held.folder, edited, by="Ada")
    record = interleave.resume(held.folder).record
    assert (len(record.steps), record.calls.planner) == (2, 1)
    assert record.steps[0].plan.text.startswith("Begin")
    assert "Ada" not in json.dumps(interleave.comparable(held.folder))


def test_the_same_command_on_a_held_run_stays_held_and_makes_no_call(tmp_path: Path) -> None:
    for hold in (True, True, False):
        again = interleave.generate("A frog", out=tmp_path / "run", generator=SMALL, hold_plan=hold)
        assert again.status == "held"
    assert len(calls(tmp_path / "run")) == 1


def test_a_branch_goes_its_own_way_and_pays_only_for_that(run: Path, tmp_path: Path) -> None:
    whole = (run / "journal.jsonl").read_bytes()
    began = interleave.branch_run(run, tmp_path / "branch", 4, prompt="add two moons")
    assert (began.status, began.calls.total, began.cost) == ("interrupted", 0, None)
    branch = interleave.resume(tmp_path / "branch")
    assert branch.record.calls.generator == 1
    assert [step.attempt.image for step in branch.record.steps[:2] if step.attempt] == [
        step.attempt.image for step in read_record(run).steps[:2] if step.attempt
    ]
    assert step_of(branch.folder, 4).plan.prompt == "add two moons"
    parent = branch.record.parent
    assert parent is not None
    assert (parent.parent, parent.step) == ("run", 4)
    assert summarize(branch.record, branch.folder).branched_from == BranchSummary(run="run", step=4)
    assert (run / "journal.jsonl").read_bytes() == whole
    image = step_of(run, 1).attempt.image
    assert (run / "images" / image).samefile(branch.folder / "images" / image)


def test_a_branch_without_links_is_copied(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: Any, **__: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", no_links)
    interleave.branch_run(run, tmp_path / "branch", 4)
    assert interleave.resume(tmp_path / "branch").status == "done"
    shutil.rmtree(run)
    assert interleave.resume(tmp_path / "branch").status == "done"


def test_a_branch_of_a_branch_counts_its_own_calls(run: Path, tmp_path: Path) -> None:
    interleave.branch_run(run, tmp_path / "one", 2)
    interleave.resume(tmp_path / "one")
    interleave.branch_run(tmp_path / "one", tmp_path / "two", 5)
    assert interleave.resume(tmp_path / "two", max_calls=2).record.calls.total == 2


class Paid:
    """A generator that costs 2 cents an image."""

    capabilities = GeneratorCapabilities(price_per_image=0.02)

    async def generate(self, request: ImageRequest) -> Image.Image:
        return Image.new("RGB", (16, 16), (request.seed % 256, len(request.sources), 0))


def test_costs_and_limits_add_up_over_decisions(tmp_path: Path) -> None:
    def go_on(**limits: Any) -> RunRecord:
        return generate(tmp_path / "run", generator=Paid(), **limits).record

    first = go_on()
    assert first.cost == pytest.approx(0.02 * first.calls.generator)
    interleave.redraw_step(tmp_path / "run", 4)
    short = go_on(max_calls=first.calls.total + 1)
    assert (short.status, short.cost) == ("short", pytest.approx((first.cost or 0) + 0.02))
    fourth = step_of(tmp_path / "run", 4)
    assert (fourth.shown, fourth.forced) == (3, True)  # of this take, not the best of those before
    assert go_on().status == "done"
    interleave.undo_decision(tmp_path / "run")
    undone = go_on(max_calls=1)  # no call is left, and none is needed
    assert (undone.status, undone.cost) == ("done", pytest.approx((first.cost or 0) + 0.02))


def test_a_run_that_ends_short_shows_no_image_that_follows_from_another(run: Path) -> None:
    for at, expected in ((0, {1: None, 2: None}), (1, {1: 2, 2: None})):
        if not at:
            interleave.redraw_step(run, 1)
        short = interleave.resume(run, max_calls=len(calls(run)) + at or 1)
        assert short.status == "short"
        assert {number: shown(run)[number] for number in (1, 2)} == expected
        assert [step.plan.number for step in short.record.steps if step.shown and step.plan.number > 2] == []
        trajectory = read_trajectory(run.parent, "run")
        assert isinstance(trajectory, Trajectory)
        for step, attempt in trajectory.attempts():
            assert trajectory.critic_input(step, attempt).before.size


def test_a_command_that_was_stopped_can_be_repeated(run: Path) -> None:
    for _ in range(2):
        interleave.redraw_step(run, 2)
    interleave.resume(run)
    assert len(read_record(run).decisions) == 1
    for _ in range(2):
        interleave.choose_attempt(run, 2, 1)
    assert sum(isinstance(entry, AttemptChosen) for entry in read_journal(run)) == 1


def test_an_interrupted_step_can_be_given_another_prompt(tmp_path: Path) -> None:
    short = generate(tmp_path / "run", max_calls=2)
    assert short.status == "short"
    interleave.redraw_step(short.folder, 4, prompt="add a star")  # not drawn yet
    done = interleave.resume(short.folder)
    assert done.status == "done"
    assert step_of(done.folder, 4).attempts[0].prompt == "add a star"


@pytest.mark.parametrize(
    ("decide", "refusal"),
    [
        (lambda run: interleave.redraw_step(run, 9), "no step 9: the plan has steps 1 to 5"),
        (
            lambda run: interleave.redraw_step(run, 3, prompt="x"),
            "text only and has no image, so it takes no",
        ),
        (lambda run: interleave.choose_attempt(run, 3, 1), "step 3 is text only"),
        (lambda run: interleave.redraw_step(run, 2, prompt=" "), "the prompt is blank"),
        (lambda run: interleave.redraw_step(run, 2, prompt="\ud800"), "cannot be redrawn"),
        (lambda run: interleave.redraw_step(run, 2, seed=-1), "cannot be redrawn"),
        (lambda run: interleave.redraw_step(run, 2, generator="nobody"), "nobody"),
        (
            lambda run: interleave.redraw_step(run, 2, generator="openai-images:x"),
            "OPENAI_API_KEY is not set",
        ),
        (lambda run: interleave.redraw_step(run, 2, generator="json:./no.toml@http://a"), "no.toml"),
        (lambda run: interleave.redraw_step(run, 5, generator="mini"), "map"),
        (lambda run: interleave.branch_run(run, "b", 2, generator="openai-images:x"), "OPENAI_API_KEY"),
        (lambda run: interleave.choose_attempt(run, 2, 7), "step 2 has no attempt 7: its attempts are 1, 2"),
        (lambda run: interleave.choose_attempt(run, 2, 2), "is already shown"),
        (lambda run: interleave.undo_decision(run), "nothing to undo"),
        (lambda run: interleave.release_plan(run), "already has images of its plan"),
        (lambda run: interleave.release_plan(run, STORY), "already has images of its plan"),
        (lambda run: interleave.branch_run(run, run, 2), "already holds a run"),
        (lambda run: interleave.branch_run(run, run / "images", 2), "has other files"),
        (lambda run: interleave.redraw_step(run / "no", 2), "is not a run folder"),
    ],
)
def test_what_cannot_be_decided_is_refused_and_nothing_is_written(
    run: Path, decide: Any, refusal: str
) -> None:
    before = snapshot(run.parent)
    with pytest.raises(interleave.InterleaveError, match=re.escape(refusal)):
        decide(run)
    assert snapshot(run.parent) == before
    assert not Path("b").exists()


def test_a_run_that_is_being_written_is_refused(run: Path, tmp_path: Path) -> None:
    writer = Journal(run / "journal.jsonl")
    try:
        for decide in (interleave.undo_decision, lambda run: interleave.branch_run(run, tmp_path / "b", 2)):
            with pytest.raises(FolderInUse, match="still being written"):
                decide(run)
    finally:
        writer.close()


def test_decisions_need_a_plan_that_is_there_and_released(tmp_path: Path) -> None:
    held = interleave.generate("A frog", out=tmp_path / "run", generator=SMALL, hold_plan=True).folder
    with pytest.raises(RunError, match="waits for approval"):
        interleave.redraw_step(held, 1)
    too_long = Plan(steps=tuple(PlanStep(number=n, prompt="a pond") for n in range(1, 60)))
    with pytest.raises(InputError, match="59 steps, and this run allows 50"):
        interleave.release_plan(held, too_long)
    with pytest.raises(RunError, match="was started without hold_plan=True"):
        generate(tmp_path / "other")
        generate(tmp_path / "other2", max_calls=1)
        generate(tmp_path / "other2", hold_plan=True)


def test_an_image_that_is_gone_cannot_be_chosen_or_branched_off(run: Path, tmp_path: Path) -> None:
    (run / "images" / step_of(run, 2).attempts[0].image).unlink()
    before = snapshot(tmp_path)
    with pytest.raises(MissingImage):
        interleave.choose_attempt(run, 2, 1)
    with pytest.raises(MissingImage):
        interleave.branch_run(run, tmp_path / "branch", 2)
    assert snapshot(tmp_path) == before


def test_a_journal_with_impossible_decisions_is_damaged(run: Path) -> None:
    journal = Journal(run / "journal.jsonl")
    journal.append(Undone())
    journal.sync()
    journal.close()
    with pytest.raises(RunError, match="there is no decision to undo"):
        read_record(run)


def test_lines_stay_chained_and_an_old_line_cannot_be_taken_out(run: Path) -> None:
    interleave.redraw_step(run, 2)
    interleave.resume(run)
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    decided = next(place for place, line in enumerate(lines) if b"redraw_decided" in line)
    journal.write_bytes(b"".join(lines[:decided] + lines[decided + 1 :]))
    with pytest.raises(RunError, match=f"journal.jsonl:{decided + 1} is damaged"):
        read_journal(run)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_after_any_line_a_decided_run_ends_as_an_undisturbed_one(tmp_path: Path, every: int) -> None:
    folder = tmp_path / "whole"
    plan = Plan(steps=STORY.steps[:2])
    decisions = [
        lambda run: interleave.redraw_step(run, 1, prompt="a lake"),
        lambda run: interleave.undo_decision(run),
        lambda run: interleave.choose_attempt(run, 2, 1),
        lambda run: interleave.redraw_step(run, 1, prompt="a lake"),
    ]
    generate(folder, plan=plan)
    begun = len(read_journal(folder))
    for decide in decisions:
        decide(folder)
        interleave.resume(folder)
    whole, drawn = interleave.comparable(folder), results(folder)
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(begun, len(lines), every):
        cut = Path(shutil.copytree(folder, tmp_path / f"cut-{kept}"))
        (cut / "journal.jsonl").write_bytes(b"".join(lines[:kept]))
        (cut / "run.json").unlink()
        made = sum(
            b'_decided"' in line or b'_chosen"' in line or b'"undone"' in line for line in lines[:kept]
        )
        interleave.resume(cut)
        for decide in decisions[made:]:
            decide(cut)
            interleave.resume(cut)
        assert interleave.comparable(cut) == whole
        assert results(cut) == drawn


def results(folder: Path) -> list[tuple[int, int, int]]:
    return [(e.call, e.step, e.attempt) for e in read_journal(folder) if isinstance(e, Drawn)]


def test_a_decision_reopens_a_finished_run_until_it_is_continued(run: Path) -> None:
    assert isinstance(read_journal(run)[-1], Ended)
    record = interleave.redraw_step(run, 2)
    assert [step.finished for step in record.steps] == [True, False, True, False, False]
    assert interleave.resume(run).status == "done"


def test_which_steps_follow_from_an_image() -> None:
    assert steps_that_follow(STORY, SourceRule.PREVIOUS, 1) == {2, 4, 5}
    assert steps_that_follow(STORY, SourceRule.PREVIOUS, 2) == {4}
    assert steps_that_follow(STORY, SourceRule.HISTORY, 2) == {4}
    assert steps_that_follow(STORY, SourceRule.PREVIOUS, 5) == set()
