"""Jobs whose plan does not fit the request, and requests with words that the planner does not know."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running import Service, service

from interleave import Plan, Question, Reading, Request, Text, UnknownWords
from interleave.backends import registry
from interleave.backends.fakes import ScriptedVlm

QUESTION = Question(text="understood a cat, but not the dog", understood=("cat",), missing=("dog",))


class NeverFits:
    """A check that finds a problem in every plan."""

    samples = 0

    def mended(self, request: Request, plan: Plan) -> Plan:
        return plan

    def problem(self, request: Request, plan: Plan) -> str:
        return "There is no dog."

    def question(self, request: Request, plan: Plan) -> Question | None:
        return QUESTION

    async def doubt(self, request: Request, plan: Plan) -> Question | None:
        return None

    def meaning(self, plan: Plan) -> Hashable:
        return plan


def takes(request: Request, options: Mapping[str, str]) -> Request:
    if "hat" not in request.text:
        return request
    if "nearest" not in options:
        raise UnknownWords("no “hat” here", {"hat": "kite"})
    parts = (Text(request.text.replace("hat", "kite")),)
    return replace(request, reading=Reading(parts, notes=("no hat here: a kite instead",)))


def suggests(text: str, number: int) -> list[str]:
    return [f"{text} and a dog"][:number]


def posted(running: Service, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = running.http.post(path, json=body)
    return answer.status_code, answer.json()


def test_a_plan_that_does_not_fit_is_asked_about_and_drawn_once_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedVlm, "plan_check", NeverFits(), raising=False)
    info = replace(registry.VLMS["scripted"], suggests=f"{__name__}:suggests")
    monkeypatch.setitem(registry.VLMS, "scripted", info)
    with service(tmp_path) as running:
        _, answer = posted(running, "/v1/responses", input="A cat in 1 picture")
        assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "plan_asked"})
        document = running.http.get(f"/v1/documents/{answer['id']}").json()
        assert document["status"] == "asked"
        assert (document["understood"], document["missing"]) == (["cat"], ["dog"])
        assert document["reason"] == QUESTION.text
        assert document["nearest"] == ["A cat in 1 picture and a dog"]
        assert document["words"] is None  # until its plan is released
        assert len(document["plan"]["steps"]) == 1
        chat = {"model": "interleave", "messages": [{"role": "user", "content": "A cat in 1 picture"}]}
        status, refused = posted(running, "/v1/chat/completions", **chat)
        assert (status, refused["error"]["message"]) == (400, QUESTION.text)
        status, _ = posted(running, f"/v1/documents/{answer['id']}/continue")
        assert status == 409
        posted(running, f"/v1/documents/{answer['id']}/plan/release")
        done = running.until(lambda: _done(running, answer["id"]))
        assert (done["understood"], done["reason"]) == (None, "")


def _done(running: Service, id_: str) -> dict[str, Any] | None:
    document: dict[str, Any] = running.http.get(f"/v1/documents/{id_}").json()
    return document if document["status"] == "completed" else None


def test_an_unknown_word_is_refused_with_its_neighbour_and_exchanged_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = replace(registry.VLMS["scripted"], takes=f"{__name__}:takes")
    monkeypatch.setitem(registry.VLMS, "scripted", info)
    with service(tmp_path) as running:
        status, refused = posted(running, "/v1/responses", input="A hat in 1 picture")
        assert (status, refused["error"]["exchanges"]) == (400, {"hat": "kite"})
        _, answer = posted(running, "/v1/responses", input="A hat in 1 picture", interleave={"nearest": True})
        assert answer["status"] == "completed"
        assert "no hat here: a kite instead" in answer["interleave"]["notes"]
        assert running.http.get(f"/v1/documents/{answer['id']}").json()["title"] == "A hat in 1 picture"
        status, _ = posted(running, "/v1/responses", input="A hat", interleave={"nearest": "yes"})
        assert status == 400
