"""Words of a document: changed, undone in order, kept apart from the plan, checked after a redraw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave import redaction
from interleave.errors import FolderInUse, InputError, RunError
from interleave.runs.event_lines import summarize
from interleave.runs.journal import Called, DocumentEdited, Journal, read_journal
from interleave.runs.record import is_current, read_record, read_stored
from interleave.runs.shown_document import as_shown
from interleave.runs.words import words_of
from interleave.types import Plan, PlanStep
from snapshots import snapshot

STORY = Plan(
    steps=(
        PlanStep(number=1, name="Egg", caption="An egg lies in the grass.", prompt="a green egg"),
        PlanStep(number=2, name="Froglet", caption="It grows legs.", prompt="turn the egg into a froglet"),
        PlanStep(number=3, caption="It sings.", prompt=None),
        PlanStep(number=4, name="A moon", prompt="add a moon"),
    )
)
"""The text of step 4 is its name."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    generated = interleave.generate("A frog", out=tmp_path / "run", plan=STORY, generator="solid?size=64")
    return generated.folder


def shown(folder: Path) -> list[tuple[int, str]]:
    return [(step.record.plan.number, step.text) for step in as_shown(read_record(folder)).steps]


def outdated(folder: Path) -> list[int]:
    return [step.record.plan.number for step in as_shown(read_record(folder)).steps if step.note]


def test_words_change_what_is_shown_and_nothing_else(run: Path) -> None:
    before, calls = read_record(run), count_calls(run)
    edited = interleave.edit(run, by="Ada").words(
        2, name="Beine", text="Ihm wachsen Beine.", alt="Ein Frosch"
    )
    assert interleave.edit(run).words(title="Der Frosch", order=[2, 1]).title == "Der Frosch"
    assert [step.name for step in edited.steps] == ["Egg", "Beine", "", ""]
    assert edited.steps[1].alt == "Ein Frosch"
    assert shown(run) == [
        (2, "Ihm wachsen Beine."),
        (1, "An egg lies in the grass."),
        (3, "It sings."),
        (4, "A moon"),
    ]
    after = read_record(run)
    assert (after.status, count_calls(run)) == ("done", calls)
    unchanged = {"words", "journal"}
    assert after.model_dump(exclude=unchanged) == before.model_dump(exclude=unchanged)
    lines = [entry for entry in read_journal(run) if isinstance(entry, DocumentEdited)]
    assert [line.by for line in lines] == ["Ada", ""]


def test_the_files_of_a_run_follow_at_once(run: Path) -> None:
    interleave.edit(run, draw=False).words(title="Der Frosch")
    stored = read_stored(run)
    assert stored and stored[0].title == "Der Frosch" and is_current(stored[0], run)
    assert '<h1 dir="auto">Der Frosch</h1>' in (run / "document.html").read_text("utf-8")


def test_hidden_steps_are_left_out_and_the_others_counted_on(run: Path) -> None:
    assert [step.number for step in interleave.edit(run).words(2, hidden=True).steps] == [1, 3, 4]
    numbered = as_shown(read_record(run)).steps
    assert [(step.number, step.record.plan.number) for step in numbered] == [(1, 1), (2, 3), (3, 4)]
    assert len(interleave.edit(run).words(2, hidden=False).steps) == 4


def test_a_text_that_is_the_name_follows_a_new_name(run: Path) -> None:
    interleave.edit(run).words(4, name="Ein Mond")
    (fourth,) = (step for step in as_shown(read_record(run)).steps if step.record.plan.number == 4)
    assert (fourth.text, fourth.name, fourth.alt) == ("Ein Mond", "", "Ein Mond")


def test_an_alternative_text_follows_the_text_unless_there_is_one_of_its_own(run: Path) -> None:
    alts = [step.alt for step in interleave.read_run(run).steps]
    assert alts == ["An egg lies in the grass.", "It grows legs.", "It sings.", "A moon"]
    interleave.edit(run).words(1, alt="Gras, darin ein Ei")
    interleave.edit(run).words(1, text="Ein Ei.")
    assert interleave.read_run(run).steps[0].alt == "Gras, darin ein Ei"
    assert interleave.edit(run).words(1, alt="").steps[0].alt == "Ein Ei."


def test_an_undo_takes_back_the_last_edit_of_either_kind(run: Path) -> None:
    edit = interleave.edit(run)
    edit.words(title="One")
    edit.redraw(2, prompt="a red fish")
    edit.words(2, text="A fish.")
    paid = count_calls(run)
    assert shown(run)[1] == (2, "A fish.")
    assert edit.undo().status == "done" and shown(run)[1] == (2, "It grows legs.")
    assert read_record(run).steps[1].plan.prompt == "a red fish"
    assert edit.undo().record.steps[1].plan.prompt == "turn the egg into a froglet"
    assert edit.undo().title == "A frog"
    assert (read_record(run).words, count_calls(run)) == (None, paid)
    with pytest.raises(InputError, match="nothing to undo"):
        edit.undo()


def test_undoing_words_of_an_interrupted_run_does_not_continue_it(run: Path) -> None:
    interleave.edit(run).words(title="One")
    interleave.redraw_step(run, 2)
    interleave.edit(run).words(title="Two")
    calls = count_calls(run)
    undone = interleave.edit(run).undo()
    assert (undone.title, undone.status, count_calls(run)) == ("One", "interrupted", calls)
    assert interleave.resume(run).title == "One"


def test_after_a_redraw_the_text_still_says_what_the_earlier_image_showed(run: Path) -> None:
    edit = interleave.edit(run)
    edit.redraw(2, prompt="a red fish")
    (step,) = (step for step in as_shown(read_record(run)).steps if step.note)
    assert step.note == "The text still says “It grows legs.”; its image was redrawn as “a red fish”."
    assert step.note in (run / "document.html").read_text("utf-8")
    assert summarize(read_record(run), run).steps[1].words_for == "turn the egg into a froglet"
    edit.words(2, name="A fish")
    assert outdated(run) == [2]  # its heading was changed, its text was not
    edit.words(2, text="A fish swims.")
    assert outdated(run) == []
    edit.choose(2, 1)
    assert outdated(run) == [2]  # the froglet is back, and the text is about the fish
    edit.undo()
    assert outdated(run) == []
    edit.undo()
    assert outdated(run) == [2]


def test_a_text_can_be_kept_after_a_redraw(run: Path) -> None:
    interleave.edit(run).redraw(2, prompt="the same, on a stone")
    kept = interleave.edit(run).words(keep=[2, 1])
    assert outdated(run) == []
    (line,) = (entry for entry in read_journal(kept.folder) if isinstance(entry, DocumentEdited))
    assert line.keep == (2,)  # the text of step 1 fits its image
    interleave.edit(run).redraw(2, prompt="a red fish")
    assert outdated(run) == [2]


def test_another_seed_is_no_reason_to_doubt_a_text(run: Path) -> None:
    interleave.edit(run).redraw(1)
    interleave.edit(run).redraw(2, seed=7)
    assert outdated(run) == []


def test_an_edited_copy_of_all_words_is_the_document(run: Path) -> None:
    words = words_of(read_record(run))
    assert words["order"] == [1, 2, 3, 4]
    lines = len(read_journal(run))
    interleave.edit(run).words(document=words)
    assert len(read_journal(run)) == lines  # nothing differs
    words["steps"][0] |= {"text": "Ein Ei.", "hidden": True}
    words["order"] = [4, 1, 2, 3]
    words["title"] = "Der Frosch"
    interleave.edit(run).words(document=json.loads(json.dumps(words)))
    assert words_of(read_record(run))["title"] == "Der Frosch"
    assert shown(run) == [(4, "A moon"), (2, "It grows legs."), (3, "It sings.")]
    line = read_journal(run)[-1]
    assert isinstance(line, DocumentEdited)
    assert [step.model_dump(exclude_none=True) for step in line.steps] == [
        {"number": 1, "text": "Ein Ei.", "hidden": True}
    ]


def test_words_longer_than_a_person_may_write_can_stay(tmp_path: Path) -> None:
    run = interleave.generate("A frog " * 40, out=tmp_path / "long", plan=STORY, generator="solid?size=64")
    words = words_of(run.record)
    assert len(words["title"]) > 120
    interleave.edit(run).words(document={**words, "order": [2, 1, 3, 4]})
    assert shown(run.folder)[0][0] == 2


def test_a_branch_has_the_words_of_its_parent(run: Path, tmp_path: Path) -> None:
    interleave.edit(run).words(1, text="Ein Ei.")
    branch = interleave.edit(run).branch(2, tmp_path / "branch", prompt="a red fish")
    assert [step.text for step in branch.steps][:2] == ["Ein Ei.", "It grows legs."]
    assert outdated(branch.folder) == [2]
    interleave.edit(branch).words(1, text="An egg.")
    assert shown(run)[0] == (1, "Ein Ei.")


def test_equal_words_make_equal_runs(run: Path, tmp_path: Path) -> None:
    other = interleave.generate("A frog", out=tmp_path / "other", plan=STORY, generator="solid?size=64")
    interleave.edit(run, by="Ada").words(title="One")
    assert interleave.comparable(run) != interleave.comparable(other.folder)
    interleave.edit(other).words(title="One")
    assert interleave.comparable(run) == interleave.comparable(other.folder)


def test_another_plan_discards_the_words_of_the_first(tmp_path: Path) -> None:
    run = interleave.generate(
        "A frog", out=tmp_path / "run", plan=STORY, generator="solid?size=64", hold_plan=True
    )
    interleave.edit(run, draw=False).approve()
    interleave.edit(run).words(4, text="Gone.")
    shorter = Plan(steps=STORY.steps[:2])
    assert [step.text for step in interleave.edit(run).approve(shorter).steps] == [
        "An egg lies in the grass.",
        "It grows legs.",
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"steps": [{"number": 9, "text": "x"}]}, "no step 9: the plan has steps 1 to 4"),
        ({"order": [1, 9]}, "no step 9"),
        ({"keep": [0]}, "no step 0"),
        ({"order": [2, 1, 2]}, "step 2 is named twice"),
        ({"steps": [{"number": 1, "text": "a"}, {"number": 1, "text": "b"}]}, "step 1 is named twice"),
        ({"steps": [{"text": "a"}]}, "steps.0.number"),
        ({"steps": [{"number": [], "text": "a"}]}, "steps.0.number"),
        ({"steps": "all"}, "steps"),
        ({"titel": "a"}, "titel"),
        ({"title": " "}, "the title is blank"),
        ({"title": "x" * 121}, "at most 120"),
        ({"title": "\x00"}, "NUL"),
        ({"title": "\ud800"}, "title"),
        ({"steps": [{"number": 1, "text": "x" * 32_769}]}, "at most 32768"),
        ({"steps": [{"number": 3, "text": ""}]}, "step 3 is text only and would have no text"),
        ({"steps": [{"number": 3, "alt": "a"}]}, "step 3 has no image"),
        ({"steps": [{"number": n, "hidden": True} for n in (1, 2, 3, 4)]}, "no step would be shown"),
        ({"title": "my sk-of-yesterday"}, "contain the key in MY_KEY"),
    ],
)
def test_words_that_cannot_be_used_leave_every_byte(
    run: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, Any], problem: str
) -> None:
    monkeypatch.setitem(redaction._SECRETS, "sk-of-yesterday", "MY_KEY")
    before = snapshot(run)
    with pytest.raises(InputError, match=problem):
        interleave.edit(run).words(document=words)
    assert snapshot(run) == before


def test_words_wait_for_a_plan_and_for_the_end_of_the_run(run: Path, tmp_path: Path) -> None:
    held = interleave.generate("A frog", out=tmp_path / "held", plan=STORY, hold_plan=True)
    with pytest.raises(RunError, match="waits for approval"):
        interleave.edit(held).words(title="One")
    writer = Journal(run / "journal.jsonl")
    try:
        with pytest.raises(FolderInUse):
            interleave.edit(run).words(title="One")
    finally:
        writer.close()


def test_a_journal_that_edits_a_step_without_a_plan_for_it_is_damaged(run: Path) -> None:
    journal = Journal(run / "journal.jsonl")
    journal.append(DocumentEdited(keep=(9,)))
    journal.sync()
    journal.close()
    with pytest.raises(RunError, match="it names a step that the plan does not have"):
        read_record(run)


def count_calls(folder: Path) -> int:
    return sum(isinstance(entry, Called) for entry in read_journal(folder))
