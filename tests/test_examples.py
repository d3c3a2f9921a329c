"""The examples run, each in a folder of its own, and come to what they say."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

import interleave
from held import wait_until
from work import HANGS_AFTER

FOLDER = Path(__file__).parent.parent / "examples"
LISTED = (FOLDER / "README.md").read_text("utf-8")


def run_example(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(FOLDER / name), run_name="__main__")


def imported(name: str) -> ModuleType:
    module = ModuleType(name.removesuffix(".py"))
    code = compile((FOLDER / name).read_text("utf-8"), name, "exec")
    exec(code, module.__dict__)
    return module


def test_every_example_is_listed_and_tried() -> None:
    there = {path.name for path in FOLDER.glob("*.py")}
    assert there == set(re.findall(r"\]\((\w+\.py)\)", LISTED))
    tests = Path(__file__).read_text("utf-8")
    assert {name for name in there if f'"{name}"' not in tests} == set()


def test_examples_use_the_public_interface_only() -> None:
    for path in FOLDER.glob("*.py"):
        assert not re.search(
            r"(from|import) interleave\w*\.(?!bench\.)|from interleave\w* import _",
            path.read_text("utf-8"),
        )


def test_the_method_in_one_file_is_short_and_needs_two_packages() -> None:
    """test_micro_interleave.py tests what it does."""
    text = (FOLDER / "micro_interleave.py").read_text("utf-8")
    assert len(text.splitlines()) <= 400
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    assert imported - sys.stdlib_module_names == {"numpy", "PIL"}


def test_the_first_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_example("first_document.py", monkeypatch)
    told = capsys.readouterr().out
    assert "done: open runs/first-document/document.html" in told
    assert Path("runs/first-document/document.html").exists()
    assert len(interleave.read_record(Path("runs/first-document")).steps) == 4
    assert len(re.findall(r"attempt \d: (?:accepted|rejected)", told)) > 4


def test_the_own_generator_draws_every_attempt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example("own_generator.py", monkeypatch)
    told = capsys.readouterr().out
    assert "3 steps, 4 images drawn" in told
    assert "refused: postcards cannot draw dragons" in told
    assert len(list(Path("runs/postcards/images").iterdir())) == 4


def test_the_own_critic_is_obeyed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example("own_critic.py", monkeypatch)
    verdicts = re.findall(r"^(\d\.\d \w+)", capsys.readouterr().out, re.MULTILINE)
    assert verdicts == ["1.1 rejected", "1.2 rejected", "1.3 accepted", "2.1 rejected", "2.2 accepted"]


def test_a_service_of_ten_lines_passes_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks of a generator, through the real client and a real server."""
    pytest.importorskip("uvicorn")
    import uvicorn

    from interleave.cli.main import run

    config = uvicorn.Config(imported("edit_service.py").app, port=0, log_level="error")
    server = uvicorn.Server(config)
    serving = threading.Thread(target=server.run, daemon=True)
    serving.start()
    try:
        wait_until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        assert run(["backends", "check", f"http://127.0.0.1:{port}"]) == 0
    finally:
        server.should_exit = True
        serving.join(HANGS_AFTER)


def test_a_notebook_awaits_stops_and_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example("notebook.py", monkeypatch)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "2 and 3 steps, runs/frog/document.html"
    assert told[1] == "stopped: interrupted"
    assert told[-1] == "done: runs/day/document.html"
    assert [line[:6] for line in told[2:-1]] == ["step 1", "step 2", "step 3", "step 4"]


def messages(body: str) -> list[tuple[str, dict[str, object]]]:
    parts = [part.split("\ndata: ", 1) for part in body.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in parts]


def test_the_web_page_gets_every_event_as_it_comes() -> None:
    pytest.importorskip("starlette")
    from starlette.testclient import TestClient

    client = TestClient(imported("web_page.py").app)
    assert "EventSource" in client.get("/").text
    answer = client.get("/events", params={"request": "A lake in 2 pictures"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = messages(answer.text)
    assert [name for name, _ in told] == [
        "planned",
        *("drawn", "judged", "finished"),
        *("drawn", "judged", "drawn", "judged", "finished"),  # the double rejects the first of an even step
        "ended",
    ]
    assert str(told[1][1]["image"]).startswith("data:image/webp;base64,")
    assert told[-1][1]["status"] == "done"
    again = messages(client.get("/events", params={"request": "A lake in 2 pictures"}).text)
    assert again[-1] == told[-1]
    assert [name for name, _ in messages(client.get("/events").text)] == ["error", "ended"]


def test_many_requests_are_continued_without_drawing_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example("many_requests.py", monkeypatch, "80")
    told = capsys.readouterr().out
    before, after = map(int, re.findall(r"(\d+) images drawn", told))
    assert "80 of 80 done, 0 failed" in told
    assert 20 <= before < 80
    assert 80 <= before + after <= 80 + 16  # at most one call for each request in flight is made again


def test_own_requests_become_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first four commands in this process, with doubles as teacher, generator and scorer."""
    pytest.importorskip("pyarrow")
    from interleave.cli.main import run

    example = imported("train_on_own_data.py")
    monkeypatch.setattr(example, "interleave", lambda command: run(command.split()))
    rows = example.make_rows(
        teacher="--profile dry-run", generators="--generator solid?size=64", scorer="scripted"
    )
    assert Path("rows/trl/critic_sft.parquet") in rows
    assert len(list(Path("collection/runs").glob("*/*/run.json"))) == len(example.REQUESTS)


@pytest.mark.filterwarnings("default")
def test_a_benchmark_is_a_task_of_inspect() -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    replies = iter(['{"criteria_met": true}', "no idea", "no idea", "no idea"] * 8)

    def grader(*_: object) -> ModelOutput:
        reply = ModelOutput.from_content("mockllm/model", next(replies))
        reply.usage = ModelUsage()  # else tokens would be counted with a vocabulary from the network
        return reply

    rows = [
        {"id": number, "task": "art", "prompt": "A lake?", "text_rubrics": ["a"], "image_rubrics": ["b"]}
        for number in range(2)
    ]
    Path("data").mkdir()
    Path("data/test.json").write_text(json.dumps(rows))
    task = imported("inspect_task.py").interleave_bench
    (log,) = evaluate(
        task(data="data", profile="dry-run"),
        model="mockllm/model",
        model_roles={"grader": get_model("mockllm/model", custom_outputs=grader)},
        max_samples=1,
        display="none",
        log_dir="logs",
    )
    assert log.status == "success", log.error
    assert log.results is not None
    metrics = {name: each.value for name, each in log.results.scores[0].metrics.items()}
    assert metrics == {"macro_avg": 50, "item_avg": 50, "text_avg_rate": 100, "image_avg_rate": 0}
    files = Path("runs/inspect").rglob("judge/*.jsonl")
    records = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert sorted(record["status"] for record in records) == ["ok", "ok", "unparsed", "unparsed"]


@pytest.mark.slow
def test_the_training_example_runs_as_it_stands() -> None:
    pytest.importorskip("trl")
    script = [sys.executable, str(FOLDER / "train_on_own_data.py")]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    assert re.search(r"the critic loads as transformers:\S+/trained/critic/model$", done.stdout.strip())
