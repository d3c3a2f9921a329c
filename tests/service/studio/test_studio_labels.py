"""Labels: what is to be judged, and what was said is stored, undone, listed, exported and imported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import HANGS_AFTER, Service, service

from interleave.bench.labels import read_labels
from interleave.service.documents.keys import FILE_NAME, GuestQuota, add_key


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("labels")) as running:
        yield running


@pytest.fixture(scope="module")
def runs(shelf: Service) -> list[str]:
    """Two documents of one request, whose images differ, and one of another; the double redraws step 2."""
    asked = [("a frog in two pictures", 1), ("a frog in two pictures", 2), ("a hen in one picture", 1)]
    return [made(shelf, text, seed=seed) for text, seed in asked]


def made(running: Service, text: str, **own: Any) -> str:
    return str(running.sdk().responses.create(input=text, extra_body={"interleave": own}).id)


def items(running: Service, task: str, rater: str, **query: Any) -> dict[str, Any]:
    answer = running.http.get(f"/v1/studio/judging/{task}", params={"rater": rater, **query})
    return dict(answer.raise_for_status().json())


def say(running: Service, rater: str, *labels: dict[str, Any], **options: Any) -> httpx.Response:
    body = {"rater": rater, "labels": [{"blind": True, **each} for each in labels]}
    return running.http.post("/v1/studio/labels", json=body, **options)


def accept(run: str, step: int = 1, attempt: int = 1, value: bool = True) -> dict[str, Any]:
    return {"kind": "accept", "run": run, "step": step, "attempt": attempt, "value": value}


def exported(running: Service, **query: Any) -> list[dict[str, Any]]:
    text = running.http.get("/v1/studio/labels/export", params=query).raise_for_status().text
    return [json.loads(line) for line in text.splitlines()]


def test_every_attempt_is_asked_for_once_and_never_again_when_it_is_labelled(
    shelf: Service, runs: list[str]
) -> None:
    first = items(shelf, "accept", "ann", limit=3)
    assert (first["total"], first["left"], len(first["data"])) == (7, 7, 3)
    rest = items(shelf, "accept", "ann", limit=3, cursor=first["cursor"])
    last = items(shelf, "accept", "ann", limit=3, cursor=rest["cursor"])
    assert (len(last["data"]), last["cursor"], last["total"]) == (1, None, None)
    units = [each["unit"] for page in (first, rest, last) for each in page["data"]]
    assert len(set(units)) == 7
    for item in first["data"]:
        shown = item["first"]
        picked = accept(shown["run"], shown["step"], shown["attempt"])
        assert say(shelf, "ann", picked).json() == {"stored": 1, "known": 0}
    again = items(shelf, "accept", "ann")  # where they stopped
    assert [each["unit"] for each in again["data"]] == units[3:]
    assert (again["total"], again["left"]) == (7, 4)
    assert items(shelf, "accept", "bob")["left"] == 7
    assert items(shelf, "score", "ann")["left"] == 7


def test_an_item_tells_the_plan_and_nothing_of_the_critic_or_the_models(
    shelf: Service, runs: list[str]
) -> None:
    for item in items(shelf, "accept", "eve", runs=runs[0])["data"]:
        assert item["title"] == "a frog in two pictures"
        assert shelf.http.get(item["first"]["picture"]).status_code == 200
        assert set(item["first"]) == {"run", "step", "attempt", "picture", "before", "prompt", "text"}
        assert (item["first"]["before"] is None) == (item["first"]["step"] == 1)
    text = json.dumps(items(shelf, "accept", "eve"))
    assert "scripted" not in text and "solid" not in text and "rejected" not in text


def test_pairs_are_attempts_that_follow_each_other_and_steps_of_one_request(
    shelf: Service, runs: list[str]
) -> None:
    found = items(shelf, "better", "ann")["data"]
    pairs = [(each["first"], each["second"]) for each in found]
    within = [pair for pair in pairs if pair[0]["run"] == pair[1]["run"]]
    across = [pair for pair in pairs if pair[0]["run"] != pair[1]["run"]]
    assert sorted(pair[0]["run"] for pair in within) == sorted(runs[:2])
    assert {pair[0]["step"] for pair in within} == {2}
    assert {frozenset((pair[0]["run"], pair[1]["run"])) for pair in across} == {frozenset(runs[:2])}
    assert all(pair[0]["step"] == pair[1]["step"] for pair in pairs)
    first, second = pairs[0]
    label = {name: first[name] for name in ("run", "step", "attempt")}
    other = {name: second[name] for name in ("run", "step", "attempt")}
    assert (
        say(shelf, "ann", {"kind": "better", **label, "other": other, "value": "second"}).status_code == 200
    )
    assert items(shelf, "better", "ann")["left"] == len(pairs) - 1
    swapped = {
        "kind": "better",
        **other,
        "other": label,
        "value": "first",
    }  # the same pair, seen the other way
    say(shelf, "ann", swapped)
    assert items(shelf, "better", "ann")["left"] == len(pairs) - 1


def test_documents_are_judged_as_a_whole(shelf: Service, runs: list[str]) -> None:
    found = items(shelf, "wrong_step", "ann", runs=",".join(runs[:2]))
    assert (found["total"], {each["run"] for each in found["data"]}) == (2, set(runs[:2]))
    assert [step["number"] for step in found["data"][0]["steps"]] == [1, 2]
    say(shelf, "ann", {"kind": "wrong_step", "run": runs[0], "value": 2})
    say(shelf, "ann", {"kind": "score", "run": runs[0], "value": 7})
    assert items(shelf, "wrong_step", "ann", runs=runs[0])["left"] == 0
    assert items(shelf, "document_score", "ann", runs=runs[0])["left"] == 0
    unit = found["data"][0]["unit"]
    assert items(shelf, "wrong_step", "ann", unit=unit)["data"][0]["unit"] == unit


def test_a_label_has_what_calibration_needs(shelf: Service, runs: list[str], tmp_path: Path) -> None:
    say(shelf, "cal", accept(runs[0], 2, 1, value=True), accept(runs[0], 2, 2, value=True))
    (tmp_path / "labels.jsonl").write_bytes(
        shelf.http.get("/v1/studio/labels/export", params={"rater": "cal"}).content
    )
    first, second = read_labels(tmp_path / "labels.jsonl")
    assert first.critic and second.critic and (first.critic.accepted, second.critic.accepted) == (False, True)
    facts = shelf.http.get(f"/v1/documents/{runs[0]}").json()["steps"][1]
    assert first.prompt == second.prompt == facts["attempts"][0]["prompt"]
    assert [f"{each.picture}.png" for each in (first, second)] == [
        each["picture"].rpartition("/")[2] for each in facts["attempts"]
    ]
    assert first.blind and first.rater == "cal"


def test_the_last_request_is_undone_and_what_was_said_before_counts_again(
    shelf: Service, runs: list[str]
) -> None:
    say(shelf, "dan", accept(runs[0], value=True))
    say(shelf, "dan", accept(runs[0], value=False), accept(runs[1], value=False))
    assert [each["value"] for each in exported(shelf, rater="dan")] == [False, False]

    def undo() -> Any:
        return shelf.http.post("/v1/studio/labels/undo", json={"rater": "dan"}).json()["units"]

    assert undo() == [f"{runs[0]}#1#1", f"{runs[1]}#1#1"]
    assert [each["value"] for each in exported(shelf, rater="dan")] == [True]
    assert undo() == [f"{runs[0]}#1#1"]
    assert undo() == []


def test_saying_the_same_twice_is_one_label(shelf: Service, runs: list[str]) -> None:
    assert say(shelf, "fay", accept(runs[0])).json() == {"stored": 1, "known": 0}
    assert say(shelf, "fay", accept(runs[0])).json() == {"stored": 0, "known": 1}


def test_what_was_revealed_is_not_blind_any_more(shelf: Service, runs: list[str]) -> None:
    say(shelf, "gil", accept(runs[0]))
    body = {"rater": "gil", "runs": runs[:2]}
    assert shelf.http.post("/v1/studio/labels/reveal", json=body).status_code == 204
    say(shelf, "gil", accept(runs[1]), accept(runs[2]))
    assert [each["blind"] for each in exported(shelf, rater="gil")] == [True, False, True]


def test_labels_of_runs_are_listed_page_by_page(shelf: Service, runs: list[str]) -> None:
    for run in runs:
        say(shelf, "hal", accept(run))
    query = {"rater": "hal", "limit": 2}
    page = shelf.http.get("/v1/studio/labels", params=query).json()
    assert ([each["run"] for each in page["data"]], page["total"]) == ([runs[2], runs[1]], 3)
    assert shelf.http.get(page["data"][0]["thumbnail"]).status_code == 200
    assert "critic" not in page["data"][0]
    rest = shelf.http.get("/v1/studio/labels", params={**query, "cursor": page["cursor"]}).json()
    assert ([each["run"] for each in rest["data"]], rest["cursor"]) == ([runs[0]], None)
    own = shelf.http.get("/v1/studio/labels", params={"rater": "hal", "runs": f"{runs[0]},{runs[1]}"}).json()
    assert own["total"] == 2


def test_a_file_goes_out_and_comes_in_again(shelf: Service, runs: list[str], tmp_path: Path) -> None:
    say(shelf, "ida", accept(runs[0]), accept(runs[1], value=False))
    data = shelf.http.get("/v1/studio/labels/export", params={"rater": "ida"}).content

    def take_in(data: bytes) -> httpx.Response:
        headers = {"content-type": "application/jsonl"}
        return shelf.http.post("/v1/studio/labels/import", content=data, headers=headers)

    assert take_in(data).json() == {"stored": 0, "known": 2}
    renamed = data.replace(b'"rater":"ida"', b'"rater":"jan"')
    assert take_in(renamed + b"\n").json() == {"stored": 2, "known": 0}
    assert [each["value"] for each in exported(shelf, rater="jan")] == [True, False]
    undone = shelf.http.post("/v1/studio/labels/undo", json={"rater": "jan"}).json()
    assert undone == {"units": []}  # they were not given here
    old = json.loads(renamed.splitlines()[0]) | {"value": False, "at": "2001-01-01T00:00:00Z"}
    assert take_in(json.dumps(old).encode()).json() == {"stored": 0, "known": 1}
    bad = take_in(renamed.splitlines()[0] + b'\n{"kind": "accept"}\n')
    assert bad.status_code == 400 and "line 2 is not a label" in bad.json()["error"]["message"]
    assert "no labels" in take_in(b"\n").json()["error"]["message"]


def test_agreement_is_that_of_all_raters(shelf: Service, runs: list[str]) -> None:
    before = shelf.http.get("/v1/studio/agreement").json()["data"]
    assert [each["kind"] for each in before] == ["accept", "better", "score", "wrong_step"]
    assert [each["level"] for each in before] == ["nominal", "nominal", "interval", "nominal"]
    assert next(each for each in before if each["kind"] == "score")["alpha"] is None
    for rater, marks in (("kim", (0, 10, 4)), ("lea", (1, 9, 4))):
        for run, mark in zip(runs, marks, strict=True):
            say(shelf, rater, {"kind": "score", "run": run, "step": 1, "attempt": 1, "value": mark})
    score = shelf.http.get("/v1/studio/agreement").json()["data"][2]
    assert score["units"] == 3 and {"rater": "kim", "labels": 3} in score["raters"]
    # within units 4 of squared differences, between all ordered pairs 964: 1 - 5 * 4 / 964 * ...
    assert 0.9 < score["alpha"] < 1 and score["low"] <= score["alpha"] <= score["high"]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"kind": "accept", "value": "yes"}, "must be true or false"),
    ({"kind": "accept", "attempt": None}, "give 'step' and 'attempt'"),
    ({"kind": "accept", "attempt": 9}, "step 1 has no attempt 9"),
    ({"kind": "accept", "step": 9}, "no step 9"),
    ({"kind": "score", "value": 11}, "from 0 to 10"),
    ({"kind": "wrong_step", "step": None, "attempt": None, "value": 9}, "no step 9"),
    ({"kind": "better", "value": "first"}, "needs the second attempt"),
    ({"kind": "nice"}, "kind"),
]


@pytest.mark.parametrize(("change", "said"), BAD)
def test_what_is_no_label_is_refused_with_the_reason(
    shelf: Service, runs: list[str], change: dict[str, Any], said: str
) -> None:
    refused = say(shelf, "moe", accept(runs[0]) | change)
    assert refused.status_code in (400, 404) and said in refused.json()["error"]["message"]
    assert exported(shelf, rater="moe") == []


def test_bad_questions_are_refused(shelf: Service, runs: list[str]) -> None:
    for path, said in [
        ("/v1/studio/judging/nonsense?rater=a", "no task 'nonsense'"),
        ("/v1/studio/judging/accept", "rater must be a name"),
        (f"/v1/studio/judging/accept?rater={'x' * 61}", "rater must be a name"),
        ("/v1/studio/judging/accept?rater=a&runs=resp_none", "not found"),
        ("/v1/studio/judging/accept?rater=a&cursor=x", "cursor must be a whole number"),
        ("/v1/studio/judging/better?rater=a&unit=x", "unit must be"),
        ("/v1/studio/labels?rater=a&kind=nice", "kind must be one of"),
        (f"/v1/studio/labels?rater=a&runs={','.join(map(str, range(201)))}", "at most 200"),
    ]:
        refused = shelf.http.get(path)
        assert refused.status_code in (400, 404) and said in refused.json()["error"]["message"]
    assert say(shelf, " ", accept(runs[0])).status_code == 400


def test_a_document_is_compared_with_its_branches_and_those_of_its_request(
    shelf: Service, runs: list[str]
) -> None:
    branch = shelf.http.post(f"/v1/documents/{runs[0]}/branch", json={"step": 2}).json()["id"]
    shelf.until(lambda: shelf.http.get(f"/v1/documents/{branch}").json()["status"] == "completed")

    def related(id_: str) -> dict[str, str]:
        found = shelf.http.get(f"/v1/studio/documents/{id_}/related").json()["data"]
        return {each["document"]["id"]: each["relation"] for each in found}

    assert related(runs[0]) == {branch: "branch", runs[1]: "same_request"}
    assert related(branch)[runs[0]] == "parent"
    assert related(runs[2]) == {}
    shelf.http.delete(f"/v1/responses/{branch}")
    shelf.until(lambda: branch not in related(runs[0]))


def test_labels_outlive_a_kill_and_a_restart(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        run = made(running, "one image")
        say(running, "ann", accept(run))
        # what a process leaves that is killed here is what another one finds in a copy of the files
        copy = tmp_path / "killed"
        copy.mkdir()
        for file in tmp_path.glob("labels.sqlite*"):
            (copy / file.name).write_bytes(file.read_bytes())
    from interleave.studio.label_store import Choice, LabelStore

    store = LabelStore(copy)
    import asyncio

    assert [each.run for each in asyncio.run(store.labels(Choice()))] == [run]
    store.close()
    with service(tmp_path) as running:
        assert [each["run"] for each in exported(running)] == [run]
        assert items(running, "accept", "ann")["left"] == 0


def test_keys_judge_and_see_what_is_theirs(tmp_path: Path) -> None:
    scopes = {"alice": ["submit", "read"], "bob": ["submit", "read"], "reader": ["read"], "boss": ["admin"]}
    secrets = {name: add_key(tmp_path / FILE_NAME, name, each)[1] for name, each in scopes.items()}
    own = {name: {"authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
    with service(tmp_path) as running:
        run = str(running.sdk(secrets["alice"]).responses.create(input="one image").id)
        assert running.http.get("/v1/studio/start", headers=own["alice"]).json()["rater"] == "alice"
        assert say(running, "alice", accept(run), headers=own["alice"]).status_code == 200
        assert say(running, "bob", accept(run), headers=own["bob"]).status_code == 404
        assert say(running, "reader", accept(run), headers=own["reader"]).status_code == 403
        assert say(running, "boss", accept(run, value=False), headers=own["boss"]).status_code == 200

        def raters(name: str) -> list[str]:
            text = running.http.get("/v1/studio/labels/export", headers=own[name]).text
            return [json.loads(line)["rater"] for line in text.splitlines()]

        assert (raters("alice"), raters("bob"), raters("boss")) == (["alice"], [], ["alice", "boss"])
        seen = running.http.get("/v1/studio/judging/accept", headers=own["bob"]).json()
        assert (seen["total"], seen["data"]) == (0, [])
        unit = f"{run}#1#1"
        hidden = running.http.get(
            f"/v1/studio/judging/accept?unit={unit.replace('#', '%23')}", headers=own["bob"]
        )
        assert hidden.json()["data"] == []


def test_guests_judge_their_own_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path, guests=GuestQuota()) as running:
        visitors = []
        for _ in range(2):
            visitor = httpx.Client(base_url=running.url, timeout=HANGS_AFTER, trust_env=False)
            running.clients.append(visitor)  # type: ignore[arg-type]
            visitor.get("/")
            visitors.append(visitor)
        run = visitors[0].post("/v1/responses", json={"input": "one image"}).json()["id"]
        body = {"rater": "ann", "labels": [accept(run)]}
        assert visitors[1].post("/v1/studio/labels", json=body).status_code == 404
        assert visitors[0].post("/v1/studio/labels", json=body).status_code == 200
        assert visitors[1].get("/v1/studio/labels/export").content == b""
        monkeypatch.setattr("interleave.studio.label_routes.MAX_GUEST_LABELS", 1)
        assert visitors[0].post("/v1/studio/labels", json=body).json()["error"]["code"] == "too_many_labels"
        refused = visitors[0].post("/v1/studio/labels/import", content=b"{}")
        assert refused.json()["error"]["code"] == "not_for_guests"
