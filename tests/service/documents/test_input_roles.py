"""What a request says stays with who said it, and what has no effect is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from google import genai
from google.genai import errors, types
from running import Service, service

from interleave.service.documents.service import ServiceSettings

TURNS: list[Any] = [
    {"role": "developer", "content": "Draw gently."},
    {"role": "user", "content": "A frog in one picture"},
    {"role": "assistant", "content": "A frog sits on a leaf."},
    {"role": "user", "content": "Now a snail in one picture"},
]


def said(running: Service, id_: str) -> list[tuple[str, str]]:
    """Role and content of every input item, as the SDK types them."""
    found = []
    for item in running.sdk().responses.input_items.list(id_, order="asc"):
        if item.type == "message":
            part = item.content[0]
            found.append((item.role, getattr(part, "text", part.type)))
        else:
            found.append((item.type, "a picture"))
    return found


def test_turns_of_the_assistant_come_back_as_its_own(running: Service) -> None:
    job = running.sdk().responses.create(input=TURNS, instructions="In blue.")
    assert said(running, job.id) == [
        ("system", "In blue."),
        *((turn["role"], turn["content"]) for turn in TURNS),
    ]
    kinds = running.http.get(f"/v1/responses/{job.id}/input_items?order=asc").json()["data"]
    assert [item["content"][0]["type"] for item in kinds[3:]] == ["output_text", "input_text"]
    assert "input_roles" not in running.http.get(f"/v1/responses/{job.id}").json()


def test_a_continued_document_keeps_what_was_asked_and_what_was_answered(running: Service) -> None:
    first = running.sdk().responses.create(input=TURNS)
    answer = running.sdk().responses.create(input="And a bird", previous_response_id=first.id)
    roles = [role for role, _ in said(running, answer.id)]
    assert roles[:4] == [turn["role"] for turn in TURNS]
    assert set(roles[4:-1]) == {"assistant", "image_generation_call"}
    assert said(running, answer.id)[-1] == ("user", "And a bird")
    again = running.sdk().responses.create(input="And a cat", previous_response_id=answer.id)
    assert [role for role, _ in said(running, again.id)][: len(roles)] == roles


def test_items_of_an_answer_that_are_sent_back_are_the_assistants(running: Service) -> None:
    first = running.http.post("/v1/responses", json={"input": "A frog in one picture"}).json()
    turns = [{"role": "user", "content": "A frog"}, *first["output"], {"role": "user", "content": "Go on"}]
    job = running.http.post("/v1/responses", json={"input": turns}).json()
    roles = [role for role, _ in said(running, job["id"])]
    assert roles[0] == roles[-1] == "user"
    assert set(roles[1:-1]) == {"assistant", "image_generation_call"}


def test_other_apis_keep_roles_too(running: Service) -> None:
    chat = {"model": "interleave", "messages": TURNS}
    answer = running.http.post("/v1/chat/completions", json=chat).json()
    id_ = answer["interleave"]["document"].rpartition("/")[2]
    assert [role for role, _ in said(running, id_)] == [turn["role"] for turn in TURNS]
    contents = [
        {"role": "user", "parts": [{"text": "A frog in one picture"}]},
        {"role": "model", "parts": [{"text": "A frog sits."}]},
        {"parts": [{"text": "Now a snail"}]},
    ]
    body = {"contents": contents, "systemInstruction": {"parts": [{"text": "Gently."}]}}
    id_ = running.http.post("/v1beta/models/interleave:generateContent", json=body).json()["responseId"]
    assert [role for role, _ in said(running, id_)] == ["system", "user", "assistant", "user"]


EFFECTS: dict[str, Any] = {
    "reasoning": {"effort": "high"},
    "include": ["reasoning.encrypted_content"],
    "text": {"verbosity": "low"},
}


@pytest.mark.parametrize(("name", "value"), EFFECTS.items())
def test_what_has_no_effect_is_refused_by_its_name(running: Service, name: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="no effect") as refused:
        running.sdk().responses.create(input="A frog in one picture", **{name: value})
    assert refused.value.param == name


def test_an_operator_may_ignore_it_and_the_answer_says_what_was_used(tmp_path: Path) -> None:
    settings = ServiceSettings(ignored=frozenset(EFFECTS))
    with service(tmp_path, settings=settings) as running:
        answer = running.sdk().responses.create(input="A frog in one picture", **EFFECTS)
        assert answer.status == "completed"
        assert answer.reasoning is not None and answer.reasoning.effort is None


@pytest.mark.parametrize("value", [{}, {"effort": None, "summary": None}, {"effort": "none"}])
def test_asking_for_no_reasoning_is_granted(running: Service, value: Any) -> None:
    assert (
        running.sdk().responses.create(input="A frog in one picture", reasoning=value).status == "completed"
    )


def test_tokens_cannot_be_counted_before_and_googles_sdk_says_so(running: Service) -> None:
    options = types.HttpOptions(base_url=running.url)
    with genai.Client(api_key="any", http_options=options) as client:
        with pytest.raises(errors.ServerError, match="usageMetadata") as refused:
            client.models.count_tokens(model="interleave", contents="A frog")
        assert (refused.value.code, refused.value.status) == (501, "UNIMPLEMENTED")
