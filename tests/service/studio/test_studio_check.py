"""Requests are checked while they are typed, without a model and without a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from running import Service

from interleave import Reading, Request, Text, UnknownWords
from interleave.backends import registry
from interleave.service.documents.refusals import for_clients


def takes(request: Request, options: Any) -> Request:
    if "hat" in request.text:
        raise UnknownWords("no “hat” here: use nearest=True", {"hat": "kite"})
    return replace(
        request, reading=Reading((Text(request.text),), captions=("One.", "Two."), notes=("no blue",))
    )


def suggests(text: str, number: int) -> list[str]:
    return [f"{text} with a kite"][:number]


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    info = replace(registry.VLMS["scripted"], takes=f"{__name__}:takes", suggests=f"{__name__}:suggests")
    monkeypatch.setitem(registry.VLMS, "scripted", info)


def check(running: Service, text: str, **more: Any) -> tuple[int, dict[str, Any]]:
    answer = running.http.post("/v1/studio/check", json={"text": text, **more})
    return answer.status_code, answer.json()


def test_unknown_words_have_neighbours_and_requests_near_them(running: Service, strict: None) -> None:
    calls = len(running.generator.calls)
    status, found = check(running, "A cat with a hat")
    assert (status, found["accepted"], found["exchanges"]) == (200, False, {"hat": "kite"})
    assert found["message"] == "no “hat” here"
    assert found["nearest"] == ["A cat with a hat with a kite"]
    assert len(running.generator.calls) == calls
    assert running.http.get("/v1/documents").json()["data"] == []


def test_a_message_for_clients_is_cut_at_no_quotation_and_names_no_option() -> None:
    message = (
        "the miniature does not know “hat” (it has kite). Take kite for hat with nearest=True. It can do "
        "“Draw a kite.” or “Swap neighbours only: a cat and a dog.”. For others use real models: "
        "`interleave models list` lists them."
    )
    assert for_clients(message) == (
        "the miniature does not know “hat” (it has kite). It can do “Draw a kite.” or “Swap neighbours only: "
        "a cat and a dog.”. For others use real models"
    )
    assert for_clients("no plan yet: continue it with 'interleave resume run'") == "no plan yet"


def test_known_words_are_returned_as_they_are_understood(running: Service, strict: None) -> None:
    _, found = check(running, "A cat. Two cats.")
    assert (found["accepted"], found["understood"], found["notes"]) == (True, ["One.", "Two."], ["no blue"])


@pytest.mark.parametrize("text", ["", "  ", "x" * 6000])
def test_nothing_and_too_much_are_left_to_the_submission(running: Service, strict: None, text: str) -> None:
    assert check(running, text)[1]["accepted"]


def test_planners_that_take_any_words_accept_them(running: Service) -> None:
    assert check(running, "A cat with a hat")[1] == {
        "accepted": True,
        "message": "",
        "exchanges": {},
        "understood": [],
        "notes": [],
        "nearest": [],
    }


def test_a_body_or_model_that_is_wrong_is_refused(running: Service) -> None:
    assert check(running, "x", model="nothing")[0] == 404
    assert running.http.post("/v1/studio/check", json={"words": 1}).status_code == 400
