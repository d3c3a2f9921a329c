"""Look inside: every model call with its raw reply, and the document as a command line."""

from __future__ import annotations

import shlex
from pathlib import Path

from running import Service

from interleave.cli.main import run
from interleave.config.run_config import RunConfig
from interleave.runs.folder import comparable
from interleave.runs.journal import (
    Called,
    CallFailed,
    Drawn,
    Entry,
    Judged,
    Planned,
    Replied,
    RequestPart,
)
from interleave.runs.record import read_record
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.calls import calls_in
from interleave.service.documents.document_routes import command_line
from interleave.service.documents.jobs import Job, new_job_id
from interleave.types import Outcome, Plan, PlanStep, Verdict

PLAN = Plan(steps=(PlanStep(number=1, prompt="an egg"),))


def test_calls_have_replies_errors_and_images() -> None:
    entries: list[Entry] = [
        Called(role="planner", call=1, time=10.0),
        CallFailed(role="planner", call=1, error="busy", transient=True),
        Called(role="planner", call=1, time=20.0),
        Replied(
            role="planner",
            call=1,
            fingerprint="f",
            text="<answer>…",
            finish_reason="stop",
            seconds=1.5,
            cost=0.1,
        ),
        Called(role="generator", call=1, step=1, attempt=1, time=30.0),
        Drawn(
            role="generator",
            call=1,
            step=1,
            attempt=1,
            fingerprint="f",
            prompt="p",
            seed=3,
            image="a.png",
            seconds=2,
        ),
        Called(role="critic", call=1, step=1, attempt=1, time=40.0),
    ]
    planner, generator, critic = calls_in(entries, lambda name: f"/{name}").data
    assert (planner.status, planner.text, planner.errors) == ("done", "<answer>…", ["busy"])
    assert (planner.started_at, planner.seconds, planner.cost) == (10.0, 1.5, 0.1)
    assert (generator.prompt, generator.seed, generator.picture) == ("p", 3, "/a.png")
    assert (critic.status, critic.text) == ("running", None)


def test_a_call_of_an_agent_that_computes_ends_with_what_it_was_made_for() -> None:
    entries: list[Entry] = [
        Called(role="planner", call=1, time=10.0),
        Planned(plan=PLAN, time=12.5),
        Called(role="critic", call=1, step=1, attempt=1, time=20.0),
        Judged(step=1, attempt=1, verdict=Verdict(outcome=Outcome.ACCEPTED), time=21.0),
    ]
    assert [(call.status, call.seconds) for call in calls_in(entries, str).data] == [
        ("done", 2.5),
        ("done", 1.0),
    ]


def test_the_calls_of_a_document_are_those_of_its_journal(running: Service) -> None:
    job = running.sdk().responses.create(input="two images")
    data = running.http.get(f"/v1/documents/{job.id}/calls").json()["data"]
    assert [(call["role"], call["step"], call["attempt"]) for call in data] == [
        ("planner", 0, 0),
        *[(role, 1, 1) for role in ("generator", "critic")],
        *[(role, 2, attempt) for attempt in (1, 2) for role in ("generator", "critic")],
    ]
    assert all(call["status"] == "done" for call in data)
    assert data[0]["text"] and running.http.get(data[1]["picture"]).status_code == 200


def job_of(config: RunConfig, *parts: RequestPart) -> Job:
    return Job(id=new_job_id(), created=0, parts=parts, config=config, model="interleave")


def test_the_command_line_makes_the_same_document(tmp_path: Path) -> None:
    config, _ = resolve(Choices(profile="dry-run", seed=7, max_attempts=2))
    words = shlex.split(
        command_line(job_of(config, RequestPart(text='It\'s "one"\npicture; ls')), None, "dry-run")
    )
    assert run([*words[1:], "--out", str(tmp_path / "a")]) == 0
    record = read_record(tmp_path / "a")
    assert (record.config, record.request[0].text) == (config, 'It\'s "one"\npicture; ls')
    named = shlex.split(command_line(job_of(config, *record.request), record, None))
    assert run([*named[1:], "--out", str(tmp_path / "b")]) == 0
    assert comparable(tmp_path / "a") == comparable(tmp_path / "b")


def test_images_of_the_request_are_files_of_the_archive() -> None:
    config, _ = resolve(Choices(profile="dry-run"))
    job = job_of(config, RequestPart(text="go on"), RequestPart(image="ab.png"))
    assert "--image images/ab.png" in command_line(job, None, "dry-run")
