"""`generate --hold-plan` and the decisions of `edit`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave import redraw_step
from interleave.backends import registry
from interleave.backends.registry import BackendInfo
from interleave.cli.main import run
from interleave.runs.journal import Journal
from snapshots import snapshot

Captured = pytest.CaptureFixture[str]
PAID = "openai-images:gpt-image-1"
LOCAL = "http://127.0.0.1:9"
REQUEST = ["generate", "A frog, in three pictures", "--generator", "solid?size=64", "--out", "run"]


@pytest.fixture
def done(capsys: Captured) -> None:
    assert run(REQUEST) == 0
    capsys.readouterr()


def test_a_plan_is_held_edited_and_drawn(capsys: Captured) -> None:
    assert run([*REQUEST, "--hold-plan"]) == 0
    said = capsys.readouterr()
    assert said.out == "run/plan.json\n"
    assert "interleave edit run approve" in said.err
    assert run(["resume", "run", "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert (held["status"], held["plan"]) == ("held", "plan.json")
    plan = json.loads(Path("run/plan.json").read_text())
    del plan["steps"][1]
    plan["steps"][1]["prompt"] = "add a lily"
    Path("edited.json").write_text(json.dumps(plan))
    assert run(["edit", "run", "approve", "--plan", "edited.json", "--by", "Ada", "--json"]) == 0
    assert [step["number"] for step in json.loads(capsys.readouterr().out)["steps"]] == [1, 2]
    assert "Nothing is drawn yet" not in Path("run/document.html").read_text()


def test_a_held_page_says_so_and_approval_draws_it(capsys: Captured) -> None:
    run([*REQUEST, "--hold-plan"])
    assert "the plan waits for approval" in Path("run/document.html").read_text()
    assert run(["show", "run"]) == 0
    assert "(held)" in capsys.readouterr().err
    assert run(["edit", "run", "approve"]) == 0
    assert capsys.readouterr().out == "run/document.html\n"


def test_a_redrawn_step_says_so_everywhere(done: None, capsys: Captured) -> None:
    assert run(["edit", "run", "redraw", "2", "--prompt", "add <b>bold</b>", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step.get("by_hand") for step in steps] == [None, "redrawn", None]
    assert run(["show", "run", "--markdown"]) == 0
    assert "3 attempts, redrawn by hand" in capsys.readouterr().err
    assert "by hand" not in Path("run/document.md").read_text()
    page = Path("run/document.html").read_text()
    book, making = page.split("Attempts and verdicts")
    assert "by hand" not in book and "redrawn by hand" in making
    assert "superseded" in page
    assert "<b>" not in page


def test_choosing_undoing_and_branching(done: None, capsys: Captured) -> None:
    assert run(["edit", "run", "choose", "2", "1", "--only", "--fail-on-forced"]) == 0
    assert "step 2: attempt 1 is shown, as decided" in capsys.readouterr().err
    run(["show", "run"])
    said = capsys.readouterr().err
    assert "chosen by hand" in said
    assert "kept by hand" in said
    assert run(["edit", "run", "undo"]) == 0
    assert run(["edit", "run", "branch", "3", "--generator", "solid?size=128", "--out", "b"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "b/document.html"
    assert run(["show", "b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["branched_from"] == {"run": "run", "step": 3}
    assert "of <em>run</em>, from step 3" in Path("b/document.html").read_text()
    assert run(["edit", "run", "undo"]) == 2  # nothing is left
    assert run(["edit", "run", "redraw", "3", "--seed", "0", "--json-events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["decision"] for each in events if each["event"] == "decided"] == [
        "attempt_chosen",
        "undone",
        "redraw_decided",
    ]
    run(["show", "run", "--follow"])
    assert "decided: attempt 1 of step 2 is shown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["undo", "--seed", "0"], "No such option: --seed"),
        (["choose", "2"], "Missing argument 'ATTEMPT'"),
        (["choose", "2", "one"], "Invalid value for 'ATTEMPT': it must be a valid integer"),
        (["choose", "2", "9"], "step 2 has no attempt 9: its attempts are 1, 2"),
        (["branch", "2"], "Missing option '--out'"),
        (["branch", "2", "--out", "run"], "already holds a run"),
        (["redraw", "0"], "no step 0: the plan has steps 1 to 3"),
        (["approve"], "already has images of its plan"),
        (["approve", "--plan", "nowhere.json"], "no such file"),
        (["redraw", "2", "--generator", "nobody"], "nobody"),
        (["redraw", "2", "--generator", "solid?size=9999999"], "option 'size'"),
        (["redraw", "2", "--generator", PAID], "OPENAI_API_KEY is not set"),
        (["redraw", "2", "--generator", "heavy"], "needs the package 'no_such_package'"),
        (["redraw", "2", "--generator", f"{LOCAL}?wire=generate"], "starts from 1 image, and"),
        (["redraw", "1", "--generator", f"{LOCAL}?max_sources=1&text_to_image=false"], "only edits"),
        (["redraw", "2", "--prompt", " "], "the prompt is blank"),
        (["redraw", "2", "--max-cost", "1", "--generator", LOCAL], "--max-cost needs backends"),
        (["branch", "2", "--out", "b", "--generator", PAID], "OPENAI_API_KEY is not set"),
        (["branch", "2", "--out", "b", "--max-cost", "1", "--generator", LOCAL], "--max-cost needs"),
        (["approve", "--allow", "junk"], "--allow junk: write WHAT@WHERE"),
    ],
)
def test_decisions_that_cannot_be_carried_out_are_refused_and_leave_every_byte(
    done: None, capsys: Captured, monkeypatch: pytest.MonkeyPatch, options: list[str], refusal: str
) -> None:
    heavy = BackendInfo("no_such_module:Thing", "needs much", needs=("no_such_package",))
    monkeypatch.setitem(registry.GENERATORS, "heavy", heavy)
    before = snapshot(Path())
    assert run(["edit", "run", *options]) == 2
    assert refusal in capsys.readouterr().err
    assert snapshot(Path()) == before


@pytest.mark.parametrize(
    ("critic", "refusal"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY is not set"),
        ("openai:m@http://a/v1?key=OPENAI_API_KEY", "repeat this with --allow OPENAI_API_KEY@http://a"),
    ],
)
def test_a_decision_is_not_recorded_where_the_runs_own_models_cannot_be_loaded(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, critic: str, refusal: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-yesterday")
    assert run([*REQUEST, "--hold-plan", "--critic", critic, "--planner", "scripted"]) == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    before = snapshot(Path())
    assert run(["edit", "run", "approve"]) == 2
    assert refusal in capsys.readouterr().err
    assert snapshot(Path()) == before


def test_a_decision_about_a_run_that_is_being_written_leaves_every_byte(done: None, capsys: Captured) -> None:
    before, writer = snapshot(Path()), Journal(Path("run/journal.jsonl"))
    try:
        assert run(["edit", "run", "redraw", "2"]) == 2
        assert "still being written" in capsys.readouterr().err
    finally:
        writer.close()
    assert snapshot(Path()) == before


def test_a_run_that_cannot_go_on_after_a_decision_names_the_way_back(
    done: None, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-yesterday")
    redraw_step("run", 2, generator=PAID)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run(["resume", "run", "--json"]) == 2
    said = capsys.readouterr()
    assert "OPENAI_API_KEY is not set" in said.err
    assert "interleave edit run undo" in said.err
    assert "interleave edit run undo" in json.loads(said.out)["error"]["message"]
    assert run(["edit", "run", "undo"]) == 0
    capsys.readouterr()
    assert run(["edit", "run", "redraw", "2", "--max-calls", "1"]) == 1
    assert "interleave edit run undo" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--generator", PAID],
        ["--generator", "nobody"],
        ["--asset", "Mia=no.png"],
        ["--plan", "plan.json", "--generator", f"{LOCAL}?max_sources=1&text_to_image=false"],
        ["--requests", "r.jsonl", "--generator", PAID],
        ["--requests", "bad.jsonl"],
    ],
)
def test_a_refused_command_leaves_no_folder(options: list[str]) -> None:
    Path("r.jsonl").write_text('{"request": "A frog"}\n')
    Path("bad.jsonl").write_text('{"request": ""}\n')
    Path("plan.json").write_text('{"steps": [{"number": 1, "prompt": "a pond"}]}')
    request = [] if "--requests" in options else ["A frog"]
    assert run(["generate", *request, *options, "--out", "new/run"]) == 2
    assert not Path("new").exists()


def test_many_requests_cannot_be_held(capsys: Captured) -> None:
    Path("requests.jsonl").write_text('{"request": "A frog"}\n')
    assert run(["generate", "--requests", "requests.jsonl", "--out", "many", "--hold-plan"]) == 2
    assert "--hold-plan are for one run" in capsys.readouterr().err
