"""A request for more images than the service allows is the client's to change: 400 on all three wires."""

from __future__ import annotations

import openai
import pytest
from google import genai
from google.genai import errors, types
from running import Service

from interleave.cli.main import run

ASKED = "A frog in 51 images"
ASKED_OTHERWISE = "A frog in 51 pictures"
REASON = "the request asks for 51 steps, and the limit is 50"


@pytest.mark.parametrize("asked", [ASKED, ASKED_OTHERWISE])
@pytest.mark.parametrize("stream", [False, True])
def test_responses_refuse_it(running: Service, asked: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        running.sdk().responses.create(model="interleave", input=asked, stream=stream)
    assert refused.value.body["message"] == REASON  # type: ignore[index]
    assert refused.value.code == "invalid_prompt"


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions_refuse_it(running: Service, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=REASON):
        running.sdk().chat.completions.create(
            model="interleave", messages=[{"role": "user", "content": ASKED}], stream=stream
        )


@pytest.mark.parametrize("stream", [False, True])
def test_generate_content_refuses_it(running: Service, stream: bool) -> None:
    options = types.HttpOptions(base_url=running.url)
    with (
        genai.Client(api_key="any", http_options=options) as client,
        pytest.raises(errors.ClientError, match=REASON) as refused,
    ):
        if stream:
            list(client.models.generate_content_stream(model="interleave", contents=ASKED))
        client.models.generate_content(model="interleave", contents=ASKED)
    assert refused.value.code == 400


@pytest.mark.parametrize("command", ["generate", "plan"])
def test_the_command_line_says_how_to_allow_more(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, ASKED, "--dry-run"]) == 2
    assert "--max-steps 51" in capsys.readouterr().err
