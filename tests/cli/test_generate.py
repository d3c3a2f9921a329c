"""The command line as a user meets it: outputs, exit codes, files."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from held import held_after, release, wait_until, wait_until_held
from interleave.cli.main import run
from work import HANGS_AFTER

Captured = pytest.CaptureFixture[str]


def interleave(*arguments: str) -> int:
    return run(list(arguments))


def as_json(capsys: Captured) -> Any:
    return json.loads(capsys.readouterr().out)


def script(name: str, *replies: object) -> str:
    Path(name).write_text("".join(json.dumps({"text": json.dumps(reply)}) + "\n" for reply in replies))
    return f"scripted:./{name}"


def test_the_documents_path_is_all_there_is_on_stdout(capsys: Captured) -> None:
    assert interleave("generate", "A frog in two pictures", "--out", "run") == 0
    out, err = capsys.readouterr()
    assert out == "run/document.html\n"
    assert "plan: 2 steps" in err
    assert "step 2, attempt 1: rejected" in err


def test_without_out_a_new_folder_under_runs_is_made(capsys: Captured) -> None:
    assert interleave("generate", "A frog") == 0
    assert Path(capsys.readouterr().out.strip()).parts[0] == "runs"


def test_json_is_one_object_of_the_agreed_form(capsys: Captured) -> None:
    assert interleave("generate", "A frog in two pictures", "--out", "run", "--json") == 0
    result = as_json(capsys)
    assert set(result) == {
        *("run", "status", "reason", "document", "steps", "calls", "cost", "seconds", "resume"),
        *("plan", "branched_from", "notes", "understood", "missing", "title"),
    }
    assert (result["run"], result["status"]) == ("run", "done")
    assert (result["document"], result["reason"], result["resume"]) == ("run/document.html", None, None)
    assert result["cost"] == 0
    assert result["calls"] == {"planner": 1, "critic": 3, "generator": 3, "repeated": 0}
    first, second = result["steps"]
    assert set(first) == {
        *("number", "text", "image", "attempts", "accepted", "forced", "by_hand"),
        *("name", "alt", "place", "words_for"),
    }
    assert (second["attempts"], second["accepted"], second["forced"]) == (2, True, False)
    assert Path("run", second["image"]).is_file()


def test_a_text_only_step_has_no_image_and_counts_as_accepted(capsys: Captured) -> None:
    plan = {"execution_plan": [{"step_number": 1, "auxiliary_text": "Just words."}]}
    assert interleave("generate", "x", "--planner", script("p", plan), "--out", "run", "--json") == 0
    assert as_json(capsys)["steps"] == [
        {
            **{"number": 1, "text": "Just words.", "image": None, "attempts": 0},
            **{"accepted": True, "forced": False, "by_hand": None},
            **{"name": "", "alt": None, "place": 1, "words_for": None},
        }
    ]


def test_a_limit_ends_with_code_1_and_what_there_is(capsys: Captured) -> None:
    assert interleave("generate", "A frog", "--out", "run", "--max-calls", "4", "--json") == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "short"
    assert "limit of 4 model calls" in err


def test_forced_steps_end_with_0_or_with_1_if_asked_for() -> None:
    critic = script("c", *[{"success": False, "refine_prompt": "again"}] * 60)
    rest = ["--critic", critic, "--max-attempts", "2"]
    assert interleave("generate", "A frog", "--out", "a", *rest) == 0
    assert interleave("generate", "A frog", "--out", "b", *rest, "--fail-on-forced") == 1
    assert interleave("generate", "A frog", "--out", "a", *rest, "--fail-on-forced") == 1


def test_a_backend_that_fails_for_good_ends_with_3_and_the_run_is_kept(capsys: Captured) -> None:
    critic = script("c", {"success": True})
    assert interleave("generate", "A frog", "--out", "run", "--critic", critic, "--json") == 3
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["status"] == "failed"
    assert "past its end" in result["reason"]
    assert result["resume"] == "interleave resume run"
    assert "past its end" in err
    assert "interleave resume run" in err
    Path("c").write_text(Path("c").read_text() * 9)
    assert interleave("resume", "run", "--json") == 0
    assert as_json(capsys)["status"] == "done"


def test_a_planner_that_stays_unreadable_ends_with_3_before_the_first_image(capsys: Captured) -> None:
    planner = script("p", *["nothing"] * 9)
    assert interleave("generate", "A frog", "--out", "run", "--planner", planner, "--json") == 3
    assert as_json(capsys)["calls"] == {"planner": 4, "critic": 0, "generator": 0, "repeated": 0}


def test_the_same_command_again_prints_the_same_result_without_a_call(capsys: Captured) -> None:
    interleave("generate", "A frog", "--out", "run", "--json")
    first = as_json(capsys)
    journal = Path("run/journal.jsonl").read_bytes()
    assert interleave("generate", "A frog", "--out", "run", "--json") == 0
    assert as_json(capsys) == first
    assert Path("run/journal.jsonl").read_bytes() == journal


def test_resume_of_a_finished_run_prints_it_again(capsys: Captured) -> None:
    interleave("generate", "A frog", "--out", "run", "--json")
    first = as_json(capsys)
    assert interleave("resume", "run", "--json") == 0
    assert as_json(capsys) == first


def test_plan_edit_generate_work_together(capsys: Captured) -> None:
    assert interleave("plan", "A frog in three pictures", "--json") == 0
    plan = as_json(capsys)
    plan["steps"][1]["prompt"] = "Paint the frog blue"
    del plan["steps"][2]
    Path("plan.json").write_text(json.dumps(plan))
    assert interleave("generate", "--plan", "plan.json", "--out", "run", "--json") == 0
    result = as_json(capsys)
    assert len(result["steps"]) == 2
    assert result["calls"]["planner"] == 0
    journal = Path("run/journal.jsonl").read_text("utf-8")
    assert "Paint the frog blue" in journal
    assert "A frog in three pictures" in journal  # the request travels with the plan


def test_steps_of_a_plan_can_be_added_moved_and_deleted_freely(capsys: Captured) -> None:
    steps = [
        {"number": 4, "prompt": "a pond"},
        {"prompt": "add a frog"},
        {"number": 2, "prompt": "add a fly", "sources": [4]},
        {"number": 2, "prompt": None, "caption": "The end."},
    ]
    Path("plan.json").write_text(json.dumps({"request": "A pond", "steps": steps}))
    assert interleave("generate", "--plan", "plan.json", "--out", "run", "--json") == 0
    assert [step["number"] for step in as_json(capsys)["steps"]] == [1, 2, 3, 4]
    plan = json.loads(Path("run/run.json").read_text("utf-8"))["plan"]
    assert plan["steps"][2]["sources"] == [1]


def test_the_way_on_can_be_pasted(capsys: Captured) -> None:
    assert interleave("generate", "A frog", "--out", "my run", "--max-calls", "3") == 1
    err = capsys.readouterr().err
    assert "interleave resume 'my run'" in err
    assert "1 of 4 steps finished, 1 image drawn" in err


def test_without_a_verb_the_help_is_readable(capsys: Captured) -> None:
    assert interleave() == 2
    assert len(capsys.readouterr().err.splitlines()) > 10


def test_a_plan_in_the_models_own_form_can_be_drawn(capsys: Captured) -> None:
    reply = "<think>hm</think><answer>{'execution_plan': [{'step_number': 1, 'prompt': 'a cat'}]}</answer>"
    Path("reply.txt").write_text(reply)
    assert interleave("generate", "A cat", "--plan", "reply.txt", "--out", "run", "--json") == 0
    assert as_json(capsys)["calls"]["generator"] == 1


def test_plan_prints_steps_and_prompts_for_people(capsys: Captured) -> None:
    assert interleave("plan", "A frog in two pictures") == 0
    assert "prompt: A frog in two pictures" in capsys.readouterr().out
    assert not Path("runs").exists()


def test_markdown_to_continue_becomes_text_and_images_in_order(capsys: Captured) -> None:
    Path("story").mkdir()
    Image.new("RGB", (64, 64), "red").save("story/a b.png")
    Path("story/half.md").write_text("Once there was a frog.\n\n![the frog](<a b.png>)\n\nIt was hungry.")
    assert (
        interleave("generate", "Go on, in 2 pictures", "--from", "story/half.md", "--out", "run", "--json")
        == 0
    )
    record = json.loads(Path("run/run.json").read_text("utf-8"))
    kinds = ["text" if part["text"] else "image" for part in record["request"]]
    assert kinds == ["text", "image", "text", "text"]


def test_images_come_before_the_words(capsys: Captured) -> None:
    Image.new("RGB", (64, 64), "red").save("a.png")
    assert interleave("generate", "Add a hat, in 1 step", "--image", "a.png", "--out", "run") == 0
    record = json.loads(Path("run/run.json").read_text("utf-8"))
    assert record["request"][0]["image"]
    assert record["request"][1]["text"] == "Add a hat, in 1 step"


def test_a_request_can_come_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("A frog in 1 picture"))
    assert interleave("generate", "-", "--out", "run", "--json") == 0
    assert len(as_json(capsys)["steps"]) == 1


def test_open_opens_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert interleave("generate", "A frog", "--out", "run", "--open") == 0
    assert opened == [Path("run/document.html").absolute().as_uri()]


def test_show_tells_the_steps_and_where_the_document_is(capsys: Captured) -> None:
    interleave("generate", "A frog", "--out", "run")
    capsys.readouterr()
    assert interleave("show", "run") == 0
    out, err = capsys.readouterr()
    assert out == "run/document.html\n"
    assert "[2 attempts]" in err


def test_show_json_is_what_generate_printed(capsys: Captured) -> None:
    interleave("generate", "A frog", "--out", "run", "--json")
    first = as_json(capsys)
    assert interleave("show", "run", "--json") == 0
    assert as_json(capsys) == first


def test_show_markdown_writes_it_beside_its_images(capsys: Captured) -> None:
    interleave("generate", "A frog", "--out", "run")
    capsys.readouterr()
    assert interleave("show", "run", "--markdown") == 0
    assert capsys.readouterr().out == "run/document.md\n"
    text = Path("run/document.md").read_text("utf-8")
    links = [line.split("(")[1].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    assert len(links) == 4
    assert all(Path("run", link).is_file() for link in links)


def test_show_of_many_runs_leads_to_their_gallery_and_refuses_what_is_for_one(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    Path("r.jsonl").write_text('{"request": "A frog"}\n')
    many = ["generate", "--requests", "r.jsonl", "--out", "many"]
    assert interleave(*many) == 0
    assert interleave("show", "many", "--open") == 2
    assert "again with --gallery" in capsys.readouterr().err
    assert interleave("show", "many") == 0
    assert capsys.readouterr().out == "many\n"
    for option in ("--markdown", "--follow"):
        assert interleave("show", "many", option) == 2
        assert f"{option} goes with one of those in many/runs" in capsys.readouterr().err
    assert interleave(*many, "--gallery") == 0
    capsys.readouterr()
    assert interleave("show", "many", "--open") == 0
    assert capsys.readouterr().out == "many/index.html\n"
    assert opened == [Path("many/index.html").absolute().as_uri()]


def test_backends_lists_what_can_be_named(capsys: Captured) -> None:
    assert interleave("backends") == 0
    out = capsys.readouterr().out
    assert "solid" in out
    assert "scripted" in out
    assert interleave("backends", "--json") == 0
    assert {row["name"] for row in as_json(capsys)} >= {"solid", "scripted"}


def test_prompts_are_listed_and_shown(capsys: Captured) -> None:
    assert interleave("prompts", "list") == 0
    assert capsys.readouterr().out.startswith("default")
    assert interleave("prompts", "show", "default", "critic") == 0
    assert "{{planned_prompt}}" in capsys.readouterr().out


def test_imported_prompts_can_be_used_at_once(capsys: Captured, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout" / "UEval"
    checkout.mkdir(parents=True)
    (checkout / "system.py").write_text(
        'NARRATIVE_PROMPT_JSON = "Plan this: {text_input}"\n'
        'GUIDANCE_GLOBAL_PROMPT_JSON = "Go on: {text_input}"\n'
        'Iterative_T2I_PROMPT_QWEN = "Check {original_instruction} against {rewritten_prompt}"\n'
    )
    assert interleave("prompts", "import", str(checkout.parent)) == 0
    assert interleave("generate", "A frog", "--prompts", "reference", "--out", "run") == 0
    assert '"name":"reference"' in Path("run/journal.jsonl").read_text("utf-8")


def test_help_and_version_answer(capsys: Captured) -> None:
    assert interleave("--help") == 0
    assert "generate" in capsys.readouterr().out
    assert interleave("--version") == 0
    assert capsys.readouterr().out.startswith("interleave 0.")
    assert interleave("generate", "--help") == 0
    assert "--max-attempts" in capsys.readouterr().out


def test_python_objects_and_specs_with_secrets_never_reach_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    interleave("generate", "A frog", "--out", "run")
    for path in Path("run").rglob("*"):
        if path.is_file():
            assert b"canary" not in path.read_bytes()


def start(images: int, *arguments: str) -> subprocess.Popen[bytes]:
    """A run that waits after so many images."""
    return subprocess.Popen(
        held_after(images, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # what a shell starts in the background, these tests perhaps, and all it starts, ignores Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_A05_A07_an_interrupted_run_ends_with_130_and_can_be_resumed(
    sign: signal.Signals, capsys: Captured
) -> None:
    arguments = ["generate", "A frog", "--out", "run", "--generator", "solid?size=64", "--json"]
    process = start(1, *arguments)
    wait_until_held()
    process.send_signal(sign)
    out, err = process.communicate(timeout=HANGS_AFTER)
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"
    assert b"interleave resume run" in err
    assert b"Traceback" not in err
    assert interleave("resume", "run", "--json") == 0
    assert as_json(capsys)["status"] == "done"


def test_of_many_failures_some_are_shown_and_the_rest_is_counted(capsys: Captured) -> None:
    Path("r.jsonl").write_text("".join(json.dumps({"request": f"A unicorn, {n}"}) + "\n" for n in range(7)))
    assert interleave("generate", "--requests", "r.jsonl", "--out", "many", "--profile", "oracle") == 2
    said = capsys.readouterr().err
    assert sum(line.startswith("failed: ") for line in said.splitlines()) == 5
    assert "and 2 more, all of them in many/index*.jsonl" in said


def test_A05_an_interrupted_batch_ends_with_130_and_goes_on_with_the_same_command(capsys: Captured) -> None:
    Path("r.jsonl").write_text(
        "".join(json.dumps({"request": f"Frog {n}, in 2 pictures"}) + "\n" for n in range(6))
    )
    arguments = [
        "generate",
        "--requests",
        "r.jsonl",
        "--out",
        "many",
        "--generator",
        "solid?size=64",
    ]
    process = start(6, *arguments, "--concurrency", "2")
    wait_until_held()
    wait_until(lambda: Path("many/index.jsonl").exists() and '"done"' in Path("many/index.jsonl").read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANGS_AFTER)
    assert process.returncode == 130
    assert b"same command again" in err
    assert b"Traceback" not in err
    assert interleave(*arguments, "--json") == 0
    result = as_json(capsys)
    assert (result["done"], result["failed"]) == (6, 0)
    assert 1 <= result["already"] < 6


def test_on_a_terminal_the_plan_comes_first_and_a_live_line_follows() -> None:
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        held_after(0, "generate", "A frog", "--out", "run", "--generator", "solid?size=64"),
        stdout=subprocess.PIPE,
        stderr=secondary,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(secondary)
    shown = b""
    while select.select([primary], [], [], HANGS_AFTER)[0]:
        try:
            shown += os.read(primary, 4096)
        except OSError:
            break  # the terminal closes with the process
        if "drawing…".encode() in shown:
            release(2)
        if "drawing attempt 2…".encode() in shown:  # the third image, as the second was refused
            release()
    process.communicate(timeout=HANGS_AFTER)
    os.close(primary)
    text = shown.decode("utf-8", "replace")
    assert process.returncode == 0
    assert text.index("Plan: 4 steps") < text.index("drawing…")
    assert "drawing attempt 2…" in text
    assert "✗" in text
    assert "✓" in text
