"""People steer jobs over HTTP: plans that are held, steps drawn again, attempts chosen, undone, branched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from running import HeldGenerator, Service, service

from interleave.runs.journal import read_journal
from interleave.runs.record import read_record
from interleave.runs.resolve import Choices
from interleave.service.documents.job_table import Load
from interleave.service.documents.keys import FILE_NAME, add_key

ASKED = "How a frog grows up, in two pictures"
HOLD = {"interleave": {"hold_plan": True}}


def held(running: Service, **more: Any) -> dict[str, Any]:
    return running.http.post("/v1/responses", json={"input": ASKED, **HOLD, **more}).json()


def drawn(running: Service) -> str:
    answer = running.http.post("/v1/responses", json={"input": ASKED}).json()
    assert answer["status"] == "completed"
    return str(answer["id"])


def ended(running: Service, id_: str) -> dict[str, Any]:
    def now() -> dict[str, Any] | None:
        answer = running.http.get(f"/v1/responses/{id_}").json()
        return answer if answer["status"] not in ("queued", "in_progress") else None

    return running.until(now)


def post(running: Service, path: str, body: Any = None, **options: Any) -> tuple[int, dict[str, Any]]:
    answer = running.http.post(f"/v1/documents/{path}", json=body or {}, **options)
    return answer.status_code, answer.json()


def kinds(events: list[Any]) -> list[str]:
    return [event.type for event in events]


def test_the_openai_sdk_holds_a_plan_edits_it_and_sees_it_drawn(running: Service) -> None:
    sdk = running.sdk()
    job = sdk.responses.create(input=ASKED, extra_body=HOLD)
    before = len(running.generator.calls)
    assert job.status == "incomplete"
    assert job.incomplete_details is not None
    assert job.incomplete_details.reason == "plan_held"  # type: ignore[comparison-overlap]
    told = list(sdk.responses.retrieve(job.id, stream=True))
    assert kinds(told)[-1] == "response.incomplete"
    plan: Any = sdk.get(f"/documents/{job.id}/plan", cast_to=object)
    plan["steps"] = plan["steps"][:1]
    plan["steps"][0]["prompt"] = "a single egg"
    opened = sdk.post(f"/documents/{job.id}/plan/release", cast_to=Response, body={"plan": plan})
    assert opened.id == job.id
    final = Response.model_validate(ended(running, job.id))
    assert final.status == "completed"
    assert [call.prompt for call in running.generator.calls[before:]] == ["a single egg"]
    rest = list(sdk.responses.retrieve(job.id, stream=True, starting_after=told[-1].sequence_number))
    assert [event.sequence_number for event in rest] == list(range(len(told), len(told) + len(rest)))
    assert kinds(rest)[:2] == ["response.queued", "response.in_progress"]
    assert kinds(rest)[-1] == "response.completed"
    again = list(sdk.responses.retrieve(job.id, stream=True))
    assert [event.to_json() for event in again[: len(told)]] == [event.to_json() for event in told]


def test_the_steps_of_an_edited_plan_are_numbered_by_their_position(running: Service) -> None:
    steps = [
        {"number": 3, "prompt": "a pond", "caption": "moved to the front"},
        {"prompt": "eggs in the pond", "caption": "new"},
        {"number": 1, "prompt": "a frog", "caption": "moved to the end", "sources": [3]},
    ]
    id_ = held(running)["id"]
    status, answer = post(running, f"{id_}/plan/release", {"plan": {"steps": steps}})
    assert status == 200, answer
    ended(running, id_)
    plan = running.http.get(f"/v1/documents/{id_}/plan").json()
    assert [(step["number"], step["prompt"]) for step in plan["steps"]] == [
        (1, "a pond"),
        (2, "eggs in the pond"),
        (3, "a frog"),
    ]
    assert plan["steps"][2]["sources"] == [1]


@pytest.mark.parametrize("number", [[], {}, "1", None, 1.5, 10**30])
def test_a_plan_that_cannot_be_drawn_is_refused(running: Service, number: Any) -> None:
    id_ = held(running)["id"]
    gone = {"number": number, "prompt": "a frog", "sources": [7]}
    status, answer = post(running, f"{id_}/plan/release", {"plan": {"steps": [gone]}})
    assert (status, answer["error"]["param"]) == (400, "plan")
    assert "which is not in the plan" in answer["error"]["message"]


def test_a_held_plan_is_released_as_it_is_once(running: Service) -> None:
    id_ = held(running)["id"]
    assert running.http.get(f"/v1/documents/{id_}").json()["status"] == "held"
    code, opened = post(running, f"{id_}/plan/release")
    assert (code, opened["id"]) == (200, id_)
    final = ended(running, id_)
    assert final["status"] == "completed"
    assert [each["kind"] for each in final["interleave"]["decisions"]] == ["plan"]
    code, refused = post(running, f"{id_}/plan/release")
    assert code == 409
    assert str(running.folder) not in refused["error"]["message"]


def test_a_held_job_survives_a_restart_and_waits(tmp_path: Path) -> None:
    with service(tmp_path) as first:
        id_ = held(first)["id"]
    with service(tmp_path) as second:
        assert second.do(second.jobs.load()) == Load()
        assert not second.generator.calls
        assert post(second, f"{id_}/plan/release")[0] == 200
        assert ended(second, id_)["status"] == "completed"


def test_a_held_job_can_be_cancelled_and_its_stream_says_both(running: Service) -> None:
    id_ = held(running)["id"]
    assert running.sdk().responses.cancel(id_).status == "cancelled"
    events = list(running.sdk().responses.retrieve(id_, stream=True))
    assert kinds(events)[-3:] == ["response.incomplete", "response.queued", "response.incomplete"]
    assert post(running, f"{id_}/plan/release")[0] == 200
    assert ended(running, id_)["status"] == "completed"


def test_a_held_job_is_no_document_to_continue(running: Service) -> None:
    id_ = held(running)["id"]
    with pytest.raises(openai.BadRequestError, match="has not ended"):
        running.sdk().responses.create(input="more", previous_response_id=id_)


def test_a_step_is_redrawn_with_another_prompt_and_undone(running: Service) -> None:
    id_ = drawn(running)
    before = ended(running, id_)
    calls = len(running.generator.calls)
    body = {"prompt": "a heron", "seed": 5, "only_step": True}
    code, opened = post(running, f"{id_}/steps/1/redraw", body)
    assert (code, opened["status"] in ("queued", "in_progress")) == (200, True)
    after = ended(running, id_)
    assert {call.prompt for call in running.generator.calls[calls:]} == {"a heron"}
    images = [[step["picture"] for step in each["interleave"]["steps"]] for each in (before, after)]
    assert images[0][0] != images[1][0]
    assert images[0][1] == images[1][1]
    calls = len(running.generator.calls)
    assert post(running, f"{id_}/undo")[0] == 200
    undone = ended(running, id_)
    assert undone["output"] == before["output"]
    assert len(running.generator.calls) == calls
    code, refused = post(running, f"{id_}/undo")
    assert (code, refused["error"]["code"]) == (400, "invalid_decision")


def test_another_attempt_is_chosen(running: Service) -> None:
    id_ = drawn(running)
    steps = ended(running, id_)["interleave"]["steps"]
    assert (len(steps[1]["attempts"]), steps[1]["shown"]) == (2, 2)
    assert post(running, f"{id_}/steps/2/choose", {"attempt": 1})[0] == 200
    final = ended(running, id_)["interleave"]["steps"]
    assert final[1]["picture"] == steps[1]["attempts"][0]["picture"]
    for body in ({}, {"attempt": 9}, {"attempt": 1}, {"attempt": "x"}, {"atempt": 1}):
        assert post(running, f"{id_}/steps/2/choose", body)[0] == 400
    assert post(running, f"{id_}/steps/7/choose", {"attempt": 1})[0] == 400
    assert post(running, f"{id_}/steps/x/choose", {"attempt": 1})[0] == 404


def test_a_branch_is_a_new_job_and_leaves_the_other_as_it_is(running: Service) -> None:
    id_ = drawn(running)
    before = ended(running, id_)
    headers = {"Idempotency-Key": f"branch-{id_}"}
    code, opened = post(running, f"{id_}/branch", {"step": 2, "prompt": "a heron comes"}, headers=headers)
    assert (code, opened["id"] != id_) == (200, True)
    again = post(running, f"{id_}/branch", {"step": 2, "prompt": "a heron comes"}, headers=headers)
    assert again[1]["id"] == opened["id"]
    final = ended(running, opened["id"])
    assert final["status"] == "completed"
    assert final["interleave"]["parent"] == id_
    assert ended(running, id_) == before
    running.http.delete(f"/v1/responses/{id_}")
    assert ended(running, opened["id"]) == final
    assert running.do(running.jobs.removals()) == []
    assert post(running, f"{opened['id']}/branch", {"step": 9})[0] == 400
    assert running.do(running.jobs.removals()) == []


def test_a_job_that_has_not_ended_takes_no_decision(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as slow:
        id_ = slow.http.post("/v1/responses", json={"input": ASKED, "background": True}).json()["id"]
        slow.until(lambda: slow.generator.calls)
        for path, body in (
            ("plan/release", {}),
            ("steps/1/redraw", {}),
            ("undo", {}),
            ("branch", {"step": 1}),
        ):
            code, refused = post(slow, f"{id_}/{path}", body)
            assert (code, refused["error"]["code"]) == (409, "not_possible_now")
        slow.sdk().responses.cancel(id_)


def test_the_same_decision_sent_twice_is_one(running: Service) -> None:
    id_ = drawn(running)
    headers = {"Idempotency-Key": f"redraw-{id_}"}
    assert post(running, f"{id_}/steps/1/redraw", {"seed": 3}, headers=headers)[0] == 200
    ended(running, id_)
    calls = len(running.generator.calls)
    assert post(running, f"{id_}/steps/1/redraw", {"seed": 3}, headers=headers)[1]["status"] == "completed"
    assert len(running.generator.calls) == calls
    assert post(running, f"{id_}/steps/1/redraw", {"seed": 4}, headers=headers)[0] == 422
    record = read_record(running.documents.folders.run(id_))
    assert [each.kind for each in record.decisions] == ["redraw"]


def test_decisions_need_the_scope_and_the_job(tmp_path: Path) -> None:
    _, owner = add_key(tmp_path / FILE_NAME, "owner")
    _, other = add_key(tmp_path / FILE_NAME, "other")
    _, reader = add_key(tmp_path / FILE_NAME, "reader", ["read"])
    with service(tmp_path) as keyed:
        id_ = keyed.sdk(owner).responses.create(input=ASKED, extra_body=HOLD).id
        paths = ("plan/release", "steps/1/redraw", "steps/1/choose", "undo", "branch")
        for key, code in ((other, 404), (reader, 403), ("nobody", 401)):
            headers = {"Authorization": f"Bearer {key}"}
            bodies: list[Any] = [{}, {}, {"attempt": 1}, {}, {"step": 1}]
            for path, body in zip(paths, bodies, strict=True):
                assert post(keyed, f"{id_}/{path}", body, headers=headers)[0] == code
        headers = {"Authorization": f"Bearer {owner}"}
        assert post(keyed, f"{id_}/steps/1/redraw", headers=headers)[0] == 409  # the plan is still held
        assert post(keyed, f"{id_}/plan/release", headers=headers)[0] == 200


def test_a_decision_is_carried_out_after_a_crash_and_only_once(tmp_path: Path) -> None:
    generator = HeldGenerator(free=3)
    with service(tmp_path, generator=generator) as first:
        id_ = drawn(first)
        assert post(first, f"{id_}/steps/1/redraw", {"seed": 3, "only_step": True})[0] == 200
        first.until(lambda: len(generator.calls) == 4)
    generator.free = 100
    with service(tmp_path, generator=generator) as second:
        assert ended(second, id_)["status"] == "completed"
        lines = [entry.event for entry in read_journal(second.documents.folders.run(id_))]
        assert lines.count("redraw_decided") == 1
    assert len(generator.calls) == 5  # the call that was cut off is made again


def test_a_decision_whose_models_are_gone_is_refused_and_nothing_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-of-the-first-service")
    paid = "openai:gpt@http://127.0.0.1:9/v1?key=MY_KEY"
    small = Choices(profile="dry-run", generator="solid?size=64")
    with service(tmp_path, chosen=replace(small, planner="scripted", critic=paid)) as first:
        id_ = held(first)["id"]
        journal = first.documents.folders.run(id_) / "journal.jsonl"
    monkeypatch.delenv("MY_KEY")
    before = journal.read_bytes()
    with service(tmp_path, chosen=small) as second:
        code, refused = post(second, f"{id_}/plan/release")
        assert (code, refused["error"]["code"]) == (409, "not_possible_now")
        assert "can no longer be loaded" in refused["error"]["message"]
        assert second.http.get(f"/v1/documents/{id_}").json()["status"] == "held"
    assert journal.read_bytes() == before


def test_a_request_with_images_is_steered_after_its_inputs_are_gone(running: Service) -> None:
    from serving import coded, png

    content = [
        {"type": "input_text", "text": "Go on with this in one picture"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{coded(png())}"},
    ]
    id_ = held(running, input=[{"role": "user", "content": content}])["id"]
    assert not list((running.folder / "inputs").iterdir())
    assert post(running, f"{id_}/plan/release")[0] == 200
    assert ended(running, id_)["status"] == "completed"
    items = list(running.sdk().responses.input_items.list(id_, order="asc", limit=1))
    assert [item.content[0].type for item in items] == ["input_text", "input_image"]
    assert items[1].content[0].image_url.startswith("data:image/png;base64,iVBOR")
