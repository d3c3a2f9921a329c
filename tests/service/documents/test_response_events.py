"""Events are a fold of the journal: the same numbers for the same lines, after any restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running import HeldGenerator, service

from interleave import api
from interleave.runs.journal import Ended, Entry, read_journal
from interleave.runs.record import fold as fold_record
from interleave.service.documents.events import Event, JournalFold, ResponseFold, StoredImage, folded
from interleave.service.documents.jobs import Job, new_job_id
from interleave.types import Plan, PlanStep

ASKED = "Show how a frog grows up, in four pictures"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    folder = tmp_path_factory.mktemp("run") / "frog"
    api.generate(ASKED, profile="dry-run", generator="solid?size=64", out=folder)
    return read_journal(folder)


@pytest.fixture
def job(journal: list[Entry]) -> Job:
    config = journal[0].config  # type: ignore[union-attr]
    parts = journal[0].request  # type: ignore[union-attr]
    return Job(id=new_job_id(), created=1.0, parts=parts, config=config, model="interleave", partial_images=2)


def as_text(events: list[Event]) -> list[str]:
    return [json.dumps(event, default=lambda each: each.name, sort_keys=True) for event in events]


@pytest.mark.parametrize("kind", [ResponseFold, JournalFold])
def test_a_growing_journal_only_ever_adds_events(journal: list[Entry], job: Job, kind: Any) -> None:
    def events_of(entries: list[Entry]) -> list[str]:
        fold = kind(job)
        return as_text([*fold.begin(), *(event for entry in entries for event in fold.add(entry))])

    whole = events_of(journal)
    for lines in range(len(journal) + 1):
        part = events_of(journal[:lines])
        assert part == whole[: len(part)]
    assert [json.loads(event)["sequence_number"] for event in whole] == list(range(len(whole)))


def test_the_final_event_has_what_the_items_have_told(journal: list[Entry], job: Job) -> None:
    fold, events = folded(job, journal)
    ended = job.model_copy(update={"status": "completed", "finished": 2.0})
    final = fold.end(ended, fold_record(journal))
    assert [event["type"] for event in final] == ["response.completed"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert final[0]["response"]["output"] == done
    assert sum(isinstance(item.get("result"), StoredImage) for item in done) == 4


def test_what_was_told_of_a_job_does_not_change_with_its_state(journal: list[Entry], job: Job) -> None:
    later = job.model_copy(update={"status": "cancelled", "cancelling": True, "finished": 9.0})
    assert as_text(folded(job, journal)[1]) == as_text(folded(later, journal)[1])


def test_a_repeated_call_is_told_once(journal: list[Entry], job: Job) -> None:
    calls = [entry for entry in journal if entry.event == "called"]
    again = [entry for entry in journal for entry in ([entry, entry] if entry in calls else [entry])]
    assert as_text(folded(job, again)[1]) == as_text(folded(job, journal)[1])


def test_a_step_that_is_drawn_anew_replaces_its_image(journal: list[Entry], job: Job) -> None:
    drawn = next(entry for entry in journal if entry.event == "drawn" and entry.step == 1)
    finished = next(entry for entry in journal if entry.event == "step_finished" and entry.step == 1)
    again = drawn.model_copy(update={"attempt": 7, "image": "0" * 64 + ".png"})
    fold, before = folded(job, journal)
    events = [*fold.add(again), *fold.add(finished.model_copy(update={"attempt": 7}))]
    assert [event["type"] for event in events][-1] == "response.output_item.done"
    assert events[-1]["item"]["result"] == StoredImage("0" * 64 + ".png")
    assert events[0]["sequence_number"] == len(before)
    assert next(item["result"].name for item in fold.items if "result" in item) == "0" * 64 + ".png"


def test_a_step_that_was_cut_short_shows_its_best_attempt(journal: list[Entry], job: Job) -> None:
    judged = next(at for at, entry in enumerate(journal) if entry.event == "judged" and entry.step == 2)
    short = [*journal[: judged + 1], Ended(status="short", reason="as many calls as allowed")]
    fold, _ = folded(job, short)
    events = fold.end(job.model_copy(update={"status": "incomplete"}), fold_record(short))
    assert [event["type"] for event in events] == [
        "response.image_generation_call.completed",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert events[1]["item"]["status"] == "completed"
    assert events[-1]["response"]["interleave"]["forced"] == [2]


def test_an_image_that_was_never_drawn_has_failed(journal: list[Entry], job: Job) -> None:
    called = next(
        at for at, entry in enumerate(journal) if entry.event == "called" and entry.role == "generator"
    )
    cut = [*journal[: called + 1], Ended(status="interrupted")]
    fold, _ = folded(job, cut)
    events = fold.end(job.model_copy(update={"status": "cancelled"}), fold_record(cut))
    assert [event["type"] for event in events] == ["response.output_item.done", "response.incomplete"]
    assert (events[0]["item"]["status"], events[0]["item"]["result"]) == ("failed", None)


def test_G12_a_stream_goes_on_after_a_restart_where_it_was(tmp_path: Path) -> None:
    generator = HeldGenerator(free=2)
    with service(tmp_path, generator=generator) as first:
        stream = first.sdk().responses.create(input=ASKED, stream=True, background=True)
        seen = []
        for event in stream:
            seen.append(event)
            if event.type == "response.output_item.done" and event.item.type == "image_generation_call":
                break
        first.until(lambda: len(generator.calls) == 3)
        id_ = seen[0].response.id
        stream.close()
    generator.free = 1_000_000
    with service(tmp_path, generator=generator) as second:
        sdk = second.sdk()
        rest = list(sdk.responses.retrieve(id_, stream=True, starting_after=seen[-1].sequence_number))
        assert rest[0].sequence_number == seen[-1].sequence_number + 1
        assert rest[-1].type == "response.completed"
        again = list(sdk.responses.retrieve(id_, stream=True))
        assert [event.to_json() for event in again] == [event.to_json() for event in [*seen, *rest]]
    assert len(generator.calls) == 7  # 4 steps, two of them drawn twice, and the call that was cut off


def test_G12_the_lines_of_the_journal_are_streamed_too(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        id_ = running.http.post("/v1/responses", json={"input": "A frog in one picture"}).json()["id"]
        text = running.http.get(f"/v1/documents/{id_}/events").text
        kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
        assert kinds[0] == "job.queued"
        assert kinds[1:3] == ["started", "called"]
        assert kinds[-1] == "job.completed"
        rest = running.http.get(f"/v1/documents/{id_}/events", headers={"Last-Event-ID": "3"}).text
        assert rest == text[text.index("id: 4") - len(f"event: {kinds[4]}\n") :]
        for garbage in ("x", "-5", "1e3", "9" * 50):
            whole = running.http.get(f"/v1/documents/{id_}/events", headers={"Last-Event-ID": garbage}).text
            assert whole == text


def test_items_are_in_the_order_of_the_plan_whichever_step_begins_first(tmp_path: Path, job: Job) -> None:
    needs: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (), (4,))
    steps = tuple(
        PlanStep(number=number, caption=f"part {number}", prompt=None if number == 3 else "draw", needs=each)
        for number, each in enumerate(needs, start=1)
    )
    plan = Plan(steps=steps)
    api.generate("x", out=tmp_path / "run", plan=plan, generator="solid?size=64", critic="none")
    entries = read_journal(tmp_path / "run")
    begun = [entry.step for entry in entries if entry.event == "called"]
    assert begun != sorted(begun)
    fold, events = folded(job, entries)
    assert [int(item["id"].rpartition("_")[2]) for item in fold.items] == [1, 1, 2, 2, 3, 4, 4, 5, 5]
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    assert added == list(range(9))
    assert all(item["status"] == "completed" for item in fold.items)


def test_another_chapter_is_told_as_the_plan_with_it(tmp_path: Path, job: Job) -> None:
    models: dict[str, Any] = {"planner": "scripted", "critic": "scripted", "generator": "solid?size=64"}
    api.generate("A frog in 5 pictures", out=tmp_path / "run", chapter_steps=2, **models)
    entries = read_journal(tmp_path / "run")
    told = JournalFold(job)
    plans = [event["plan"] for entry in entries for event in told.add(entry) if event["type"] == "planned"]
    assert [len(plan["steps"]) for plan in plans] == [2, 4, 5]
    fold, _ = folded(job, entries)
    assert sum(item["type"] == "image_generation_call" for item in fold.items) == 5
