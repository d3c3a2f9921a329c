"""`edit RUN words` and `show RUN --words`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave import read_event_line, read_record, undo_decision
from interleave.cli.main import run
from snapshots import snapshot

Captured = pytest.CaptureFixture[str]
REQUEST = ["generate", "A frog, in three pictures", "--dry-run", "--generator", "solid?size=64"]


@pytest.fixture
def done(capsys: Captured) -> None:
    assert run([*REQUEST, "--out", "run"]) == 0
    capsys.readouterr()


def test_words_are_changed_shown_and_undone(done: None, capsys: Captured) -> None:
    words = ["edit", "run", "words"]
    assert run([*words, "--title", "Der Frosch", "--order", "2,1", "--by", "Ada"]) == 0
    assert run([*words, "--step", "3", "--name", "", "--text", "Ende.", "--alt", "Ein Frosch", "--hide"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["run/document.html"] * 2 and "words changed" in said.err
    assert run(["show", "run"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Der Frosch  (done)"
    assert [line.split()[0] for line in lines[1:4]] == ["2", "1", "3"]
    assert lines[3] == "  3  Ende.  [hidden]"
    assert run([*words, "--step", "3", "--show", "--json"]) == 0
    assert [step["place"] for step in json.loads(capsys.readouterr().out)["steps"]] == [2, 1, 3]
    assert run([*words, "--step", "3", "--show"]) == 0
    assert "nothing to change" in capsys.readouterr().err
    for _ in range(3):
        assert run(["edit", "run", "undo"]) == 0
    assert read_record("run").words is None
    assert "loading models" not in capsys.readouterr().err


def test_all_words_are_edited_in_a_file(done: None, capsys: Captured) -> None:
    assert run(["show", "run", "--words"]) == 0
    words = json.loads(capsys.readouterr().out)
    words["title"] = "Der Frosch"
    words["steps"][0]["text"] = "Am Anfang. 🐸"
    Path("words.json").write_text(json.dumps(words), "utf-8")
    assert run(["edit", "run", "words", "--from", "words.json"]) == 0
    assert run(["show", "run", "--words"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2]) == words


def test_after_a_redraw_every_command_names_the_text_and_the_way_to_keep_it(
    done: None, capsys: Captured
) -> None:
    note, way = "its image was redrawn as “a red fish”", "interleave edit run words --keep 2"
    for command in (
        ["edit", "run", "redraw", "2", "--prompt", "a red fish"],
        ["show", "run"],
        ["export", "run", "--to", "html"],
    ):
        assert run(command) == 0
        said = capsys.readouterr().err
        assert note in said and way in said
    assert run(["edit", "run", "words", "--keep", "2"]) == 0
    assert run(["show", "run"]) == 0
    assert note not in capsys.readouterr().err


def test_a_page_that_was_not_written_after_an_edit_is_written_when_it_is_shown(
    done: None, capsys: Captured
) -> None:
    assert run(["edit", "run", "words", "--title", "Der Frosch"]) == 0
    undo_decision("run")  # a line of the journal and nothing else, as after a kill in between
    assert "Der Frosch" in Path("run/document.html").read_text("utf-8")
    assert run(["show", "run"]) == 0
    assert "Der Frosch" not in Path("run/document.html").read_text("utf-8")


def test_events_tell_of_edited_words_and_end_with_the_document(done: None, capsys: Captured) -> None:
    assert run(["edit", "run", "words", "--title", "Der Frosch", "--by", "Ada", "--json-events"]) == 0
    lines = [read_event_line(line) for line in capsys.readouterr().out.splitlines()]
    first, *_, decided, last = (line.model_dump() for line in lines)
    assert (first["event"], first["continued"]) == ("started", True)
    assert (decided["decision"], decided["by"], decided["replayed"]) == ("document_edited", "Ada", False)
    assert (last["event"], last["status"], last["title"]) == ("ended", "done", "Der Frosch")
    run(["show", "run", "--follow"])
    assert "edited: the words" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--text", "x"], "needs the number of its step"),
        (["--step", "9", "--text", "x"], "no step 9: the plan has steps 1 to 3"),
        (["--order", "1,x"], "--order 1,x: write numbers of steps, such as 1,3,2"),
        (["--title", ""], "the title is blank"),
        (["--keep", "4"], "no step 4"),
        (["--from", "nowhere.json"], "no such file"),
        (["--from", "list.json"], "has no words of a document"),
        (["--from", "plan.json"], "titel"),
        (["--from", "broken.json"], "line 1: not JSON"),
        (["--from", "five.json", "--step", "1", "--text", "x"], "steps"),
    ],
)
def test_words_that_are_refused_leave_every_byte(
    done: None, capsys: Captured, options: list[str], refusal: str
) -> None:
    Path("list.json").write_text("[]")
    Path("plan.json").write_text('{"titel": "x"}')
    Path("broken.json").write_text("{")
    Path("five.json").write_text('{"steps": 5}')
    before = snapshot(Path())
    assert run(["edit", "run", "words", *options]) == 2
    assert refusal in capsys.readouterr().err
    assert snapshot(Path()) == before


def test_only_one_form_of_output_is_printed(done: None, capsys: Captured) -> None:
    assert run(["show", "run", "--words", "--json"]) == 2
    assert "cannot be combined" in capsys.readouterr().err


def test_a_new_step_is_a_branch_that_draws_this_step_only(done: None, capsys: Captured) -> None:
    before = snapshot(Path("run"))
    assert (
        run(["edit", "run", "add", "1", "--prompt", "a pond", "--text", "A pond.", "--out", "new", "--json"])
        == 0
    )
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["place"] for step in steps] == [1, 3, 4, 2]
    assert [step.plan.number for step in read_record("new").steps if not step.attempts[0].inherited] == [4]
    assert snapshot(Path("run")) == before
    assert run(["edit", "new", "redraw", "1", "--prompt", "a lake"]) == 0  # the new step starts from step 1
    assert read_record("new").steps[3].attempts[-1].take == 2
    for refused in (["9", "--prompt", "x"], ["1", "--prompt", " "]):
        assert run(["edit", "run", "add", *refused, "--out", "other"]) == 2
    assert not Path("other").exists()
