"""People change the words of a document over HTTP, after it was drawn. No model is called."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from running import HeldGenerator, Service, service

from interleave.runs.journal import read_journal
from interleave.service.documents.service import ServiceSettings

ASKED = "How a frog grows up, in three pictures"


def post(running: Service, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    answer = running.http.post(f"/v1/documents/{path}", json=body or {})
    return answer.status_code, answer.json()


def get(running: Service, path: str) -> dict[str, Any]:
    return dict(running.http.get(f"/v1/documents/{path}").raise_for_status().json())


def drawn(running: Service) -> str:
    answer = running.http.post("/v1/responses", json={"input": ASKED}).json()
    assert answer["status"] == "completed"
    return str(answer["id"])


def ended(running: Service, id_: str) -> dict[str, Any]:
    def now() -> dict[str, Any] | None:
        facts = get(running, id_)
        return facts if facts["status"] not in ("queued", "in_progress") else None

    return dict(running.until(now) or {})


def events(running: Service, id_: str, after: int = -1) -> list[dict[str, Any]]:
    told = running.http.get(f"/v1/documents/{id_}/events?starting_after={after}").text
    return [
        json.loads(line.removeprefix("data: ")) for line in told.splitlines() if line.startswith("data: {")
    ]


def words(id_: str) -> str:
    return f"{id_}/words"


@pytest.fixture
def id_(running: Service) -> str:
    return drawn(running)


def test_words_are_changed_and_the_job_stays_ended(running: Service, id_: str) -> None:
    calls = len(running.generator.calls)
    change = {
        "title": "Der Frosch",
        "order": [3, 1],
        "steps": [{"number": 1, "text": "Ein Ei.", "alt": "Ein Ei im Teich"}, {"number": 2, "hidden": True}],
    }
    status, answer = post(running, words(id_), change)
    assert (status, answer["status"]) == (200, "completed")
    facts = get(running, id_)
    assert (facts["status"], facts["title"]) == ("completed", "Der Frosch")
    assert facts["words"]["order"] == [3, 1, 2] == get(running, words(id_))["order"]
    first, second, third = facts["steps"]
    assert (first["text"], first["alt"], first["place"]) == ("Ein Ei.", "Ein Ei im Teich", 2)
    assert (second["place"], third["place"]) == (None, 1)
    assert facts["undoable"] == {"kind": "words", "step": None}
    assert get(running, f"{id_}/plan")["steps"][0]["caption"] != "Ein Ei."
    text = running.http.get(f"/v1/documents/{id_}/document.md").text
    assert "Der Frosch" in text and "Ein Ei." in text
    assert len(running.generator.calls) == calls


def test_one_undo_removes_one_edit_of_any_kind(running: Service, id_: str) -> None:
    before = get(running, id_)
    post(running, words(id_), {"steps": [{"number": 2, "text": "Froglet"}]})
    post(running, f"{id_}/steps/2/redraw", {"prompt": "a red fish", "only_step": True})
    redrawn = ended(running, id_)
    assert redrawn["undoable"] == {"kind": "redraw", "step": 2}
    assert redrawn["steps"][1]["words_for"] is not None
    post(running, words(id_), {"keep": [2]})
    kept = get(running, id_)
    assert kept["steps"][1]["words_for"] is None
    assert post(running, f"{id_}/undo")[1]["status"] == "completed"  # without a run
    assert get(running, id_)["steps"][1]["words_for"] is not None
    post(running, f"{id_}/undo")
    assert ended(running, id_)["steps"][1]["picture"] == before["steps"][1]["picture"]
    post(running, f"{id_}/undo")
    last = get(running, id_)
    assert (last["words"], last["undoable"]) == (before["words"], None)
    assert post(running, f"{id_}/undo")[0] == 400


def test_events_keep_their_numbers_through_edits_and_redraws(running: Service, id_: str) -> None:
    told = events(running, id_)
    assert told[-1]["type"] == "job.completed"

    def more() -> list[str]:
        new = events(running, id_, told[-1]["sequence_number"])
        assert [each["sequence_number"] for each in new] == list(range(len(told), len(told) + len(new)))
        told.extend(new)
        assert events(running, id_) == told
        return [each["type"] for each in new]

    for title in ("One", "Two"):
        post(running, words(id_), {"title": title})
        assert more() == ["document_edited"]
    post(running, f"{id_}/steps/3/redraw", {"prompt": "a heron"})
    ended(running, id_)
    new = more()
    assert new[:3] == ["job.queued", "redraw_decided", "continued"]
    assert new[-1] == "job.completed" and "document_edited" not in new
    post(running, words(id_), {"title": "Three"})
    assert more() == ["document_edited"]
    response = running.http.get(f"/v1/responses/{id_}?stream=true").text
    assert response.count("event: response.completed") == 2


def test_the_same_words_again_change_nothing(running: Service, id_: str) -> None:
    folder = running.documents.folders.run(id_)
    post(running, words(id_), {"title": "Frogs"})
    lines = len(read_journal(folder))
    assert post(running, words(id_), {"title": "Frogs"})[0] == 200
    assert len(read_journal(folder)) == lines


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"title": " "}, 400, "the title is blank"),
        ({"titel": "x"}, 400, "titel"),
        ({"steps": [{"number": 9, "text": "x"}]}, 400, "no step 9"),
        ({"steps": 5}, 400, "steps"),
        ({"steps": [{"number": number, "hidden": True} for number in (1, 2, 3)]}, 400, "leave at least one"),
        ({"order": [1, 1]}, 400, "named twice"),
    ],
)
def test_words_that_are_refused_change_nothing(
    running: Service, id_: str, change: dict[str, Any], status: int, said: str
) -> None:
    before = get(running, id_)
    code, answer = post(running, words(id_), change)
    assert (code, said in answer["error"]["message"]) == (status, True), answer
    assert get(running, id_) == before


def test_words_of_a_held_plan_or_a_running_job_cannot_be_changed_yet(tmp_path: Path) -> None:
    generator = HeldGenerator(free=0)
    with service(tmp_path, generator=generator) as running:
        body = {"input": ASKED, "interleave": {"hold_plan": True}}
        held = running.http.post("/v1/responses", json=body).json()["id"]
        code, answer = post(running, words(held), {"title": "x"})
        assert (code, answer["error"]["code"]) == (409, "not_possible_now")
        id_ = running.http.post("/v1/responses", json={"input": ASKED, "background": True}).json()["id"]
        running.until(lambda: generator.calls)
        assert post(running, words(id_), {"title": "x"})[0] == 409
        generator.free = 1000
        ended(running, id_)
        assert post(running, words(id_), {"title": "x"})[0] == 200


def test_words_are_changed_while_the_queue_is_paused_and_survive_a_restart(tmp_path: Path) -> None:
    with service(tmp_path) as first:
        id_ = drawn(first)
        first.do(first.jobs.pause(True))
        assert post(first, words(id_), {"title": "Der Frosch"})[1]["status"] == "completed"
    with service(tmp_path) as second:
        assert get(second, id_)["title"] == "Der Frosch"
        assert events(second, id_)[-1]["type"] == "document_edited"


def test_an_edit_by_another_process_between_a_redraw_and_its_run_loses_neither(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        id_ = drawn(running)
        running.do(running.jobs.pause(True))
        post(running, f"{id_}/steps/2/redraw", {"prompt": "a red fish"})
        from interleave import edit

        edit(running.documents.folders.run(id_)).words(title="Der Frosch")
        running.do(running.documents.jobs.pause(False))
        running.documents.worker.wake()
        facts = ended(running, id_)
        assert facts["title"] == "Der Frosch"
        assert facts["steps"][1]["attempts"][-1]["prompt"].startswith("a red fish")


def test_many_edits_at_once_lose_none_of_those_that_were_acknowledged(running: Service, id_: str) -> None:
    def edit(number: int) -> int:
        return post(running, words(id_), {"title": f"Title {number}"})[0]

    with ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(edit, range(16)))
    assert set(codes) <= {200, 409} and 200 in codes
    edits = [
        entry
        for entry in read_journal(running.documents.folders.run(id_))
        if entry.event == "document_edited"
    ]
    assert len(edits) == codes.count(200)


def test_a_redraw_is_foretold(running: Service, id_: str) -> None:
    first, second, third = get(running, id_)["steps"]
    assert (first["redraws"], second["redraws"], third["redraws"]) == ([2, 3], [3], [])
    assert set(first["redraw_seconds"]) == {"1", "2", "3"}
    taken = sum(each["draw_seconds"] + each["judge_seconds"] for each in third["attempts"])
    assert third["redraw_seconds"] == {"3": pytest.approx(taken, abs=0.06)}


def test_a_continuation_reads_the_words_as_they_are_shown(running: Service, id_: str) -> None:
    post(running, words(id_), {"steps": [{"number": 1, "text": "Ein Ei."}, {"number": 2, "hidden": True}]})
    parts = running.documents.folders.document_of(id_)
    texts = [part.text for part in parts if hasattr(part, "text")]
    assert texts[1] == "Ein Ei." and len(texts) == 3


def test_words_need_no_quota(tmp_path: Path) -> None:
    with service(tmp_path, settings=ServiceSettings(queue=1)) as running:
        id_ = drawn(running)
        running.do(running.jobs.pause(True))
        running.http.post("/v1/responses", json={"input": ASKED, "background": True}).raise_for_status()
        assert post(running, words(id_), {"title": "x"})[0] == 200
        assert post(running, f"{id_}/steps/1/redraw")[0] == 503


def test_a_new_illustrated_step_is_a_branch_in_which_all_other_images_stay(
    running: Service, id_: str
) -> None:
    post(running, words(id_), {"title": "Der Frosch"})
    before, calls = get(running, id_), len(running.generator.calls)
    new = {"prompt": "a tadpole with legs", "text": "Now it has legs."}
    status, answer = post(running, f"{id_}/steps/1/add", new)
    assert status == 200 and answer["id"] != id_
    facts = ended(running, answer["id"])
    assert (facts["status"], facts["parent"], facts["title"]) == ("completed", id_, "Der Frosch")
    assert [step["place"] for step in facts["steps"]] == [1, 3, 4, 2]
    names = [step["picture"].rpartition("/")[2] for step in facts["steps"]]
    assert names[:3] == [step["picture"].rpartition("/")[2] for step in before["steps"]]
    assert facts["steps"][3]["text"] == "Now it has legs."
    assert facts["steps"][3]["before"].rpartition("/")[2] == names[0]
    drawn_prompts = {call.prompt for call in running.generator.calls[calls:]}
    assert all("legs" in prompt or "part 4" in prompt for prompt in drawn_prompts)
    assert get(running, id_) == before


@pytest.mark.parametrize(
    ("after", "new"), [(9, {"prompt": "a pond"}), (1, {"prompt": " "}), (1, {"text": "no prompt"})]
)
def test_a_new_step_that_cannot_be_drawn_leaves_no_document(
    running: Service, id_: str, after: int, new: dict[str, Any]
) -> None:
    before = running.http.get("/v1/documents?limit=100").json()
    assert post(running, f"{id_}/steps/{after}/add", new)[0] == 400
    assert running.http.get("/v1/documents?limit=100").json() == before
